package target

// refusal is why a command is not carried out: the code and text of an err
// statement.
type refusal struct{ code, text string }

func (r *refusal) Error() string { return r.code + ": " + r.text }

var (
	errStopped = &refusal{"stopped", ""}
	errNoPin   = &refusal{"pin", "the target has no pin; its statements are the marks"}
	errMode    = &refusal{"mode", "the target idles in os or spin"}
)

func bad(err error) error { return &refusal{"bad", err.Error()} }
