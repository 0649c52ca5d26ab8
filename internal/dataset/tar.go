package dataset

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
)

// openTar reads one WebDataset archive.
func openTar(ctx context.Context, path string, opt Options) (*Dataset, error) {
	return openTars(ctx, []string{path}, opt)
}

// openTars reads the archives of a WebDataset. The part of a member's name before the first dot is its key. Members
// with the same key make an example. The image is a member such as key.jpg. The label is a number or a name. It is the
// content of key.cls, key.label, key.class or key.cls.txt. Or it is in key.json, as the value of "label", "labels",
// "class", "target", "y" or "cls". The images stay in the archives.
func openTars(ctx context.Context, paths []string, opt Options) (_ *Dataset, err error) {
	var files closers
	defer func() {
		if err != nil {
			_ = files.Close()
		}
	}()
	var s tarSamples
	s.limit = memory.Limit()
	for _, path := range paths {
		f, err := openChecked(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		if err := s.read(ctx, path, f); err != nil {
			return nil, err
		}
	}
	if len(s.images) == 0 {
		return nil, fmt.Errorf("%s: no examples: a WebDataset archive has a member KEY.jpg and a member KEY.cls for each", paths[0])
	}
	labels := &Dataset{labelAt: func(i int) string { return s.images[i].name }}
	if err := labels.setLabels(cellList(s.cells), opt); err != nil {
		return nil, err
	}
	for i := range s.images {
		s.images[i].label = labels.labels[i]
	}
	d, err := assemble(ctx, "WebDataset tar", s.images, opt)
	if err != nil {
		return nil, err
	}
	d.names, d.byName, d.closer = labels.names, labels.byName, files
	d.addNote("%s, channels scaled to [0,1]", filepath.Base(paths[0]))
	return d, nil
}

// The type 'closers' closes several files together.
type closers []io.Closer

// Close closes all files.
func (c closers) Close() error {
	var errs []error
	for _, f := range c {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// tarSamples holds the examples of archives. The label of images[i] is cells[i].
type tarSamples struct {
	limit  int64
	images []encoded
	cells  []cell
}

// A tarSample collects the members of an example. A member that has not been seen yet is nil.
type tarSample struct {
	image *encoded
	label *cell
}

// maxLabelMember is the maximum size of a member that holds a label, in bytes.
const maxLabelMember = 1 << 20

// The method 'read' reads an archive, joins members with the same key into examples, and appends these examples to s.
func (s *tarSamples) read(ctx context.Context, archive string, file contents) error {
	section := io.NewSectionReader(file, 0, file.size())
	r := tar.NewReader(struct {
		io.Reader
		io.Seeker
	}{contextReader{ctx, section}, section})
	samples := map[string]*tarSample{}
	var keys []string
	for {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		at, _ := section.Seek(0, io.SeekCurrent)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s: byte %d: %w", archive, at, err)
		}
		base := path.Base(header.Name)
		if header.Typeflag != tar.TypeReg || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "__") {
			continue
		}
		stem, suffix, _ := strings.Cut(base, ".")
		key := path.Join(path.Dir(header.Name), stem)
		const overhead = 512
		if s.limit -= overhead + 4*int64(len(header.Name)); s.limit < 0 {
			return fmt.Errorf("%s: byte %d: %w", archive, at, memory.Check(-1))
		}
		sample := samples[key]
		if sample == nil {
			sample = &tarSample{}
			samples[key] = sample
			keys = append(keys, key)
		}
		if err := sample.add(archive, header, at, suffix, file, r); err != nil {
			return fmt.Errorf("%s: %s: %w", archive, quote.Name(header.Name), err)
		}
	}
	return s.join(archive, keys, samples)
}

// The method 'join' appends each example that has an image and a label. It returns an error if an example has only one
// of them.
func (s *tarSamples) join(archive string, keys []string, samples map[string]*tarSample) error {
	for _, key := range keys {
		switch sample := samples[key]; {
		case sample.image == nil && sample.label == nil:
		case sample.image == nil:
			return fmt.Errorf("%s: %s: a label without an image", archive, quote.Name(key))
		case sample.label == nil:
			return fmt.Errorf("%s: %s: an image without a label; want a member %s.cls or %s.json", archive, quote.Name(sample.image.name), quote.Name(key), quote.Name(key))
		default:
			s.images, s.cells = append(s.images, *sample.image), append(s.cells, *sample.label)
		}
	}
	return nil
}

// The method 'add' adds a member to an example. The argument 'at' is the offset of the member's data in the archive.
func (s *tarSample) add(archive string, header *tar.Header, at int64, suffix string, file contents, data io.Reader) error {
	isImg, err := isImage(header.Name)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), header.Name+": "))
	}
	kinds := strings.Split(suffix, ".")
	kind := kinds[len(kinds)-1]
	isLabel := suffix == "cls" || suffix == "label" || suffix == "class" || suffix == "cls.txt"
	switch {
	case isImg && s.image != nil:
		return errors.New("a second image of this example")
	case isImg:
		size := header.Size
		if at+size > file.size() {
			return fmt.Errorf("byte %d: ends before the member's %d bytes", file.size(), size)
		}
		s.image = &encoded{name: archive + ": " + header.Name, open: func() (io.ReadCloser, int64, error) {
			return io.NopCloser(io.NewSectionReader(file, at, size)), size, nil
		}}
		return nil
	case !isLabel && kind != "json":
		return nil
	case header.Size > maxLabelMember:
		return fmt.Errorf("%d bytes are too many for a label", header.Size)
	}
	text, err := io.ReadAll(data)
	if err != nil {
		return err
	}
	c := textCell(string(text))
	if kind == "json" {
		field, err := jsonLabel(text)
		if err != nil || field == "" {
			return err
		}
		c = textCell(field)
	}
	if s.label != nil && s.label.text != c.text {
		return fmt.Errorf("label %s, but another member says %s", c, s.label)
	}
	s.label = &c
	return nil
}

// jsonLabel returns the label in an example's JSON, or "" if there is none.
func jsonLabel(text []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", fmt.Errorf("not a JSON object: %w", err)
	}
	for _, name := range slices.Concat(labelNames, []string{"cls"}) {
		value, ok := fields[name]
		if !ok {
			continue
		}
		var s string
		var n json.Number
		if json.Unmarshal(value, &s) == nil {
			return s, nil
		}
		if json.Unmarshal(value, &n) == nil {
			return n.String(), nil
		}
		return "", fmt.Errorf("%q is %s, neither a number nor a name", name, quote.Field([]byte(value)))
	}
	return "", nil
}
