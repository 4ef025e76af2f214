package run

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestOtherReader compares this reader with one of 30 lines in Python, on a
// good and on a damaged run.
func TestOtherReader(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	dir := filepath.Join(t.TempDir(), "r")
	small(t, dir)
	good := files(t, dir)
	damaged := maps.Clone(good)
	log := strings.Replace(good[LogName], `"os":"linux"`, `"os":"other"`, 1)
	log = strings.Replace(log, `"hex":"ff00"`, "\"hex\":\"ff\n0\"", 1)
	damaged[LogName] = log[:len(log)-10]
	for name, all := range map[string]map[string]string{"good": good, "damaged": damaged} {
		write(t, dir, all)
		out, err := exec.Command(python, "testdata/read_run.py", dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		var other struct {
			Counts map[string]int64
			Bad    int
		}
		if err := json.Unmarshal(out, &other); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		got, r := read(t, dir)
		bad := 0
		for _, err := range got.damage {
			if strings.HasPrefix(err.Error(), LogName) {
				bad++
			}
		}
		if want := map[bool]int{true: 0, false: 4}[name == "good"]; bad != want || other.Bad != want {
			t.Errorf("%s: %d bad lines here, %d there, want %d", name, bad, other.Bad, want)
		}
		if other.Counts["future"] != r.Unknown {
			t.Errorf("%s: %d unknown records here, %d there", name, r.Unknown, other.Counts["future"])
		}
		delete(other.Counts, "future")
		if !maps.Equal(other.Counts, r.Counts) {
			t.Errorf("%s: counts %v here, %v there", name, r.Counts, other.Counts)
		}
	}
}

// TestFormatPage verifies the worked example and the bounds of FORMAT.md.
func TestFormatPage(t *testing.T) {
	b, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	example := regexp.MustCompile(`(?m)^\{"type":"note".*\}$`).FindString(page)
	kind, err := lineKind([]byte(example))
	if err != nil {
		t.Fatalf("example %s: %v", example, err)
	}
	rec, err := decodeLine(kind, []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	again, err := encodeLine("note", rec.Note)
	if err != nil || string(again) != example+"\n" {
		t.Errorf("example %s is written as %s, %v", example, again, err)
	}
	sum := fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(example[:len(example)-lineTail])))
	for _, want := range []string{
		"`" + example[:len(example)-lineTail] + "`", "`" + sum + "`", Schema,
		fmt.Sprintf("| bytes of one record | %d |", MaxLineBytes),
		fmt.Sprintf("| rows of one checkpoint | %d |", MaxBatchRows),
		fmt.Sprintf("| bytes of one checkpoint | %d |", MaxCheckpointBytes),
		fmt.Sprintf("| bytes of one packet | %d |", MaxPacketBytes),
		fmt.Sprintf("| columns of one stream | %d |", MaxColumns),
		fmt.Sprintf("| meter records of one run | %d |", MaxSegments),
		fmt.Sprintf("| memory to decode one batch, beyond its bytes | %d |", MaxArrowBytes),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("FORMAT.md does not say %s", want)
		}
	}
	// Each member of each record stands on the page.
	for _, v := range []any{Header{}, Target{}, lineJSON{}, Edge{}, Window{}, InBand{}, Gap{}, Note{}, Resumed{}, Checkpoint{}, Close{}, Segment{}} {
		for _, name := range memberNames(v) {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("FORMAT.md does not name %s of %T", name, v)
			}
		}
	}
}

// memberNames returns the JSON names of a struct's fields, embedded ones
// included.
func memberNames(v any) []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}
