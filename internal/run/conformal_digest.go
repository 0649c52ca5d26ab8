package run

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"slices"
	"strings"
)

// exampleDigest identifies the scores of a set of examples. The digest does not depend on the order, the labels or the
// indices of the examples, or on the compression of their file.
type exampleDigest struct {
	rows    []string // SHA-256 of the scores of each example
	current hash.Hash
	buffer  []byte
}

// next begins an example.
func (d *exampleDigest) next() {
	d.finish()
	d.current = sha256.New()
}

// add writes scores of the current example to the hash of this example.
func (d *exampleDigest) add(scores []float32) {
	d.buffer = d.buffer[:0]
	for _, s := range scores {
		d.buffer = binary.LittleEndian.AppendUint32(d.buffer, math.Float32bits(s))
	}
	_, _ = d.current.Write(d.buffer) // never fails
}

func (d *exampleDigest) finish() {
	if d.current != nil {
		d.rows = append(d.rows, string(d.current.Sum(nil)))
		d.current = nil
	}
}

// sum returns the SHA-256 of the sorted digests of the examples, in hex.
func (d *exampleDigest) sum() string {
	d.finish()
	slices.Sort(d.rows)
	sum := sha256.Sum256([]byte(strings.Join(d.rows, "")))
	return hex.EncodeToString(sum[:])
}
