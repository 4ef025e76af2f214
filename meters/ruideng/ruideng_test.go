package ruideng

import (
	"bytes"
	"context"
	"crypto/aes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/meterstest"
)

func TestConformance(t *testing.T) {
	// The values of an UM24C and an UM25C, and of an UM34C the upper bytes.
	unprotected := func(answer []byte, at int) bool {
		value := at >= umVoltsAt && at < umAmpsAt+2 || at >= umCelsiusAt && at < umCelsiusAt+2 || at >= umDPAt && at < umDNAt+2
		checked := answer[0] == 0x0d && slices.Contains(umChecked, at)
		return value && !checked
	}
	t.Run("UM", func(t *testing.T) {
		meterstest.PolledSuite{Driver: UM, Captures: "testdata/*.um", Unprotected: unprotected}.Run(t)
	})
	t.Run("TC", func(t *testing.T) {
		meterstest.PolledSuite{Driver: TC, Captures: "testdata/*.tc"}.Run(t)
	})
}

// answer returns the first answer of a capture.
func answer(t testing.TB, path string) []byte {
	t.Helper()
	c, err := meterstest.ReadPolledCapture("testdata/" + path)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, f := range c.Exchanges[0].Answer {
		b = append(b, f.Bytes...)
	}
	return b
}

// TestRest: the rest of an earlier answer before the right one does not harm
// it, and the meter is known from its first answer on.
func TestRest(t *testing.T) {
	for _, c := range []struct {
		driver                  meters.Driver
		path                    string
		request                 []byte
		model, serial, firmware string
	}{
		{UM, "um24c.um", []byte{umRequest}, "UM24C", "", ""},
		{UM, "um34c.um", []byte{umRequest}, "UM34C", "", ""},
		{TC, "tc66c.tc", []byte(tcRequest), "TC66C", "4711", "1.15"},
	} {
		good := answer(t, c.path)
		for _, rest := range []int{1, 7, len(good) / 2, len(good) - 1} {
			port := &meterstest.Answering{Exchanges: []meterstest.Exchange{{Request: c.request,
				Answer: []meterstest.Frame{{HostNs: 1e6, Bytes: append(bytes.Clone(good[len(good)-rest:]), good...)}}}}}
			m, err := c.driver.Open(context.Background(), port, meters.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var volts []float64
			err = m.Stream(ctx, func(b meters.Block) error {
				volts = append(volts, b.Values[0][0])
				cancel()
				return nil
			})
			if err != nil || len(volts) != 1 || math.Abs(volts[0]-5) > 0.2 {
				t.Errorf("%s after the last %d bytes of another answer: %v V, %v", c.path, rest, volts, err)
			}
			if i := m.Info(); i.Model != c.model || i.Serial != c.serial || i.Firmware != c.firmware {
				t.Errorf("%+v", i)
			}
		}
	}
}

// TestTwice: a request that is answered late is asked again, and two answers
// are not one.
func TestTwice(t *testing.T) {
	good := answer(t, "tc66c.tc")
	late := meterstest.Exchange{Request: []byte(tcRequest), Answer: []meterstest.Frame{{HostNs: 390e6, Bytes: good}}}
	port := &meterstest.Answering{Exchanges: []meterstest.Exchange{late, late, late}}
	m, err := TC.Open(context.Background(), port, meters.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	port.Passed = func(hostNs int64) {
		if hostNs > 3e9 {
			cancel()
		}
	}
	if err := m.Stream(ctx, func(b meters.Block) error {
		if !math.IsNaN(b.Values[0][0]) {
			n++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n == 0 || n > 3 {
		t.Errorf("%d samples of 3 late answers", n)
	}
}

func TestOpen(t *testing.T) {
	for _, d := range []meters.Driver{UM, TC} {
		for _, m := range d.Models {
			if _, err := d.Open(context.Background(), &meterstest.Answering{}, meters.Options{Model: m.Name}); err != nil {
				t.Error(err)
			}
		}
		if _, err := d.Open(context.Background(), &meterstest.Answering{}, meters.Options{Model: "UM99"}); err == nil {
			t.Error("an unknown model was opened")
		}
	}
}

// CRC-16/MODBUS of the digits, from the catalogue of CRCs.
func TestModbus(t *testing.T) {
	if c := modbus([]byte("123456789")); c != 0x4b37 {
		t.Errorf("%04x", c)
	}
}

func TestErrors(t *testing.T) {
	um34 := answer(t, "um34c.um")
	um34[129] ^= 1
	if _, _, err := DecodeUM(um34); err != ErrCheck {
		t.Error(err)
	}
	um24 := answer(t, "um24c.um")
	um24[umAmpsAt] = 0xff
	if _, _, err := DecodeUM(um24); err != ErrImpossible {
		t.Error(err)
	}
	um24[0] = 0
	if _, _, err := DecodeUM(um24); err != ErrKind {
		t.Error(err)
	}
	tc := answer(t, "tc66c.tc")
	tc[130] ^= 1
	if _, err := DecodeTC(tc); err == nil || !strings.Contains(err.Error(), "family") {
		t.Error(err)
	}
	tc = answer(t, "tc66c.tc")
	tc[100] ^= 1
	if _, err := DecodeTC(tc); err != ErrCheck {
		t.Error(err)
	}
	if _, err := DecodeTC(tc[:191]); err != ErrLength {
		t.Error(err)
	}
}

func FuzzDecodeUM(f *testing.F) {
	for _, path := range []string{"um24c.um", "um25c.um", "um34c.um"} {
		f.Add(answer(f, path), uint8(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, k uint8) {
		for _, whole := range []bool{false, true} {
			if whole { // or hardly anything ever passes
				m := umModels[int(k)%len(umModels)]
				b = append(bytes.Clone(b), make([]byte, umBytes)...)[:umBytes]
				binary.BigEndian.PutUint16(b, m.id)
				binary.BigEndian.PutUint16(b[tailAt:], umTail)
				if m.checked {
					b[umBytes-1] = 0
					for _, at := range umChecked {
						b[umBytes-1] ^= b[at]
					}
				}
			}
			s, model, err := DecodeUM(b)
			if whole && err != nil && err != ErrImpossible {
				t.Fatal(err)
			}
			if err == nil && (!slices.Contains(umNames(), model) || !(s[0] >= 0 && s[0] <= 60 && s[1] >= 0 && s[1] <= 10)) {
				t.Fatalf("%s %v", model, s)
			}
		}
	})
}

// encipher makes an answer of a TC66C of its plain bytes.
func encipher(plain []byte) []byte {
	b := append(bytes.Clone(plain), make([]byte, tcBytes)...)[:tcBytes]
	for k := range 3 {
		pack := b[k*packBytes:][:packBytes]
		copy(pack, "pac"+strconv.Itoa(k+1))
		binary.LittleEndian.PutUint32(pack[packCRC:], uint32(modbus(pack[:packCRC])))
	}
	for at := 0; at < tcBytes; at += aes.BlockSize {
		tcCipher.Encrypt(b[at:], b[at:at+aes.BlockSize])
	}
	return b
}

func FuzzDecodeTC(f *testing.F) {
	f.Add(answer(f, "tc66c.tc"))
	f.Add([]byte("pac1TC661.15"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, whole := range []bool{false, true} {
			if whole { // or nothing ever passes
				b = encipher(b)
			}
			s, who, err := decodeTC(b)
			if whole && err != nil && err != ErrImpossible {
				t.Fatal(err)
			}
			if err == nil && !(s[0] >= 0 && s[0] <= 60 && s[1] >= 0 && s[1] <= 10) || strings.ContainsFunc(who.firmware, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("%v %q", s, who)
			}
		}
	})
}
