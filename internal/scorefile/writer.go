package scorefile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/rscert/rscert/internal/confined"
	"github.com/rscert/rscert/internal/durable"
)

// Writer writes a file of scores. Several goroutines may call its methods, except Finish and Close. Samples may come in
// any order, because each sample has a fixed position in the file.
//
// Until Finish, the name of the file is path + ".part". If the process was killed, Create can open this file again with
// the same shape. The caller then writes again every example that is not known to be complete.
type Writer struct {
	path    string
	shape   Shape
	members []member
	end     int64
	root    *os.Root // the folder of the file
	file    *os.File

	buffers sync.Pool
}

// The name of an unfinished file ends with partSuffix.
const partSuffix = ".part"

// Part returns the name that the file 'name' has until it is finished.
func Part(name string) string { return name + partSuffix }

// StatPart applies os.Lstat to the part file of path.
func StatPart(path string) (os.FileInfo, error) { return os.Lstat(path + partSuffix) }

// Create opens the part file of path for writing and keeps the data of an earlier run. Before Create returns, it syncs
// the file and its folder. So the part file survives any power cut after Create has returned.
func Create(path string, shape Shape) (*Writer, error) {
	if err := shape.validate(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, shape: shape, root: root}
	w.members, w.end = shape.layout()
	file, err := confined.OpenIn(root, w.part(), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	w.file = file
	// Truncate removes a half-written central directory, the table at the end of a zip archive. If the file is shorter
	// than w.end, Truncate extends it by zeros that take no space yet.
	if err = file.Truncate(w.end); err == nil {
		err = w.writeHeaders()
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = durable.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), root.Close())
	}
	return w, nil
}

// part is the name of the part file in its folder.
func (w *Writer) part() string { return filepath.Base(w.path) + partSuffix }

func (w *Writer) writeHeaders() error {
	for _, m := range w.members {
		if err := w.writeAt(append(m.localHeader(0), m.header...), m.start); err != nil {
			return err
		}
	}
	return nil
}

// Reopen turns the finished file back into the part file, so that some examples can be written again. Reopen refuses a
// file whose length does not fit the shape, but it does not check the data. Use Digest to check whether an example is
// complete.
func Reopen(path string, shape Shape) (*Writer, error) {
	if err := shape.validate(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := filepath.Base(path)
	if err := confined.Check(root, name, true); err != nil {
		return nil, err
	}
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if want := shape.FileSize(); info.Size() != want {
		return nil, fmt.Errorf("%s: %d bytes; scores of %d examples, n0 = %d, n = %d, %d classes have %d",
			path, info.Size(), shape.Examples, shape.N0, shape.N, shape.Classes, want)
	}
	if _, err := StatPart(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, fmt.Errorf("%s: there are scores both in this file and in %s", path, path+partSuffix))
	}
	if err := root.Rename(name, name+partSuffix); err != nil {
		return nil, err
	}
	return Create(path, shape)
}

func (w *Writer) writeAt(b []byte, at int64) error {
	_, err := w.file.WriteAt(b, at)
	return err
}

func (w *Writer) member(name string) *member {
	for i := range w.members {
		if w.members[i].name == name+".npy" {
			return &w.members[i]
		}
	}
	return nil
}

// WriteExample writes the index and the label of the i-th example of the file.
func (w *Writer) WriteExample(i, index, label int) error {
	if err := w.check(i); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"index", index}, {"labels", label}} {
		b := binary.LittleEndian.AppendUint64(nil, uint64(int64(f.value)))
		if err := w.writeAt(b, w.member(f.name).data+8*int64(i)); err != nil {
			return err
		}
	}
	return nil
}

// WriteSelection writes the probabilities of k selection samples of the i-th example. The argument probs has k·m
// elements for m classes. These k samples have the numbers first, …, first+k−1 among the example's selection samples,
// counted from 0.
func (w *Writer) WriteSelection(i int, first int64, probs []float32) error {
	return w.writeScores("scores0", w.shape.N0, i, first, probs)
}

// WriteEstimation writes probabilities of estimation samples. Its arguments have the same meaning as the arguments of
// WriteSelection.
func (w *Writer) WriteEstimation(i int, first int64, probs []float32) error {
	return w.writeScores("scores", w.shape.N, i, first, probs)
}

func (w *Writer) writeScores(name string, n int64, i int, first int64, probs []float32) error {
	m := int64(w.shape.Classes)
	k := int64(len(probs)) / m
	if i < 0 || i >= w.shape.Examples || first < 0 || first+k > n || k*m != int64(len(probs)) {
		return fmt.Errorf("%s: %s: %d numbers for example %d from sample %d do not fit", w.path, name, len(probs), i, first)
	}
	if k == 0 {
		return nil
	}
	buffer, _ := w.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	b := appendScores((*buffer)[:0], probs)
	err := w.writeAt(b, w.member(name).data+4*m*(int64(i)*n+first))
	*buffer = b
	w.buffers.Put(buffer)
	return err
}

// appendScores appends scores in the format of the file.
func appendScores(b []byte, probs []float32) []byte {
	for _, p := range probs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(p))
	}
	return b
}

// Digest returns eight hexadecimal digits: the CRC-32C of four numbers. The first two numbers are the index and the
// label of the i-th example, as int64. The other two are the CRC-32C of its scores in the array 'scores0' and the
// CRC-32C of its scores in the array 'scores', as uint32. All four numbers are little-endian, as in the file.
func (w *Writer) Digest(i int) (string, error) {
	if err := w.check(i); err != nil {
		return "", err
	}
	var numbers [2]int64
	for k, name := range []string{"index", "labels"} {
		var b [8]byte
		if _, err := w.file.ReadAt(b[:], w.member(name).data+8*int64(i)); err != nil {
			return "", err
		}
		numbers[k] = int64(binary.LittleEndian.Uint64(b[:]))
	}
	var blocks [2]uint32
	for k, a := range []struct {
		name string
		n    int64
	}{{"scores0", w.shape.N0}, {"scores", w.shape.N}} {
		if a.n == 0 {
			continue
		}
		h := crc32.New(castagnoli)
		if _, err := io.Copy(h, w.block(a.name, a.n, int64(i))); err != nil {
			return "", err
		}
		blocks[k] = h.Sum32()
	}
	return digest(numbers, blocks), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// digest returns the digest that Writer.Digest defines. It covers the CRCs of both blocks, not the blocks themselves,
// because the caller of a Reader may read the blocks in any order.
func digest(numbers [2]int64, blocks [2]uint32) string {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	for _, crc := range blocks {
		b = binary.LittleEndian.AppendUint32(b, crc)
	}
	return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli))
}

// Sync makes written data survive a power cut. It returns an error if the part file was renamed or removed.
func (w *Writer) Sync() error {
	if err := w.file.Sync(); err != nil {
		return err
	}
	return durable.CheckName(w.path+partSuffix, w.file)
}

// Close syncs and closes an unfinished file. Create can continue it.
func (w *Writer) Close() error {
	return errors.Join(w.file.Sync(), w.file.Close(), w.root.Close())
}

// Finish completes and closes the file. It then renames the file from path + ".part" to path. Before the call, write
// all examples and sync all other files of the run. A power cut at any time leaves either the part file, which Create
// can continue, or the complete file.
func (w *Writer) Finish() error {
	err := errors.Join(w.writeDirectory(), w.file.Close())
	if err == nil {
		err = w.root.Rename(w.part(), filepath.Base(w.path))
	}
	if err = errors.Join(err, w.root.Close()); err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(w.path))
}

// writeDirectory syncs the data. Then it writes the CRCs and the directory of the archive, and syncs again.
func (w *Writer) writeDirectory() error {
	if err := w.file.Sync(); err != nil {
		return err
	}
	var crcs []uint32
	for _, m := range w.members {
		h := crc32.NewIEEE()
		r := io.NewSectionReader(w.file, m.data-int64(len(m.header)), m.size)
		if _, err := io.Copy(h, bufio.NewReaderSize(r, 1<<20)); err != nil {
			return err
		}
		crc := binary.LittleEndian.AppendUint32(nil, h.Sum32())
		if err := w.writeAt(crc, m.start+crcInLocal); err != nil {
			return err
		}
		crcs = append(crcs, h.Sum32())
	}
	if err := w.writeAt(directory(w.members, crcs, w.end), w.end); err != nil {
		return err
	}
	return w.file.Sync()
}
