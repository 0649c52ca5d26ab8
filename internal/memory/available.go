package memory

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Available returns the memory, in bytes, that this process can still take without swapping. This amount is Linux's
// MemAvailable, or less if a control group of the process (container, pod, service) allows less. The result 'ok' is
// false if the system does not provide this information.
func Available() (bytes uint64, ok bool) { return available(os.DirFS("/")) }

// available does the work of Available. It reads the system's files from 'root'.
func available(root fs.FS) (bytes uint64, ok bool) {
	kib, ok := field(root, "proc/meminfo", "MemAvailable:")
	if !ok || kib > 1<<53 {
		return 0, false
	}
	bytes = kib << 10
	for _, h := range hierarchies {
		for _, group := range h.groups(root) {
			bytes = min(bytes, h.room(root, group))
		}
	}
	return bytes, true
}

// A hierarchy describes one version of Linux control groups. It holds the names of the files that state a group's
// memory.
type hierarchy struct {
	controller          string // name of the controller in /proc/self/cgroup
	mount               string
	limit, usage, cache string // cache: field of memory.stat for the file pages that the kernel reclaims first
}

var hierarchies = []hierarchy{
	{"", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
	{"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
}

// groups returns the folders of the process's group and of the group's ancestors. Each group has its own limit. In a
// container there is only one group, and its folder is the mount itself.
func (h hierarchy) groups(root fs.FS) []string {
	folders := []string{h.mount}
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return folders
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // format: number:controllers:path
		if len(parts) != 3 || !slices.Contains(strings.Split(parts[1], ","), h.controller) {
			continue
		}
		for group := path.Clean("/" + parts[2]); group != "/"; group = path.Dir(group) {
			folders = append(folders, h.mount+group)
		}
	}
	return folders
}

// room returns the memory that a control group may still take. Without a limit it returns the largest uint64.
func (h hierarchy) room(root fs.FS, group string) uint64 {
	limit, limited := number(root, path.Join(group, h.limit))
	if !limited {
		return 1<<64 - 1
	}
	used, _ := number(root, path.Join(group, h.usage))
	cache, _ := field(root, path.Join(group, "memory.stat"), h.cache)
	used -= min(used, cache)
	return limit - min(used, limit)
}

// number parses a file that holds one number. The second result is false if this is not possible, for example for the
// text "max".
func number(root fs.FS, name string) (uint64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// field returns the number in the line "name number" of a file.
func field(root fs.FS, file, name string) (uint64, bool) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == name {
			n, err := strconv.ParseUint(words[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
