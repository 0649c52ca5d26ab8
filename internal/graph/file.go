// Package graph reads, checks and edits ONNX models without ONNX Runtime and without cgo: it finds a model's input and
// scores, proves that the inputs of a batch do not affect each other, and puts denoisers, noise and votes into the graph.
package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
)

// File is a model as it was read, once: what becomes of its files later does not matter. It holds the memory of the
// weights beside the model, which is given back when nothing refers to it any more.
type File struct {
	Model   *onnxpb.ModelProto // without external tensors but those that point at weights
	Weights Weights
	sha256  string
}

// SHA256 is the digest, in hex, of all that was read. Of a model in one file it is the file's SHA-256. Of one with
// external data it is the SHA-256 of the lines "DIGEST  -" of the model's file and "DIGEST  NAME" of each file beside it,
// sorted by name, each with its newline.
func (f *File) SHA256() string { return f.sha256 }

// Info is what the model says of itself. It needs no ONNX Runtime.
func (f *File) Info() (*Info, error) { return Describe(f.Model) }

// Learned reports whether the model has operators of ai.onnx.ml: scikit-learn's and the like, which are fitted to the
// columns of tables as they are.
func (f *File) Learned() bool {
	found := errors.New("found")
	return eachNode(f.Model, func(_ *scope, n *onnxpb.NodeProto) error {
		if n.GetDomain() == machineLearning {
			return found
		}
		return nil
	}) != nil
}

// ReadModel reads a model's file, and those beside it that hold its weights. It refuses what is no regular file (a device,
// a pipe, a folder: reading them may never end), what ONNX cannot store in one file, which is 2 GiB, and files that are
// larger together than a third of the memory: they, the parsed model and what ONNX Runtime makes of it are held at once.
func ReadModel(path string) (*File, error) {
	// Without O_NONBLOCK opening a pipe would wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var e *fs.PathError
		if errors.As(err, &e) {
			return nil, fmt.Errorf("%s: %w", quote.Name(path), e.Err)
		}
		return nil, err
	}
	defer f.Close()
	room := roomForModels()
	graph, sum, err := readOpen(f, maxModel, &room)
	var file *File
	if err == nil {
		file, err = Parse(graph.bytes, sum, filepath.Dir(path))
		runtime.KeepAlive(graph) // what is parsed are its bytes
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote.Name(path), err)
	}
	return file, nil
}

// maxModel is the most that one file of ONNX can hold, in bytes: the most of a message of protocol buffers.
const maxModel = math.MaxInt32

var errTooLarge = hint.New("the model is larger than 2 GiB", "keep its weights in a file beside it: with the onnx package, onnx.save(…, save_as_external_data=True)")

// Parse parses a model whose external data are in the folder; "": nowhere.
func Parse(model []byte, sum, folder string) (*File, error) {
	f := &File{sha256: sum}
	var err error
	if f.Model, err = ParseProto(model); err != nil {
		return nil, err
	}
	files, weights, err := readExternal(folder, f.Model)
	if err != nil {
		return nil, err
	}
	if f.Weights = weights; len(files) > 0 {
		f.sha256 = digestOf(sum, files)
	}
	return f, nil
}

// modelCopies is how many copies of a model's weights there are while it is made ready: what was read, ONNX Runtime's, and
// those that its sessions arrange for their kernels.
const modelCopies = 3

// roomForModels is how many bytes of models the memory has room for.
func roomForModels() int64 {
	if room, ok := memory.Available(); ok {
		return int64(room / modelCopies)
	}
	return math.MaxInt64
}

// readOpen reads an open file of at most so many bytes, takes them off the room there is, and returns their SHA-256 in hex.
func readOpen(f *os.File, most int64, room *int64) (*block, string, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	size := info.Size()
	switch {
	case !info.Mode().IsRegular():
		return nil, "", fmt.Errorf("not a file, but %s", kindOf(info.Mode()))
	case size > most:
		return nil, "", errTooLarge
	case size > *room:
		return nil, "", fmt.Errorf("a model of %d MiB and more does not fit into the memory, which it takes %d times; there is room for %d MiB",
			size>>20, modelCopies, *room>>20)
	}
	*room -= size
	hash := sha256.New()
	b, err := readBlock(f, size, hash)
	return b, hex.EncodeToString(hash.Sum(nil)), err
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "something else"
}
