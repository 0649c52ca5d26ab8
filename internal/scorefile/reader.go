package scorefile

import (
	"archive/zip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/quote"
)

// Reader reads a file of scores, one example after another. The arrays in the file may be stored or deflated. Scores
// may be float32 or float64. The Reader rounds float64 to float32. The arrays 'labels' and 'index' may have any integer
// type of 4 or 8 bytes.
type Reader struct {
	Shape
	HasIndex bool

	path           string
	file           *os.File
	zip            *zip.Reader
	labels, index  *array
	scores0, score *array
	arrays         []*array // the arrays in the file
	next           int
	left           [2]int64 // number of unread samples of the current example in each array
	row            []float32

	// The following fields determine the digest of the current example: its index and label, and the CRCs of the scores
	// read so far.
	numbers [2]int64
	crcs    [2]uint32
	bytes   []byte
}

// array is a reader of one member of the archive. Each member holds one array.
type array struct {
	name string
	*npy.Reader
}

// Open opens a file of scores. The caller must Close it. If a Writer wrote the file, Open checks every byte except the
// data. At the end of the file, Next compares the data with their checksums. So trust the scores only after Next has
// returned io.EOF.
func Open(path string) (*Reader, error) {
	info, err := os.Stat(path) // Stat comes first: opening a pipe would block
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a file: scores are read from the end of an archive first", path)
	}
	if err != nil {
		return nil, quote.Error(err)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, quote.Error(err)
	}
	return NewReader(path, file)
}

// NewReader returns a Reader of a file that is already open. If it returns an error, it closes the file.
func NewReader(path string, file *os.File) (*Reader, error) {
	r := &Reader{path: path, file: file}
	info, err := file.Stat()
	if err == nil {
		err = r.open(info.Size())
	}
	if err != nil {
		_ = r.Close()
		return nil, quote.Error(fmt.Errorf("%s: %w", path, err))
	}
	return r, nil
}

func (r *Reader) open(size int64) (err error) {
	if r.zip, err = zip.NewReader(r.file, size); err != nil {
		return err
	}
	if err := r.openArrays(); err != nil {
		return err
	}
	if err := r.validate(); err != nil {
		return err
	}
	if madeHere(r.file, size) {
		return checkCanonical(r.file, r.Shape, r.zip.File)
	}
	return nil
}

func (r *Reader) openArrays() error {
	for _, a := range []struct {
		name     string
		into     **array
		dims     int
		float    bool
		required bool
	}{
		{"scores", &r.score, 3, true, true},
		{"labels", &r.labels, 1, false, true},
		{"index", &r.index, 1, false, false},
		{"scores0", &r.scores0, 3, true, false},
	} {
		var err error
		if *a.into, err = r.openArray(a.name, a.dims, a.float); *a.into != nil {
			r.arrays = append(r.arrays, *a.into)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", a.name, err)
		case *a.into == nil && a.required:
			return fmt.Errorf("no array %q (a file of scores has scores [N,n,m] and labels [N])", a.name)
		}
	}
	s := r.score.Shape
	r.Shape = Shape{Examples: s[0], N: int64(s[1]), Classes: s[2]}
	r.HasIndex = r.index != nil
	for _, a := range r.arrays {
		if a.Shape[0] != s[0] {
			return fmt.Errorf("%s has %d examples, scores %d", a.name, a.Shape[0], s[0])
		}
	}
	if r.scores0 != nil {
		if r.scores0.Shape[2] != s[2] {
			return fmt.Errorf("scores0 has %d classes, scores %d", r.scores0.Shape[2], s[2])
		}
		r.N0 = int64(r.scores0.Shape[1])
	}
	return nil
}

// openArray opens the member with this name. It returns nil if there is no such member.
func (r *Reader) openArray(name string, dims int, float bool) (opened *array, err error) {
	for _, f := range r.zip.File {
		if npy.ArrayName(f) != name {
			continue
		}
		if opened != nil {
			return opened, errors.New("appears twice")
		}
		a, err := npy.Open(f)
		if err != nil {
			return nil, fmt.Errorf("not an npy array of numbers: %w", err)
		}
		if err := check(a.Header, f.UncompressedSize64, dims, float); err != nil {
			_ = a.Close()
			return nil, err
		}
		opened = &array{name, a}
	}
	return opened, nil
}

// check returns an error if the array cannot be used. The argument 'size' is the array's length in bytes, including the
// header.
func check(h *npy.Header, size uint64, dims int, float bool) error {
	switch {
	case len(h.Shape) != dims:
		return fmt.Errorf("has shape %v, want %d dimensions", h.Shape, dims)
	case h.Big || h.Width < 4:
		return fmt.Errorf("has type %c%d that cannot be used: want 4 or 8 bytes, little-endian", h.Kind, h.Width)
	case (h.Kind == 'f') != float:
		return errors.New("has the wrong type: scores are floats, labels and index integers")
	case h.Fortran && dims > 1:
		return errors.New("is in Fortran order: save it with numpy.ascontiguousarray")
	}
	return h.Check(int64(min(size, math.MaxInt64)))
}

// read fills dst with the next numbers.
func read[T npy.Number](a *array, dst []T) error {
	if _, err := npy.Read(a.Reader, dst); err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	return nil
}

func (a *array) integer() (int, error) {
	var n [1]int64
	err := read(a, n[:])
	return int(n[0]), err
}

// Next moves to the next example and returns the example's index and label. If the file has no array 'index', the index
// is the example's position. After the last example Next returns io.EOF.
func (r *Reader) Next() (index, label int, err error) {
	if err := r.skip(); err != nil {
		return 0, 0, err
	}
	if r.next == r.Examples {
		return 0, 0, r.finish()
	}
	index = r.next
	if r.HasIndex {
		if index, err = r.index.integer(); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", r.path, err)
		}
	}
	if label, err = r.labels.integer(); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", r.path, err)
	}
	r.next++
	r.left = [2]int64{r.N0, r.N}
	r.numbers, r.crcs = [2]int64{int64(index), int64(label)}, [2]uint32{}
	return index, label, nil
}

// skip skips the unread samples of the example.
func (r *Reader) skip() error {
	for i := range r.left {
		if err := r.scores(i, func([]float32) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// Digest returns the current example's digest, which Writer.Digest defines. It skips the example's unread scores.
func (r *Reader) Digest() (string, error) {
	if err := r.skip(); err != nil {
		return "", err
	}
	return digest(r.numbers, r.crcs), nil
}

// finish checks that no array holds further data, and that the data of every array match the checksum in the archive.
// If so, finish returns io.EOF.
func (r *Reader) finish() error {
	for _, a := range r.arrays {
		if err := a.End(); err != nil {
			return fmt.Errorf("%s: %s: %w", r.path, a.name, err)
		}
	}
	return io.EOF
}

// Selection passes the probabilities of the example's selection samples to the function 'take', a few samples at a
// time. Each slice has k·m elements: the probabilities of m classes for k samples. Selection reuses the slice.
func (r *Reader) Selection(take func(probs []float32) error) error { return r.scores(0, take) }

// Estimation does the same as Selection for the estimation samples.
func (r *Reader) Estimation(take func(probs []float32) error) error { return r.scores(1, take) }

// chunk is roughly the number of scores that are read together.
const chunk = 1 << 14

func (r *Reader) scores(which int, take func([]float32) error) error {
	a := []*array{r.scores0, r.score}[which]
	rows := int64(max(1, chunk/r.Classes))
	for r.left[which] > 0 {
		k := min(rows, r.left[which])
		if n := int(k) * r.Classes; cap(r.row) < n {
			r.row = make([]float32, n)
		}
		row := r.row[:int(k)*r.Classes]
		if err := read(a, row); err != nil {
			return fmt.Errorf("%s: %w", r.path, err)
		}
		r.left[which] -= k
		r.bytes = appendScores(r.bytes[:0], row)
		r.crcs[which] = crc32.Update(r.crcs[which], castagnoli, r.bytes)
		if err := take(row); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the file.
func (r *Reader) Close() error {
	var errs []error
	for _, a := range r.arrays {
		errs = append(errs, a.Close())
	}
	return errors.Join(append(errs, r.file.Close())...)
}
