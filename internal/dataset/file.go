package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/rscert/rscert/internal/memory"
)

// The type 'contents' gives random access to a file. A read returns the same bytes as the first read at the same
// offset, or an error.
type contents interface {
	io.ReaderAt
	io.Closer
	size() int64
}

// openRegular opens a file and returns its size. It refuses pipes and devices, which may never end and cannot be read
// twice.
func openRegular(path string) (*os.File, int64, error) {
	// Stat comes first, because opening a pipe would block.
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, fileError(err)
	}
	if err := mustBeRegular(path, info); err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fileError(err)
	}
	if info, err = f.Stat(); err == nil {
		err = mustBeRegular(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, fileError(err)
	}
	return f, info.Size(), nil
}

func mustBeRegular(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return fmt.Errorf("%s: is a folder, not a file", path)
	case mode&fs.ModeNamedPipe != 0:
		return fmt.Errorf("%s: is a pipe; a dataset must be a file, which can be read again", path)
	}
	return fmt.Errorf("%s: is a device, not a file", path)
}

// fileError returns a file error in the form "path: cause", without the name of the system call.
func fileError(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}

// blockSize is the number of bytes that one digest covers. With blocks of this size, reading one example is quick, and
// the digests of 100 GB take only 13 MB.
const blockSize = 1 << 18

var errChanged = errors.New("the file has changed since it was opened")

// checkedFile reads a file that stays on the disk. It remembers the SHA-256 of every block and refuses a block that has
// changed since its first read.
type checkedFile struct {
	file   *os.File
	length int64

	mu    sync.Mutex
	sums  [][sha256.Size]byte
	known []bool
	in    int64  // index of the block in 'data', or -1; the block is kept because neighbouring examples often share it
	data  []byte // at most blockSize bytes
}

func openChecked(path string) (*checkedFile, error) {
	f, length, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	blocks := (length-1)/blockSize + 1
	if err := memory.Check(blocks * (sha256.Size + 1)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &checkedFile{file: f, length: length, sums: make([][sha256.Size]byte, blocks), known: make([]bool, blocks), in: -1}, nil
}

func (c *checkedFile) size() int64 { return c.length }

// Close closes the file.
func (c *checkedFile) Close() error { return c.file.Close() }

// errBefore is the error if an archive states that a member begins before the first byte of the file.
var errBefore = errors.New("reads before the beginning of the file")

// ReadAt implements io.ReaderAt.
func (c *checkedFile) ReadAt(p []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, errBefore
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for n < len(p) {
		at := offset + int64(n)
		if at >= c.length {
			return n, io.EOF
		}
		if err := c.load(at / blockSize); err != nil {
			return n, err
		}
		n += copy(p[n:], c.data[at%blockSize:])
	}
	return n, nil
}

// load reads block k into data.
func (c *checkedFile) load(k int64) error {
	if c.in == k {
		return nil
	}
	c.in = -1
	c.data = slices.Grow(c.data[:0], blockSize)[:min(blockSize, c.length-k*blockSize)]
	if _, err := c.file.ReadAt(c.data, k*blockSize); err != nil {
		if err == io.EOF {
			return errChanged // the file is shorter now
		}
		return fileError(err)
	}
	sum := sha256.Sum256(c.data)
	if !c.known[k] {
		c.sums[k], c.known[k] = sum, true
	} else if c.sums[k] != sum {
		return errChanged
	}
	c.in = k
	return nil
}

var gzipMagic = []byte{0x1f, 0x8b}

// openContents opens a file. If the file begins with the first bytes of gzip, openContents unpacks the file into
// memory. The function 'promise' reads the header of the unpacked file. It returns the length that this header states
// for the file, or -1 if the header states no length. openContents returns an error if the unpacked file is longer than
// this length or than memory.Limit.
func openContents(ctx context.Context, path string, promise func(io.Reader) (int64, error)) (contents, error) {
	file, err := openChecked(path)
	if err != nil {
		return nil, err
	}
	packed := bufio.NewReader(contextReader{ctx, io.NewSectionReader(file, 0, file.length)})
	if magic, _ := packed.Peek(2); !bytes.Equal(magic, gzipMagic) {
		return file, nil
	}
	defer file.Close()
	unpacked, err := unpack(packed, promise)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return unpacked, nil
}

func unpack(packed io.Reader, promise func(io.Reader) (int64, error)) (pieces, error) {
	z, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	length, err := promise(io.TeeReader(z, &head))
	if err != nil {
		return nil, err
	}
	if length < 0 {
		length = memory.Limit()
	} else if err := memory.Check(length); err != nil {
		return nil, err
	}
	unpacked, err := readPieces(io.MultiReader(&head, z), length)
	if err != nil {
		return nil, fmt.Errorf("decompressed to byte %d: %w", unpacked.size(), err)
	}
	return unpacked, nil
}

// contextReader stops when the context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// The type 'pieces' is the content of a file in memory, cut into parts. Memory grows with the number of bytes that were
// read, not with the length that a header states. A new part needs no copy of the earlier parts.
type pieces [][]byte

const pieceSize = 1 << 24

// readPieces reads r to its end, because readers of gzip and zip check the checksum only at the end. It returns an
// error if r has more than 'length' bytes.
func readPieces(r io.Reader, length int64) (pieces, error) {
	var m pieces
	for left := length; left > 0; left -= pieceSize {
		p := make([]byte, min(left, pieceSize))
		n := 0
		var err error
		for n < len(p) && err == nil {
			var k int
			k, err = r.Read(p[n:])
			n += k
		}
		if n < len(p) {
			p = slices.Clone(p[:n])
		}
		m = append(m, p)
		if err == io.EOF {
			return m, nil
		} else if err != nil {
			return m, err
		}
	}
	// If one more byte can be read, r is too long.
	if n, err := io.CopyN(io.Discard, r, 1); n > 0 {
		return m, errors.New("more data than its header promises or memory holds")
	} else if err != io.EOF {
		return m, err
	}
	return m, nil
}

func (m pieces) size() int64 {
	n := 0
	for _, p := range m {
		n += len(p)
	}
	return int64(n)
}

// Close implements io.Closer.
func (m pieces) Close() error { return nil }

// ReadAt implements io.ReaderAt.
func (m pieces) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, errBefore
	}
	n := 0
	for n < len(p) {
		k := int((offset + int64(n)) / pieceSize)
		if k >= len(m) {
			return n, io.EOF
		}
		from := int((offset + int64(n)) % pieceSize)
		if from >= len(m[k]) {
			return n, io.EOF
		}
		n += copy(p[n:], m[k][from:])
	}
	return n, nil
}
