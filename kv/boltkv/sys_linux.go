package boltkv

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// freeSpace returns the bytes that this user may still write in dir.
func freeSpace(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// lockHolder names the process that holds the lock of the file, as far as the
// kernel tells. It names none that it is not sure of: a reader may end it.
func lockHolder(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 4211 fe:00:131 0 EOF
		field := strings.Fields(lines.Text())
		if len(field) < 6 || field[1] != "FLOCK" || !strings.HasSuffix(field[5], fmt.Sprintf(":%d", st.Ino)) {
			continue
		}
		if hasOpen(field[4], info) {
			return " (process " + field[4] + ")"
		}
	}
	return ""
}

// hasOpen reports whether a process has the file open, as far as we may see.
func hasOpen(pid string, file os.FileInfo) bool {
	dir := "/proc/" + pid + "/fd/"
	names, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, n := range names {
		if got, err := os.Stat(dir + n.Name()); err == nil && os.SameFile(got, file) {
			return true
		}
	}
	return false
}
