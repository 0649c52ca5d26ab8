package graph

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// The labels come from real exports of scikit-learn. scikit-learn sorts the labels of the training data. The comments
// name the operators that give the labels.
func TestClassLabels(t *testing.T) {
	for name, want := range map[string][]string{
		"sklearn_logistic_strings_zipmap": {"setosa", "versicolor", "virginica"}, // ZipMap and LinearClassifier
		"sklearn_logistic_species_tensor": {"blue", "tall", "wild"},              // LinearClassifier
		"sklearn_mlp_tens_tensor":         {"10", "20", "30"},                    // ArrayFeatureExtractor
		"sklearn_logistic_from1_zipmap":   {"1", "2", "3"},
		"sklearn_forest_multi_tensor":     nil, // the labels are 0, 1, 2, so ClassLabels returns nil
		"torch_logit_legacy":              nil,
	} {
		if got := exportedFile(t, name).ClassLabels(); !slices.Equal(got, want) {
			t.Errorf("%s: labels %q, want %q", name, got, want)
		}
	}
}

func exportedFile(t *testing.T, name string) *File {
	t.Helper()
	model, err := os.ReadFile(filepath.Join("../onnx/testdata/exports", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(model, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// If two outputs have different labels, ClassLabels returns no labels. It also returns no labels for a graph with a
// cycle, and does not run forever.
func TestClassLabelsUnclear(t *testing.T) {
	f := exportedFile(t, "sklearn_logistic_species_tensor")
	g := f.Model.Graph
	other := Node("LinearClassifier", []string{"x"}, "other")
	other.Attribute = append(other.Attribute, &onnxpb.AttributeProto{Name: proto.String("classlabels_ints"), Ints: []int64{7, 8}})
	g.Node = append(g.Node, other)
	g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: proto.String("other")})
	if got := f.ClassLabels(); got != nil {
		t.Errorf("labels %q of two lists", got)
	}
	g.Node = []*onnxpb.NodeProto{Node("Identity", []string{"b"}, "a"), Node("Identity", []string{"a"}, "b")}
	g.Output = []*onnxpb.ValueInfoProto{{Name: proto.String("a")}}
	if got := f.ClassLabels(); got != nil {
		t.Errorf("labels %q of a cycle", got)
	}
}
