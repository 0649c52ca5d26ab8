package graph

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// TestReadBlock checks that readBlock accepts exactly the given number of bytes, neither fewer nor more.
func TestReadBlock(t *testing.T) {
	for size, ok := range map[int64]bool{0: false, 4: false, 5: true, 6: false} {
		var seen bytes.Buffer
		b, err := readBlock(strings.NewReader("hello"), size, &seen)
		if (err == nil) != ok || ok && (string(b.bytes) != "hello" || seen.String() != "hello") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if b, err := readBlock(strings.NewReader(""), 0, io.Discard); err != nil || len(b.bytes) != 0 {
		t.Errorf("an empty file: %v", err)
	}
}
