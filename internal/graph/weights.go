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

// A block is memory outside Go's heap that is written once and is read-only from then on. Sessions compute directly
// with the weights in the block. A stray pointer cannot change them. A change to the model's file cannot change them
// either, because the block is a copy of the file's bytes. The block is unmapped once nothing refers to it any more.
type block struct{ bytes []byte }

// fillBlock creates a block of the given size in bytes. It calls the function 'fill', which must write all these bytes.
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

// readBlock reads exactly the given number of bytes. It also writes these bytes to the writer 'seen'.
func readBlock(r io.Reader, size int64, seen io.Writer) (*block, error) {
	return fillBlock(size, func(to []byte) error {
		const piece = 1 << 20 // small enough to stay in the processor's cache until the writer 'seen' has read it
		for len(to) > 0 {
			part := to[:min(piece, len(to))]
			if _, err := io.ReadFull(r, part); err != nil {
				return errChanges
			}
			_, _ = seen.Write(part) // a hash never returns an error
			to = to[len(part):]
		}
		if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
			return errChanges
		}
		return nil
	})
}

var errChanges = errors.New("the file changes while it is read")

// A weight holds the data of an initializer. These data lie in a block. The initializer in the graph has no data of its
// own. Instead of the name of an external file, the initializer gives the key of the weight.
type weight struct {
	block *block
	data  []byte // a part of the block
}

// newWeight returns a weight with data from the block. ONNX Runtime's compiled code assumes aligned elements. If the
// data are not aligned to the element size, newWeight copies the data to a new block.
func newWeight(b *block, offset, size, element int64) (weight, error) {
	data := b.bytes[offset : offset+size]
	if offset%element == 0 { // a block starts at a page boundary
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

// weightOf returns the weight that holds a tensor's data.
func weightOf(weights Weights, t *onnxpb.TensorProto) (w weight, ok bool) {
	if t.GetDataLocation() != onnxpb.TensorProto_EXTERNAL || len(t.ExternalData) != 1 {
		return w, false
	}
	w, ok = weights[t.ExternalData[0].GetValue()]
	return w, ok
}

// The function 'point' turns t into an external tensor that points at the weight with the given key.
func point(t *onnxpb.TensorProto, key string) {
	t.DataLocation = onnxpb.TensorProto_EXTERNAL.Enum()
	t.ExternalData = []*onnxpb.StringStringEntryProto{{Key: proto.String("location"), Value: proto.String(key)}}
}

// embed stores data in t.
func embed(t *onnxpb.TensorProto, data []byte) {
	t.DataLocation, t.ExternalData, t.RawData = nil, nil, data
}

// Weights maps keys to weights stored outside a model's graph. Callers that compute with the data must keep the map
// alive.
type Weights map[string]weight

// An Initializer is a graph's initializer whose data are stored outside the graph.
type Initializer struct {
	Name string
	Type ElemType
	Dims []int64
	Data []byte // outside Go's heap and read-only
}

// Initializers returns the graph's initializers that are stored as weights.
func (w Weights) Initializers(g *onnxpb.GraphProto) (all []Initializer) {
	for _, t := range g.Initializer {
		if weight, ok := weightOf(w, t); ok {
			all = append(all, Initializer{t.GetName(), ElemType(t.GetDataType()), t.Dims, weight.data})
		}
	}
	return all
}
