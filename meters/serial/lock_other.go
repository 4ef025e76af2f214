//go:build !unix

package serial

import "os"

const permissionHint = "close other programs that use the line"

// lockFile locks nothing: the system opens a line once only.
func lockFile(string) (*os.File, error) { return nil, nil }

func isGone(error) bool { return false }

func access(string) error { return nil }

// Holder cannot tell which program has a line open.
func Holder(string) string { return "" }
