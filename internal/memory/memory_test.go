package memory

import (
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAvailable(t *testing.T) {
	const free = "MemTotal:       24 kB\nMemFree:  5 kB\nMemAvailable:    7000 kB\nBuffers: 9 kB\n"
	for _, test := range []struct {
		what  string
		files map[string]string
		want  uint64 // 0 means unknown
	}{
		{"no control group", map[string]string{"proc/meminfo": free}, 7000 << 10},
		{"no file", nil, 0},
		{"no number", map[string]string{"proc/meminfo": "MemAvailable: lots kB\n"}, 0},
		{"a container", map[string]string{"proc/meminfo": free, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "5000000\n", "sys/fs/cgroup/memory.current": "1000000\n"}, 4_000_000},
		{"file pages can be taken back", map[string]string{"proc/meminfo": free, "sys/fs/cgroup/memory.max": "5000000\n",
			"sys/fs/cgroup/memory.current": "4900000\n", "sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 4000000\nfile 9\n"}, 4_100_000},
		{"all is used", map[string]string{"proc/meminfo": free, "sys/fs/cgroup/memory.max": "5000000\n",
			"sys/fs/cgroup/memory.current": "6000000\n"}, 0},
		{"no limit", map[string]string{"proc/meminfo": free, "sys/fs/cgroup/memory.max": "max\n",
			"sys/fs/cgroup/memory.current": "1000000\n"}, 7000 << 10},
		{"a service within a slice", map[string]string{"proc/meminfo": free, "proc/self/cgroup": "0::/a.slice/b.service\n",
			"sys/fs/cgroup/a.slice/memory.max": "3000000\n", "sys/fs/cgroup/a.slice/memory.current": "500000\n",
			"sys/fs/cgroup/a.slice/b.service/memory.max": "2900000\n", "sys/fs/cgroup/a.slice/b.service/memory.current": "100000\n"}, 2_500_000},
		{"version 1", map[string]string{"proc/meminfo": free, "proc/self/cgroup": "5:pids:/x\n4:cpu,memory:/pod/c\n0::/\n",
			"sys/fs/cgroup/memory/pod/c/memory.limit_in_bytes": "3000000\n", "sys/fs/cgroup/memory/pod/c/memory.usage_in_bytes": "2500000\n",
			"sys/fs/cgroup/memory/pod/c/memory.stat":       "inactive_file 1\ntotal_inactive_file 100000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
			"sys/fs/cgroup/pids/x/memory.limit_in_bytes":   "1\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1\n"}, 600_000},
	} {
		root := fstest.MapFS{}
		for name, text := range test.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		got, ok := available(root)
		if got != test.want || ok != (test.want > 0 || test.what == "all is used") {
			t.Errorf("%s: %d, %v; want %d", test.what, got, ok, test.want)
		}
	}
}

func TestLimit(t *testing.T) {
	if got := Limit(); got <= 0 || got > most {
		t.Errorf("%d", got)
	}
	if a, b, c := limit(4<<20, true), limit(1<<40, true), limit(0, false); a != 1<<20 || b != most || c != most {
		t.Errorf("of 4 MiB %d, of 1 TiB %d, of unknown memory %d", a, b, c)
	}
	if err := (&LimitError{5 << 19, 1 << 20}).Error(); !strings.HasPrefix(err, "needs 2.5 MiB of memory, but the limit for an input is 1.0 MiB") {
		t.Error(err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(6 << 30))
	if got := Limit(); got != 3<<30 {
		t.Errorf("%d", got)
	}
	for bytes, want := range map[int64]string{
		0: "", 3 << 30: "", 3<<30 + 1: "needs 3.0 GiB of memory, but the limit for an input is 3.0 GiB", -1: "needs more than 3.0 GiB",
	} {
		err := Check(bytes)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d: %v, want %s", bytes, err, want)
		}
	}
}
