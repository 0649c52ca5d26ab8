package signature

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/rscert/rscert/internal/signature/signaturetest"
)

// newKey writes a pair of keys to files. If the password is not empty, it encrypts the secret key.
func newKey(t *testing.T, password string) (secret, public string) {
	t.Helper()
	secret, public, err := signaturetest.Keys(t.TempDir(), "a", password)
	if err != nil {
		t.Fatal(err)
	}
	return secret, public
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func password(s string) func() (string, error) { return func() (string, error) { return s, nil } }

func unasked() (string, error) { return "", errors.New("asked for a password") }

func TestSignAndVerify(t *testing.T) {
	secret, public := newKey(t, "")
	key, err := ReadSecretKey(secret, unasked)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ReadPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if key.ID() != pub.ID() || len(key.ID()) != 16 {
		t.Errorf("ids %s, %s", key.ID(), pub.ID())
	}
	message := []byte("message\n")
	signed := key.Sign(message, "comment")
	if string(key.Sign(message, "comment")) != string(signed) {
		t.Error("a second signature has other bytes")
	}
	if id, err := ID(signed); err != nil || id != key.ID() {
		t.Errorf("%s %v", id, err)
	}
	if comment, err := pub.Verify(message, signed); err != nil || comment != "comment" {
		t.Errorf("%q %v", comment, err)
	}
	// Verify must fail if any byte of the message or of the signature changes, except in the unsigned comment.
	for i := range message {
		other := []byte(string(message))
		other[i] ^= 1
		if _, err := pub.Verify(other, signed); err == nil {
			t.Errorf("byte %d of the message changed", i)
		}
	}
	begin := strings.IndexByte(string(signed), '\n') + 1
	for i := begin; i < len(signed)-1; i++ {
		other := []byte(string(signed))
		other[i] ^= 1
		if _, err := pub.Verify(message, other); err == nil {
			t.Errorf("byte %d of the signature changed: %s", i, other)
		}
	}
	for i := range len(signed) - 1 {
		if _, err := pub.Verify(message, signed[:i]); err == nil {
			t.Errorf("verifies when cut after %d of %d bytes", i, len(signed))
		}
	}
	if _, err := pub.Verify(message, append([]byte("x"), signed...)); !errors.Is(err, errMalformed) {
		t.Error(err)
	}
	_, otherPublic := newKey(t, "")
	other, err := ReadPublicKey(otherPublic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Verify(message, signed); err == nil || !strings.Contains(err.Error(), "not by the key "+other.ID()) {
		t.Error(err)
	}
}

func TestEncryptedKey(t *testing.T) {
	secret, public := newKey(t, "pass word")
	key, err := ReadSecretKey(secret, password("pass word"))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ReadPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pub.Verify([]byte("m"), key.Sign([]byte("m"), "c")); err != nil {
		t.Error(err)
	}
	if _, err := ReadSecretKey(secret, password("password")); err == nil || !strings.HasSuffix(err.Error(), "the password is wrong, or the key is damaged") {
		t.Error(err)
	}
	if _, err := ReadSecretKey(secret, unasked); err == nil || !strings.HasSuffix(err.Error(), ": asked for a password") {
		t.Error(err)
	}
}

func TestWrongKeys(t *testing.T) {
	secret, public := newKey(t, "")
	encrypted, _ := newKey(t, "p")
	dir := t.TempDir()
	text, err := os.ReadFile(secret)
	if err != nil {
		t.Fatal(err)
	}
	// The test changes one bit of the public half in the key file, so this half belongs to another key. Signatures by
	// such a mixed key would reveal the secret half.
	comment, body, _ := strings.Cut(string(text), "\n")
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(body))
	if err != nil {
		t.Fatal(err)
	}
	b[100] ^= 1
	mixed, long, empty := filepath.Join(dir, "mixed"), filepath.Join(dir, "long"), filepath.Join(dir, "empty")
	write(t, mixed, comment+"\n"+base64.StdEncoding.EncodeToString(b))
	write(t, long, strings.Repeat("x", maxKeyFile+1))
	write(t, empty, "")
	for path, want := range map[string]string{
		public: "is a public key", mixed: "its halves do not belong together", long: "too long", empty: "is no secret key",
		dir: "is a directory", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := ReadSecretKey(path, unasked); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for path, want := range map[string]string{
		secret: "is a secret key", encrypted: "is a secret key", long: "too long", empty: "is no public key", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := ReadPublicKey(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Printing a key must not show the secret.
func TestKeyIsNotPrinted(t *testing.T) {
	pub, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := private.MarshalText()
	path := filepath.Join(t.TempDir(), "key")
	write(t, path, string(text))
	key, err := ReadSecretKey(path, unasked)
	if err != nil {
		t.Fatal(err)
	}
	whole := fmt.Sprintf("%v", private)
	if len(whole) < 64*2 {
		t.Fatal("the library's key no longer prints its bytes: this test proves nothing")
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		if printed := fmt.Sprintf(format, &key); len(printed) > 120 {
			t.Errorf("%s of key %016X prints %s", format, pub.ID(), printed)
		}
	}
}

func TestExposed(t *testing.T) {
	secret, _ := newKey(t, "")
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o644: true} {
		if err := os.Chmod(secret, mode); err != nil {
			t.Fatal(err)
		}
		if got := Exposed(secret); got != want {
			t.Errorf("%o: %v", mode, got)
		}
	}
	if Exposed(filepath.Dir(secret)) {
		t.Error("a folder")
	}
}

// The program minisign must accept the signatures of this package, and this package must accept the signatures of
// minisign.
func TestWithMinisign(t *testing.T) {
	if _, err := exec.LookPath("minisign"); err != nil {
		t.Skip("minisign is not installed")
	}
	dir := t.TempDir()
	tool := func(args ...string) error {
		cmd := exec.Command("minisign", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("minisign %v: %w: %s", args, err, out)
		}
		return nil
	}
	if err := tool("-G", "-W", "-s", "key", "-p", "pub"); err != nil {
		t.Fatal(err)
	}
	key, err := ReadSecretKey(filepath.Join(dir, "key"), unasked)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ReadPublicKey(filepath.Join(dir, "pub"))
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("a message")
	write(t, filepath.Join(dir, "m"), string(message))
	write(t, filepath.Join(dir, "m.minisig"), string(key.Sign(message, "of one run")))
	if err := tool("-V", "-m", "m", "-p", "pub"); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(dir, "m"), "another message")
	if tool("-V", "-m", "m", "-p", "pub") == nil {
		t.Error("minisign accepts another message")
	}
	if err := tool("-S", "-m", "m", "-s", "key", "-t", "own"); err != nil {
		t.Fatal(err)
	}
	signed, err := os.ReadFile(filepath.Join(dir, "m.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	if comment, err := pub.Verify([]byte("another message"), signed); err != nil || comment != "own" {
		t.Errorf("%q %v", comment, err)
	}
}
