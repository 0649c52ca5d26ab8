package memory

import (
	"math"
	"runtime/debug"
	"strings"
	"testing"
)

func TestAvailable(t *testing.T) {
	for info, want := range map[string]int64{
		"MemTotal:       24 kB\nMemFree:  5 kB\nMemAvailable:    7 kB\nBuffers: 9 kB\n": 7 << 10,
		"":                        math.MaxInt64,
		"MemAvailable: lots kB\n": math.MaxInt64,
	} {
		if got := available([]byte(info)); got != want {
			t.Errorf("%q: %d, want %d", info, got, want)
		}
	}
}

func TestLimit(t *testing.T) {
	if got := Limit(); got <= 0 || got > most {
		t.Errorf("%d", got)
	}
	if err := (&LimitError{5 << 19, 1 << 20}).Error(); !strings.HasPrefix(err, "needs 2.5 MiB of memory, and at most 1.0 MiB are") {
		t.Error(err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(6 << 30))
	if got := Limit(); got != 3<<30 {
		t.Errorf("%d", got)
	}
	for bytes, want := range map[int64]string{
		0: "", 3 << 30: "", 3<<30 + 1: "needs 3.0 GiB of memory, and at most 3.0 GiB", -1: "needs more than the 3.0 GiB",
	} {
		err := Check(bytes)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d: %v, want %s", bytes, err, want)
		}
	}
}
