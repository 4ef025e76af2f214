package imports

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const fnirsiHeader = "timestamp sample_in_packet voltage_V current_A dp_V dn_V temp_C_ema energy_Ws capacity_As\n"

// known lists the names of the formats.
func known() string {
	var names []string
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// TestErrors: what is refused, with the place and what would help.
func TestErrors(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	for _, c := range []struct {
		name string
		o    Options
		text string
		want string
	}{
		{"unknown format name", Options{From: "xls"}, "time_s,watts\n0,1\n", `f: unknown format "xls" (known: ` + known() + `)`},
		{"prose", Options{}, "Dear reader,\nno numbers here\n", `f: none of the known formats (` + known() + `): it begins with "Dear reader,"; ` + exampleHeader},
		{"gzip", Options{}, "\x1f\x8b\x08\x00rest", `f: compressed (gzip): unpack it first`},
		{"gzip, format given", Options{From: "csv"}, "\x1f\x8b\x08\x00rest", `f: compressed (gzip): unpack it first`},
		{"xlsx", Options{}, "PK\x03\x04rest", `f: a zip or Excel file: unpack it, or save it as CSV, first`},
		{"UTF-16", Options{}, "\xff\xfet\x00i\x00m\x00e\x00", `f: text in UTF-16: save it as UTF-8 first`},
		{"UTF-16 without mark", Options{}, "t\x00i\x00m\x00e\x00", `f: text in UTF-16 without a byte order mark: save it as UTF-8 first`},
		{"binary", Options{}, "ab\x00\x01cd", `f: binary data (a NUL at byte 3), not text`},
		{"NUL later", Options{}, "time_s,watts\n" + strings.Repeat("1,2\n", 2000) + "2\x00,1\n", "f:2002:2: binary data (a NUL), not text"},
		{"long line", Options{From: "csv"}, "time_s,watts\n0,1\n" + long, "f:3: the line is longer than 65536 bytes; is this a text file?"},
		{"only a long line", Options{From: "csv"}, long, "f:1: the line is longer than 65536 bytes; is this a text file?"},
		{"empty", Options{}, "", `f: the file is empty`},
		{"blank", Options{From: "csv"}, "\n\n# nothing\n", "f: holds no line but blanks and comments; " + exampleHeader},
		{"only a header", Options{}, "time_s,volts,amps\n", "f:1: the file ends after its header: no samples"},
		{"no header", Options{From: "csv"}, "# made by hand\n0,1\n1,2\n", "f:2:1: numbers without a header above them: " + exampleHeader},
		{"rate not finite", Options{RateHz: -1}, "watts\n1\n", "f: rate of -1 Hz is not between 0 and 1e+09 Hz"},

		{"no power", Options{}, "time_s,volts\n0,5\n", `f: the header ("time_s", "volts") names neither volts and amps nor watts; ` + exampleHeader},
		{"no unit", Options{}, "time_s,Voltage,current_A\n0,5,1\n", `f: column 2 "Voltage" has no unit: write it as in "voltage_V" or "Voltage (mV)"`},
		{"unknown unit", Options{}, "time_s,volts,Current (furlong)\n0,5,1\n", `f: column 3 "Current (furlong)" has the unknown unit "furlong"`},
		{"mega", Options{}, "time_s,volts,current_MA\n0,5,1\n", `f: column 3 "current_MA" has the unit "MA": milli or mega? Write milli as m`},
		{"duplicate", Options{}, "time_s,volts,V,amps\n0,5,5,1\n", `f: columns "volts" and "V" both give volts; leave one of them out of the file`},
		{"duplicate time", Options{}, "time_s,t_ms,watts\n0,0,1\n", `f: columns "time_s" and "t_ms" both give time; leave one of them out of the file`},
		{"no time", Options{}, "volts,amps\n5,1\n", `f: the header ("volts", "amps") names no time; add a time column, or state the rate with --rate`},
		{"time and rate", Options{RateHz: 10}, "time_s,watts\n0,1\n", `f: has a time column, "time_s"; leave --rate out`},
		{"time without unit", Options{}, "time,watts\n0,1\n", `f: column 1 "time" has no unit: write it as in "time_s" or "Time (ms)"`},

		{"not a number", Options{}, "time_s,volts,amps\n0,5,1\n1, five,1\n", `f:3:4: "five" is not a number`},
		{"below a comment header", Options{}, "# time_s,watts\n\n0,1\n1,x\n", `f:4:3: "x" is not a number`},
		{"first row below a comment header", Options{}, "# time_s,watts\n\nx,1\n0,1\n", `f: the header ("x", "1") names neither volts and amps nor watts; ` + exampleHeader},
		{"hex", Options{}, "time_s,watts\n0,0x10\n", `f:2:3: "0x10" is not a number`},
		{"inf", Options{}, "time_s,watts\n0,inf\n", `f:2:3: "inf" is not a number`},
		{"too large for a float", Options{}, "time_s,watts\n0,1e999\n", `f:2:3: "1e999" is too large`},
		{"implausible", Options{}, "time_s,power_W\n0,123456789\n", `f:2:3: "123456789" gives 1.23456789e+08 W: is the unit in the header right?`},
		{"short row", Options{}, "time_s,volts,amps\n0,5,1\n1,5\n2,5,1\n", `f:3: 2 fields, but the header names 3`},
		{"long row", Options{}, "time_s,watts\n0,5,1\n", `f:2:5: 3 fields, but the header names 2: a decimal comma needs ; or a tab between the columns; export with decimal points, or with ;`},
		{"decimal comma", Options{}, "time_s,volts,amps\n0,1,5,1,0,5\n", `f:2:7: 6 fields, but the header names 3: a decimal comma needs ; or a tab between the columns; export with decimal points, or with ;`},
		{"quoted decimal comma", Options{}, "time_s,watts\n\"0,1\",5\n", `f:2:2: "0,1" is a number with a decimal comma in a file separated by commas; export with decimal points, or with ;`},
		{"mixed decimals", Options{}, "time_s;watts\n0,1;5\n0,2;5.5\n", `f:3:5: "5.5" mixes decimal points and decimal commas, or has thousands separators; export the file with plain decimals`},
		{"thousands", Options{}, "time_s;power_mW\n0;1.000,5\n", `f:2:3: "1.000,5" mixes decimal points and decimal commas, or has thousands separators; export the file with plain decimals`},
		{"open quote", Options{}, "time_s,watts\n0,\"1\n", `f:2: the quote at column 3 is not closed on this line`},
		{"behind a quote", Options{}, "time_s,watts\n0,\"1\"2\n", `f:2: column 6: something stands behind a closing quote`},
		{"all NaN", Options{}, "time_s,volts,amps\n0,NaN,1\n1,,1\n", `f: no row has a value for volts and amps`},

		{"backwards", Options{}, "time_s,watts\n5450.91,1\n3303.44,1\n", `f:3:1: time runs backwards: 3303.44 s after 5450.91 s; split the file here if these are two recordings, or sort it`},
		{"no time in a row", Options{}, "watts,time_s\n1,0\n1,\n", `f:3:3: the row has no time`},
		{"time too large", Options{}, "time_s,watts\n1e30,1\n", `f:2:1: time "1e30" is too large`},
		{"no zone", Options{}, "time,watts\n2026-01-31T12:00:00,1\n", `f:2:1: "2026-01-31T12:00:00" has no time zone: add Z or an offset such as +02:00`},
		{"no date", Options{}, "time,watts\n2026-13-31T12:00:00Z,1\n", `f:2:1: "2026-13-31T12:00:00Z" is no time (RFC 3339, such as 2026-01-31T12:00:00.5Z)`},
		{"old date", Options{}, "time,watts\n1026-01-31T12:00:00Z,1\n", `f:2:1: "1026-01-31T12:00:00Z" lies outside the years 1970 to 2200`},
		{"dates and numbers", Options{}, "time_s,watts\n0,1\n2026-01-31T12:00:00Z,1\n", `f:3:1: numbers and dates are mixed in the time column`},

		{"fnirsi without volts", Options{}, "\ntimestamp sample_in_packet current_A\n1.0 0 0.1\n", `f: the header ("timestamp", "sample_in_packet", "current_A") has no column for volts`},
		{"fnirsi without header", Options{From: "fnirsi"}, "time_s,watts\n0,1\n", `f: the header ("time_s", "watts") has no column for packet; want timestamp, sample_in_packet, voltage_V, current_A and more`},
		{"fnirsi packet index", Options{}, fnirsiHeader + "1671208326.775 4 5 0.1 3 0 28 0 0\n", `f:2:16: sample_in_packet "4" is not 0 to 3`},
		{"fnirsi number", Options{}, fnirsiHeader + "1671208326.775 0 5 0,1 3 0 28 0.005 0.001\n1671208326.785 1 5.1 0.1 3 0 28 0 0\n", `f:2:20: "0,1" mixes decimal points and decimal commas, or has thousands separators; export the file with plain decimals`},
		{"fnirsi stamp", Options{}, fnirsiHeader + "soon 0 5 0.1 3 0 28 0 0\n", `f:2:1: "soon" is not a number`},
		{"fnirsi rate", Options{RateHz: 100}, fnirsiHeader, "f: FNIRSI meters give 100 samples a second; leave --rate out"},
		{"fnirsi all stale", Options{}, fnirsiHeader + "1671208326.775 0 188.74370 170.39408 51.84 0 28 0 0\n", "f: holds no sample that a meter can have measured"},
		{"fnirsi order of recordings", Options{}, fnirsiHeader + "1671208326.775 0 5 0.1 3 0 28 0.005 0.001\n1600000000.775 0 5 0.1 3 0 28 0.005 0.001\n",
			"f:3: the clock steps back to before the start of the file (1600000000.775 s after 1671208326.775 s); split the file here and import its parts alone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := importText(t, c.o, "f", c.text)
			if err == nil || err.Error() != "import "+c.want {
				t.Errorf("error %v\nwant  import %s", err, c.want)
			}
		})
	}
}

func TestMarksErrors(t *testing.T) {
	for _, c := range []struct{ name, marks, want string }{
		{"empty", "", "m: the file is empty"},
		{"only comments", "# timestamp event\n\n", "m: holds no lines"},
		{"binary", "\x7fELF\x00\x00", `m:1:1: "\x7fELF\x00\x00" is no host time in seconds; a line is a time, a tab or space, and the line as received`},
		{"no time", "1.5 @jm ok\n  soon @jm ok\n", `m:2:3: "soon" is no host time in seconds; a line is a time, a tab or space, and the line as received`},
		{"decimal comma", "1,5 @jm ok\n", `m:1:1: "1,5" is no host time in seconds; a line is a time, a tab or space, and the line as received`},
		{"huge time", "1e40 @jm ok\n", `m:1:1: time "1e40" is too large`},
		{"long line", "1.5 " + strings.Repeat("x", maxLine) + "\n", "m:1: the line is longer than 65536 bytes; is this a text file?"},
		{"before the samples", "0.5 @jm ok\n", "m: marks from 0.5 s to 0.5 s and samples from 1 s to 3.5 s do not overlap; both must count on one clock (since 1970, or since one start)"},
		{"other clock", "1700000000.25 @jm ok\n1700000001 @jm ok\n", "m: marks from 1700000000.25 s to 1700000001 s and samples from 1 s to 3.5 s do not overlap; both must count on one clock (since 1970, or since one start)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := importFiles(t, Options{Samples: "f", Marks: "m"}, map[string]string{
				"f": "time_s,watts\n1,1\n3.5,1\n", "m": c.marks})
			if err == nil || err.Error() != "import "+c.want {
				t.Errorf("error %v\nwant  import %s", err, c.want)
			}
		})
	}
}

// TestHostilePaths: things that are no files to read.
func TestHostilePaths(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("time_s,watts\n0,1\n"), 0); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/dev/zero":                    "is not a regular file; copy what it yields to one first",
		pipe:                           "is not a regular file; copy what it yields to one first",
		dir:                            "a folder without a file *-energy.bin; name the file of samples",
		filepath.Join(dir, "absent"):   "no such file or directory",
		filepath.Join(secret, "below"): "not a directory",
		secret:                         "permission denied; make it readable for you (chmod u+r), or copy it",
	} {
		if path == secret && os.Geteuid() == 0 {
			continue // root may read everything
		}
		_, err := Import(context.Background(), Options{Samples: path, Out: filepath.Join(dir, "out")}, nil)
		if err == nil || err.Error() != "import "+path+": "+want {
			t.Errorf("%s: error %v, want %s", path, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "out")); err == nil {
		t.Error("an output was left behind")
	}
}

// TestConfined: a folder cannot make an import read what lies outside it.
func TestConfined(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "secret")
	if err := os.WriteFile(outside, []byte("1.0 secret\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "a")
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	r := sound()
	for name, text := range map[string]string{"t-energy.bin": r.bin(), "t-timestamps.json": r.json()} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(folder, "log.txt")); err != nil {
		t.Fatal(err)
	}
	_, err := Import(context.Background(), Options{Samples: folder, Out: filepath.Join(dir, "out")}, nil)
	if err == nil || !strings.Contains(err.Error(), "log.txt: path escapes from parent") {
		t.Errorf("error %v", err)
	}
}

func TestExistingOutput(t *testing.T) {
	dir := t.TempDir()
	samples := filepath.Join(dir, "f")
	if err := os.WriteFile(samples, []byte("time_s,watts\n0,1\n1,1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := Import(context.Background(), Options{Samples: samples, Out: out}, nil)
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	if !isDir(out) {
		t.Error("the existing folder is gone")
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	samples := filepath.Join(dir, "f")
	if err := os.WriteFile(samples, []byte("time_s,watts\n0,1\n1,1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if _, err := Import(ctx, Options{Samples: samples, Out: out}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if isDir(out) {
		t.Error("an output was left behind")
	}
}
