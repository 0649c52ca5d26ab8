// Package signature signs and verifies in the format of minisign (https://jedisct1.github.io/minisign): Ed25519 over
// the BLAKE2b-512 digest of the message, with a signed comment. 'minisign -V' checks the signatures, and 'minisign -G'
// makes the keys.
package signature

import (
	"bytes"
	"errors"
	"fmt"

	"aead.dev/minisign"
)

// MaxSize is the maximum length of a signature in bytes. minisign permits 1024 bytes for the untrusted comment and 8192
// bytes for the signed comment. The last 1024 bytes are more than enough for the rest.
const MaxSize = 1024 + 8192 + 1024

// Sign returns the signature of a message. The comment is signed too, and must be one line. The same message and
// comment always give the same bytes.
func (k SecretKey) Sign(message []byte, comment string) []byte { return k.sign(message, comment) }

// Verify checks that the key made the signature of the message. It returns the signature's signed comment, or an error
// if the key did not make the signature.
func (k PublicKey) Verify(message, signature []byte) (comment string, err error) {
	s, err := parse(signature)
	if err != nil {
		return "", err
	}
	if s.KeyID != k.key.ID() {
		return "", fmt.Errorf("it is signed by the key %s, not by the key %s", formatID(s.KeyID), k.ID())
	}
	if !minisign.Verify(k.key, message, signature) {
		return "", fmt.Errorf("the signature does not match: its file or the signed one changed, or another key that calls itself %s made it", k.ID())
	}
	return s.TrustedComment, nil
}

// ID returns the id of the key that a signature names. Only Verify proves that this key made the signature.
func ID(signature []byte) (string, error) {
	s, err := parse(signature)
	return formatID(s.KeyID), err
}

var errMalformed = errors.New("it is no signature of minisign, or is damaged")

// parse reads a signature. It accepts only the exact bytes that minisign writes, although base64 can encode one value
// in several ways.
func parse(signature []byte) (s minisign.Signature, err error) {
	if s.UnmarshalText(signature) != nil {
		return s, errMalformed
	}
	if own, err := s.MarshalText(); err != nil || !bytes.Equal(own, signature) {
		return s, errMalformed
	}
	return s, nil
}

// formatID returns the id of a key as minisign prints it.
func formatID(id uint64) string { return fmt.Sprintf("%016X", id) }
