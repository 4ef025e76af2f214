package cli

import (
	"testing"

	"github.com/joulemark/joulemark/run"
)

func FuzzParseWindow(f *testing.F) {
	f.Add("start=12.5 end=14.5 n=100 alg=ML-DSA-44 op=sign idle=wfi pre=0.3 post=300ms")
	f.Add("start=1e-9s end=1e9 n=9007199254740992 alg=A op=B")
	f.Add("start=NaN end=Inf n=0x1 alg= op==")
	f.Fuzz(func(t *testing.T, spec string) {
		w, err := parseWindow(spec)
		if err != nil {
			return
		}
		s := run.HandStream{Stream: "usb"}
		if err := s.Add(w); err != nil || w.N < 1 || !(w.EndSeconds > w.StartSeconds) {
			t.Errorf("%q is accepted as %+v, and then refused: %v", spec, w, err)
		}
	})
}
