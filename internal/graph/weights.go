package graph

import (
	"errors"
	"io"
	"math"
	"runtime"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// block is memory outside Go's heap that is written once. Sessions compute with the weights where they lie in it, and
// nobody can change them: not the one who changes the file, as in memory mapped to it, and not a stray pointer. It is
// unmapped once nothing refers to it any more.
type block struct{ bytes []byte }

// fillBlock makes a block of size bytes by fill, which must write all of them.
func fillBlock(size int64, fill func([]byte) error) (*block, error) {
	if size == 0 {
		return new(block), fill(nil)
	}
	if size > math.MaxInt {
		return nil, errors.New("too large for this system")
	}
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	b := &block{memory}
	runtime.AddCleanup(b, func(m []byte) { _ = unix.Munmap(m) }, memory)
	if err := fill(memory); err != nil {
		return nil, err
	}
	return b, unix.Mprotect(memory, unix.PROT_READ)
}

// readBlock reads size bytes, which must be all, and gives them to seen as well.
func readBlock(r io.Reader, size int64, seen io.Writer) (*block, error) {
	return fillBlock(size, func(to []byte) error {
		const piece = 1 << 20 // small enough to be in the cache still when it is seen
		for len(to) > 0 {
			part := to[:min(piece, len(to))]
			if _, err := io.ReadFull(r, part); err != nil {
				return errChanges
			}
			_, _ = seen.Write(part) // of a hash
			to = to[len(part):]
		}
		if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
			return errChanges
		}
		return nil
	})
}

var errChanges = errors.New("the file changes while it is read")

// weight is the data of an initializer of a model's graph that stand in a block. In the graph is a tensor without data
// that names the weight's key as its file.
type weight struct {
	block *block
	data  []byte // of block
}

// newWeight is data of the block. They are moved to a block of their own if their elements, of so many bytes, do not lie at
// multiples of these, as compiled code takes for granted.
func newWeight(b *block, offset, size, element int64) (weight, error) {
	data := b.bytes[offset : offset+size]
	if offset%element == 0 { // a block begins with a page
		return weight{b, data}, nil
	}
	moved, err := fillBlock(size, func(to []byte) error {
		copy(to, data)
		return nil
	})
	if err != nil {
		return weight{}, err
	}
	return weight{moved, moved.bytes}, nil
}

// weightOf returns the weight that stands for the data of a tensor.
func weightOf(weights Weights, t *onnxpb.TensorProto) (w weight, ok bool) {
	if t.GetDataLocation() != onnxpb.TensorProto_EXTERNAL || len(t.ExternalData) != 1 {
		return w, false
	}
	w, ok = weights[t.ExternalData[0].GetValue()]
	return w, ok
}

// point makes t an external tensor of the given key.
func point(t *onnxpb.TensorProto, key string) {
	t.DataLocation = onnxpb.TensorProto_EXTERNAL.Enum()
	t.ExternalData = []*onnxpb.StringStringEntryProto{{Key: proto.String("location"), Value: proto.String(key)}}
}

// embed puts data into t.
func embed(t *onnxpb.TensorProto, data []byte) {
	t.DataLocation, t.ExternalData, t.RawData = nil, nil, data
}

// Weights are the weights that stand outside a model's graph, by key. Who computes with their data must keep them.
type Weights map[string]weight

// Initializer is an initializer of a graph whose data stand outside it.
type Initializer struct {
	Name string
	Type ElemType
	Dims []int64
	Data []byte // not on Go's heap, and not to be written
}

// Initializers are the initializers of a graph that are weights.
func (w Weights) Initializers(g *onnxpb.GraphProto) (all []Initializer) {
	for _, t := range g.Initializer {
		if weight, ok := weightOf(w, t); ok {
			all = append(all, Initializer{t.GetName(), ElemType(t.GetDataType()), t.Dims, weight.data})
		}
	}
	return all
}
