package run

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
)

func TestParseInBand(t *testing.T) {
	for _, c := range []struct {
		spec string
		want InBand
		err  string
	}{
		{"dp", InBand{Column: meters.DPVolts, Active: 1}, ""},
		{"inband:dn", InBand{Column: meters.DNVolts, Active: 1}, ""},
		{"d7,active=low", InBand{Column: "d7"}, ""},
		{"d0,alg=ML-DSA-44,op=sign,n=100", InBand{Column: "d0", Active: 1, Alg: "ML-DSA-44", Op: "sign", N: 100}, ""},
		{"d8", InBand{}, "none of dp"},
		{"", InBand{}, "none of dp"},
		{"volts", InBand{}, "none of dp"},
		{"dp,", InBand{}, "KEY=VALUE"},
		{"dp,n=0", InBand{}, "number of operations"},
		{"dp,n=1e3", InBand{}, "number of operations"},
		{"dp,n=1,n=2", InBand{}, "twice"},
		{"dp,active=up", InBand{}, "high or low"},
		{"dp,name=x", InBand{}, "none of active"},
	} {
		got, err := ParseInBand(c.spec)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%q: %+v, %v", c.spec, got, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: %v, want %q", c.spec, err, c.err)
		}
	}
}

func FuzzParseInBand(f *testing.F) {
	for _, s := range []string{"dp", "d0,alg=a,op=b,n=3", "inband:dn,active=low", "dp,,", "dp,n=-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		if i, err := ParseInBand(spec); err == nil {
			i.Stream = "usb"
			if err := i.check(); err != nil {
				t.Fatalf("%q: %+v: %v", spec, i, err)
			}
		}
	})
}

func TestInBandIsRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w, err := Create(dir, Header{Tool: "test", Name: "r"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := InBand{Stream: "usb", Column: "d0", Active: 0, Alg: "a", Op: "b", N: 3}
	if err := w.InBand(want); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []InBand{
		{Stream: "usb", Column: "amps", Active: 1},
		{Stream: "usb", Column: "D+", Active: 1},
		{Stream: "usb", Column: "d0", Active: 2},
		{Stream: "usb", Column: "d0", N: -1},
		{Stream: "../x", Column: "d0"},
	} {
		if err := w.InBand(bad); err == nil {
			t.Errorf("%+v: recorded", bad)
		}
	}
	if err := w.Close("done", 1); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil || r.DamageCount > 0 {
		t.Fatal(err, r.Damage)
	}
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if rec.InBand != nil && *rec.InBand == want {
			return
		}
	}
	t.Error("the record was not read back")
}
