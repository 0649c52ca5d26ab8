package onnx

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// AvailableMemory is the memory, in bytes, that this process can still take
// without swapping: what the system reports, within the limit of the process's
// control group. ok is false where the system does not say.
func AvailableMemory() (bytes uint64, ok bool) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(fields[1], 10, 54)
			bytes, ok = kib<<10, err == nil
		}
	}
	if limit, limited := readNumber("/sys/fs/cgroup/memory.max"); ok && limited {
		used, _ := readNumber("/sys/fs/cgroup/memory.current")
		bytes = min(bytes, limit-min(used, limit))
	}
	return bytes, ok
}

// checkMemory refuses a tensor whose batches and samples for trial runs, of so
// many values each, do not fit into half the memory.
func checkMemory(t TensorInfo, batch, values int) error {
	need := 4 * uint64(values) * uint64(2*max(batch, 16)+poolSize+2*aloneCount)
	if memory, ok := AvailableMemory(); ok && need > memory/2 {
		return fmt.Errorf("%s is too large: trying it takes %d MiB, half the memory is %d MiB", t, need>>20, memory>>21)
	}
	return nil
}

func readNumber(path string) (uint64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil // "max": no limit
}
