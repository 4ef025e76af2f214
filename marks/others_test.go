package marks

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/joulemark/joulemark/sync/mark"
)

// vector is a line of the protocol that every writer of it must give.
type vector struct {
	Name, Line, Kind string
	Encode           bool
	words            []string // key=value, as joulemark.sh takes them
}

// vectors are the statements of targets among the vectors that firmware shares.
func vectors(t *testing.T) []vector {
	t.Helper()
	f, err := os.Open("../sync/mark/testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []vector
	for s := bufio.NewScanner(f); s.Scan(); {
		var v vector
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		st, err := mark.Parse([]byte(v.Line))
		if !v.Encode || err != nil {
			continue
		}
		for _, f := range st.Fields {
			v.words = append(v.words, f.Key+"="+f.Value)
		}
		out = append(out, v)
	}
	if len(out) < 20 {
		t.Fatalf("%d vectors", len(out))
	}
	return out
}

// content reads a file of this folder; the go command sees that the test depends
// on it.
func content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// python is a command that finds the module.
func python(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "joulemark.py"), []byte(content(t, "joulemark.py")), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program(t, "python3"), args...)
	c.Dir = dir
	return c
}

// program finds an interpreter, or skips the test.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

func output(t *testing.T, c *exec.Cmd) []byte {
	t.Helper()
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, complaints.Bytes())
	}
	return out
}

func checkVectors(t *testing.T, all []vector, out []byte) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(all) {
		t.Fatalf("%d lines, want %d", len(lines), len(all))
	}
	for i, v := range all {
		if lines[i] != v.Line {
			t.Errorf("%s:\n%s, want\n%s", v.Name, lines[i], v.Line)
		}
	}
}

func TestPythonVectors(t *testing.T) {
	t.Parallel()
	all := vectors(t)
	c := python(t, "-c", `import json, sys, joulemark
for line in sys.stdin:
    kind, words = json.loads(line)
    pairs = [bytes.fromhex(w).split(b"=", 1) for w in words]
    sys.stdout.buffer.write(joulemark.statement(kind, **{k.decode(): v for k, v in pairs}))`)
	var in bytes.Buffer
	for _, v := range all {
		words := []string{}
		for _, w := range v.words {
			words = append(words, hex.EncodeToString([]byte(w)))
		}
		line, err := json.Marshal([]any{v.Kind, words})
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(line, '\n'))
	}
	c.Stdin = &in
	checkVectors(t, all, output(t, c))
}

func TestPythonExamples(t *testing.T) {
	t.Parallel()
	output(t, python(t, "-m", "doctest", "joulemark.py"))
}

// What the Python module prints, to standard output, is understood.
func TestPythonWindow(t *testing.T) {
	t.Parallel()
	c := python(t, "-c", `import joulemark
joulemark._default._sleep = lambda seconds: None
joulemark.hello(target="laptop", impl="hashlib")
with joulemark.window("sha256", "run", 3, key="none"):
    print("not a statement", flush=True)
try:
    with joulemark.window("sha256", "run", 1):
        raise OSError("no window of this")
except OSError:
    pass
joulemark.idle(1)
joulemark.begin("sha256", "run", 2)
joulemark.end()`)
	var d mark.Decoder
	var kinds []string
	for line := range bytes.Lines(output(t, c)) {
		s, ok := d.Decode(line)
		if !ok {
			continue
		}
		kinds = append(kinds, s.Kind)
		var err error
		switch s.Kind {
		case "hello":
			var h mark.Hello
			if h, err = mark.ParseHello(s); h.TickHz != tickHz || h.Target != "laptop" || h.Bits == 0 {
				t.Errorf("hello is %+v", h)
			}
		case "win":
			var w mark.Win
			if w, err = mark.ParseWin(s); w.N != 3 || w.T1 <= w.T0 || w.PreUs < 350_000 || w.PostUs != 350_000 || w.Key != "none" {
				t.Errorf("win is %+v", w)
			}
		case "idle":
			_, err = mark.ParseIdle(s)
		case "begin", "end":
			_, err = mark.ParseBound(s)
		case "sync":
			_, err = mark.ParseSync(s)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if got := fmt.Sprint(kinds); got != "[hello sync sync win idle begin end]" || d.Counts().BadChecksum != 0 {
		t.Errorf("statements are %s, counts %+v", got, d.Counts())
	}
}

// shells are the POSIX shells of this machine.
func shells(t *testing.T) [][]string {
	t.Helper()
	var found [][]string
	for _, shell := range [][]string{{"sh"}, {"bash"}, {"busybox", "sh"}} {
		if path, err := exec.LookPath(shell[0]); err == nil {
			found = append(found, append([]string{path}, shell[1:]...))
		}
	}
	if len(found) == 0 {
		t.Skip("no shell is installed")
	}
	return found
}

// inShell runs a script.
func inShell(t *testing.T, shell []string, script string, env ...string) []byte {
	t.Helper()
	c := exec.Command(shell[0], append(shell[1:len(shell):len(shell)], "-u")...)
	c.Env = append(os.Environ(), env...)
	c.Stdin = strings.NewReader(content(t, "joulemark.sh") + script)
	return output(t, c)
}

func TestShellVectors(t *testing.T) {
	t.Parallel()
	// No word of a shell holds a NUL.
	all := slices.DeleteFunc(vectors(t), func(v vector) bool { return strings.Contains(v.Line, "%00") })
	for i, shell := range shells(t) {
		if i > 0 { // the hard ones: a shell is slow
			all = slices.DeleteFunc(all, func(v vector) bool { return v.Kind != "note" })
		}
		var script strings.Builder
		for _, v := range all {
			fmt.Fprintf(&script, "jm %s", v.Kind)
			for _, w := range v.words {
				fmt.Fprintf(&script, " '%s'", strings.ReplaceAll(w, "'", `'\''`))
			}
			script.WriteString("\n")
		}
		checkVectors(t, all, inShell(t, shell, script.String()))
	}
}

// A window of a shell: begin, the command with its output elsewhere, end; a
// command that fails ends none.
func TestShellWindow(t *testing.T) {
	t.Parallel()
	for _, shell := range shells(t) {
		out := inShell(t, shell, `jm_window ML-DSA-44 sign 100 echo working || exit 1
jm_window ML-DSA-44 verify 5 sh -c 'exit 3'
[ $? -eq 3 ] || exit 1`, "JM_QUIET=0")
		var got []string
		var d mark.Decoder
		for line := range bytes.Lines(out) {
			s, ok := d.Decode(line)
			if !ok || !s.Checked {
				t.Fatalf("%v: %q is not accepted", shell, line)
			}
			got = append(got, strings.TrimPrefix(s.String(), "@jm "))
		}
		want := "begin alg=ML-DSA-44 op=sign n=100; end alg=ML-DSA-44 op=sign n=100; begin alg=ML-DSA-44 op=verify n=5"
		if strings.Join(got, "; ") != want {
			t.Errorf("%v: statements are %q, want %q", shell, got, want)
		}
	}
}

// block returns the code of the recipe in a language.
func block(t *testing.T, language string) string {
	t.Helper()
	_, code, ok := strings.Cut(content(t, "../docs/recipes/instrument.md"), "```"+language+"\n")
	code, _, closed := strings.Cut(code, "```")
	if !ok || !closed {
		t.Fatalf("the recipe holds no %s", language)
	}
	return code
}

// The recipe's examples state what they say.
func TestRecipe(t *testing.T) {
	t.Parallel()
	kinds := func(out []byte) string {
		var d mark.Decoder
		var kinds []string
		for line := range bytes.Lines(out) {
			if s, ok := d.Decode(line); ok {
				kinds = append(kinds, s.Kind)
			}
		}
		return strings.Join(kinds, " ")
	}
	c := python(t, "-c", "import time\ntime.sleep = lambda seconds: None\n"+block(t, "python"))
	if got, want := kinds(output(t, c)), "hello sync sync win sync win sync win"; got != want {
		t.Errorf("python states %q, want %q", got, want)
	}
	for _, shell := range shells(t) {
		_, script, _ := strings.Cut(block(t, "sh"), "\n") // inShell reads joulemark.sh
		if got, want := kinds(inShell(t, shell, script, "JM_QUIET=0")), "hello begin end"; got != want {
			t.Errorf("%v states %q, want %q", shell, got, want)
		}
	}
}
