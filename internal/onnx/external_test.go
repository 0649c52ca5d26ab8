package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
)

// The function 'wide' returns a model with a batch fixed at 1 and weights of various sizes. One more initializer holds
// the target shape of a Reshape. ONNX Runtime uses the weight w_add as it is stored. Its kernels may copy the other
// weights and reorder the copies.
func wide() *modelBuilder {
	return newModel("x", graph.Float32, 1, 3, 4, 4).weights("w_in", graph.Float32, 16, 3, 3, 3).node("Conv", "x w_in", "c", ints("pads", 1, 1, 1, 1)).
		node("Relu", "c", "r").reshape("r", "f", 1, 256).weights("w_mid", graph.Float32, 256, 33).weights("w_add", graph.Float32, 256).
		node("Add", "f w_add", "g").node("MatMul", "g w_mid", "m").
		weights("b_mid", graph.Float32, 33).node("Add", "m b_mid", "a").node("Relu", "a", "h").weights("w_out", graph.Float32, 33, 4).
		node("MatMul", "h w_out", "y").output("y", graph.Float32, 1, 4)
}

// elementBits gives the number of bits in one element of each type. The types and sizes come from onnx.proto.
var elementBits = map[onnxpb.TensorProto_DataType]uint64{
	onnxpb.TensorProto_FLOAT: 32, onnxpb.TensorProto_DOUBLE: 64, onnxpb.TensorProto_FLOAT16: 16, onnxpb.TensorProto_BFLOAT16: 16,
	onnxpb.TensorProto_INT8: 8, onnxpb.TensorProto_INT16: 16, onnxpb.TensorProto_INT32: 32, onnxpb.TensorProto_INT64: 64,
	onnxpb.TensorProto_UINT8: 8, onnxpb.TensorProto_UINT16: 16, onnxpb.TensorProto_UINT32: 32, onnxpb.TensorProto_UINT64: 64,
	onnxpb.TensorProto_BOOL: 8, onnxpb.TensorProto_COMPLEX64: 64, onnxpb.TensorProto_COMPLEX128: 128,
	17: 8, 18: 8, 19: 8, 20: 8, // float8
	21: 4, 22: 4, 23: 4, // uint4, int4, float4
}

// eachTensor calls f for every tensor in the model.
func eachTensor(m *onnxpb.ModelProto, f func(*onnxpb.TensorProto)) {
	visit := func(v protopath.Values) error {
		if message, ok := v.Index(-1).Value.Interface().(protoreflect.Message); ok {
			if t, ok := message.Interface().(*onnxpb.TensorProto); ok {
				f(t)
			}
		}
		return nil
	}
	_ = protorange.Options{Stable: true}.Range(m.ProtoReflect(), visit, nil)
}

// The function 'moved' moves the data of all tensors of the model to an external file with the given name. Each tensor
// begins at a multiple of the argument 'align'. The function returns the contents of this file.
func moved(b *modelBuilder, name string, align int) []byte {
	file := []byte{0}
	eachTensor(b.ModelProto, func(t *onnxpb.TensorProto) {
		raw := t.RawData
		for _, v := range t.FloatData {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		for _, v := range t.Int64Data {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
		}
		file = append(file, make([]byte, (align-len(file)%align)%align)...)
		t.RawData, t.FloatData, t.Int64Data = nil, nil, nil
		t.DataLocation = onnxpb.TensorProto_EXTERNAL.Enum()
		t.ExternalData = entries("location", name, "offset", strconv.Itoa(len(file)), "length", strconv.Itoa(len(raw)))
		file = append(file, raw...)
	})
	return file
}

func entries(keysAndValues ...string) (list []*onnxpb.StringStringEntryProto) {
	for pair := range slices.Chunk(keysAndValues, 2) {
		list = append(list, &onnxpb.StringStringEntryProto{Key: proto.String(pair[0]), Value: proto.String(pair[1])})
	}
	return list
}

func writeFile(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sameScores loads a model twice, once from one file and once with external weights. It compares the bits of the
// scores.
func sameScores(t *testing.T, r *Runtime, opt LoadOptions, b *modelBuilder, align int) {
	t.Helper()
	want := loadOn(t, r, b.bytes(t), opt)
	split := &modelBuilder{ModelProto: proto.CloneOf(b.ModelProto)}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "sub", "w.data"), moved(split, "./sub/w.data", align))
	file, err := graph.ReadModel(writeFile(t, filepath.Join(dir, "m.onnx"), split.bytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range file.Weights.Initializers(file.Model.Graph) {
		element := elementBits[onnxpb.TensorProto_DataType(w.Type)] / 8
		if address := uintptr(unsafe.Pointer(&w.Data[0])); uint64(address)%element != 0 {
			t.Errorf("weight '%s' lies at %x", w.Name, address)
		}
	}
	got, err := r.LoadFile(t.Context(), file, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Close() })
	if fmt.Sprint(warningsOf(got)) != fmt.Sprint(warningsOf(want)) || got.Batch() != want.Batch() {
		t.Errorf("warnings %v, batch %d; of one file %v, %d", warningsOf(got), got.Batch(), warningsOf(want), want.Batch())
	}
	for i := range 20 {
		in := slices.Concat(randomSamples(want.InputLen())[:]...)
		in = slices.Repeat(in, want.Batch()/poolSize+1)[:want.Batch()*want.InputLen()]
		a, b := make([]float32, want.Batch()*want.Classes()), make([]float32, want.Batch()*want.Classes())
		in[0] += float32(i)
		if err := want.Run(t.Context(), in, a); err != nil {
			t.Fatal(err)
		}
		if err := got.Run(t.Context(), in, b); err != nil {
			t.Fatal(err)
		}
		if !sameBits(a, b) {
			t.Fatal("the scores differ from those of the model in one file")
		}
	}
}

// TestExternalSameBits loads each model twice: with the weights inside the model's file, and with the weights in
// another file. The scores must have the same bits, and the batches and the warnings must be the same.
func TestExternalSameBits(t *testing.T) {
	r := openRuntime(t)
	for _, align := range []int{64, 4, 1} {
		sameScores(t, r, LoadOptions{Device: CPU}, wide(), align)
	}
	for _, name := range []string{"nchw", "old", "float64", "float16", "fixed_full", "fixed_shared", "fixed_token", "fixed_8", "batch_size", "stuck"} {
		t.Run(name, func(t *testing.T) { sameScores(t, r, LoadOptions{Device: CPU}, testModels[name](), 1) })
	}
}

// TestExternalTypes covers every type of weight that a session uses in place, and one type that a session copies.
func TestExternalTypes(t *testing.T) {
	b := testModels["nchw"]()
	b.IrVersion, b.OpsetImport[0].Version = proto.Int64(10), proto.Int64(19)
	y := b.Graph.Node[len(b.Graph.Node)-1].Output
	y[0] = "sum0"
	types := 0
	for typ := range onnxpb.TensorProto_DataType(18) {
		width, ok := elementBits[typ]
		if !ok || typ == onnxpb.TensorProto_COMPLEX64 || typ == onnxpb.TensorProto_COMPLEX128 {
			continue
		}
		w, from, to := fmt.Sprint("of", typ), fmt.Sprint("sum", types), fmt.Sprint("sum", types+1)
		raw := slices.Repeat([]byte{1, 2, 3, 4, 5, 6, 7, 8}, int(width)*512/8)
		if typ == onnxpb.TensorProto_BOOL {
			raw = slices.Repeat([]byte{1, 0}, 2048)
		}
		b.Graph.Initializer = append(b.Graph.Initializer, &onnxpb.TensorProto{Name: proto.String(w), DataType: proto.Int32(int32(typ)),
			Dims: []int64{int64(len(raw)) * 8 / int64(width)}, RawData: raw})
		b.node("Cast", w, w+"f", integer("to", int64(graph.Float32))).node("ReduceMean", w+"f", w+"m", integer("keepdims", 0)).
			node("Tanh", w+"m", w+"t").node("Add", from+" "+w+"t", to)
		types++
	}
	if types != 14 {
		t.Errorf("%d types", types)
	}
	b.node("Identity", fmt.Sprint("sum", types), "y")
	sameScores(t, openRuntime(t), LoadOptions{Device: CPU}, b, 64)
}

// TestOpenVINOExternal makes the checks of TestExternalSameBits for one model on OpenVINO.
func TestOpenVINOExternal(t *testing.T) {
	inPrecisions(t, func(t *testing.T, r *Runtime, d Device, p Precision) {
		sameScores(t, r, LoadOptions{Device: d, Precision: p, Batch: 32}, wide(), 64)
		sameScores(t, r, LoadOptions{Device: CPU}, wide(), 64)
	})
}

// The function 'hostile' returns a model whose first weight is external, with the given keys and values in its
// external_data.
func hostile(pairs ...string) *modelBuilder {
	b := wide()
	w := b.Graph.Initializer[0]
	w.RawData, w.DataLocation, w.ExternalData = nil, onnxpb.TensorProto_EXTERNAL.Enum(), entries(pairs...)
	return b
}

// TestExternalRefused checks errors about external files that rscert must not read. Each error must name the tensor and
// the fault.
func TestExternalRefused(t *testing.T) {
	const size = 16 * 3 * 3 * 3 * 4
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "model"), filepath.Join(dir, "outside")
	writeFile(t, filepath.Join(inside, "w"), make([]byte, size))
	writeFile(t, filepath.Join(inside, "short"), make([]byte, size-1))
	writeFile(t, filepath.Join(inside, "folder", "w"), nil)
	writeFile(t, filepath.Join(outside, "w"), make([]byte, size))
	writeFile(t, filepath.Join(inside, "*", "_ORT_MEM_ADDR_", "*"), nil)
	for link, target := range map[string]string{"out": filepath.Join(outside, "w"), "up": "../outside/w", "dir": outside, "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(inside, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(inside, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	huge := writeFile(t, filepath.Join(inside, "huge"), nil)
	if err := os.Truncate(huge, 1<<42); err != nil {
		t.Fatal(err)
	}
	retyped := func(typ int32, dims ...int64) *modelBuilder {
		b := hostile("location", "w")
		b.Graph.Initializer[0].DataType, b.Graph.Initializer[0].Dims = proto.Int32(typ), dims
		return b
	}
	for _, c := range []struct {
		model *modelBuilder
		want  string
	}{
		{hostile("location", "../outside/w"), "its file '../outside/w' is not in the model's folder"},
		{hostile("location", "folder/../../outside/w"), "is not in the model's folder"},
		{hostile("location", "folder/.."), "is not in the model's folder"},
		{hostile("location", filepath.Join(outside, "w")), "an absolute path"},
		{hostile("location", "out"), "its file 'out' in the model's folder: path escapes from parent"},
		{hostile("location", "up"), "path escapes from parent"},
		{hostile("location", "dir/w"), "path escapes from parent"},
		{hostile("location", "loop"), "too many levels"},
		{hostile("location", "folder"), "not a file, but a folder"},
		{hostile("location", "pipe"), "its file 'pipe': not a file, but a pipe"},
		{hostile("location", "huge"), "its file 'huge': a model of 4194304 MiB and more does not fit"},
		{hostile("location", "missing"), "its file 'missing' in the model's folder: no such file"},
		{hostile("location", ""), "no file is named"},
		{hostile(), "no file is named"},
		{hostile("location", `..\outside\w`), "has a name that rscert does not accept"},
		{hostile("location", "w\x1b[2J"), `its file 'w\x1b[2J' has a name that rscert does not accept`},
		{hostile("location", "w\x00"), "has a name that rscert does not accept"},
		{hostile("location", "w", "location", "w"), "says twice what its 'location' is"},
		{hostile("location", "w", "offset", "1"), "its 1728 bytes from byte 1 on are not in 'w', which has 1728 bytes"},
		{hostile("location", "w", "offset", strconv.Itoa(math.MaxInt64)), "are not in 'w'"},
		{hostile("location", "w", "offset", "9223372036854775808"), "its offset '9223372036854775808' is no number of bytes"},
		{hostile("location", "w", "offset", "-8"), "its offset '-8' is no number"},
		{hostile("location", "w", "offset", ""), "its offset '' is no number"},
		{hostile("location", "w", "length", "1724"), "its length is 1724 bytes, but its shape and type need 1728"},
		{hostile("location", "w", "length", "18446744073709551616"), "its length '18446744073709551616' is no number"},
		{hostile("location", "short"), "its 1728 bytes from byte 0 on are not in 'short', which has 1727 bytes"},
		{hostile("location", "*/_ORT_MEM_ADDR_/*", "offset", "4096"), "are not in '*/_ORT_MEM_ADDR_/*', which has 0 bytes"},
		{retyped(int32(onnxpb.TensorProto_STRING), 16, 3, 3, 3), "no tensor of string can be"},
		{retyped(99, 16, 3, 3, 3), "no tensor of type 99 can be"},
		{retyped(1, 1<<32, 1<<32), "its shape is out of bounds"},
		{retyped(1, -16, 3, 3, 3), "its shape is out of bounds"},
		{retyped(1, 1<<31, 1<<28), "its shape is out of bounds"},
		{retyped(1, 1<<30, 1<<28), "the tensors in other files do not fit into the memory"},
	} {
		_, err := graph.ReadModel(writeFile(t, filepath.Join(inside, "m.onnx"), c.model.bytes(t)))
		if err == nil || !strings.Contains(err.Error(), "m.onnx: tensor 'w_in': ") || !strings.Contains(err.Error(), c.want) ||
			strings.ContainsAny(err.Error(), "\x1b\n\x00") {
			t.Errorf("error %v, want %q", err, c.want)
		}
		var e hint.Hinted
		if !errors.As(err, &e) || e.Hint() == "" {
			t.Errorf("%q: no hint", c.want)
		}
	}
	// rscert must accept links to files within the folder. It must also accept paths that contain "./" or "//".
	if err := os.Symlink("../w", filepath.Join(inside, "folder", "link")); err != nil {
		t.Fatal(err)
	}
	for _, location := range []string{"folder/link", "./w", "folder//link"} {
		if _, err := graph.ReadModel(writeFile(t, filepath.Join(inside, "m.onnx"), hostile("location", location).bytes(t))); err != nil {
			t.Error(err)
		}
	}
}

// TestExternalDigest compares the digest with the output of the command in docs/results.md.
func TestExternalDigest(t *testing.T) {
	dir := t.TempDir()
	b := hostile("location", "weights/b.data", "offset", "16")
	w := b.Graph.Initializer[2]
	w.RawData, w.DataLocation, w.ExternalData = nil, onnxpb.TensorProto_EXTERNAL.Enum(), entries("location", "./a.data")
	digest := func() string {
		file, err := graph.ReadModel(writeFile(t, filepath.Join(dir, "m.onnx"), b.bytes(t)))
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-c", `cd "$1" && (sha256sum <m.onnx; sha256sum a.data weights/b.data) | sha256sum`, "sh", dir).Output()
		if err != nil {
			t.Skip("no sha256sum: ", err)
		}
		if want := strings.TrimSuffix(string(out), "  -\n"); file.SHA256() != want {
			t.Errorf("SHA-256 %s, want %s", file.SHA256(), want)
		}
		return file.SHA256()
	}
	data := make([]byte, 16+1728+5) // the last 5 bytes belong to no tensor
	writeFile(t, filepath.Join(dir, "a.data"), make([]byte, 256*33*4))
	writeFile(t, filepath.Join(dir, "weights", "b.data"), data)
	seen := map[string]bool{digest(): true}
	for _, i := range []int{0, 16, len(data) - 1} {
		data[i]++
		writeFile(t, filepath.Join(dir, "weights", "b.data"), data)
		seen[digest()] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d digests of 4 contents", len(seen))
	}
}

// TestExternalFrozen changes the weights' file after rscert has read the model and opened a first session. Sessions
// must use only the bytes that were hashed. The file is in the working directory, so the test also fails if a session
// reads the file from there.
func TestExternalFrozen(t *testing.T) {
	r, opt := openRuntime(t), LoadOptions{Device: CPU, Batch: 16}
	want := scores(t, loadOn(t, r, wide().bytes(t), opt), randomSamples(48)[:16])
	dir := t.TempDir()
	t.Chdir(dir)
	split := wide()
	data := moved(split, "w.data", 64)
	path, weights := writeFile(t, filepath.Join(dir, "m.onnx"), split.bytes(t)), writeFile(t, filepath.Join(dir, "w.data"), data)
	file, err := graph.ReadModel(path)
	if err != nil {
		t.Fatal(err)
	}
	// In the last round of the loop, only the session still refers to the memory of the weights.
	for i, spoil := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(weights, make([]byte, len(data)), 0o600) },
		func() error { return os.Truncate(weights, 0) },
		func() error { return os.Remove(weights) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		m, err := r.LoadFile(t.Context(), file, opt)
		if err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			file = nil
		}
		for range 2 {
			runtime.GC() // garbage collection unmaps unused memory
			time.Sleep(10 * time.Millisecond)
		}
		got := scores(t, m, randomSamples(48)[:16])
		for i := range got {
			if !sameBits(got[i], want[i]) {
				t.Fatalf("sample %d: %v, want %v", i, got[i], want[i])
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExternalTorch loads a model that torch.onnx.export wrote. It compares the scores with the scores of Python's ONNX
// Runtime.
func TestExternalTorch(t *testing.T) {
	file, err := graph.ReadModel("../../testdata/mnist-torch.onnx")
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Weights) < 2 {
		t.Errorf("%d weights are used where they lie", len(file.Weights))
	}
	m, err := openRuntime(t).LoadFile(t.Context(), file, LoadOptions{Device: CPU, Batch: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(warningsOf(m)) > 0 || m.Outputs() != graph.Logits || m.InputLen() != 784 || m.Classes() != 10 {
		t.Errorf("%v, %v, %d values, %d classes", warningsOf(m), m.Outputs(), m.InputLen(), m.Classes())
	}
	x := make([]float32, 784)
	for i := range x {
		x[i] = float32(i%29) / 29
	}
	want := []float32{-19.32989, -20.75211, -7.55014, -11.07354, -8.06843, -26.86339, -17.60461, -10.89698, -13.59712, -26.15249}
	for k, v := range scores(t, m, [][]float32{x})[0] {
		if math.Abs(float64(v-want[k])) > 1e-4 {
			t.Errorf("score %d is %v, want %v", k, v, want[k])
		}
	}
}

// TestReadModelCollected makes the garbage collector run constantly while a model is parsed. The memory of the file
// must not be freed before parsing ends.
func TestReadModelCollected(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	model := net()
	for i := range 100 {
		model.floats("w"+strconv.Itoa(i), make([]float32, 1<<16)...)
	}
	path := writeFile(t, filepath.Join(t.TempDir(), "m.onnx"), model.bytes(t))
	for range 3 {
		file, err := graph.ReadModel(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(file.Model.Graph.Initializer); got < 100 {
			t.Errorf("%d initializers", got)
		}
	}
}

// TestExternalTwins uses two weights with the same name. They must be copied into the graph, because a session can
// receive only one weight for each name.
func TestExternalTwins(t *testing.T) {
	b := wide()
	b.Graph.Initializer[2].Name = proto.String("w_in")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "w"), moved(b, "w", 64))
	file, err := graph.Parse(b.bytes(t), "", dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Weights) != 1 || len(file.Model.Graph.Initializer[0].RawData) != 1728 || len(file.Model.Graph.Initializer[2].RawData) != 256*33*4 {
		t.Errorf("%d weights, tensors of %d and %d bytes", len(file.Weights), len(file.Model.Graph.Initializer[0].RawData),
			len(file.Model.Graph.Initializer[2].RawData))
	}
}

// FuzzExternal parses damaged models whose folder holds one external file. An accepted model must refer only to
// existing weights. Joining an accepted model with a denoiser, with a classifier or with itself must not crash. If
// rscert refuses a model or a pair of models, the error must be one line.
func FuzzExternal(f *testing.F) {
	split := wide()
	data := moved(split, "w", 4)
	f.Add(split.bytes(f))
	f.Add(hostile("location", "w", "offset", "4").bytes(f))
	f.Add(denoiserNet(value("t", int64s, "N"), 6).bytes(f))
	dir := f.TempDir()
	writeFile(f, filepath.Join(dir, "w"), data)
	classifier, denoiser := testModels["nchw"]().file(f), denoiserNet(nil, 3).file(f)
	f.Fuzz(func(t *testing.T, model []byte) {
		file, err := graph.Parse(model, "", dir)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Fatalf("error %q", err)
			}
			return
		}
		external, weights := 0, file.Weights.Initializers(file.Model.Graph)
		eachTensor(file.Model, func(tensor *onnxpb.TensorProto) {
			if tensor.GetDataLocation() == onnxpb.TensorProto_EXTERNAL {
				external++
			}
		})
		if external != len(weights) {
			t.Fatalf("%d external tensors, %d weights", external, len(weights))
		}
		for _, w := range weights {
			size := elementBits[onnxpb.TensorProto_DataType(w.Type)] / 8
			for _, d := range w.Dims {
				size *= uint64(d)
			}
			if uint64(len(w.Data)) != size {
				t.Fatalf("%d bytes for %d", len(w.Data), size)
			}
		}
		epsilon := graph.Denoiser{Kind: graph.PredictedNoise, Low: -1, High: 1, AlphaBar: 0.5, Mean: []float64{1, 2, 3}}
		for _, pair := range [][2]*graph.File{{file, classifier}, {denoiser, file}, {file, file}} {
			joined, err := graph.Denoise(pair[0], pair[1], epsilon)
			if err == nil {
				_, err = proto.Marshal(joined.Model)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Fatalf("error %q", err)
			}
		}
	})
}
