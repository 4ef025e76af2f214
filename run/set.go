package run

import (
	"fmt"
	"os"
	"path/filepath"
)

// Find returns the runs that path stands for: path itself if it is a run, else
// the runs in its subfolders, sorted by name. Where there is none, the error
// wraps ErrNotRun, or fs.ErrNotExist if path does not exist.
func Find(path string) ([]string, error) {
	if isRun(path) {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("find runs: %w", err)
	}
	var runs []string
	for _, e := range entries {
		if sub := filepath.Join(path, e.Name()); isRun(sub) {
			runs = append(runs, sub)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("find runs: %s: %w: neither it nor a folder in it holds a %s", path, ErrNotRun, LogName)
	}
	return runs, nil
}

func isRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, LogName))
	return err == nil
}
