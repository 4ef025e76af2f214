package usb

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	asked = flag.Bool("usb", false, "boot a kernel and test meters on its USB")
	only  = flag.String("only", "", "scenarios that match this `REGEXP`, such as hidraw/replug")
)

// modules are loaded in this order. Each gadget takes a port of dummy_hcd.
var modules = []string{"usb-common", "usbcore", "hid", "usbhid", "hid-generic", "udc-core", "configfs", "libcomposite", "dummy_hcd num=4",
	"u_serial", "usb_f_hid", "usb_f_acm", "cdc-acm", "uhid"}

const (
	memory  = "1024" // MiB
	console = "console.log"
	limit   = 14 * time.Minute // of the machine's life; alone on two cores it takes four
)

func TestUSB(t *testing.T) {
	if !*asked {
		t.Skip("it takes minutes and tools that Go lacks: make test-usb")
	}
	for _, tool := range []string{"qemu-system-x86_64", "cpio", "dpkg-deb", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing: apt-get install qemu-system-x86 cpio dpkg", tool)
		}
	}
	kernel, found := unpackKernel(t)
	root := t.TempDir()
	fill(t, root, found)
	initrd := pack(t, root)
	report := boot(t, kernel, initrd)
	if len(report.planned) == 0 {
		t.Fatal("the machine planned nothing")
	}
	for _, name := range report.planned {
		t.Run(name, func(t *testing.T) {
			r, ok := report.results[name]
			switch {
			case !ok:
				t.Error("no result")
			case !r.ok:
				t.Error(r.detail)
			default:
				t.Log(r.detail)
			}
		})
	}
}

// cache is where what was downloaded is kept.
func cache(t *testing.T) string {
	dir := os.Getenv("JOULEMARK_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(user, "joulemark", "usb")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// unpackKernel returns a kernel and the folder of its modules.
func unpackKernel(t *testing.T) (kernel, found string) {
	dir := cache(t)
	unpacked := filepath.Join(dir, "kernel")
	look := func() bool {
		kernels, _ := filepath.Glob(filepath.Join(unpacked, "boot", "vmlinuz-*"))
		if len(kernels) != 1 {
			return false
		}
		kernel = kernels[0]
		version := strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-")
		found = filepath.Join(unpacked, "lib", "modules", version, "kernel")
		_, err := os.Stat(found)
		return err == nil
	}
	if look() {
		return kernel, found
	}
	packages := func() []string {
		all, _ := filepath.Glob(filepath.Join(dir, "linux-image-*.deb"))
		return all
	}
	if len(packages()) == 0 {
		t.Log("downloading a kernel (Debian's package)")
		in(t, dir, "apt-get", "download", kernelPackage(t))
	}
	all := packages()
	if len(all) != 1 {
		t.Fatalf("%d kernel packages in %s", len(all), dir)
	}
	// A folder that was not filled to its end is not taken for a kernel.
	partial := unpacked + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.RemoveAll(unpacked)); err != nil {
		t.Fatal(err)
	}
	in(t, dir, "dpkg-deb", "-x", all[0], partial)
	if err := os.Rename(partial, unpacked); err != nil {
		t.Fatal(err)
	}
	if !look() {
		t.Fatalf("%s holds no kernel", all[0])
	}
	return kernel, found
}

// kernelPackage is the one that linux-image-amd64 stands for.
func kernelPackage(t *testing.T) string {
	out := in(t, ".", "apt-cache", "depends", "linux-image-amd64")
	m := regexp.MustCompile(`linux-image-[0-9]\S*-amd64`).FindString(out)
	if m == "" {
		t.Fatalf("no kernel in %q: run apt-get update first", out)
	}
	return m
}

// in runs a program in a folder and returns what it prints.
func in(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir = dir
	return printed(t, c)
}

// build builds a program, without what only a debugger needs.
func build(t *testing.T, cgo, to string, args ...string) {
	t.Helper()
	c := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", to}, args...)...)
	c.Dir, c.Env = "../..", append(os.Environ(), cgo)
	printed(t, c)
}

func printed(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(c.Args, " "), err, out)
	}
	return string(out)
}

// fill lays out the machine's files: its first program, joulemark as people
// get it and with libusb, and the modules.
func fill(t *testing.T, root, found string) {
	for _, d := range []string{"bin", "modules"} {
		if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build(t, "CGO_ENABLED=0", filepath.Join(root, "init"), "./bench/usb/guest")
	build(t, "CGO_ENABLED=0", filepath.Join(root, "bin/joulemark"), "./cmd/joulemark")
	if exec.Command("pkg-config", "--exists", "libusb-1.0").Run() == nil {
		program := filepath.Join(root, "bin/joulemark-libusb")
		build(t, "CGO_ENABLED=1", program, "-tags=libusb", "./cmd/joulemark")
		for _, library := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(in(t, ".", "ldd", program), -1) {
			copyFile(t, library[1], filepath.Join(root, library[1]))
		}
	} else {
		t.Log("libusb is not here (apt-get install libusb-1.0-0-dev): hidraw alone is tested")
	}
	var order []string
	for _, m := range modules {
		name, _, _ := strings.Cut(m, " ")
		if file := module(t, found, name); file != "" {
			copyFile(t, file, filepath.Join(root, "modules", name+".ko"))
			order = append(order, m)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "modules/order"), []byte(strings.Join(order, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// module finds a module; "" where it is part of the kernel.
func module(t *testing.T, dir, name string) (path string) {
	filepath.WalkDir(dir, func(p string, _ os.DirEntry, _ error) error {
		if filepath.Base(p) == name+".ko" {
			path = p
			return filepath.SkipAll
		}
		return nil
	})
	if path == "" {
		t.Logf("no module %s: taken to be part of the kernel", name)
	}
	return path
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pack makes the machine's first file system.
func pack(t *testing.T, root string) string {
	path := filepath.Join(t.TempDir(), "initrd")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", "find . -print0 | cpio --null --create --format=newc --quiet")
	c.Dir, c.Stdout, c.Stderr = root, f, os.Stderr
	if err := errors.Join(c.Run(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

type result struct {
	ok     bool
	detail string
}

// outcome is what the machine said.
type outcome struct {
	planned []string
	results map[string]result
}

// boot runs the machine to its end, and tells what it says meanwhile.
func boot(t *testing.T, kernel, initrd string) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	log := filepath.Join(t.TempDir(), console)
	c := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg", "-icount", "shift=0,sleep=off", "-m", memory, "-display", "none", "-monitor", "none",
		"-no-reboot", "-nic", "none", "-kernel", kernel, "-initrd", initrd, "-append", "console=ttyS0 panic=-1 loglevel=5 joulemark.only="+*only,
		"-serial", "file:"+log, "-serial", "stdio")
	out, err := c.StdoutPipe()
	if err == nil {
		c.Stderr = os.Stderr
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	o := outcome{results: map[string]result{}}
	ended := o.read(out, func(line string) { t.Logf("%4.0f s  %s", time.Since(began).Seconds(), line) })
	err = c.Wait()
	used := c.ProcessState
	t.Logf("%.0f s, of which the machine computed %.0f s", time.Since(began).Seconds(), (used.UserTime() + used.SystemTime()).Seconds())
	if err != nil || !ended {
		text, _ := os.ReadFile(log)
		t.Errorf("the machine did not come to its end: %v; its console:\n%s", errors.Join(err, ctx.Err()), tail(text))
	}
	return o
}

// read takes results until the machine ends, and reports whether it said so.
func (o *outcome) read(r io.Reader, tell func(string)) (ended bool) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		word, rest, _ := strings.Cut(line, " ")
		name, detail, _ := strings.Cut(rest, ": ")
		switch word {
		case "plan":
			o.planned = strings.Fields(rest)
		case "ok", "FAIL":
			o.results[name] = result{word == "ok", detail}
			if !slices.Contains(o.planned, name) {
				o.planned = append(o.planned, name)
			}
		case "end":
			ended = true
		default:
			continue
		}
		tell(line)
	}
	return ended
}

func tail(b []byte) string {
	const most = 8000
	return fmt.Sprintf("%s", b[max(0, len(b)-most):])
}

// The judge of what the machine says is tested without one.
func TestOutcome(t *testing.T) {
	o := outcome{results: map[string]result{}}
	ended := o.read(strings.NewReader("noise\r\nplan a b c\r\nok a: fine: indeed\r\nFAIL b: broken\r\nok d: unplanned\r\n"), func(string) {})
	if ended || !slices.Equal(o.planned, []string{"a", "b", "c", "d"}) || len(o.results) != 3 ||
		o.results["a"] != (result{true, "fine: indeed"}) || o.results["b"] != (result{false, "broken"}) {
		t.Errorf("ended %v, %+v", ended, o)
	}
	if !o.read(strings.NewReader("end\n"), func(string) {}) {
		t.Error("it did not see the end")
	}
}
