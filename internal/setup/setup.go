// Package setup fetches the published libraries of ONNX Runtime into the user's cache, where rscert searches for them.
// Fetch tries each Source in turn: pip, rscert's own download, npm. rscert's own download fetches an archive of ONNX
// Runtime's release, or a package from a configured registry. Fetch installs a file only if the file's SHA-256 is
// pinned in internal/ortlib.
package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/scratch"
)

// Console receives messages and progress from Fetch.
type Console struct {
	Note     func(string)
	Progress progress.Options
}

func (c Console) notef(format string, args ...any) { c.Note(fmt.Sprintf(format, args...)) }

// Options specifies the source of the library.
type Options struct {
	From Source // the zero value means all sources in turn
	// URL replaces all sources. It is the address (http, https or file) or the path of a wheel, an npm package, a
	// release archive or a library.
	URL string
}

// errNotInstalled means that the source's program is missing, that the source is not configured, or that the source
// does not have the build.
var errNotInstalled = errors.New("not there")

// Fetch puts a published build into the cache, unless the build is already there. The result 'fetched' reports whether
// Fetch installed it.
func Fetch(ctx context.Context, p ortlib.Published, o Options, c Console) (fetched bool, err error) {
	if err := p.Check(); err == nil && exists(p.Library) {
		return false, nil
	} else if exists(p.Library) {
		c.notef("%v: fetching it again", err)
	}
	if musl() {
		return false, hint.New("ONNX Runtime's libraries need glibc, and this system has musl",
			"use a distribution with glibc, or build the library and name it with $"+ortlib.Env)
	}
	dir, err := makeFolder(p.Folder)
	if err != nil {
		return false, hint.Add(err, "set XDG_CACHE_HOME to a folder that can be written (not on macOS), or name a library with $%s", ortlib.Env)
	}
	defer func() { _ = dir.Remove() }()
	f := fetcher{Published: p, console: c, dir: dir.Path()}
	var tried []string
	for _, source := range o.sources() {
		archive, err := f.get(ctx, source, o.URL)
		if err == nil {
			err = f.install(archive)
		}
		switch {
		case err == nil:
			return true, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case errors.Is(err, errNotInstalled):
			tried = append(tried, source.String()+" (not there)")
		default:
			c.notef("%s: %v", source, err)
			tried = append(tried, source.String()+" (failed)")
		}
	}
	what := fmt.Sprintf("ONNX Runtime %s for device %s", p.Version, p.Device)
	if p.Wheel.Project != "" {
		what = p.Wheel.Project + " " + p.Version
	}
	return false, hint.Add(fmt.Errorf("no %s could be fetched: tried %s", what, strings.Join(tried, ", ")),
		"install pip or npm, check the network or proxy, name a copy with %s, or a library with $%s", param.URL, ortlib.Env)
}

func (o Options) sources() []Source {
	switch {
	case o.URL != "":
		return []Source{fromURL}
	case o.From != anySource:
		return []Source{o.From}
	}
	return []Source{FromPip, FromDownload, FromNPM}
}

// A fetcher gets one published build of ONNX Runtime.
type fetcher struct {
	ortlib.Published
	console Console
	dir     string // temporary folder for downloads
}

// install moves the libraries of an archive to the cache. It moves the main library last.
func (f fetcher) install(archive string) error {
	found, err := unpack(archive, f.Files, filepath.Base(f.Library), f.dir)
	if err != nil {
		return err
	}
	library := filepath.Base(f.Library)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(name string) bool { return name == library })
	for _, name := range append(names, library) {
		if err := os.Rename(found[name], filepath.Join(f.Folder, name)); err != nil {
			return err
		}
	}
	return durable.SyncFolder(f.Folder)
}

// makeFolder makes the build's folder in the cache, and a temporary folder in the build's folder. rscert loads and runs
// the libraries in the build's folder, so only the user may write to this folder.
func makeFolder(folder string) (temporary *scratch.Folder, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	// The folder is CACHE/rscert/onnxruntime/VERSION/PLATFORM. An earlier version of rscert left CACHE/rscert open to
	// other users. The next lines remove their access.
	own := filepath.Dir(filepath.Dir(filepath.Dir(folder)))
	if err := os.Chmod(own, 0o700); err != nil {
		return nil, err
	}
	return scratch.Make(folder, ".fetch-")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// musl reports whether the system's C library is musl. No library is published for musl.
func musl() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	musl, _ := filepath.Glob("/lib/ld-musl-*.so.1")
	glibc, _ := filepath.Glob("/lib*/ld-linux-*.so.*")
	return len(musl) > 0 && len(glibc) == 0
}
