package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/joulemark/joulemark/meters"
)

// Remote runs programs on a machine behind a POSIX shell, as ssh opens one. Its
// clock is that machine's wall clock, read by GNU date; a date costs about a
// millisecond, which lies within each window.
type Remote struct {
	meters.Host
	shell meters.Port
	in    []byte // received, not yet a line
	buf   [4096]byte
}

// NewRemote makes a Remote of a shell that waits for commands. The shell stays
// the caller's.
func NewRemote(h meters.Host, shell meters.Port) *Remote { return &Remote{Host: h, shell: shell} }

const (
	// answer opens each line that is meant for us; what logins print does not.
	answer = "joulemark-answer "
	// answerNs is how long a clock may take to answer, host ns.
	answerNs = 20 * int64(time.Second)
	// patienceNs is how often a wait looks whether it is still wanted.
	patienceNs = 200 * int64(time.Millisecond)
	// mostLine bounds a line from the other side.
	mostLine = 4096
)

// Clock reads the remote clock.
func (r *Remote) Clock(ctx context.Context) (ticks, hostNs int64, err error) {
	fields, hostNs, err := r.ask(ctx, "date +'"+answer+"%s%N'", 1, r.HostNs()+answerNs)
	if err != nil {
		return 0, 0, fmt.Errorf("read the remote clock: %w", err)
	}
	ticks, err = nanoseconds(fields[0])
	return ticks, hostNs, err
}

// nanoseconds reads what date prints; without GNU date there is an N at its end.
func nanoseconds(text string) (int64, error) {
	ns, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ns < 1e18 {
		return 0, &meters.Problem{Err: fmt.Errorf("the remote clock says %q, not ns", text), Hint: "the other machine needs GNU date (coreutils): 'date +%s%N' must print digits"}
	}
	return ns, nil
}

// Run runs a program n times on the other machine. How long each took is not
// known.
func (r *Remote) Run(ctx context.Context, argv []string, n int64, ignore bool) (Batch, error) {
	stop := "|| { rc=$?; break; }"
	if ignore {
		stop = "|| :"
	}
	script := fmt.Sprintf("rc=0; i=0; t0=$(date +%%s%%N); while [ $i -lt %d ]; do %s </dev/null >/dev/null 2>&1 %s; i=$((i+1)); done; t1=$(date +%%s%%N); echo \"%s$t0 $t1 $rc\"",
		n, Quote(argv), stop, answer)
	fields, _, err := r.ask(ctx, script, 3, -1)
	if err != nil {
		return Batch{}, err
	}
	if fields[2] != "0" {
		return Batch{}, &meters.Problem{Err: fmt.Errorf("%s: exit status %.10s on the other machine", strings.Join(argv, " "), fields[2]), Hint: "it must end with exit code 0 there; --ignore-failure measures it anyway"}
	}
	from, err := nanoseconds(fields[0])
	if err != nil {
		return Batch{}, err
	}
	to, err := nanoseconds(fields[1])
	return Batch{From: from, To: to}, err
}

// Quote makes one shell word of each argument (POSIX.1-2017, Shell Command
// Language, 2.2.2).
func Quote(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// ask sends one line and waits for the answer of so many fields, until a host
// time unless that is negative.
func (r *Remote) ask(ctx context.Context, command string, fields int, untilNs int64) ([]string, int64, error) {
	if err := r.shell.Write([]byte(command + "\n")); err != nil {
		return nil, 0, fmt.Errorf("write to the shell: %w", err)
	}
	for {
		line, hostNs, err := r.line(ctx, untilNs)
		if err != nil {
			return nil, 0, err
		}
		rest, ok := strings.CutPrefix(string(line), answer)
		if !ok {
			continue
		}
		if got := strings.Fields(rest); len(got) == fields {
			return got, hostNs, nil
		}
		return nil, 0, fmt.Errorf("the other machine answers %q", line)
	}
}

// line waits for the next line and the host time of its arrival.
func (r *Remote) line(ctx context.Context, untilNs int64) ([]byte, int64, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		n, hostNs, err := r.shell.Read(r.buf[:], r.HostNs()+patienceNs)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
		case err != nil:
			return nil, 0, fmt.Errorf("read from the shell: %w", err)
		}
		r.in = append(r.in, r.buf[:n]...)
		if line, rest, ok := bytes.Cut(r.in, []byte("\n")); ok {
			line = bytes.Clone(bytes.TrimSuffix(line, []byte("\r")))
			r.in = append(r.in[:0], rest...)
			return line, hostNs, nil
		}
		if len(r.in) > mostLine {
			return nil, 0, fmt.Errorf("the other machine sends a line of more than %d bytes", mostLine)
		}
		if untilNs >= 0 && hostNs > untilNs {
			return nil, 0, &meters.Problem{Err: errors.New("no answer from the other machine"), Hint: "does 'ssh HOST true' work without a question? Keys must be set up"}
		}
	}
}
