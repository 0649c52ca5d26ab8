package table

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Read reads the table in the file at path, or from standard input if path is Stdin. If the content is wrong, the error
// states the place in the file.
func Read(ctx context.Context, path string, opt Options) (*Table, error) {
	src, err := openSource(ctx, path, opt.Input)
	if err != nil {
		return nil, quote.Error(err)
	}
	defer src.Close()
	r := &reader{Table: &Table{Path: path, index: map[string]*column{}}, opt: opt, limit: memory.Limit()}
	if path == Stdin {
		r.Path = "stdin"
	}
	err = r.read(ctx, &countingReader{ctx: ctx, r: src, progress: opt.Progress})
	switch {
	case err == nil:
		return r.Table, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, quote.Error(err)
}

// openSource opens the file at path. If the path is Stdin, openSource reads from the argument 'in'. If this argument is
// nil, openSource reads from os.Stdin.
func openSource(ctx context.Context, path string, in io.Reader) (io.ReadCloser, error) {
	if path == Stdin {
		if in == nil {
			in = os.Stdin
		}
		return interruptible(ctx, in), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		return nil, fmt.Errorf("%s: is a folder, not a file", path)
	}
	return f, nil
}

// interruptible returns a pipe that passes on the bytes of r. A read from the pipe ends when ctx ends, even while r
// waits for input. One read from r may continue after ctx ends.
func interruptible(ctx context.Context, r io.Reader) *io.PipeReader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err) // if err is nil, the reader gets io.EOF
	}()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	return out
}

// countingReader reports progress and stops when the context ends.
type countingReader struct {
	ctx      context.Context
	r        io.Reader
	progress func(int64)
}

func (c *countingReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	if c.progress != nil && n > 0 {
		c.progress(int64(n))
	}
	return n, err
}

const bufferSize = 1 << 18

// uncompressed returns a reader of the content of src. If src is compressed with gzip, the reader unpacks it.
func uncompressed(src io.Reader, size int) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(src, size)
	if magic, _ := in.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(z, size), nil
}

// read determines the format from the first bytes and fills the table.
func (r *reader) read(ctx context.Context, src io.Reader) error {
	in, err := uncompressed(src, bufferSize)
	if err == nil {
		if _, err = in.Peek(2); err == io.EOF {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	magic, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte("PK")):
		err = r.readNpz(in)
	case string(magic) == "PAR1":
		err = r.readParquet(ctx, in)
	default:
		if err := r.readLines(&lineReader{in: in}); err != nil {
			return err
		}
	}
	if err == nil && r.N == 0 {
		err = errors.New("no rows")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	return nil
}

// readLines parses a CSV header and rows, or rows of JSON.
func (r *reader) readLines(lines *lineReader) error {
	line, err := lines.next()
	if err == io.EOF {
		return fmt.Errorf("%s: empty file", r.Path)
	}
	add := (&jsonRows{r}).add
	if err == nil && line[0] != '{' {
		rows := &csvRows{reader: r}
		add = rows.add
		if err = rows.readHeader(line); err == nil {
			line, err = lines.next()
		}
	}
	for err == nil {
		if err = add(line); err == nil {
			r.lines.add(r.N, lines.line)
			r.N++
			line, err = lines.next()
		}
	}
	if err != io.EOF {
		return fmt.Errorf("%s:%d: %w", r.Path, lines.line, err)
	}
	if err := r.fillOthers(); err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	return nil
}

// addField parses a field and adds its value to a column.
func (r *reader) addField(c *column, field []byte) error {
	x, ok := parseDecimal(field)
	if !ok {
		var err error
		field = bytes.TrimSpace(field)
		if x, err = parseValue(field, r.opt.AllowNonFinite); err != nil && slices.Contains(r.opt.Texts, c.name) {
			x, err = math.NaN(), r.addText(c, field)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", quote.Name(c.name), err)
		}
	}
	c.Data = append(c.Data, x)
	return nil
}

// addText adds a field that is not a number. The column must be one of Options.Texts.
func (r *reader) addText(c *column, field []byte) error {
	text := string(field)
	if len(field) > 0 && field[0] == '"' { // a text in JSON; in CSV, the parser has already removed the quotes
		if err := json.Unmarshal(field, &text); err != nil {
			return jsonError(err)
		}
	}
	if text == "" {
		return errEmpty
	}
	const bytes = 8
	if err := r.hold(int64(2*(len(c.Data)-len(c.text)+1) + len(text)/bytes)); err != nil {
		return err
	}
	for len(c.text) < len(c.Data) {
		c.text = append(c.text, "")
	}
	c.text = append(c.text, text)
	return nil
}
