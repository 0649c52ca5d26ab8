// Package graph reads, checks and edits ONNX models without ONNX Runtime and without cgo. It finds a model's input and
// the output with the class scores. It proves that no input of a batch affects the scores of another input. It can also
// add a denoiser or noise in front of a model. Behind a model, it can add nodes that turn the model's scores into votes
// for classes (see AddVotes).
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

	"github.com/rscert/rscert/internal/builtin"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
)

// A File is a model in memory. The model's files are read once, so later changes to the files have no effect. A File
// owns the memory of the external weights. This memory is freed when nothing refers to it any more.
type File struct {
	Model   *onnxpb.ModelProto // all external tensors of the model point at weights in the map Weights
	Weights Weights
	sha256  string
}

// SHA256 returns the digest, in hex, of all files that make up the model. For a model in one file, the digest is the
// file's SHA-256. For a model with external data, the digest is the SHA-256 of a list of lines in the format of
// sha256sum. The first line is the digest of the model's file, two spaces, and "-". Then one line follows for each
// external file, in the order of the files' names: the file's digest, two spaces, and the file's name. Each line ends
// with a newline.
func (f *File) SHA256() string { return f.sha256 }

// Info describes the model from its file alone, without ONNX Runtime.
func (f *File) Info() (*Info, error) { return describe(f.Model) }

// Learned reports whether the model has operators of ai.onnx.ml. Models that were exported from scikit-learn have such
// operators. These models are fitted to raw table columns.
func (f *File) Learned() bool {
	found := errors.New("found")
	return eachNode(f.Model, func(_ *scope, n *onnxpb.NodeProto) error {
		if n.GetDomain() == machineLearning {
			return found
		}
		return nil
	}) != nil
}

// ReadModel reads a model's file and the external files that hold its weights. If the argument 'path' names a model
// that is part of the program (package builtin), ReadModel reads that model. It refuses everything except regular
// files, because reading a device or a pipe may never end. It refuses a model's file above ONNX's limit of 2 GiB.
// External files may be larger. It also refuses a model's file that exceeds a third of the available memory. After this
// file is read, it refuses external files that together exceed a third of the memory that is then available (see
// modelCopies).
func ReadModel(path string) (*File, error) {
	if name, ok := builtin.Name(path); ok {
		return readBuiltin(name)
	}
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
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
		runtime.KeepAlive(graph) // the parsed model refers to the bytes of 'graph'
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote.Name(path), err)
	}
	return file, nil
}

// readBuiltin reads a model that is part of the program.
func readBuiltin(name string) (*File, error) {
	model, err := builtin.Model(name)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(model)
	return Parse(model, hex.EncodeToString(sum[:]), "")
}

// maxModel is the largest size of an ONNX file in bytes. An ONNX file is one protocol buffers message, and no message
// can be larger.
const maxModel = math.MaxInt32

var errTooLarge = hint.New("the model is larger than 2 GiB", "keep its weights in a file beside it: with the onnx package, onnx.save(…, save_as_external_data=True)")

// Parse parses a model. The argument 'folder' names the folder with the files of external data. The argument may be
// empty if the model has no external data. If it is empty and the model has external data, Parse returns an error.
func Parse(model []byte, sum, folder string) (*File, error) {
	f := &File{sha256: sum}
	var err error
	if f.Model, err = parseProto(model); err != nil {
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

// modelCopies is the number of copies of a model's weights that are in memory while the model is prepared. The copies
// are the file's bytes, ONNX Runtime's copy, and the copy that sessions rearrange for their kernels.
const modelCopies = 3

// roomForModels returns the largest total size of the models' files, in bytes, at which all copies fit in memory.
func roomForModels() int64 {
	if room, ok := memory.Available(); ok {
		return int64(room / modelCopies)
	}
	return math.MaxInt64
}

// readOpen reads an open file and returns its SHA-256 in hex. It refuses a file of more than 'most' bytes. It subtracts
// the file's size from the variable 'room'.
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
		return nil, "", fmt.Errorf("a model of %d MiB and more does not fit into the memory, because rscert needs %d copies of it; there is room for %d MiB",
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
