package scorefile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
)

// Writer writes a file of scores. Its methods but Finish and Close may be called from
// several goroutines, and samples may come in any order: each has its place in the
// file from the start.
//
// Until Finish the file is path + ".part". A run that was killed opens it again with
// the same shape and writes every example again that it does not know to be whole.
type Writer struct {
	path    string
	shape   Shape
	members []member
	end     int64
	file    *os.File

	buffers sync.Pool
}

// partSuffix is what a file of scores has behind its name until it is whole.
const partSuffix = ".part"

// StatPart is os.Stat of the part file of path.
func StatPart(path string) (os.FileInfo, error) { return os.Stat(path + partSuffix) }

// Create opens the part file of path for writing, with what an earlier run left in it.
func Create(path string, shape Shape) (*Writer, error) {
	if err := shape.validate(); err != nil {
		return nil, err
	}
	w := &Writer{path: path, shape: shape}
	w.members, w.end = shape.layout()
	file, err := os.OpenFile(path+partSuffix, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	w.file = file
	// The end is cut off in case the directory was being written; what is missing
	// before it reads as 0 and takes no space yet.
	if err = file.Truncate(w.end); err == nil {
		for _, m := range w.members {
			if err = w.writeAt(append(m.localHeader(0), m.header...), m.start); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
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
	if i < 0 || i >= w.shape.Examples {
		return fmt.Errorf("%s: example %d of %d", w.path, i, w.shape.Examples)
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

// WriteSelection writes the probabilities [k·m] of k selection samples of the i-th
// example, from sample first on.
func (w *Writer) WriteSelection(i int, first int64, probs []float32) error {
	return w.writeScores("scores0", w.shape.N0, i, first, probs)
}

// WriteEstimation is WriteSelection for the estimation samples.
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
	b := (*buffer)[:0]
	for _, p := range probs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(p))
	}
	err := w.writeAt(b, w.member(name).data+4*m*(int64(i)*n+first))
	*buffer = b
	w.buffers.Put(buffer)
	return err
}

// Sync makes what was written survive a power cut.
func (w *Writer) Sync() error { return w.file.Sync() }

// Close ends the writing before all is there; Create goes on.
func (w *Writer) Close() error {
	return errors.Join(w.file.Sync(), w.file.Close())
}

// Finish makes the file whole, under its own name, and closes it. All examples must
// have been written.
func (w *Writer) Finish() (err error) {
	defer func() {
		if err != nil {
			_ = w.file.Close()
		}
	}()
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
	if err := w.file.Sync(); err != nil {
		return err
	}
	if err := w.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(w.path+partSuffix, w.path); err != nil {
		return err
	}
	// The name, too, is to survive a power cut. Not every system can sync a folder.
	if dir, err := os.Open(filepath.Dir(w.path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}
