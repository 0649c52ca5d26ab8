package setup

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
)

// The map 'content' holds the contents of the libraries in these tests. The keys are the libraries' file names.
var content = map[string]string{"libonnxruntime.so": "the library", "libonnxruntime_providers_shared.so": "its provider"}

// build returns an ortlib.Published that describes a build of ONNX Runtime. Its files are the libraries in the map
// 'content'. Each call chooses a new folder as the cache.
func build(t *testing.T) ortlib.Published {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "cache[1/rscert/onnxruntime/1.2.3/linux-amd64")
	p := ortlib.Published{Device: "cpu", Version: "1.2.3", Platform: "linux-amd64", Folder: folder,
		Library: filepath.Join(folder, "libonnxruntime.so"), Files: map[string][]string{}}
	for name, text := range content {
		sum := sha256.Sum256([]byte(text))
		p.Files[name] = []string{strings.Repeat("0", 64), hex.EncodeToString(sum[:])}
	}
	return p
}

// A member is a file of an archive.
type member struct{ name, text string }

func wheel(t *testing.T, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		f, err := w.Create(m.name)
		if err == nil {
			_, err = f.Write([]byte(m.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tgz(t *testing.T, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, m := range members {
		if err := w.WriteHeader(&tar.Header{Name: m.name, Size: int64(len(m.text)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// whole returns the files of an archive: the two wanted libraries and three other files. The names of two of the other
// files also fit the main library.
func whole() []member {
	return []member{
		{"../../etc/libonnxruntime.so", "of another platform"},
		{"onnxruntime/capi/libonnxruntime.so.1.2.3", content["libonnxruntime.so"]},
		{"onnxruntime/capi/libonnxruntime_providers_shared.so", content["libonnxruntime_providers_shared.so"]},
		{"onnxruntime/capi/libonnxruntime.1.2.3.dylib", "of a third"},
		{"README", "text"},
	}
}

func write(t *testing.T, path string, data []byte, mode fs.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// fetch calls Fetch. It returns the results of Fetch, and the notes that Fetch sent to the Console.
func fetch(t *testing.T, p ortlib.Published, o Options) (fetched bool, notes string, err error) {
	t.Helper()
	var b strings.Builder
	fetched, err = Fetch(t.Context(), p, o, Console{Note: func(line string) { b.WriteString(line + "\n") }})
	return fetched, b.String(), err
}

// isolate sets the environment so that Fetch finds no programs, no settings of the user, and no server outside the
// test. It returns the home folder, which is also the PATH.
func isolate(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, name := range []string{"PIP_INDEX_URL", "PIP_CONFIG_FILE", "npm_config_registry", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("PATH", home)
	t.Setenv("RSCERT_ONNXRUNTIME_RELEASES", "http://127.0.0.1:1")
	return home
}

// The function 'installed' checks that the cache holds only the build, and that no other user can write to the cache.
func installed(t *testing.T, p ortlib.Published) {
	t.Helper()
	for name, text := range content {
		if got, err := os.ReadFile(filepath.Join(p.Folder, name)); string(got) != text {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	entries, _ := os.ReadDir(p.Folder)
	if len(entries) != len(content) {
		t.Errorf("the folder holds %v", entries)
	}
	for dir := p.Folder; filepath.Base(dir) != "cache[1"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: mode %v, %v", dir, info.Mode(), err)
		}
	}
}

func TestFetchFile(t *testing.T) {
	isolate(t)
	for name, archive := range map[string][]byte{
		"a.whl": wheel(t, whole()...), "a.tgz": tgz(t, whole()...), "named wrongly": wheel(t, whole()...),
	} {
		p := build(t)
		path := write(t, filepath.Join(t.TempDir(), name), archive, 0o644)
		for _, from := range []string{path, "file://" + path} {
			if fetched, notes, err := fetch(t, p, Options{URL: from}); err != nil || !fetched {
				t.Fatalf("%s: %v, %v, %s", from, fetched, err, notes)
			}
			installed(t, p)
			if err := os.RemoveAll(p.Folder); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFetchOnce checks that Fetch does nothing if the build is there, and that it replaces damaged or missing files.
func TestFetchOnce(t *testing.T) {
	isolate(t)
	p := build(t)
	from := write(t, filepath.Join(t.TempDir(), "a.tgz"), tgz(t, whole()...), 0o644)
	for _, spoil := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(p.Library, []byte("damaged"), 0o600) },
		func() error { return os.Remove(filepath.Join(p.Folder, "libonnxruntime_providers_shared.so")) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if fetched, _, err := fetch(t, p, Options{URL: from}); err != nil || !fetched {
			t.Fatalf("%v, %v", fetched, err)
		}
		installed(t, p)
		if fetched, notes, err := fetch(t, p, Options{URL: "absent"}); err != nil || fetched || notes != "" {
			t.Errorf("the second time: %v, %v, %s", fetched, err, notes)
		}
	}
}

func TestFetchRefuses(t *testing.T) {
	isolate(t)
	library := member{"lib/libonnxruntime.so", content["libonnxruntime.so"]}
	for name, tt := range map[string]struct {
		archive []byte
		want    string
	}{
		"a changed library": {tgz(t, member{library.name, "another"}, whole()[2]),
			"its SHA-256, ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5, is not a pinned one"},
		"a file too few": {tgz(t, library), "holds no published libonnxruntime_providers_shared.so"},
		"no archive":     {[]byte("text"), "its SHA-256, "},
		"nothing":        {nil, "its SHA-256, "},
		"half a wheel":   {wheel(t, whole()...)[:200], "not a valid zip file"},
		"half a tar":     {tgz(t, whole()...)[:60], "unexpected EOF"},
	} {
		p := build(t)
		_, notes, err := fetch(t, p, Options{URL: write(t, filepath.Join(t.TempDir(), "a"), tt.archive, 0o644)})
		if err == nil || !strings.Contains(err.Error(), "tried url (failed)") || !strings.Contains(notes, tt.want) {
			t.Errorf("%s: %v, notes %s", name, err, notes)
		}
		if entries, err := os.ReadDir(p.Folder); err != nil || len(entries) != 0 {
			t.Errorf("%s: the folder holds %v, %v", name, entries, err)
		}
	}
}

// serve serves files by path and logs the requests.
func serve(t *testing.T, files map[string][]byte) (address string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Path)
		data, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// TestDownload checks that the download tries the release, npm's package and the wheel of an index, in this order.
func TestDownload(t *testing.T) {
	home := isolate(t)
	const (
		release = "/v1.2.3/onnxruntime-linux-x64-1.2.3.tgz"
		npm     = "/npm/onnxruntime-node/-/onnxruntime-node-1.2.3.tgz"
		page    = "/simple/onnxruntime/"
		file    = "/files/a&b/onnxruntime-1.2.3-cp312-cp312-manylinux_2_28_x86_64.whl"
	)
	files := map[string][]byte{
		release: tgz(t, whole()...), npm: tgz(t, whole()...), file: wheel(t, whole()...),
		page: []byte(`<a href="../../files/onnxruntime-1.2.3-cp311-cp311-manylinux_2_28_x86_64.whl">x</a>
			<a href="../../files/a&amp;b/onnxruntime-1.2.3-cp312-cp312-manylinux_2_28_x86_64.whl#sha256=00" data-x="y">y</a>`),
	}
	address, asked := serve(t, files)
	t.Setenv("RSCERT_ONNXRUNTIME_RELEASES", address+"/")
	write(t, filepath.Join(home, ".npmrc"), []byte("registry = "+address+"/npm/\n"), 0o644)
	write(t, filepath.Join(home, ".config/pip/pip.conf"), []byte("[global]\nindex-url = "+address+"/simple/\n"), 0o644)
	for _, want := range [][]string{{release}, {release, npm}, {release, npm, page, file}} {
		p := build(t)
		*asked = nil
		if fetched, notes, err := fetch(t, p, Options{From: FromDownload}); err != nil || !fetched {
			t.Fatalf("%v: %v, %s", want, err, notes)
		}
		installed(t, p)
		if fmt.Sprint(*asked) != fmt.Sprint(want) {
			t.Errorf("asked for %v, want %v", *asked, want)
		}
		delete(files, want[len(want)-1])
	}
	p := build(t)
	_, notes, err := fetch(t, p, Options{})
	if err == nil || !strings.Contains(err.Error(), "tried pip (not there), download (failed), npm (not there)") || !strings.Contains(notes, "404") {
		t.Errorf("%v, notes %s", err, notes)
	}
	if advice, _ := hint.Of(err); !strings.Contains(advice, "a copy with url") {
		t.Errorf("hint %q", advice)
	}
}

// program puts a shell script on the PATH in place of a program.
func program(t *testing.T, home, name, script string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the stand-ins are shell scripts")
	}
	write(t, filepath.Join(home, name), []byte("#!/bin/sh\nset -eu\n"+script), 0o755)
}

// TestPrograms replaces pip and npm by scripts that check their arguments.
func TestPrograms(t *testing.T) {
	home := isolate(t)
	archive := write(t, filepath.Join(home, "a"), wheel(t, whole()...), 0o644)
	pip := `[ "$1" != --version ] || exit 0
[ "$1" = download ]
case " $* " in *" --platform manylinux_2_28_x86_64 "*" onnxruntime==1.2.3 "*) ;; *) exit 3 ;; esac
while [ "$1" != --dest ]; do shift; done
/bin/cp ` + archive + ` "$2/onnxruntime.whl"`
	npm := `[ "$1 $2" = "pack onnxruntime-node@1.2.3" ]
case " $* " in *" --ignore-scripts "*) ;; *) exit 3 ;; esac
/bin/cp ` + archive + ` onnxruntime-node-1.2.3.tgz`
	for name, script := range map[string]string{"pip": pip, "npm": npm} {
		program(t, home, name, script)
		p := build(t)
		if fetched, notes, err := fetch(t, p, Options{}); err != nil || !fetched {
			t.Errorf("%s: %v, %s", name, err, notes)
		}
		installed(t, p)
		program(t, home, name, "echo first; echo the reason; exit 1")
		if name == "pip" {
			program(t, home, name, pip[:strings.Index(pip, "\n")]+"\necho the reason; exit 1")
		}
		_, notes, err := fetch(t, build(t), Options{})
		if err == nil || !strings.Contains(err.Error(), name+" (failed)") || !strings.Contains(notes, name+": exit status 1: the reason") {
			t.Errorf("%s fails: %v, notes %s", name, err, notes)
		}
		if err := os.Remove(filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCancelled(t *testing.T) {
	isolate(t)
	address, _ := serve(t, nil)
	t.Setenv("RSCERT_ONNXRUNTIME_RELEASES", address)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Fetch(ctx, build(t), Options{From: FromDownload}, Console{Note: func(string) {}}); err != context.Canceled {
		t.Errorf("error %v", err)
	}
}

func TestUnwritable(t *testing.T) {
	isolate(t)
	p := build(t)
	write(t, filepath.Dir(filepath.Dir(p.Folder)), nil, 0o644)
	_, _, err := fetch(t, p, Options{URL: "x"})
	if advice, _ := hint.Of(err); err == nil || !strings.Contains(advice, "XDG_CACHE_HOME") {
		t.Errorf("error %v, hint %q", err, advice)
	}
}

// NVIDIA's libraries come from several wheels. Fetch must call pip with the platforms that are part of the wheel's file
// name.
func TestCUDALibraries(t *testing.T) {
	home := isolate(t)
	builds, err := ortlib.CUDALibraries()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		if err == nil {
			t.Error("there are libraries of CUDA for this platform")
		}
		return
	}
	if err != nil || len(builds) != 5 {
		t.Fatalf("%d packages, %v", len(builds), err)
	}
	names := map[string]bool{}
	for _, b := range builds {
		if b.Folder != builds[0].Folder || filepath.Dir(b.Library) != b.Folder || len(b.Files[filepath.Base(b.Library)]) != 1 ||
			!strings.HasPrefix(b.Wheel.File, strings.ReplaceAll(b.Wheel.Project, "-", "_")+"-"+b.Wheel.Version+"-py3-none-") {
			t.Errorf("%+v", b)
		}
		for name := range b.Files {
			names[name] = true
		}
	}
	for _, name := range []string{"libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcurand.so.10", "libnvrtc.so.13", "libcudnn.so.9", "libcudnn_graph.so.9"} {
		if !names[name] {
			t.Errorf("%s is in no package", name)
		}
	}
	if len(names) != 16 {
		t.Errorf("%d libraries", len(names))
	}

	const text = "a library"
	archive := write(t, filepath.Join(home, "a"), wheel(t, member{"nvidia/cu13/lib/libcudart.so.13", text}), 0o644)
	program(t, home, "pip", `[ "$1" != --version ] || exit 0
case " $* " in *" --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 "*" nvidia-cuda-runtime==13.0.96 "*) ;; *) exit 3 ;; esac
while [ "$1" != --dest ]; do shift; done
/bin/cp `+archive+` "$2/x.whl"`)
	p := builds[0]
	if _, notes, err := fetch(t, p, Options{From: FromPip}); err == nil || !strings.Contains(notes, "refused nvidia/cu13/lib/libcudart.so.13") ||
		!strings.Contains(err.Error(), "no nvidia-cuda-runtime 13.0.96 could be fetched") {
		t.Errorf("another library: %v, %s", err, notes)
	}
	p.Files = map[string][]string{"libcudart.so.13": {fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}}
	if fetched, notes, err := fetch(t, p, Options{From: FromPip}); err != nil || !fetched {
		t.Errorf("%v, %s", err, notes)
	}
	if got, err := os.ReadFile(p.Library); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
}

// TestPublished checks the table of published builds. Each build must have the right number of files, its main library
// among them, and a wheel. In an empty cache, no build may count as fetched.
func TestPublished(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for device, want := range map[string]int{"auto": 1, "cpu": 1, "openvino": 9, "cuda": 3} {
		d, err := onnx.ParseDevice(device)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ortlib.PublishedFor(d.Build())
		if err != nil {
			if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
				t.Error(err)
			}
			continue
		}
		if len(p.Files) != want || p.Files[filepath.Base(p.Library)] == nil || filepath.Dir(p.Library) != p.Folder {
			t.Errorf("%s: %+v", device, p)
		}
		if p.Check() == nil {
			t.Errorf("%s: is there in an empty cache", device)
		}
		f := fetcher{Published: p}
		if f.packages().wheel == "" || wheelTags[p.Platform] == "" {
			t.Errorf("%s: no wheel for %s", device, p.Platform)
		}
	}
}
