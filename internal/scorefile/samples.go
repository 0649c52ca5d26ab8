package scorefile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Samples are the scores of one example in a Writer's file. The file may be unfinished. The methods do not verify
// checksums. Before a call, compare the example's digest (Writer.Digest) with the recorded digest.
type Samples struct {
	writer *Writer
	turn   int64
}

// Samples returns the scores of the i-th example of the file.
func (w *Writer) Samples(i int) (Samples, error) {
	return Samples{w, int64(i)}, w.check(i)
}

// check returns an error unless the file has an i-th example.
func (w *Writer) check(i int) error {
	if i < 0 || i >= w.shape.Examples {
		return fmt.Errorf("%s: example %d of %d", w.path, i, w.shape.Examples)
	}
	return nil
}

// Selection passes the probabilities of the selection samples to the function 'take', a few samples at a time. Each
// slice has k·m elements: the probabilities of m classes for k samples. Selection reuses the slice.
func (s Samples) Selection(take func(probs []float32) error) error {
	return s.read("scores0", s.writer.shape.N0, take)
}

// Estimation passes the probabilities of the estimation samples to the function 'take', in the same way as Selection.
func (s Samples) Estimation(take func(probs []float32) error) error {
	return s.read("scores", s.writer.shape.N, take)
}

func (s Samples) read(name string, n int64, take func([]float32) error) error {
	if n == 0 {
		return nil
	}
	block, classes := s.writer.block(name, n, s.turn), s.writer.shape.Classes
	rows := min(n, int64(max(1, chunk/classes)))
	probs, text := make([]float32, int(rows)*classes), make([]byte, 4*int(rows)*classes)
	for left := n; left > 0; left -= rows {
		rows = min(rows, left)
		probs, text = probs[:int(rows)*classes], text[:4*int(rows)*classes]
		if _, err := io.ReadFull(block, text); err != nil {
			return fmt.Errorf("%s: %s: %w", s.writer.path, name, err)
		}
		for k := range probs {
			probs[k] = math.Float32frombits(binary.LittleEndian.Uint32(text[4*k:]))
		}
		if err := take(probs); err != nil {
			return err
		}
	}
	return nil
}

// block returns the scores of the i-th example in one array. The array has n samples per example.
func (w *Writer) block(name string, n, i int64) *io.SectionReader {
	size := 4 * int64(w.shape.Classes) * n
	return io.NewSectionReader(w.file, w.member(name).data+i*size, size)
}
