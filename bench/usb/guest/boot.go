//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// boot makes the machine usable, and returns where results go.
func boot() (*os.File, error) {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"devpts", "/dev/pts"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return nil, err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	if err := os.Chmod("/tmp", 0o777); err != nil {
		return nil, err
	}
	if err := loadModules("/modules"); err != nil {
		return nil, err
	}
	if err := unix.Mount("configfs", "/sys/kernel/config", "configfs", 0, ""); err != nil {
		return nil, fmt.Errorf("mount configfs: %w", err)
	}
	return os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0)
}

// loadModules loads the modules of a folder in the order of its file "order",
// a NAME and its parameters a line.
func loadModules(dir string) error {
	order, err := os.Open(filepath.Join(dir, "order"))
	if err != nil {
		return err
	}
	defer order.Close()
	for lines := bufio.NewScanner(order); lines.Scan(); {
		name, parameters, _ := strings.Cut(lines.Text(), " ")
		f, err := os.Open(filepath.Join(dir, name+".ko"))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), parameters, 0)
		f.Close()
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}
