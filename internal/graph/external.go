package graph

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/bits"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
)

// This file reads external data. A model's file may store a tensor in another file and refer to it by name (onnx.proto,
// TensorProto.external_data). rscert reads the other file itself, and gives ONNX Runtime the tensor's data. If ONNX
// Runtime read the file a second time, it might get other data, because the file may have changed. And for a model in
// memory, ONNX Runtime would look for the file in the working directory.

// externalHint explains how to save a model without external data.
const externalHint = "save it as one file (up to 2 GB): with the onnx package, onnx.save(onnx.load(PATH), OUT, save_as_external_data=False)"

// smallWeight is the smallest size, in bytes, of a weight that sessions use in place, without a copy. Smaller weights
// are copied into the graph, because some of them hold shapes. The code that edits graphs or infers shapes reads shapes
// only in the graph.
const smallWeight = 1 << 10

// externalFile is a file in a model's folder that holds external data.
type externalFile struct {
	block  *block
	sha256 string
}

// A place locates a tensor's data in an external file.
type place struct {
	file         string // relative to the model's folder, without the elements . and ..
	offset, size int64
}

// readExternal reads the files that the model names. It changes each external tensor of the model: the tensor then
// either holds its data or points at a weight.
func readExternal(folder string, m *onnxpb.ModelProto) (files map[string]externalFile, weights Weights, err error) {
	external, err := externalTensors(m)
	switch {
	case folder == "" && (err != nil || len(external) > 0):
		return nil, nil, hint.New("the model keeps its weights in files beside it", externalHint)
	case err != nil || len(external) == 0:
		return nil, nil, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	r := externalReader{root: root, files: make(map[string]externalFile), weights: make(Weights),
		movable: movableInitializers(m.Graph), room: roomForModels()}
	// The variable 'left' is the number of bytes that the tensors may still take. It limits the tensors, and the field
	// 'room' limits the files. The files alone do not limit the tensors, because several tensors can share the bytes of
	// a file.
	left := r.room
	for _, e := range external {
		if left -= e.size; left < 0 {
			return nil, nil, e.wrong("the tensors in other files do not fit into the memory")
		}
		if err := r.take(e); err != nil {
			return nil, nil, err
		}
	}
	return r.files, r.weights, nil
}

// externalReader reads the external tensors of one model.
type externalReader struct {
	root    *os.Root
	files   map[string]externalFile // files read so far, by name
	weights Weights                 // weights by key
	movable map[*onnxpb.TensorProto]bool
	room    int64 // bytes that the files may still take
}

// The method 'take' reads a tensor. It also reads the tensor's file, unless that file is already in memory.
func (r *externalReader) take(e externalTensor) (err error) {
	f, ok := r.files[e.file]
	if !ok {
		if f, err = readExternalFile(r.root, e.file, &r.room); err != nil {
			return e.wrong("%w", err)
		}
		r.files[e.file] = f // the memory of f.block stays allocated while the map holds f
	}
	if size := int64(len(f.block.bytes)); e.offset > size || e.size > size-e.offset {
		return e.wrong("its %d bytes from byte %d on are not in '%s', which has %d bytes", e.size, e.offset, quote.Name(e.file), size)
	}
	if e.size < smallWeight || !r.movable[e.tensor] {
		embed(e.tensor, slices.Clone(f.block.bytes[e.offset:e.offset+e.size]))
		return nil
	}
	w, err := newWeight(f.block, e.offset, e.size, int64(elementBits[onnxpb.TensorProto_DataType(e.tensor.GetDataType())]/8))
	if err != nil {
		return err
	}
	key := "rscert-" + rand.Text() // the key is random, so it differs from the name of every file
	r.weights[key] = w
	point(e.tensor, key)
	return nil
}

// movableInitializers returns the initializers whose data can stay outside the graph. A session receives such data
// together with the initializer's name.
func movableInitializers(g *onnxpb.GraphProto) map[*onnxpb.TensorProto]bool {
	names := make(map[string]int)
	for _, t := range g.Initializer {
		names[t.GetName()]++
	}
	all := make(map[*onnxpb.TensorProto]bool)
	for _, t := range g.Initializer {
		all[t] = names[t.GetName()] == 1 && wholeElements(onnxpb.TensorProto_DataType(t.GetDataType()))
	}
	return all
}

// An externalTensor is a tensor whose data lie in another file.
type externalTensor struct {
	tensor *onnxpb.TensorProto
	place
}

func (e externalTensor) wrong(format string, args ...any) error {
	return wrongTensor(e.tensor, format, args...)
}

// wrongTensor returns an error about an external tensor.
func wrongTensor(t *onnxpb.TensorProto, format string, args ...any) error {
	return hint.New(fmt.Sprintf("tensor '%s': %v", quote.Name(t.GetName()), fmt.Errorf(format, args...)), externalHint)
}

// externalTensors finds the external tensors in all parts of a model.
func externalTensors(m *onnxpb.ModelProto) (external []externalTensor, err error) {
	eachTensor(m, func(t *onnxpb.TensorProto) {
		if t.GetDataLocation() != onnxpb.TensorProto_EXTERNAL || err != nil {
			return
		}
		e := externalTensor{tensor: t}
		if e.place, err = placeOf(t); err == nil {
			external = append(external, e)
		}
	})
	return external, err
}

// placeOf parses the location of an external tensor's data.
func placeOf(t *onnxpb.TensorProto) (p place, err error) {
	size, err := tensorSize(t)
	if err != nil {
		return p, wrongTensor(t, "%w", err)
	}
	entries := map[string]string{"offset": "0", "length": strconv.FormatInt(size, 10)}
	seen := make(map[string]bool)
	for _, entry := range t.ExternalData {
		if seen[entry.GetKey()] {
			return p, wrongTensor(t, "says twice what its '%s' is", quote.Name(entry.GetKey()))
		}
		seen[entry.GetKey()], entries[entry.GetKey()] = true, entry.GetValue()
	}
	if p.file, err = cleanLocation(entries["location"]); err != nil {
		return p, wrongTensor(t, "%w", err)
	}
	if p.offset, err = parseSize(entries["offset"]); err != nil {
		return p, wrongTensor(t, "its offset '%s' is no number of bytes", quote.Name(entries["offset"]))
	}
	if p.size, err = parseSize(entries["length"]); err != nil {
		return p, wrongTensor(t, "its length '%s' is no number of bytes", quote.Name(entries["length"]))
	}
	if p.size != size {
		return p, wrongTensor(t, "its length is %d bytes, but its shape and type need %d", p.size, size)
	}
	return p, nil
}

func parseSize(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}

// cleanLocation returns a file name inside the model's folder. It refuses absolute paths, paths that leave the folder,
// unprintable characters, and backslashes, which some writers use as a separator.
func cleanLocation(location string) (string, error) {
	switch {
	case location == "":
		return "", errors.New("it is in another file, but no file is named")
	case path.IsAbs(location):
		return "", fmt.Errorf("its file '%s' has an absolute path; only files in the model's folder are read", quote.Name(location))
	case slices.Contains(strings.Split(location, "/"), ".."):
		return "", fmt.Errorf("its file '%s' is not in the model's folder", quote.Name(location))
	case strings.Contains(location, `\`) || quote.Name(location) != location:
		return "", fmt.Errorf("its file '%s' has a name that rscert does not accept", quote.Name(location))
	}
	return path.Clean(location), nil
}

// wholeElements reports whether all kernels of ONNX Runtime can use data of the given type in place, without a copy.
// They can do so if each element takes a whole number of bytes, and the type is neither a complex type nor a small
// float type.
func wholeElements(t onnxpb.TensorProto_DataType) bool {
	return t <= onnxpb.TensorProto_BFLOAT16 && t != onnxpb.TensorProto_COMPLEX64 && t != onnxpb.TensorProto_COMPLEX128
}

// elementBits gives the element size, in bits, of each type that an external tensor may have.
var elementBits = map[onnxpb.TensorProto_DataType]uint64{
	onnxpb.TensorProto_FLOAT: 32, onnxpb.TensorProto_UINT8: 8, onnxpb.TensorProto_INT8: 8, onnxpb.TensorProto_UINT16: 16,
	onnxpb.TensorProto_INT16: 16, onnxpb.TensorProto_INT32: 32, onnxpb.TensorProto_INT64: 64, onnxpb.TensorProto_BOOL: 8,
	onnxpb.TensorProto_FLOAT16: 16, onnxpb.TensorProto_DOUBLE: 64, onnxpb.TensorProto_UINT32: 32, onnxpb.TensorProto_UINT64: 64,
	onnxpb.TensorProto_COMPLEX64: 64, onnxpb.TensorProto_COMPLEX128: 128, onnxpb.TensorProto_BFLOAT16: 16,
	17: 8, 18: 8, 19: 8, 20: 8, // float8
	21: 4, 22: 4, 23: 4, // uint4, int4, float4
}

// tensorSize returns the size of a tensor's data in bytes.
func tensorSize(t *onnxpb.TensorProto) (int64, error) {
	width, ok := elementBits[onnxpb.TensorProto_DataType(t.GetDataType())]
	if !ok {
		return 0, fmt.Errorf("it is in another file, and no tensor of %s can be", ElemType(t.GetDataType()))
	}
	size := width
	for _, d := range t.Dims {
		high, low := bits.Mul64(size, uint64(d))
		if d < 0 || high != 0 {
			return 0, errors.New("its shape is out of bounds")
		}
		size = low
	}
	return int64(size/8 + (size%8+7)/8), nil // less than 2⁶²
}

// readExternalFile reads a file in the model's folder and subtracts the file's size from the variable 'room'.
func readExternalFile(root *os.Root, name string, room *int64) (e externalFile, err error) {
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return e, fmt.Errorf("its file '%s' in the model's folder: %w", quote.Name(name), err)
	}
	defer f.Close()
	e.block, e.sha256, err = readOpen(f, math.MaxInt64, room)
	if err != nil {
		err = fmt.Errorf("its file '%s': %w", quote.Name(name), err)
	}
	return e, err
}

// digestOf returns the SHA-256 of a model with external files. In the model's folder, this shell command prints the
// same digest:
//
//	(sha256sum < MODEL; sha256sum FILE…) | sha256sum
//
// FILE… stands for the external files, sorted by the bytes of their names.
func digestOf(model string, files map[string]externalFile) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s  -\n", model)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&text, "%s  %s\n", files[name].sha256, name)
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}
