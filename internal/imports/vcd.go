package imports

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// readVCD reads a value change dump (IEEE 1364-2005, clause 18): declarations,
//
//	$timescale 1 us $end
//	$var wire 1 ! D0 $end
//	$enddefinitions $end
//
// then #TIME and, for each change, a level and the channel's code: 1! or 0!.
// x and z are no level: the channel keeps the one that it had. Channels of
// several bits are passed over.
func readVCD(w *wanted) error {
	v := vcd{wanted: w, codes: map[string]int{}, tickNs: -1}
	for {
		b, err := w.file.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for _, word := range bytes.Fields(b) {
			if err := v.word(word); err != nil {
				return err
			}
		}
	}
	if !v.defined {
		return fmt.Errorf("%s: ends within its declarations ($enddefinitions)", w.file.name)
	}
	return nil
}

// vcd is a dump under way.
type vcd struct {
	*wanted
	keyword string   // declaration that is open, "" for none
	words   []string // of it
	tickNs  float64
	names   []string
	codes   map[string]int // channel by code
	defined bool
	vector  bool // the next word is the code of a vector
	ns      int64
}

const (
	maxVCDWords    = 4096 // of one declaration that is kept
	maxVCDChannels = 4096
)

func (v *vcd) word(b []byte) error {
	switch {
	case v.keyword != "":
		if string(b) == "$end" {
			return v.declare()
		}
		if len(v.words) < maxVCDWords {
			v.words = append(v.words, string(b))
		}
		return nil
	case b[0] == '$':
		// The changes between $dumpvars and $end are changes as all others.
		if k := string(b); v.defined && (k == "$dumpvars" || k == "$dumpall" || k == "$dumpon" || k == "$dumpoff" || k == "$end") {
			return nil
		}
		v.keyword, v.words = string(b), v.words[:0]
		return nil
	case !v.defined:
		return posError(v.file.name, v.file.line, 0, "%q before the end of the declarations", clip(b))
	}
	return v.change(b)
}

// declare takes a whole declaration.
func (v *vcd) declare() (err error) {
	keyword := v.keyword
	v.keyword = ""
	switch keyword {
	case "$timescale":
		v.tickNs, err = timescale(v.words)
	case "$var":
		// type, size, code, name, perhaps a range
		if len(v.words) < 4 {
			return posError(v.file.name, v.file.line, 0, "a $var of %d words, want type, size, code and name", len(v.words))
		}
		if v.words[1] != "1" {
			return nil
		}
		if len(v.names) == maxVCDChannels {
			return posError(v.file.name, v.file.line, 0, "more than %d channels", maxVCDChannels)
		}
		if _, twice := v.codes[v.words[2]]; !twice {
			v.codes[v.words[2]] = len(v.names)
			v.names = append(v.names, v.words[3])
		}
	case "$enddefinitions":
		v.defined = true
		if v.tickNs < 0 {
			return posError(v.file.name, v.file.line, 0, "no $timescale: the unit of its times is not known")
		}
		return v.choose(v.names)
	}
	if err != nil {
		return posError(v.file.name, v.file.line, 0, "%v", err)
	}
	return nil
}

// vcdUnits are the units of a timescale in ns.
var vcdUnits = []struct {
	name string
	ns   float64
}{{"fs", 1e-6}, {"ps", 1e-3}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}

// timescale reads "1 us" or "1us" as ns.
func timescale(words []string) (float64, error) {
	var all string
	for _, w := range words {
		all += w
	}
	for _, u := range vcdUnits {
		for _, n := range []string{"1", "10", "100"} {
			if all == n+u.name {
				f, _ := strconv.ParseFloat(n, 64)
				return f * u.ns, nil
			}
		}
	}
	return 0, fmt.Errorf("timescale %.40q is none (want 1, 10 or 100 and s, ms, us, ns, ps or fs)", all)
}

// change takes a time, or a change of level.
func (v *vcd) change(b []byte) error {
	if v.vector {
		v.vector = false
		return nil
	}
	switch c := b[0]; c {
	case '#':
		ticks, err := strconv.ParseUint(string(b[1:]), 10, 64)
		ns := math.Round(float64(ticks) * v.tickNs)
		if err != nil || ns > float64(maxEdgeNs) {
			return posError(v.file.name, v.file.line, 0, "%q is no time", clip(b))
		}
		if int64(ns) < v.ns {
			return posError(v.file.name, v.file.line, 0, "time runs backwards: %s s after %s s", seconds(int64(ns)), seconds(v.ns))
		}
		v.ns = int64(ns)
		return nil
	case 'b', 'B', 'r', 'R', 's', 'S':
		v.vector = true
		return nil
	case '0', '1', 'x', 'X', 'z', 'Z':
		channel, known := v.codes[string(b[1:])]
		if !known || c != '0' && c != '1' || !slices.Contains(v.at, channel) {
			return nil
		}
		return v.set(channel, v.ns, int(c-'0'))
	}
	return posError(v.file.name, v.file.line, 0, "%q is neither a time nor a change of level", clip(b))
}
