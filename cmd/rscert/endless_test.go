package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/runfolder"
)

// endlessModel returns a model of two features and two classes. A linear layer computes the scores s. The given
// constants and nodes then compute the output y from s.
func endlessModel(t *testing.T, constants *graph.Builder, nodes ...*onnxpb.NodeProto) string {
	t.Helper()
	tensor := func(name string) *onnxpb.ValueInfoProto {
		v := graph.FloatTensor(name, []int64{0, 2})
		v.GetType().GetTensorType().Shape.Dim[0] = &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}}
		return v
	}
	w := constants.Floats([]int64{2, 2}, 1, -1, -1, 1)
	m := &onnxpb.ModelProto{
		IrVersion: proto.Int64(8), OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: proto.Int64(15)}},
		Graph: &onnxpb.GraphProto{
			Name: proto.String("endless"), Input: []*onnxpb.ValueInfoProto{tensor("x")}, Output: []*onnxpb.ValueInfoProto{tensor("y")},
			Initializer: constants.Initializers, Node: append([]*onnxpb.NodeProto{graph.Node("MatMul", []string{"x", w}, "s")}, append(constants.Nodes, nodes...)...),
		},
	}
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// neverOpens returns a model whose session takes minutes to open, because ONNX Runtime first multiplies large constant
// matrices.
func neverOpens(t *testing.T) string {
	b := graph.NewInitializing(graph.Numbered("c"))
	value := &onnxpb.AttributeProto{Name: proto.String("value"), Type: onnxpb.AttributeProto_TENSOR.Enum(),
		T: &onnxpb.TensorProto{DataType: proto.Int32(int32(graph.Float32)), Dims: []int64{1}, FloatData: []float32{1e-4}}}
	c := b.Node("ConstantOfShape", []string{b.Ints(3000, 3000)}, value)
	for range 40 {
		c = b.Op("MatMul", c, c)
	}
	return endlessModel(t, b, graph.Node("ReduceMean", []string{c}, "m", graph.IntAttribute("keepdims", 0)), graph.Node("Add", []string{"s", "m"}, "y"))
}

// neverReturns returns a model with a loop of 2^62 rounds. The body of the loop has no nodes. The loop runs for inputs
// with a score above 1,000.
func neverReturns(t *testing.T) string {
	b := graph.NewInitializing(graph.Numbered("c"))
	flag := func(name string) *onnxpb.ValueInfoProto {
		v := graph.FloatTensor(name, nil)
		v.GetType().GetTensorType().ElemType = proto.Int32(int32(graph.Bool))
		return v
	}
	count := graph.FloatTensor("i", nil)
	count.GetType().GetTensorType().ElemType = proto.Int32(int32(graph.Int64))
	scores := graph.FloatTensor("v", []int64{0, 2})
	scores.GetType().GetTensorType().Shape.Dim[0].Value = nil
	body := &onnxpb.GraphProto{Name: proto.String("body"), Input: []*onnxpb.ValueInfoProto{count, flag("go"), scores},
		Output: []*onnxpb.ValueInfoProto{flag("go"), proto.CloneOf(scores)}}
	rounds := b.Op("Squeeze", b.Ints(1<<62))
	return endlessModel(t, b,
		graph.Node("ReduceMax", []string{"s"}, "largest", graph.IntAttribute("keepdims", 0)),
		graph.Node("Greater", []string{"largest", b.Floats([]int64{}, 1000)}, "beyond"),
		graph.Node("Loop", []string{rounds, "beyond", "s"}, "y",
			&onnxpb.AttributeProto{Name: proto.String("body"), Type: onnxpb.AttributeProto_GRAPH.Enum(), G: body}))
}

// interrupt sends SIGINT to a command and waits for its end. It returns the time from the signal to the end, and the
// command's messages.
func interrupt(t *testing.T, cmd *exec.Cmd, ready func() bool) (time.Duration, string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	limit := elapsed(60 * time.Second)
	for !ready() {
		if limit() {
			_ = cmd.Process.Kill()
			<-ended
			t.Fatalf("is not ready after a minute\n%s", &stderr)
		}
		select {
		case err := <-ended:
			t.Fatalf("ended by itself: %v\n%s", err, &stderr)
		case <-time.After(20 * time.Millisecond):
		}
	}
	start := time.Now()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
			t.Errorf("ended with %v, want exit code %d\n%s", err, exitInterrupted, &stderr)
		}
	case <-time.After(60 * time.Second):
		_ = cmd.Process.Kill()
		<-ended
		t.Errorf("goes on a minute after the signal")
	}
	return time.Since(start), stderr.String()
}

// elapsed returns a function that reports whether the time d has passed since the call of elapsed.
func elapsed(d time.Duration) func() bool {
	from := time.Now()
	return func() bool { return time.Since(from) > d }
}

// signalLimit is the maximum time between a signal and the end of a command.
const signalLimit = 5 * time.Second

func writeTable(t *testing.T, rows ...[2]float64) string {
	t.Helper()
	text := "a,b,label\n"
	for _, r := range rows {
		text += fmt.Sprintf("%v,%v,0\n", r[0], r[1])
	}
	path := filepath.Join(t.TempDir(), "table.csv")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSignalWhileOpening sends a signal while ONNX Runtime executes a call that cannot be interrupted.
func TestSignalWhileOpening(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	cmd := program(t, "certify", "--model", neverOpens(t), "--data", writeTable(t, [2]float64{1, 0}), "--sigma", "0.5", "--n", "1000", "--out", out, "--device", "cpu")
	took, said := interrupt(t, cmd, elapsed(3*time.Second))
	if took > signalLimit {
		t.Errorf("took %v", took)
	}
	if !strings.Contains(said, "rscert: interrupted: a call of ONNX Runtime did not end within 4s") {
		t.Errorf("said %q", said)
	}
}

// TestSignalInLoop sends a signal while a noisy copy of the last example is in an endless loop. The run folder must
// then hold the votes of at least 100 other examples, and the command 'radius' must accept them.
func TestSignalInLoop(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	rows := make([][2]float64, 300)
	// noise may raise the score of a copy of this example above 1,000, and then the model does not return
	rows[299] = [2]float64{999, 0}
	cmd := program(t, "certify", "--model", neverReturns(t), "--data", writeTable(t, rows...), "--sigma", "0.5", "--n0", "50", "--n", "200",
		"--out", out, "--device", "cpu", "--quiet")
	count := func(name string) int {
		text, _ := os.ReadFile(filepath.Join(out, name))
		return bytes.Count(text, []byte("\n"))
	}
	written, since := 0, time.Now()
	// wait until there are votes of more than 100 examples and no votes have been added for a second
	took, said := interrupt(t, cmd, func() bool {
		if n := count(runfolder.VotesFile); n != written {
			written, since = n, time.Now()
		}
		return written > 100 && time.Since(since) > time.Second
	})
	if took > signalLimit {
		t.Errorf("took %v: %s", took, said)
	}
	if !strings.Contains(said, "rscert: interrupted") {
		t.Errorf("said %q", said)
	}
	if votes := count(runfolder.VotesFile); votes < 100 || votes >= len(rows) {
		t.Errorf("%d votes", votes)
	}
	if text, err := program(t, "radius", out, "--json").CombinedOutput(); err != nil {
		t.Errorf("radius: %v\n%s", err, text)
	}
}
