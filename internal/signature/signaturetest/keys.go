// Package signaturetest makes keys of minisign, for tests.
package signaturetest

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/scrypt"
)

// Keys writes a new pair of keys into a folder and returns the paths NAME.key and NAME.pub. If there is a password,
// Keys encrypts the secret key with it. This encryption takes 1 MiB of memory. The encryption of minisign takes 1 GiB.
func Keys(dir, name, password string) (secret, public string, err error) {
	pub, key, err := minisign.GenerateKey(nil)
	if err != nil {
		return "", "", err
	}
	text, err := key.MarshalText()
	if err == nil && password != "" {
		text, err = encrypt(string(text), password)
	}
	if err != nil {
		return "", "", err
	}
	secret, public = filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pub")
	if err := os.WriteFile(secret, append(text, '\n'), 0o600); err != nil {
		return "", "", err
	}
	return secret, public, os.WriteFile(public, fmt.Appendf(nil, "untrusted comment: minisign public key\n%s\n", pub), 0o644)
}

// encrypt encrypts a secret key by scrypt with N = 2¹⁰, r = 8 and p = 1. The key file states two limits instead of
// these parameters: 2¹⁵ operations and 2²¹ bytes of memory. minisign derives the parameters from the limits.
func encrypt(plain, password string) ([]byte, error) {
	comment, body, _ := strings.Cut(plain, "\n")
	b, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, err
	}
	copy(b[2:], "Sc")
	copy(b[6:38], "salt")
	binary.LittleEndian.PutUint64(b[38:], 1<<15)
	binary.LittleEndian.PutUint64(b[46:], 1<<21)
	sum := blake2b.Sum256(append([]byte("Ed"), b[54:126]...))
	copy(b[126:], sum[:])
	stream, err := scrypt.Key([]byte(password), b[6:38], 1<<10, 8, 1, 104)
	for i, x := range stream {
		b[54+i] ^= x
	}
	return []byte(comment + "\n" + base64.StdEncoding.EncodeToString(b)), err
}
