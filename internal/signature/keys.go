package signature

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"aead.dev/minisign"
)

// maxKeyFile is the maximum length of a key file in bytes. Key files of minisign have about 300 bytes.
const maxKeyFile = 4096

// SecretKey makes signatures. It holds the key in a function, so that printing a SecretKey never shows the key.
type SecretKey struct {
	id   string
	sign func(message []byte, comment string) []byte
}

// ID returns the key's id as minisign prints it: 16 hexadecimal digits.
func (k SecretKey) ID() string { return k.id }

// PublicKey verifies signatures.
type PublicKey struct{ key minisign.PublicKey }

// ID returns the key's id in the same form as SecretKey.ID.
func (k PublicKey) ID() string { return formatID(k.key.ID()) }

// ReadSecretKey reads a key file of 'minisign -G'. It calls the function 'password' only if the key is encrypted.
// Decrypting takes 1 GiB of memory and some seconds. minisign chose this cost to slow down the guessing of passwords.
func ReadSecretKey(path string, password func() (string, error)) (SecretKey, error) {
	text, err := readKeyFile(path)
	if err != nil {
		return SecretKey{}, err
	}
	var key minisign.PrivateKey
	if minisign.IsEncrypted(text) {
		key, err = decrypt(path, text, password)
	} else if key.UnmarshalText(text) != nil {
		err = fmt.Errorf("%s: is no secret key of minisign", path)
		if new(minisign.PublicKey).UnmarshalText(text) == nil {
			err = fmt.Errorf("%s: is a public key: the secret key signs", path)
		}
	}
	if err != nil {
		return SecretKey{}, err
	}
	return usable(path, key)
}

func decrypt(path string, text []byte, password func() (string, error)) (key minisign.PrivateKey, err error) {
	given, err := password()
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	key, err = minisign.DecryptKey(given, text)
	debug.FreeOSMemory() // gives the 1 GiB that decryption used back to the system
	if err != nil {
		return key, fmt.Errorf("%s: the password is wrong, or the key is damaged", path)
	}
	return key, nil
}

// usable returns the key, or an error if the key's public half does not belong to its secret half. Signatures by such a
// key would reveal the secret half.
func usable(path string, key minisign.PrivateKey) (SecretKey, error) {
	id := formatID(key.ID())
	sign := func(message []byte, comment string) []byte {
		r := minisign.NewReader(bytes.NewReader(message))
		_, _ = io.Copy(io.Discard, r) // reading memory cannot fail
		return r.SignWithComments(key, comment, "signature from minisign secret key "+id)
	}
	public, ok := key.Public().(minisign.PublicKey)
	trial := []byte("trial")
	if !ok || !minisign.Verify(public, trial, sign(trial, "")) {
		return SecretKey{}, fmt.Errorf("%s: the key is damaged: its halves do not belong together", path)
	}
	return SecretKey{id, sign}, nil
}

// ReadPublicKey reads a public key file of 'minisign -G'.
func ReadPublicKey(path string) (k PublicKey, err error) {
	text, err := readKeyFile(path)
	if err != nil {
		return k, err
	}
	if err := k.key.UnmarshalText(text); err != nil {
		if minisign.IsEncrypted(text) || new(minisign.PrivateKey).UnmarshalText(text) == nil {
			return k, fmt.Errorf("%s: is a secret key: keep it to yourself, the public key verifies", path)
		}
		return k, fmt.Errorf("%s: is no public key of minisign", path)
	}
	return k, nil
}

// readKeyFile reads a key file and removes the blanks at its beginning and end. The file may be a pipe, for example
// from a password manager.
func readKeyFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(text) > maxKeyFile {
		err = errors.New("is no key of minisign: it is too long")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return bytes.TrimSpace(text), nil
}

// Exposed reports whether users other than the owner may read the key file.
func Exposed(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0
}
