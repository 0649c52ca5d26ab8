package checksum

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"math/bits"
	"math/rand/v2"
	"testing"
)

func randomText(r *rand.Rand, n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(r.Uint32())
	}
	return text
}

// The function 'back' must invert crc32.Update, on random texts of all small lengths.
func TestBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for n := range 300 {
		start, text := r.Uint32(), randomText(r, n)
		if got := back(crc32.Update(start, table, text), text); got != start {
			t.Fatalf("%d bytes: back to %08x, from %08x", n, got, start)
		}
	}
}

// There must be 65535 different seeds. No seed is 0, and each seed has an even number of 1 bits. A random value is a
// seed with probability 2⁻¹⁶.
func TestSeeds(t *testing.T) {
	seen := map[Seed]bool{}
	for first := range 1 << 16 {
		s := seed(uint16(first))
		if seen[s] || !s.valid() || (s == 0) != (first == 0) || bits.OnesCount32(uint32(s))%2 != 0 {
			t.Fatalf("%04x: seed %08x", first, s)
		}
		seen[s] = true
	}
	for i := range 1000 {
		digest := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
		if s := NewSeed(digest[:]); s == 0 || !seen[s] {
			t.Errorf("digest %d has seed %08x", i, s)
		}
	}
	r, passed := rand.New(rand.NewPCG(2, 0)), 0
	const n = 1 << 22
	for range n {
		if Seed(r.Uint32()).valid() {
			passed++
		}
	}
	if passed < 30 || passed > 110 { // the expected number is 2²²·2⁻¹⁶ = 64
		t.Errorf("%d of %d values pass as seeds, want about 64", passed, n)
	}
}

func TestSeeded(t *testing.T) {
	header, row := []byte("index,lower,check"), []byte("1,0.25")
	body := []byte(bodies[1])
	one, two := NewSeed([]byte("one")), NewSeed([]byte("two"))
	for _, s := range []Seed{0, one, two} {
		line, cells := s.AppendJSON(body), s.AppendCSV(header, row)
		for _, reader := range []Seed{0, one, two} {
			want := Foreign
			if reader == s {
				want = Good
			}
			if got, state := reader.VerifyJSON(line); state != want || !bytes.Equal(got, body) {
				t.Errorf("%08x reads the line of %08x: %v %s", reader, s, state, got)
			}
			if got, state := reader.VerifyCSV(header, cells); state != want || !bytes.Equal(got, row) {
				t.Errorf("%08x reads the row of %08x: %v %s", reader, s, state, got)
			}
		}
		if got, ok := FindJSON(line); !ok || got != s {
			t.Errorf("found %08x (%v) in the line of %08x", got, ok, s)
		}
		if got, ok := FindCSV(header, cells); !ok || got != s {
			t.Errorf("found %08x (%v) in the row of %08x", got, ok, s)
		}
	}
	for _, line := range []string{"", "{}", `{"a":1}`, `{"a":1,"check":"crc32c:0000000g"}`} {
		if s, ok := FindJSON([]byte(line)); ok {
			t.Errorf("%s: found %08x", line, s)
		}
	}
	if s, ok := FindCSV([]byte("a,b"), []byte("1,crc32c:00000000")); ok {
		t.Errorf("a row without the column: found %08x", s)
	}
}

// If a file has one line and its seed is unknown, verification must notice every flip of one bit in the line's text or
// in the header.
func TestEveryFlipOfALoneLine(t *testing.T) {
	header := []byte("index,lower,upper,check")
	n, passed := 0, 0
	for i := range 20 {
		s := NewSeed(fmt.Append(nil, i))
		line := s.AppendJSON([]byte(bodies[1]))
		n += flips(line, func(flipped []byte, at int) {
			if got, ok := FindJSON(flipped); ok && at < len(line)-cellLen-len(lineForm.after) {
				t.Errorf("byte %d: %08x passes as the seed", at, got)
			} else if ok {
				// a flip in the checksum: a flip of one bit in a digit's ASCII code can change two bits of the digit's
				// value
				passed++
			}
		})
		row := s.AppendCSV(header, []byte("1,0.25,0.75"))
		n += flips(header, func(flipped []byte, at int) {
			if got, ok := FindCSV(flipped, row); ok {
				t.Errorf("header's byte %d: %08x passes as the seed", at, got)
			}
		})
	}
	if passed > 2 {
		t.Errorf("%d of %d flips passed", passed, n)
	}
	t.Logf("%d flips, %d passed", n, passed)
}
