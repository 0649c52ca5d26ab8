package graph

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// The type 'tree' describes one node of a tree: the node's number and the numbers of its two children. In a leaf, the
// field 'yes' equals the constant 'leaf'.
type tree struct{ id, yes, no int64 }

const leaf = -9

func intsAttribute(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_INTS.Enum(), Ints: v}
}

func modelOf(nodes ...*onnxpb.NodeProto) *onnxpb.ModelProto {
	return &onnxpb.ModelProto{Graph: &onnxpb.GraphProto{Node: nodes}}
}

// The function 'named' returns a classifier with one tree.
func named(nodes ...tree) *onnxpb.NodeProto {
	n := Node("TreeEnsembleClassifier", []string{"x"}, "y")
	n.Domain = proto.String(machineLearning)
	modes := &onnxpb.AttributeProto{Name: proto.String("nodes_modes"), Type: onnxpb.AttributeProto_STRINGS.Enum()}
	var texts []byte
	var trees, ids, yes, no []int64
	for _, t := range nodes {
		mode := "BRANCH_LEQ"
		if t.yes == leaf {
			mode, t.yes, t.no = "LEAF", 0, 0
		}
		trees, ids, yes, no = append(trees, 0), append(ids, t.id), append(yes, t.yes), append(no, t.no)
		texts = protowire.AppendBytes(protowire.AppendTag(texts, 9, protowire.BytesType), []byte(mode))
	}
	modes.ProtoReflect().SetUnknown(texts)
	n.Attribute = []*onnxpb.AttributeProto{modes, intsAttribute("nodes_treeids", trees...), intsAttribute("nodes_nodeids", ids...),
		intsAttribute("nodes_truenodeids", yes...), intsAttribute("nodes_falsenodeids", no...)}
	return n
}

// The function 'numbered' returns a TreeEnsemble (ai.onnx.ml, version 5) whose branches have the given children. The
// tree has two leaves. The number 100 as a child stands for leaf 0, and the number 101 for leaf 1.
func numbered(root int64, children ...[2]int64) *onnxpb.NodeProto {
	n := Node("TreeEnsemble", []string{"x"}, "y")
	n.Domain = proto.String(machineLearning)
	var ids, leaves [2][]int64
	for _, c := range children {
		for side, id := range c {
			isLeaf := int64(0)
			if id >= 100 {
				isLeaf, id = 1, id-100
			}
			ids[side], leaves[side] = append(ids[side], id), append(leaves[side], isLeaf)
		}
	}
	n.Attribute = []*onnxpb.AttributeProto{intsAttribute("tree_roots", root), intsAttribute("leaf_targetids", 0, 1),
		intsAttribute("nodes_truenodeids", ids[0]...), intsAttribute("nodes_trueleafs", leaves[0]...),
		intsAttribute("nodes_falsenodeids", ids[1]...), intsAttribute("nodes_falseleafs", leaves[1]...)}
	return n
}

func TestCheckTrees(t *testing.T) {
	twice := named(tree{0, leaf, 0})
	twice.Attribute = append(twice.Attribute, twice.Attribute[1])
	short := named(tree{0, 1, 2}, tree{1, leaf, 0}, tree{2, leaf, 0})
	short.Attribute[3].Ints = short.Attribute[3].Ints[:2]
	body := Node("If", []string{"c"}, "z", &onnxpb.AttributeProto{Name: proto.String("then_branch"), G: modelOf(named(tree{0, 0, 0})).Graph})
	inFunction := modelOf(Node("Relu", []string{"x"}, "y"))
	inFunction.Functions = []*onnxpb.FunctionProto{{Name: proto.String("f"), Node: []*onnxpb.NodeProto{named(tree{0, 0, 0})}}}
	const cycle, missing = "a node is its own descendant: TreeEnsemble", "with a child that does not exist"
	for name, c := range map[string]struct {
		model *onnxpb.ModelProto
		want  string // "" means that the model passes
	}{
		"tree":              {modelOf(named(tree{7, 1, 2}, tree{1, leaf, 0}, tree{2, 3, 4}, tree{3, leaf, 0}, tree{4, leaf, 0})), ""},
		"one leaf":          {modelOf(named(tree{0, leaf, 0})), ""},
		"children first":    {modelOf(named(tree{1, leaf, 0}, tree{2, leaf, 0}, tree{0, 1, 2})), ""},
		"shared child":      {modelOf(named(tree{0, 3, 1}, tree{1, 3, 2}, tree{2, leaf, 0}, tree{3, leaf, 0})), ""},
		"own root":          {modelOf(named(tree{0, 0, 1}, tree{1, leaf, 0})), cycle},
		"root of a child":   {modelOf(named(tree{0, 1, 2}, tree{1, leaf, 0}, tree{2, 1, 0})), cycle},
		"cycle off a path":  {modelOf(named(tree{0, leaf, 0}, tree{1, 2, 2}, tree{2, 1, 1})), cycle},
		"no such child":     {modelOf(named(tree{0, 1, 5}, tree{1, leaf, 0})), missing},
		"negative child":    {modelOf(named(tree{0, -1, 1}, tree{1, leaf, 0})), missing},
		"two of one number": {modelOf(named(tree{0, leaf, 0}, tree{0, leaf, 0})), "two nodes that have the same number"},
		"lists differ":      {modelOf(short), "differ in length"},
		"attribute twice":   {modelOf(twice), "given twice"},
		"no nodes":          {modelOf(named()), "without nodes"},
		"in a branch":       {modelOf(body), cycle},
		"in a function":     {inFunction, cycle},
		"opset 5":           {modelOf(numbered(0, [2]int64{1, 100}, [2]int64{100, 101})), ""},
		"opset 5, cycle":    {modelOf(numbered(0, [2]int64{1, 100}, [2]int64{0, 101})), cycle},
		"opset 5, itself":   {modelOf(numbered(0, [2]int64{0, 100})), cycle},
		"opset 5, no child": {modelOf(numbered(0, [2]int64{2, 100}, [2]int64{100, 101})), missing},
		"opset 5, no leaf":  {modelOf(numbered(0, [2]int64{100, 102})), missing},
		"opset 5, no root":  {modelOf(numbered(1, [2]int64{100, 101})), "a root that does not exist"},
	} {
		err := checkTrees(c.model)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// The function 'chain' returns a tree in which the two children of each branch are a leaf and the next branch.
func chain(length int64) []tree {
	var nodes []tree
	for i := range length - 1 {
		nodes = append(nodes, tree{2 * i, 2*i + 1, 2*i + 2}, tree{2*i + 1, leaf, 0})
	}
	return append(nodes, tree{2 * (length - 1), leaf, 0})
}

// TestDeepTrees checks that the limit applies to the length of paths. It also checks that the running time of
// checkTrees does not grow with the number of paths.
func TestDeepTrees(t *testing.T) {
	if err := checkTrees(modelOf(named(chain(maxTreeDepth)...))); err != nil {
		t.Error(err)
	}
	if err := checkTrees(modelOf(named(chain(maxTreeDepth + 1)...))); err == nil || !strings.Contains(err.Error(), "10000 nodes on a path") {
		t.Errorf("error %v", err)
	}
	var ladder []tree // there are 2^5000 paths
	for i := range int64(5000) {
		ladder = append(ladder, tree{i, i + 1, i + 1})
	}
	start := time.Now()
	if err := checkTrees(modelOf(named(append(ladder, tree{5000, leaf, 0})...))); err != nil || time.Since(start) > 10*time.Second {
		t.Errorf("a ladder takes %v, %v", time.Since(start), err)
	}
}
