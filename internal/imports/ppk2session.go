package imports

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/joulemark/joulemark/meters"
	"github.com/joulemark/joulemark/run"
)

// A .ppk2 file is a zip of
//
//	session.raw    6 bytes a sample: f32 little-endian current in µA, NaN where
//	               it was lost, then u16 big-endian with two bits for each pin,
//	               pin k in bits 2k and 2k+1: 0 invalid, 1 low, 2 high, 3 both
//	metadata.json  {"metadata": {"samplesPerSecond", "startSystemTime" (ms since
//	               1970)}, "formatVersion": 2}
//	minimap.raw    not read
//
// Source: NordicSemiconductor/pc-nrfconnect-ppk, saveFileHandler.ts and
// loadFileHandler.ts.
const (
	zipMagic     = "PK\x03\x04"
	sessionFile  = "session.raw"
	metadataFile = "metadata.json"

	sessionBytes  = 6       // of a sample
	maxMetadata   = 1 << 20 // bytes
	maxZipEntries = 64
	// maxSession bounds a session: 30 days at the full rate.
	maxSession = 30 * 86400 * 100_000 * sessionBytes
	// maxPacking is how many times smaller than itself a session can be packed
	// before it is taken for an attack; the smallest ones may be anything.
	maxPacking   = 200
	smallSession = 256 << 20 // bytes
	maxPPK2Hz    = 100_000
)

func detectSession(head []byte, path string) string {
	if !bytes.HasPrefix(head, []byte(zipMagic)) {
		return ""
	}
	z, err := openZip(path)
	if err != nil {
		return ""
	}
	defer z.Close()
	if z.entry(sessionFile) == nil || z.entry(metadataFile) == nil {
		return ""
	}
	return "a zip with " + sessionFile + " and " + metadataFile
}

// archive is an open zip file.
type archive struct {
	*os.File
	r *zip.Reader
}

func openZip(path string) (*archive, error) {
	f, err := openRegular(os.Stat, os.Open, path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		var r *zip.Reader
		if r, err = zip.NewReader(f, info.Size()); err == nil && len(r.File) <= maxZipEntries {
			return &archive{f, r}, nil
		}
		if err == nil {
			err = fmt.Errorf("%d entries in the zip", len(r.File))
		}
	}
	f.Close()
	return nil, fmt.Errorf("%s: is no .ppk2 file: %w", path, err)
}

// entry finds an entry by name; nil for none.
func (a *archive) entry(name string) *zip.File {
	for _, f := range a.r.File {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// sessionInfo is what metadata.json says.
type sessionInfo struct {
	FormatVersion int `json:"formatVersion"`
	Metadata      struct {
		SamplesPerSecond float64  `json:"samplesPerSecond"`
		StartSystemTime  *float64 `json:"startSystemTime"` // ms since 1970
	} `json:"metadata"`
}

func (a *archive) info() (sessionInfo, error) {
	var i sessionInfo
	e := a.entry(metadataFile)
	if e == nil || a.entry(sessionFile) == nil {
		return i, fmt.Errorf("is no .ppk2 file: it lacks %s or %s", sessionFile, metadataFile)
	}
	f, err := e.Open()
	if err != nil {
		return i, fmt.Errorf("%s: %w", metadataFile, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxMetadata+1))
	if err == nil && len(b) > maxMetadata {
		err = fmt.Errorf("is larger than %d bytes", maxMetadata)
	}
	if err == nil {
		err = json.Unmarshal(b, &i)
	}
	if err != nil {
		return i, fmt.Errorf("%s: %w", metadataFile, err)
	}
	if hz := i.Metadata.SamplesPerSecond; !(hz > 0 && hz <= maxPPK2Hz) {
		return i, fmt.Errorf("%s: %g samples a second, a PPK2 gives at most %d", metadataFile, hz, maxPPK2Hz)
	}
	return i, nil
}

// checkSession refuses a session that is larger than a recording can be.
func checkSession(e *zip.File) error {
	size, packed := e.UncompressedSize64, e.CompressedSize64
	if size > maxSession || size > smallSession && size/maxPacking > packed {
		return fmt.Errorf("%s claims %d bytes, packed into %d: this is no recording", sessionFile, size, packed)
	}
	return nil
}

// importSession imports a .ppk2 file.
func (j *job) importSession() error {
	if j.RateHz != 0 {
		return fmt.Errorf("%s: a .ppk2 file states its rate; leave --rate out", j.Samples)
	}
	z, err := openZip(j.Samples)
	if err != nil {
		return err
	}
	defer z.Close()
	info, err := z.info()
	if err == nil {
		err = checkSession(z.entry(sessionFile))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", j.Samples, err)
	}
	j.RateHz = info.Metadata.SamplesPerSecond
	firstNs := int64(0)
	if ms := info.Metadata.StartSystemTime; ms != nil && *ms >= 0 && *ms < 4e12 {
		firstNs = int64(math.Round(*ms*1e3)) * int64(time.Microsecond) // a float64 of ns would lose digits
	}
	if err := j.startAt(firstNs, false); err != nil {
		return err
	}
	g, err := j.newGrid(meters.Info{
		Model: "Nordic PPK2", RateHz: j.RateHz, Sample: meters.UnknownKind, Clock: meters.Shared, FirstHostNs: firstNs - j.baseNs,
	}, j.Volts, []int{0, 1, 2, 3, 4, 5, 6, 7})
	if err != nil {
		return err
	}
	defer g.close()
	torn, blurred, err := j.copySession(z, g)
	if err != nil {
		return err
	}
	j.log(fmt.Sprintf("%s: current at %g samples a second, %d digital inputs", j.Samples, j.RateHz, pins))
	if err := g.conclude(j.Volts); err != nil {
		return err
	}
	for _, n := range append(blurredNote(blurred), torn...) {
		if err := j.note(n); err != nil {
			return err
		}
	}
	j.summary.Samples, j.summary.RateHz = g.written, j.RateHz
	j.summary.Seconds = float64(g.written-1) / j.RateHz
	return j.end(firstNs, firstNs+int64(j.summary.Seconds*1e9))
}

// pairLevels are the characters of a pin by its two bits.
const pairLevels = "-01X"

// copySession streams the samples into the run. torn says that the file ends
// too early; blurred counts samples with a pin at both levels or at none.
func (j *job) copySession(z *archive, g *grid) (torn []run.Note, blurred int64, err error) {
	f, err := z.entry(sessionFile).Open()
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %s: %w", j.Samples, sessionFile, err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, maxLine)
	var raw [sessionBytes]byte
	word, levels, dim := uint16(0), pinsOf(0), true
	for {
		n, err := io.ReadFull(r, raw[:])
		switch {
		case err == io.EOF && g.count() > 0:
			return torn, blurred, nil
		case err == io.EOF:
			return nil, 0, fmt.Errorf("%s: %s holds no samples", j.Samples, sessionFile)
		case errors.Is(err, io.ErrUnexpectedEOF) && g.count() > 0, errors.Is(err, zip.ErrChecksum):
			return []run.Note{{Code: "torn-file", Count: max(1, int64(n)), Warn: true, Text: fmt.Sprintf(
				"%s ends within a sample, or its checksum is wrong: it is cut off or damaged", sessionFile)}}, blurred, nil
		case err != nil:
			return nil, 0, fmt.Errorf("%s: %s: %w", j.Samples, sessionFile, err)
		}
		if w := binary.BigEndian.Uint16(raw[4:]); w != word {
			word, levels = w, pinsOf(w)
			dim = w&(w>>1)&0x5555 != 0 || (w|w>>1)&0x5555 != 0x5555
		}
		amps := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[:]))) * 1e-6
		if dim && amps == amps {
			blurred++
		}
		if err := g.add(amps, levels); err != nil {
			return nil, 0, err
		}
	}
}

// pinsOf spreads the two bits of each pin.
func pinsOf(word uint16) pinLevels {
	var p pinLevels
	for k := range pins {
		p |= pinLevels(pairLevels[word>>(2*k)&3]) << (8 * k)
	}
	return p
}
