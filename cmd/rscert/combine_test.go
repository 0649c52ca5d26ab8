package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// routerModel writes a model of two classes. The model answers class 0 if the mean of the pixels is below the
// threshold, and class 1 otherwise.
func routerModel(t *testing.T, threshold float32) string {
	t.Helper()
	tensor := func(name string, dims ...int64) *onnxpb.ValueInfoProto {
		v := graph.FloatTensor(name, append([]int64{1}, dims...))
		v.GetType().GetTensorType().Shape.Dim[0] = &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}}
		return v
	}
	b := graph.NewInitializing(graph.Numbered("c"))
	mean := b.Op("Flatten", b.Op("GlobalAveragePool", "x"))
	y := b.Op("Add", b.Op("Mul", mean, b.Floats(nil, -100, 100)), b.Floats(nil, 100*threshold, -100*threshold))
	b.Add(graph.Node("Identity", []string{y}, "y"))
	m := &onnxpb.ModelProto{
		IrVersion: proto.Int64(8), OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: proto.Int64(15)}},
		Graph: &onnxpb.GraphProto{Name: proto.String("router"), Input: []*onnxpb.ValueInfoProto{tensor("x", 1, 28, 28)},
			Output: []*onnxpb.ValueInfoProto{tensor("y", 2)}, Initializer: b.Initializers, Node: b.Nodes},
	}
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, filepath.Join(t.TempDir(), "router.onnx"), data)
}

// TestCombine combines runs of the bundled models: first a router with two experts, then several runs without a router.
func TestCombine(t *testing.T) {
	rscert, dir := inProcess(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, flags := range map[string][]string{
		"router": {"--model", routerModel(t, 0.13), "--labels", "none", "--sigma", "0.5", "--seed", "3", "--alpha", "0.002"},
		"a":      {"--model", cnn, "--sigma", "0.25", "--seed", "1"},
		"b":      {"--model", torchCNN, "--sigma", "0.5", "--seed", "2", "--alpha", "0.004"},
		"c":      {"--model", cnn, "--model", torchCNN, "--sigma", "0.25", "--seed", "5"},
		"same":   {"--model", torchCNN, "--sigma", "0.25", "--seed", "1"}, // the same seed as the run 'a'
	} {
		rscert(exitDone, sampling(path(name), flags...)...)
	}
	certs := func(name string) []certify.Certificate {
		return decodeLines[certify.Certificate](t, filepath.Join(path(name), "certificates.jsonl"))
	}
	router, a, b, c := certs("router"), certs("a"), certs("b"), certs("c")

	rscert(exitDone, "combine", "--router", path("router"), path("a"), path("b"), "--out", path("routed"), "--quiet")
	routes := map[int]int{}
	for i, got := range certs("routed") {
		class, radius, members := certify.Abstained, 0.0, 1
		if s := router[i].Prediction; s >= 0 {
			expert := [][]certify.Certificate{a, b}[s][i]
			routes[s]++
			members = 2
			if class = expert.Prediction; class >= 0 {
				radius = min(router[i].Radius, expert.Radius)
			}
			if got.Members[1].Radius != expert.Radius || got.Members[1].Alpha != expert.Alpha || got.Members[1].Sigma != expert.Sigma {
				t.Errorf("example %d: members %+v", i, got.Members)
			}
		}
		if got.Prediction != class || got.Radius != radius || got.Label != a[i].Label || got.Correct != (class == a[i].Label) || len(got.Members) != members {
			t.Errorf("example %d: %+v; want class %d, radius %v", i, got, class, radius)
		}
		if got.Alpha != 0.006 || got.Method != "combined" || !got.Sound || got.Sampled != 4 || got.Sigma != 0 || got.Composition != "router with 2 experts" {
			t.Errorf("example %d: %+v", i, got)
		}
	}
	if len(routes) != 2 {
		t.Errorf("the router uses experts %v: want both", routes)
	}

	printed := rscert(exitDone, "combine", path("a"), path("b"), path("c"), "--out", path("most"), "--json")
	if !hasMembers(printed, `"composition":"majority"`, `"quorum":2`, `"at_least":2`, `"independent":true`, `"schema":"rscert/combine/1"`) {
		t.Errorf("combine prints\n%s", printed)
	}
	// upper bound on the probability that at least one of the three certificates is false
	const total = 1 - (1-0.001)*(1-0.004)*(1-0.001)
	for i, got := range certs("most") {
		want := certify.Poll([]certify.Certificate{a[i], b[i], c[i]}, 2)
		if got.Prediction != want.Class || got.Radius != want.Radius || math.Abs(got.Alpha-total) > 1e-12 {
			t.Errorf("example %d: %+v, want %+v", i, got, want)
		}
	}
	rscert(exitDone, "combine", path("a"), path("b"), path("c"), "--by", "agree", "--out", path("all"), "--quiet")
	for i, got := range certs("all") {
		class, radius := certify.Abstained, 0.0
		if p := a[i].Prediction; p >= 0 && p == b[i].Prediction && p == c[i].Prediction {
			class, radius = p, min(a[i].Radius, b[i].Radius, c[i].Radius)
		}
		if got.Prediction != class || got.Radius != radius || math.Abs(got.Alpha-total) > 1e-12 {
			t.Errorf("example %d: %+v, want class %d, radius %v", i, got, class, radius)
		}
	}
	rscert(exitDone, "combine", path("a"), path("same"), path("c"), "--at-least", "3", "--out", path("dependent"), "--quiet")
	if got := certs("dependent")[0]; got.Alpha < 0.0015 || got.Alpha > 0.0015+1e-15 { // by Markov's inequality
		t.Errorf("runs of one seed: alpha %v", got.Alpha)
	}

	// The command 'report' must read the folder of a combination as it reads a run folder, also with --require or
	// --json. Other commands must refuse the folder.
	if got := rscert(exitDone, "report", path("routed"), "--json"); !hasMembers(got, `"method":"combined"`, `"alpha":0.006`, `"selected":4`, `"composition":"router with 2 experts"`) {
		t.Errorf("report prints\n%s", got)
	}
	rscert(exitDone, "report", path("routed"), filepath.Join(path("most"), "certificates.jsonl"), "--require", "certified-accuracy@0>=0")
	rscert(exitRequirement, "report", path("routed"), "--require", "certified-accuracy@9>=0.5")
	for _, command := range [][]string{
		{"radius", path("most")}, {"metrics", path("most")}, {"confidence", path("most"), "--radii", "0.1"}, {"acce", path("most")}, {"audit", path("most")},
		{"merge", path("most"), "--out", path("merged")}, {"compare", path("a"), path("most")}, {"serve", "--run", path("most")},
		{"predict", "--run", path("most"), "--data", "../../testdata/mnist"}, {"combine", path("a"), path("most"), "--out", path("new")},
	} {
		if said := rscert(exitUsage, command...); !strings.Contains(said, "no run folder") {
			t.Errorf("%v: %s", command, said)
		}
	}
	testCombineRefused(t, rscert, path)
}

// testCombineRefused checks that combine refuses runs that do not fit together. The error must name the difference.
func testCombineRefused(t *testing.T, rscert func(int, ...string) string, path func(string) string) {
	for name, flags := range map[string][]string{
		"laplace":   {"--model", cnn, "--sigma", "0.25", "--law", "laplace"},
		"float":     {"--model", cnn, "--sigma", "0.25", "--noise", "float"},
		"label":     {"--model", cnn, "--sigma", "0.25", "--class", "label"},
		"lipschitz": {"--model", cnn, "--sigma", "0.25", "--margin", "first", "--lipschitz", "1"},
		"unsound":   {"--model", cnn, "--sigma", "0.25", "--method", "moutaouakil"},
		"others":    {"--model", cnn, "--sigma", "0.25", "--skip", "2"},
		"scores":    {"--model", cnn, "--sigma", "0.25", "--scores", "--method", "betting"},
		"risky":     {"--model", routerModel(t, 0.13), "--labels", "none", "--sigma", "0.5", "--seed", "3", "--alpha", "0.997"},
		"unlabeled": {"--model", cnn, "--sigma", "0.25", "--labels", "none"},
	} {
		rscert(exitDone, sampling(path(name), flags...)...)
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"a", "want two or more run folders"},
		{"a a", "is the same run as"},
		{"a laplace", "the norm of the radii is l2, then l1"},
		{"a float", "the arithmetic is exact, then idealised"},
		{"a label", "--class was predicted, then label"},
		{"a lipschitz", "its radius rests on a given Lipschitz constant"},
		{"a unsound", "its method moutaouakil is not sound"},
		{"a scores", "its method betting certifies from scores"},
		{"a b --router risky", "the alphas of the runs add up to 1.001"},
		{"a others", "they certify other examples"},
		{"a unlabeled", "the data sets differ"},
		{"a b --by best", `"best": want majority or agree`},
		{"a b c --at-least 1", "2 to 3 can be required"},
		{"a b c --at-least 4", "2 to 3 can be required"},
		{"a b c --by agree --at-least 2", "3 to 3 can be required"},
		{"a b --router router --at-least 2", "--at-least: is for runs of equal rank"},
		{"a b --router router --by agree", "--by: is for runs of equal rank"},
		{"a b c --router router", "the router has 2 classes, and 3 runs are given"},
		{"a b --router a", "the router has 10 classes, and 2 runs are given"},
		{"a unlabeled --router router", "the data sets differ"},
		{"a label --router router", "--class was predicted, then label"},
		{"a laplace --router router", "the norm of the radii is l2, then l1"},
		{"a missing", "no such file or directory"},
	} {
		args := []string{"combine"}
		for word := range strings.FieldsSeq(c.args) {
			if _, err := os.Stat(path(word)); err == nil || word == "missing" {
				word = path(word)
			}
			args = append(args, word)
		}
		if said := rscert(exitUsage, append(args, "--out", path("new"))...); !strings.Contains(said, c.want) {
			t.Errorf("%s: %swant %s", c.args, said, c.want)
		}
		if _, err := os.Stat(path("new")); !errors.Is(err, os.ErrNotExist) {
			t.Fatal("a refused combination left a folder")
		}
	}
	if said := rscert(exitUsage, "combine", path("a"), path("b"), "--out", path("c")); !strings.Contains(said, "exists already") {
		t.Error(said)
	}
	if said := rscert(exitUsage, "combine", path("a"), path("b")); !strings.Contains(said, "--out is missing") {
		t.Error(said)
	}
	// combine must refuse a certificate that claims more than its votes prove.
	file := filepath.Join(path("a"), "certificates.jsonl")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, bytes.Replace(text, []byte(`"radius":0.`), []byte(`"radius":9.`), 1))
	said := rscert(exitUsage, "combine", path("a"), path("b"), "--out", path("new"))
	if !strings.Contains(said, fmt.Sprintf("%s:1:", file)) {
		t.Error(said)
	}
}
