//go:build linux

// Command guest is the first and only program of the machine that bench/usb
// boots: it makes USB gadgets that are meters inside and devices outside, runs
// joulemark on them, and says on the second serial port what is true:
//
//	plan NAME...
//	ok NAME: DETAIL
//	FAIL NAME: DETAIL
//	end after SECONDS ...
//
// As ppk2 NODE FILE it is a PPK2 behind a serial function, and writes what it
// sent to a file when it is terminated.
package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "ppk2" {
		if err := servePPK2(os.Args[2], os.Args[3]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	out, err := boot()
	if err != nil {
		fmt.Println("FAIL boot:", err)
	} else {
		runAll(out, slices.DeleteFunc(scenarios(), func(s scenario) bool { return !only().MatchString(s.name) }))
	}
	time.Sleep(100 * time.Millisecond) // the console is slow
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// only says which scenarios are wanted: what the kernel was told as
// joulemark.only=REGEXP.
func only() *regexp.Regexp {
	line, _ := os.ReadFile("/proc/cmdline")
	for _, word := range strings.Fields(string(line)) {
		if text, ok := strings.CutPrefix(word, "joulemark.only="); ok {
			return regexp.MustCompile(text)
		}
	}
	return regexp.MustCompile("")
}

// gadgets is how many meters there are at a time: usb_f_hid serves four
// (HIDG_MINORS).
const gadgets = 4

// runAll runs scenarios, several at a time, each on a gadget of its own.
func runAll(out *os.File, all []scenario) {
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	fmt.Fprintln(out, "plan", strings.Join(names, " "))
	began := time.Now()
	free := make(chan int, gadgets)
	for i := range gadgets {
		free <- i
	}
	var running sync.WaitGroup
	for _, s := range all {
		n := <-free
		if s.alone {
			running.Wait()
		}
		running.Go(func() {
			detail, err := s.on(n)
			if err != nil {
				fmt.Fprintf(out, "FAIL %s: %s\n", s.name, oneLine(err.Error()))
			} else {
				fmt.Fprintf(out, "ok %s: %s\n", s.name, detail)
			}
			free <- n
		})
		if s.alone {
			running.Wait()
		}
	}
	running.Wait()
	fmt.Fprintf(out, "end after %.0f s of the machine's time\n", time.Since(began).Seconds())
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
