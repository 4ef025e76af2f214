package ruideng

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/meters/polled"
)

const (
	tcName  = "tc66c"
	tcModel = "TC66C"
)

// TC is the driver of the TC66C.
var TC = meters.Driver{
	Name:       tcName,
	Summary:    "RuiDeng TC66C over USB's serial port",
	Status:     meters.Emulated,
	Transports: []meters.Transport{meters.Serial},
	Baud:       115200,
	Models: []meters.Model{{
		// Its vendor is 28e9; the product id is not known.
		Name: tcModel, Accuracy: accuracy,
		Traps: []string{
			"It answers 10 to 12 times a second, depending on what its screen shows.",
			"It takes half a second to settle, and some samples show a step half done.",
			"Its energy counter moves in steps of 1 mWh, 3.6 J, and is not used.",
			"Its current has no sign.",
		},
	}},
	Rate: "10, polled",
	Open: openTC,
}

const (
	tcRequest  = "getva"
	tcBytes    = 3 * packBytes
	packBytes  = 64
	packCRC    = 60
	tcEvery    = 100 * time.Millisecond        // 80 to 100 ms pass between answers (fqueze)
	tcAnswerNs = 200 * int64(time.Millisecond) // then it is to be asked again (fqueze)
)

// tcCipher is AES-256 with the key that is the same in all meters (rd-usb,
// tc.py). Blocks are enciphered one by one.
var tcCipher = func() cipher.Block {
	c, err := aes.NewCipher([]byte{
		0x58, 0x21, 0xfa, 0x56, 0x01, 0xb2, 0xf0, 0x26, 0x87, 0xff, 0x12, 0x04, 0x62, 0x2a, 0x4f, 0xb0,
		0x86, 0xf4, 0x02, 0x60, 0x81, 0x6f, 0x9a, 0x0b, 0xa7, 0xf1, 0x06, 0x61, 0x9a, 0xb8, 0x72, 0x88,
	})
	if err != nil {
		panic(err) // the key has the right length
	}
	return c
}()

// DecodeTC decodes one answer of a TC66C.
func DecodeTC(answer []byte) (Sample, error) {
	s, _, err := decodeTC(answer)
	return s, err
}

func decodeTC(answer []byte) (s Sample, who identity, err error) {
	if len(answer) != tcBytes {
		return s, who, ErrLength
	}
	var b [tcBytes]byte
	for at := 0; at < tcBytes; at += aes.BlockSize {
		tcCipher.Decrypt(b[at:], answer[at:at+aes.BlockSize])
		if at == 0 && string(b[:4]) != "pac1" {
			return s, who, ErrKind
		}
	}
	for k := range 3 {
		pack := b[k*packBytes:][:packBytes]
		if string(pack[:4]) != "pac"+strconv.Itoa(k+1) {
			return s, who, ErrKind
		}
		if binary.LittleEndian.Uint32(pack[packCRC:]) != uint32(modbus(pack[:packCRC])) {
			return s, who, ErrCheck
		}
	}
	word := func(at int) float64 { return float64(binary.LittleEndian.Uint32(b[at:])) }
	celsius := word(packBytes + 28)
	if word(packBytes+24) == 1 {
		celsius = -celsius
	}
	s = Sample{word(48) / 1e4, word(52) / 1e5, celsius, word(packBytes+32) / 100, word(packBytes+36) / 100}
	if s.impossible() {
		return s, who, ErrImpossible
	}
	return s, identity{tcModel, strconv.FormatUint(uint64(binary.LittleEndian.Uint32(b[12:])), 10), text(b[8:12])}, nil
}

// text returns the printable ASCII of a field.
func text(b []byte) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, string(b)))
}

// modbus is CRC-16/MODBUS: polynomial 8005 reflected, initial value FFFF.
func modbus(b []byte) uint16 {
	c := uint16(0xffff)
	for _, x := range b {
		c ^= uint16(x)
		for range 8 {
			low := c & 1
			c >>= 1
			if low != 0 {
				c ^= 0xa001
			}
		}
	}
	return c
}

func openTC(_ context.Context, p meters.Port, o meters.Options) (meters.Meter, error) {
	s := &source{request: []byte(tcRequest), size: tcBytes, decode: decodeTC}
	s.Link = polled.Link{Port: p, AnswerNs: tcAnswerNs}
	return s.meter(tcName, []string{tcModel}, o, tcEvery)
}
