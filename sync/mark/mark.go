// Package mark is the wire protocol between target and host, version 1: ASCII
// lines "@jm KIND key=value ... *HHHH" beside whatever else the target prints.
package mark

// Field is one key=value of a statement, decoded.
type Field struct{ Key, Value string }

// Statement is one line of the protocol.
type Statement struct {
	Kind    string
	Fields  []Field
	Command bool // from the host ("@jh"), not from the target ("@jm")
	Checked bool // carried a CRC, and it was right
}
