package mark

// HelloCmd asks a target to say who it is.
type HelloCmd struct{}

// ParseHelloCmd reads the command.
func ParseHelloCmd(s Statement) (HelloCmd, error) {
	return HelloCmd{}, open(s, true, "hello").err
}

// Statement writes the command.
func (HelloCmd) Statement() Statement { return Statement{Kind: "hello", Command: true} }

// SyncCmd asks for N clock beacons, GapUs apart (µs).
type SyncCmd struct{ N, GapUs int64 }

// ParseSyncCmd reads the command.
func ParseSyncCmd(s Statement) (SyncCmd, error) {
	v := open(s, true, "sync")
	c := SyncCmd{N: v.integer("n", 1, maxCount), GapUs: v.micros("gap_us")}
	return c, v.err
}

// Statement writes the command.
func (c SyncCmd) Statement() Statement {
	s := Statement{Kind: "sync", Command: true}
	s.addInt("n", c.N)
	s.addInt("gap_us", c.GapUs)
	return s
}

// Run asks for one window of N operations.
type Run struct {
	W       int64
	Alg, Op string
	N       int64  // at least 1
	Warm    int64  // operations before the window, not counted
	Msg     int64  // length of the message, bytes
	PreUs   int64  // quiet before the window, µs
	PostUs  int64  // quiet after the window, µs
	Key     string // which key to use; "" leaves it to the target
	Idle    string // idle mode around the window; "" leaves it to the target
	Level   bool   // hold a pin high from t0 to t1
}

// ParseRun reads the command.
func ParseRun(s Statement) (Run, error) {
	v := open(s, true, "run")
	r := Run{
		W: v.integer("w", 0, maxCount), Alg: v.word("alg"), Op: v.word("op"), N: v.integer("n", 1, maxCount),
		Warm: v.integer("warm", 0, maxCount), Msg: v.integer("msg", 0, maxCount),
		PreUs: v.micros("pre_us"), PostUs: v.micros("post_us"), Key: v.text("key"), Idle: v.text("idle"),
	}
	if v.has("level") {
		r.Level = v.integer("level", 0, 1) == 1
	}
	return r, v.err
}

// Statement writes the command.
func (r Run) Statement() Statement {
	s := Statement{Kind: "run", Command: true}
	s.addInt("w", r.W)
	s.add("alg", r.Alg)
	s.add("op", r.Op)
	s.addInt("n", r.N)
	s.addInt("warm", r.Warm)
	s.addInt("msg", r.Msg)
	s.addInt("pre_us", r.PreUs)
	s.addInt("post_us", r.PostUs)
	s.addText("key", r.Key)
	s.addText("idle", r.Idle)
	if r.Level {
		s.add("level", "1")
	}
	return s
}

// IdleCmd asks for a quiet interval of Us µs.
type IdleCmd struct {
	W, Us int64
	Mode  string
}

// ParseIdleCmd reads the command.
func ParseIdleCmd(s Statement) (IdleCmd, error) {
	v := open(s, true, "idle")
	c := IdleCmd{W: v.integer("w", 0, maxCount), Us: v.micros("us"), Mode: v.word("mode")}
	return c, v.err
}

// Statement writes the command.
func (c IdleCmd) Statement() Statement {
	s := Statement{Kind: "idle", Command: true}
	s.addInt("w", c.W)
	s.addInt("us", c.Us)
	s.add("mode", c.Mode)
	return s
}

// Level asks for a level, 0 or 1, on a pin.
type Level struct{ Pin, V int64 }

// ParseLevel reads the command.
func ParseLevel(s Statement) (Level, error) {
	v := open(s, true, "level")
	l := Level{Pin: v.integer("pin", 0, 1<<16-1), V: v.integer("v", 0, 1)}
	return l, v.err
}

// Statement writes the command.
func (l Level) Statement() Statement {
	s := Statement{Kind: "level", Command: true}
	s.addInt("pin", l.Pin)
	s.addInt("v", l.V)
	return s
}

// Stop asks a target to stop what it does and to be quiet.
type Stop struct{}

// ParseStop reads the command.
func ParseStop(s Statement) (Stop, error) { return Stop{}, open(s, true, "stop").err }

// Statement writes the command.
func (Stop) Statement() Statement { return Statement{Kind: "stop", Command: true} }
