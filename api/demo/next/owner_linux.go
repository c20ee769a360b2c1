package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// portOwner finds the process that listens at a port of this machine. It sees
// processes of other users only as root.
func portOwner(port int) string {
	sockets := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == listening && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	if len(sockets) == 0 {
		return ""
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	for _, file := range files {
		if target, err := os.Readlink(file); err != nil || !sockets[target] {
			continue
		}
		process := filepath.Dir(filepath.Dir(file))
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue
		}
		return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(process))
	}
	return ""
}
