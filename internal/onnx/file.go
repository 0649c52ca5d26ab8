package onnx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"

	"github.com/rscert/rscert/internal/hint"
)

// ReadModel reads a model's file. It refuses what is no regular file (a device,
// a pipe, a folder: reading them may never end) and what is larger than 2 GiB,
// the most that ONNX stores in one file, or than a third of the memory: the
// file, the parsed model and ONNX Runtime's copy are held at once.
func ReadModel(path string) ([]byte, error) {
	// Without O_NONBLOCK opening a pipe would wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var e *fs.PathError
		if errors.As(err, &e) {
			return nil, fmt.Errorf("%s: %w", printable(path), e.Err)
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a file, but %s", printable(path), kindOf(info.Mode()))
	}
	size := info.Size()
	if size > math.MaxInt32 {
		return nil, hint.New(fmt.Sprintf("%s: the model is larger than 2 GiB", printable(path)), tooLargeHint)
	}
	if memory, ok := AvailableMemory(); ok && uint64(size) > memory/3 {
		return nil, fmt.Errorf("%s: a model of %d MiB does not fit into %d MiB of memory, which it takes three times",
			printable(path), size>>20, memory>>20)
	}
	model, err := io.ReadAll(io.LimitReader(f, size+1))
	if err != nil {
		return nil, err
	}
	if int64(len(model)) != size {
		return nil, fmt.Errorf("%s: the file changes while it is read", printable(path))
	}
	return model, nil
}

const tooLargeHint = "store its weights as float16, or export a smaller model"

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
