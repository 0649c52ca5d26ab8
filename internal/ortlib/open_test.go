package ortlib

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func putLibrary(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestOpenLibrary exchanges a library between hashing and loading. The method Unchanged must notice every exchange. If
// Path returns the path of the open file, this path must still give the hashed bytes, unless the file itself was
// overwritten.
func TestOpenLibrary(t *testing.T) {
	const text = "a library"
	sum := sha256.Sum256([]byte(text))
	for name, change := range map[string]func(path string) error{
		"nothing":    func(string) error { return nil },
		"another":    func(path string) error { return os.Rename(path+".other", path) },
		"deleted":    os.Remove,
		"there back": func(path string) error { return firstErr(os.Rename(path, path+".kept"), os.Rename(path+".kept", path)) },
		"written to": func(path string) error { return os.WriteFile(path, []byte("a LIBRARY"), 0o644) },
	} {
		for _, beside := range []string{"", "libonnxruntime_providers_shared.so"} {
			path := filepath.Join(t.TempDir(), "libonnxruntime.so")
			putLibrary(t, path, text)
			putLibrary(t, path+".other", "another")
			if beside != "" {
				putLibrary(t, filepath.Join(filepath.Dir(path), beside), "")
			}
			l, err := OpenLibrary(path)
			if err != nil {
				t.Fatal(err)
			}
			if l.SHA256() != hex.EncodeToString(sum[:]) {
				t.Errorf("%s: SHA-256 %s", name, l.SHA256())
			}
			time.Sleep(20 * time.Millisecond) // wait, so that the next change gets a later change time
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			own := strings.HasPrefix(l.Path(), "/proc/self/fd/")
			if want := runtime.GOOS == "linux" && beside == ""; own != want {
				t.Errorf("%s: the path is %s", name, l.Path())
			}
			if loaded, err := os.ReadFile(l.Path()); own && name != "written to" && (err != nil || !bytes.Equal(loaded, []byte(text))) {
				t.Errorf("%s: %q would be loaded, %v", name, loaded, err)
			}
			if name == "there back" && runtime.GOOS != "linux" {
				continue
			}
			if err := l.Unchanged(); (err == nil) != (name == "nothing") {
				t.Errorf("%s: error %v", name, err)
			}
		}
	}
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestKnown(t *testing.T) {
	const pip, provider = "8902e52a04bf6bf26f1613746811d6194f9c97ce7a6a7a28452b48522d3bd8d0", "8387867e857499e045caff5d13ac6a5de29571c801562fa2dde0e45f1f31de52"
	if runtime.GOOS == "linux" && !Known(pip) {
		t.Error("the library of pip's package is not known")
	}
	for _, sum := range []string{"", "#", "8902", provider, strings.ToUpper(pip)} {
		if Known(sum) {
			t.Errorf("%q is known", sum)
		}
	}
}
