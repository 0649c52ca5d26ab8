package setup

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxLibrary limits the unpacked size of a file in an archive. The largest library has 284 MB.
const maxLibrary = 1 << 30

// unpacking extracts the wanted files from an archive. It recognises these files by their names and SHA-256. They may
// be in any folder of the archive.
type unpacking struct {
	want    map[string][]string // wanted SHA-256s by file name
	library string              // file name of the main library; in the archive, the name may also contain a version
	dir     string
	found   map[string]string // paths of the extracted files by name
	refused string            // last file that had a wanted name but a wrong hash
}

// unpack extracts the wanted files from a wheel, an npm package or a release archive into the folder 'dir'. It
// recognises archives by their first bytes. Any other file counts as the library itself. The function returns the paths
// of the extracted files. The keys of the returned map are the files' names. A missing file is an error.
func unpack(archive string, want map[string][]string, library, dir string) (map[string]string, error) {
	u := &unpacking{want: want, library: library, dir: dir, found: map[string]string{}}
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	magic := make([]byte, 4)
	n, err := io.ReadFull(file, magic)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic[:n], []byte("PK\x03\x04")):
		err = u.zip(file)
	case bytes.HasPrefix(magic[:n], []byte{0x1f, 0x8b}):
		err = u.tar(file)
	default:
		err = u.take(library, file)
	}
	if err != nil {
		return nil, err
	}
	for name := range want {
		if u.found[name] != "" {
			continue
		}
		if u.refused != "" {
			return nil, fmt.Errorf("refused %s", u.refused)
		}
		return nil, fmt.Errorf("%s holds no published %s", filepath.Base(archive), name)
	}
	return u.found, nil
}

func (u *unpacking) zip(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	r, err := zip.NewReader(file, info.Size())
	if err != nil {
		return err
	}
	for _, member := range r.File {
		if u.name(member.Name) == "" {
			continue
		}
		content, err := member.Open()
		if err != nil {
			return err
		}
		if err := errors.Join(u.take(member.Name, content), content.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacking) tar(file io.Reader) error {
	gz, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for r := tar.NewReader(gz); ; {
		header, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case header.Typeflag != tar.TypeReg || u.name(header.Name) == "":
			continue
		}
		if err := u.take(header.Name, r); err != nil {
			return err
		}
	}
}

// name compares the name of an archive member with the names of the wanted files. It returns the wanted name that fits,
// or "" if none fits. Several members may have the same name, for example the libraries for several platforms. So the
// caller must check the hash of each member that has a wanted name.
func (u *unpacking) name(member string) string {
	base := path.Base(member)
	if _, ok := u.want[base]; ok {
		return base
	}
	if stem, _, _ := strings.Cut(u.library, "."); strings.HasPrefix(base, stem+".") {
		return u.library
	}
	return ""
}

// take extracts a member of the archive if the member's hash is wanted.
func (u *unpacking) take(member string, content io.Reader) error {
	name := u.name(member)
	if u.found[name] != "" {
		return nil
	}
	file, err := os.CreateTemp(u.dir, name+"-")
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, h), io.LimitReader(content, maxLibrary))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if n < maxLibrary && slices.Contains(u.want[name], sum) {
		u.found[name] = file.Name()
		return nil
	}
	u.refused = fmt.Sprintf("%s: its SHA-256, %s, is not a pinned one", member, sum)
	return os.Remove(file.Name())
}
