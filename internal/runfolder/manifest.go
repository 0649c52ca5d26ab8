package runfolder

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/rscert/rscert/internal/confined"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/scorefile"
)

// These are the names of the two files that sign a run. By default, minisign looks for the signature of manifest.json
// under the second name.
const (
	ManifestFile  = "manifest.json"
	SignatureFile = "manifest.json.minisig"
)

// manifestSchema marks a manifest, so that another document signed by the same key cannot pass as a manifest.
const manifestSchema = "rscert/manifest/1"

// maxManifest is the maximum size of a manifest in bytes. A manifest of all five files has about 800 bytes.
const maxManifest = 1 << 14

// manifest is the content of manifest.json. It lists the files of a finished run.
type manifest struct {
	Schema string          `json:"schema"`
	Files  []manifestEntry `json:"files"`
}

// manifestEntry identifies the content of a file.
type manifestEntry struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// manifestFiles are the only file names that a manifest may list. A manifest lists them in this order.
var manifestFiles = []string{RunFile, VotesFile, CertificatesFile, BoundsFile, ScoresFile}

// describeFiles returns the manifest of the files in a run folder.
func describeFiles(ctx context.Context, root *os.Root) (m manifest, err error) {
	m.Schema = manifestSchema
	for _, name := range manifestFiles {
		entry, err := describeFile(ctx, root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return m, err
		}
		m.Files = append(m.Files, entry)
	}
	return m, nil
}

// describeFile returns the name, the size and the SHA-256 of a file of a run folder.
func describeFile(ctx context.Context, root *os.Root, name string) (e manifestEntry, err error) {
	f, err := openRegular(root, name)
	if err != nil {
		return e, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, untilDone{ctx, f})
	return manifestEntry{name, size, hex.EncodeToString(sum.Sum(nil))}, err
}

// untilDone is an io.Reader that reads from r until the context is done. After that it returns the context's error.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// irregularError means that a name in a run folder is a link, a folder or a device.
type irregularError struct{ name string }

func (e irregularError) Error() string { return e.name + " is no regular file" }

// openRegular uses confined.OpenIn to open a file in a folder. If confined.OpenIn refuses the file, openRegular returns
// an irregularError.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := confined.OpenIn(root, name, os.O_RDONLY)
	var failed *fs.PathError
	if err != nil && !errors.As(err, &failed) {
		err = irregularError{name}
	}
	return f, err
}

// statRegular returns an irregularError if the name exists but is not a regular file.
func statRegular(root *os.Root, name string) (os.FileInfo, error) {
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = irregularError{name}
	}
	return info, err
}

// readSmall reads a file in a folder. The argument 'limit' is the maximum size of the file in bytes.
func readSmall(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = tooLongError{name, limit}
	}
	return data, err
}

// tooLongError means that a file is longer than the limit of readSmall.
type tooLongError struct {
	name  string
	limit int64
}

func (e tooLongError) Error() string {
	return fmt.Sprintf("%s has more than %d bytes", e.name, e.limit)
}

// decodeManifest reads a manifest. It accepts only the bytes that this package writes. So the names are known, each
// name occurs once, and the names are in the order of manifestFiles.
func decodeManifest(data []byte) (m manifest, err error) {
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", ManifestFile, jsonError(err))
	}
	if m.Schema != manifestSchema {
		return m, fmt.Errorf("%s: its schema is %s; this rscert reads %s", ManifestFile, quote.Field(m.Schema), manifestSchema)
	}
	last := -1
	for _, e := range m.Files {
		switch place := slices.Index(manifestFiles, e.Name); {
		case place < 0:
			return m, fmt.Errorf("%s: names %s, which is no file of a run", ManifestFile, quote.Field(e.Name))
		case place <= last:
			return m, fmt.Errorf("%s: names %s twice or out of order", ManifestFile, e.Name)
		default:
			last = place
		}
	}
	own, err := encode(m, "  ")
	if err == nil && !bytes.Equal(own, data) {
		err = fmt.Errorf("%s: is not as rscert writes it", ManifestFile)
	}
	return m, err
}

// differences lists three kinds of files of a run: files that changed since the manifest was written, missing files,
// and files that are in the folder but not in the manifest.
func (m manifest) differences(ctx context.Context, root *os.Root) (faults []string, err error) {
	named := map[string]bool{}
	for _, want := range m.Files {
		named[want.Name] = true
		why, err := want.compare(ctx, root)
		if err != nil {
			return nil, err
		}
		if why != "" {
			faults = append(faults, why)
		}
	}
	for _, name := range append(slices.Clone(manifestFiles), scorefile.Part(ScoresFile)) {
		if _, err := root.Lstat(name); err == nil && !named[name] {
			faults = append(faults, name+" is not in the signed manifest")
		}
	}
	return faults, nil
}

// compare describes how the file in the folder differs from the entry. It returns "" if there is no difference.
func (e manifestEntry) compare(ctx context.Context, root *os.Root) (string, error) {
	// compare does not read a file of the wrong size, because it may be arbitrarily long.
	if info, err := statRegular(root, e.Name); err == nil && info.Size() != e.Size {
		return fmt.Sprintf("%s has %d bytes, and %d were signed", e.Name, info.Size(), e.Size), nil
	}
	got, err := describeFile(ctx, root, e.Name)
	var irregular irregularError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e.Name + " is missing, and was signed", nil
	case errors.As(err, &irregular):
		return err.Error(), nil
	case err != nil:
		return "", err
	case got != e:
		return e.Name + " has changed since it was signed: its SHA-256 is another", nil
	}
	return "", nil
}
