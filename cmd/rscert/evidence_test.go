package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/runfolder"
)

const cnn = "../../testdata/mnist-cnn.onnx"

// writeFile writes a file and makes its folders.
func writeFile(t *testing.T, path string, data []byte) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}

// unpackDigits returns the bundled data: images of 28×28 bytes, and a label for each image.
func unpackDigits(t *testing.T) (pixels, labels []byte) {
	t.Helper()
	unpack := func(name string, header int) []byte {
		f, err := os.Open(filepath.Join("../../testdata/mnist", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return data[header:]
	}
	return unpack("t10k-images-idx3-ubyte.gz", 16), unpack("t10k-labels-idx1-ubyte.gz", 8)
}

// npyHeader returns the header of an npy array of bytes.
func npyHeader(shape string) []byte {
	dict := fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }", shape)
	dict += strings.Repeat(" ", 63-(len(dict)+10)%64) + "\n"
	return append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(dict))), dict...)
}

// digitsNPZ returns the digits in the format of numpy.savez. The digits are repeated five times, so that a single read
// does not return the whole file.
func digitsNPZ(t *testing.T) []byte {
	t.Helper()
	pixels, labels := unpackDigits(t)
	pixels, labels = bytes.Repeat(pixels, 5), bytes.Repeat(labels, 5)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, a := range []struct {
		name, shape string
		data        []byte
	}{{"x.npy", fmt.Sprintf("%d, 1, 28, 28", len(labels)), pixels}, {"y.npy", fmt.Sprintf("%d,", len(labels)), labels}} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: a.name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(append(npyHeader(a.shape), a.data...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// digitFolder writes the first digits as a folder of images.
func digitFolder(t *testing.T, dir string, n int) string {
	t.Helper()
	pixels, labels := unpackDigits(t)
	for i := range n {
		picture := &image.Gray{Pix: pixels[i*784 : (i+1)*784], Stride: 28, Rect: image.Rect(0, 0, 28, 28)}
		var b bytes.Buffer
		if err := png.Encode(&b, picture); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, fmt.Sprint(labels[i]), fmt.Sprintf("%04d.png", i)), b.Bytes())
	}
	return dir
}

// TestChangesDuringRun changes a run's inputs and outputs after the run's first example. The run must soon fail and
// name the cause.
func TestChangesDuringRun(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes")
	}
	overwriteEnd := func(path string) error {
		data, err := os.ReadFile(path)
		if err == nil {
			for i := len(data) / 4; i < len(data)-1000; i++ { // keep the directory at the end of the archive intact
				data[i] ^= 1
			}
			f, openErr := os.OpenFile(path, os.O_WRONLY, 0)
			if openErr != nil {
				return openErr
			}
			_, err = f.WriteAt(data, 0)
			err = errors.Join(err, f.Close())
		}
		return err
	}
	for _, tt := range []struct {
		name   string
		skip   string
		data   func(dir string) string
		change func(data, run string) error
		code   int
		want   string
	}{
		{"npz", "25", func(dir string) string { return writeFile(t, filepath.Join(dir, "d.npz"), digitsNPZ(t)) },
			func(data, _ string) error { return overwriteEnd(data) }, exitUsage, "the file has changed since it was opened"},
		{"images", "1", func(dir string) string { return digitFolder(t, filepath.Join(dir, "d"), 300) },
			func(data, _ string) error { // every image becomes a copy of the first image
				found, err := filepath.Glob(filepath.Join(data, "*/*.png"))
				if err != nil {
					return err
				}
				first, err := os.ReadFile(found[0])
				for _, path := range found[1:] {
					err = errors.Join(err, os.WriteFile(path, first, 0o644))
				}
				return err
			}, exitUsage, ".png: the file has changed since it was opened"},
		{"folder deleted", "1", nil, func(_, run string) error { return os.RemoveAll(run) }, exitFailed, "was deleted or moved"},
		{"folder moved", "1", nil, func(_, run string) error { return os.Rename(run, run+"-moved") }, exitFailed, "was deleted or moved"},
		{"certificates deleted", "1", nil, func(_, run string) error { return os.Remove(filepath.Join(run, runfolder.CertificatesFile)) },
			exitFailed, "certificates.jsonl: was deleted or moved"},
		// write a new file and rename it to votes.jsonl, as an editor does when it saves a file
		{"votes replaced", "1", nil, func(_, run string) error {
			data, err := os.ReadFile(filepath.Join(run, runfolder.VotesFile))
			return errors.Join(err, os.WriteFile(filepath.Join(run, "new"), data, 0o644),
				os.Rename(filepath.Join(run, "new"), filepath.Join(run, runfolder.VotesFile)))
		}, exitFailed, "votes.jsonl: was replaced"},
		{"run.json deleted", "1", nil, func(_, run string) error { return os.Remove(filepath.Join(run, runfolder.RunFile)) },
			exitFailed, "run.json: was deleted or moved"},
		{"scores deleted", "1", nil, func(_, run string) error { return os.Remove(filepath.Join(run, runfolder.ScoresFile+".part")) },
			exitFailed, "scores.npz.part: was deleted or moved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			data := "../../testdata/mnist"
			if tt.data != nil {
				data = tt.data(dir)
			}
			run := filepath.Join(dir, "run")
			cmd := program(t, "certify", "--model", cnn, "--data", data, "--sigma", "0.5", "--n", "500", "--n0", "20", "--max", "200",
				"--skip", tt.skip, "--quiet", "--save-scores", "--out", run)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
				if info, err := os.Stat(filepath.Join(run, runfolder.CertificatesFile)); err == nil && info.Size() > 0 {
					break
				}
				if time.Now().After(deadline) {
					_ = cmd.Process.Kill()
					t.Fatalf("the run does not get on: %s", &stderr)
				}
			}
			if err := tt.change(data, run); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != tt.code || !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("ended with %v, want exit code %d and %q:\n%s", err, tt.code, tt.want, &stderr)
			}
			if stdout.Len() > 0 {
				t.Errorf("said %q of a run that failed", &stdout)
			}
		})
	}
}

// TestFlips runs testFlips with a few bits per file and command.
func TestFlips(t *testing.T) { testFlips(t, 6) }

// testFlips flips some bits in each file of a finished run, one bit at a time, and runs every command that reads the
// file. The command must fail. A command with --resume may restore the file instead of failing.
func testFlips(t *testing.T, flips int) {
	run := filepath.Join(t.TempDir(), "run")
	certify := []string{"certify", "--model", cnn, "--data", "../../testdata/mnist", "--sigma", "0.5", "--n", "100", "--n0", "20", "--max", "4",
		"--threads", "1", "--quiet", "--resume", "--out", run}
	certify = append(certify, everything...)
	rscert := func(args ...string) (int, string) {
		var stderr bytes.Buffer
		return execute(args, streams{in: strings.NewReader(""), out: io.Discard, err: &stderr}), stderr.String()
	}
	if code, said := rscert(certify...); code != exitDone {
		t.Fatal(said)
	}
	acce, radius, metrics := []string{"acce", run}, []string{"radius", run, "--quiet"}, []string{"metrics", run}
	betting, shares := append(radius, "--method", "betting"), append(metrics, "--probabilities", "vote-shares")
	confidence := []string{"confidence", run, "--radii", "0.1", "--quiet"}
	bounds := []string{"metrics", filepath.Join(run, runfolder.BoundsFile), "--radius", "0.25"}
	whole := results(t, run)
	runJSON, err := os.ReadFile(filepath.Join(run, runfolder.RunFile))
	if err != nil {
		t.Fatal(err)
	}
	whole[runfolder.RunFile] = runJSON
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		file    string
		readers [][]string
	}{
		{runfolder.BoundsFile, [][]string{acce, metrics, bounds, certify}},
		{runfolder.VotesFile, [][]string{radius, shares, betting, certify}},
		{runfolder.CertificatesFile, [][]string{acce, metrics, certify}},
		{runfolder.RunFile, [][]string{acce, radius, shares, metrics, confidence, bounds, certify}},
		{runfolder.ScoresFile, [][]string{confidence, betting, certify}},
	} {
		for _, args := range tt.readers {
			missed, repaired := 0, 0
			for range flips {
				flipped := bytes.Clone(whole[tt.file])
				at, bit := rng.IntN(len(flipped)), rng.IntN(8)
				flipped[at] ^= 1 << bit
				writeFile(t, filepath.Join(run, tt.file), flipped)
				code, said := rscert(args...)
				if code == exitDone && args[0] == "certify" && bytes.Equal(results(t, run)[tt.file], whole[tt.file]) {
					repaired++
				} else if code == exitDone || !strings.HasPrefix(said, "rscert: ") {
					missed++
					t.Errorf("%s: bit %d of byte %d, in %q: %s ends with %d and says %q",
						tt.file, bit, at, flipped[max(0, at-20):min(len(flipped), at+20)], args[0], code, said)
				}
				for name, data := range whole {
					writeFile(t, filepath.Join(run, name), data)
				}
				_ = os.Remove(filepath.Join(run, runfolder.ScoresFile+".part"))
			}
			t.Logf("%s → %s: %d flips, %d missed, %d repaired", tt.file, args[0], flips, missed, repaired)
		}
	}
}

// gzipBomb returns a gzip file that unpacks to a header and n MiB of zeros. The zeros come from one compressed piece,
// repeated. This piece unpacks to 8 MiB.
func gzipBomb(t *testing.T, header []byte, n int) []byte {
	t.Helper()
	piece := func(data []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(data)
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	return append(piece(header), bytes.Repeat(piece(make([]byte, 8<<20)), n/8)...)
}

// npzBomb returns an archive with an array named 'x'. This array unpacks to n MiB of zeros.
func npzBomb(t *testing.T, n int) []byte {
	t.Helper()
	var piece bytes.Buffer
	z, err := flate.NewWriter(&piece, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	header := npyHeader(fmt.Sprintf("%d, 1024, 1024", n))
	if _, err := z.Write(header); err != nil {
		t.Fatal(err)
	}
	if err := z.Flush(); err != nil {
		t.Fatal(err)
	}
	first := bytes.Clone(piece.Bytes())
	piece.Reset()
	z.Reset(&piece)
	if _, err := z.Write(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Flush(); err != nil {
		t.Fatal(err)
	}
	last := []byte{3, 0} // an empty final block
	body := append(append(first, bytes.Repeat(piece.Bytes(), n/8)...), last...)
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	w, err := archive.CreateRaw(&zip.FileHeader{
		Name: "x.npy", Method: zip.Deflate, CompressedSize64: uint64(len(body)), UncompressedSize64: uint64(len(header)) + uint64(n)<<20,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	y, err := archive.Create("y.npy")
	if err == nil {
		_, err = y.Write(append(npyHeader(fmt.Sprintf("%d,", n)), make([]byte, n)...))
	}
	if err = errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// hugeBatch returns the bundled model with a fixed batch of 2³¹. The argument 'input' is the new name of the model's
// input.
func hugeBatch(t *testing.T, input string) []byte {
	t.Helper()
	data, err := os.ReadFile(cnn)
	if err != nil {
		t.Fatal(err)
	}
	var m onnxpb.ModelProto
	if err := proto.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	in := m.Graph.Input[0]
	for _, node := range m.Graph.Node {
		for i, name := range node.Input {
			if name == in.GetName() {
				node.Input[i] = input
			}
		}
	}
	in.Name = proto.String(input)
	in.Type.GetTensorType().Shape.Dim[0].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 1 << 31}
	if data, err = proto.Marshal(&m); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestHostileInputs gives the program hostile inputs. Some claim a size far above the limit on the memory for an input,
// and some unpack to such a size. Some are models whose input tensor has a name that is very long or contains control
// characters. The program must soon end with exit code 2, print a short error without control characters, and use
// little memory.
func TestHostileInputs(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes")
	}
	const gigabytes = 6 << 10 // MiB
	idx := func(n, h, w uint32) []byte {
		b := []byte{0, 0, 8, 3}
		for _, d := range []uint32{n, h, w} {
			b = binary.BigEndian.AppendUint32(b, d)
		}
		return b
	}
	images := "t10k-images-idx3-ubyte.gz"
	for _, tt := range []struct {
		name, file string
		data       []byte
		model      bool
		want       string
	}{
		{"idx that unpacks to what it promises", images, gzipBomb(t, idx(gigabytes, 1024, 1024), gigabytes), false, "of memory"},
		{"idx that unpacks to more", images, gzipBomb(t, idx(1000, 28, 28), gigabytes), false, "more data than its header promises"},
		{"npz", "d.npz", npzBomb(t, gigabytes), false, "of memory"},
		{"fixed batch of 2³¹", "m.onnx", hugeBatch(t, "image"), true, "2147483648"},
		{"name of a tensor", "m.onnx", hugeBatch(t, "\x1b[31mimage\n"), true, `\x1b[31mimage\n`},
		{"long name of a tensor", "m.onnx", hugeBatch(t, strings.Repeat("x", 1<<20)), true, "xxx"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := writeFile(t, filepath.Join(dir, tt.file), tt.data)
			if tt.file == images {
				writeFile(t, filepath.Join(dir, "t10k-labels-idx1-ubyte"), append([]byte{0, 0, 8, 1, 0, 0, 0, 1}, 0))
			}
			model, data := cnn, path
			if tt.model {
				model, data = path, "../../testdata/mnist"
			}
			cmd := program(t, "certify", "--model", model, "--data", data, "--sigma", "0.5", "--quiet", "--out", filepath.Join(dir, "run"))
			said, err := cmd.CombinedOutput()
			took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			var exit *exec.ExitError
			text, hint, _ := strings.Cut(strings.TrimSuffix(string(said), "\n"), "\nhint: ")
			if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || !strings.HasPrefix(text, "rscert: ") || !strings.Contains(text, tt.want) {
				t.Fatalf("ended with %v, want exit code %d and %q:\n%.2000s", err, exitUsage, tt.want, said)
			}
			if strings.ContainsAny(text+hint, "\n\x1b") || len(text) > 300+len(dir) {
				t.Errorf("said %.2000q", said)
			}
			if took > time.Minute {
				t.Errorf("computed for %v", took)
			}
			if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && runtime.GOOS == "linux" {
				t.Logf("%d kB of file, %d MiB of memory, %v", len(tt.data)>>10, usage.Maxrss>>10, took)
				// Maxrss includes the memory of the test process, because the child process began as a copy of the test
				// process.
				if usage.Maxrss>>10 > 2048 {
					t.Errorf("took %d MiB of memory", usage.Maxrss>>10)
				}
			}
		})
	}
}

// TestDamagedLibrary copies the library from the cache to another cache folder, and flips a bit of the copy. rscert
// must not load this copy.
func TestDamagedLibrary(t *testing.T) {
	if os.Getenv("RSCERT_ONNXRUNTIME") != "" {
		t.Skip("the library is not the one in the cache")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "rscert/onnxruntime/*/"+runtime.GOOS+"-"+runtime.GOARCH+"/libonnxruntime.*"))
	if err != nil || len(found) == 0 {
		t.Skip("no library is in the cache")
	}
	elsewhere := t.TempDir()
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		name, err := filepath.Rel(cache, path)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(elsewhere, name), data)
	}
	cmd := program(t, certifyArgs(filepath.Join(t.TempDir(), "run"))...)
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+elsewhere)
	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "damaged: its SHA-256") {
		t.Errorf("ended with %v: %s", err, said)
	}
}
