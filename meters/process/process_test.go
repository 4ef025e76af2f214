//go:build unix

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	ossignal "os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// The test binary is the program, when it is told so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "program" {
		os.Exit(program(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func program(args []string) int {
	switch args[0] {
	case "say":
		fmt.Print(strings.Join(args[1:], "|"))
	case "fail":
		fmt.Print("first")
		fmt.Fprintln(os.Stderr, "no meter is plugged in")
		return 3
	case "stay":
		fmt.Println(os.Getpid())
		select {}
	case "stubborn":
		catch := make(chan os.Signal, 1)
		notify(catch)
		fmt.Println(os.Getpid())
		select {}
	case "chatter":
		fmt.Fprint(os.Stderr, strings.Repeat("x", 3*keptMessages), "the end\n")
	}
	return 0
}

const second = int64(time.Second)

func open(t *testing.T, words ...string) *Port {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open("'"+me+"' program "+strings.Join(words, " "), meters.NewHostClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// all reads to the end.
func all(p *Port) (string, error) {
	var got []byte
	b := make([]byte, 5)
	for {
		n, _, err := p.Read(b, p.HostNs()+10*second)
		got = append(got, b[:n]...)
		if err != nil {
			return string(got), err
		}
	}
}

func TestRead(t *testing.T) {
	p := open(t, `say a "b  c" 'd;e' f\ g`)
	if got, err := all(p); got != "a|b  c|d;e|f g" || err != io.EOF {
		t.Errorf("%q, %v", got, err)
	}
	if err := p.Write([]byte("x")); err == nil {
		t.Error("it took input")
	}
}

func TestDeadline(t *testing.T) {
	p := open(t, "stay")
	b := make([]byte, 100)
	if n, _, err := p.Read(b, p.HostNs()+10*second); n == 0 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if n, _, err := p.Read(b, p.HostNs()); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A program that fails is quoted.
func TestFails(t *testing.T) {
	got, err := all(open(t, "fail"))
	if got != "first" || err == nil || !strings.HasSuffix(err.Error(), ` ended: exit status 3: "no meter is plugged in"`) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMessages(t *testing.T) {
	p := open(t, "chatter")
	if _, err := all(p); err != io.EOF {
		t.Fatal(err)
	}
	if m := p.Messages(); len(m) > keptMessages || !strings.HasSuffix(m, "xxthe end") {
		t.Errorf("%d bytes: %q", len(m), m[max(0, len(m)-20):])
	}
}

// Close leaves no process behind, asked or made to end.
func TestClose(t *testing.T) {
	for _, how := range []string{"stay", "stubborn"} {
		p := open(t, how)
		b := make([]byte, 100)
		n, _, err := p.Read(b, p.HostNs()+10*second)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("%s: the program is still there: %v", how, err)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
		err  string
	}{
		{`./prog`, []string{"./prog"}, ""},
		{`a 'b c' "d e" f\ g`, []string{"a", "b c", "d e", "f g"}, ""},
		{`a $HOME *`, []string{"a", "$HOME", "*"}, ""},
		{`a "$(b)" 'c|d'`, []string{"a", "$(b)", "c|d"}, ""},
		{``, nil, `split "": it holds no word`},
		{`a; b`, nil, `split "a; b": what stands after "a" is for a shell, and none reads it`},
		{`a | b`, nil, `split "a | b": what stands after "a" is for a shell, and none reads it`},
		{`a > b`, nil, `split "a > b": what stands after "a" is for a shell, and none reads it`},
		{`a 'b`, nil, `split "a 'b": invalid command line string`},
	} {
		got, err := Split(c.in)
		if c.err == "" && (err != nil || !slices.Equal(got, c.want)) || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%s: %q, %v", c.in, got, err)
		}
	}
}

func TestProblems(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"no-such-program-here": "start no-such-program-here: executable file not found in $PATH",
		"./none":               "start ./none: no such file or directory",
		file:                   "start " + file + ": permission denied",
	} {
		if _, err := Open(command, meters.NewHostClock()); err == nil || err.Error() != want || meters.Hint(err) == "" {
			t.Errorf("%s: %v (%s), want %s", command, err, meters.Hint(err), want)
		}
	}
}

// notify keeps a program from ending when it is asked to.
func notify(c chan os.Signal) { ossignal.Notify(c, syscall.SIGTERM) }

// Talk gives the program an input, which ends with Close.
func TestTalk(t *testing.T) {
	p, err := Talk([]string{"cat"}, meters.NewHostClock())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, _, err := p.Read(b, p.HostNs()+10e9)
	if err != nil || string(b[:n]) != "hello\n" {
		t.Errorf("read %q, %v", b[:n], err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Write([]byte("more")); err == nil {
		t.Error("wrote to a program that has ended")
	}
	if _, err := Talk([]string{"./no-such-program"}, meters.NewHostClock()); err == nil || meters.Hint(err) == "" {
		t.Errorf("started nothing: %v", err)
	}
	silent, err := Open("cat", meters.NewHostClock())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := silent.Write([]byte("x")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("wrote to a program without input: %v", err)
	}
}

// Both reads output and error output in the order in which they are written.
func TestBoth(t *testing.T) {
	p, err := Both([]string{"sh", "-c", "echo out; echo err >&2; echo out; exit 3"}, meters.NewHostClock())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var all []byte
	for {
		b := make([]byte, 100)
		n, _, err := p.Read(b, p.HostNs()+10e9)
		all = append(all, b[:n]...)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a program that failed ends with %v", err)
			}
			break
		}
	}
	if string(all) != "out\nerr\nout\n" {
		t.Errorf("read %q", all)
	}
}
