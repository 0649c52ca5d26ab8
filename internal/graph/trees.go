package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file refuses decision trees that contain a cycle or are too deep. ONNX Runtime follows a tree from child to
// child without a limit, and nothing can interrupt it. When ONNX Runtime opens a session, it visits the nodes of each
// tree recursively, so deep trees would overflow the stack.

// maxTreeDepth is the maximum number of nodes on a path. A path of 50,000 nodes overflows the stack of ONNX Runtime
// 1.29. In most trees in practical use, paths have some tens of nodes. LightGBM tests a single category in each node,
// so its trees can have paths of thousands of nodes.
const maxTreeDepth = 10_000

// treeOperators are the operators of decision trees. TreeEnsemble stores branches and leaves in separate arrays.
var treeOperators = []string{"TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble"}

const treeHint = "export the model again: the file is damaged, or was made to hang its reader"

// checkTrees refuses a model with a tree that has a cycle, a child that does not exist, or a path of more than
// maxTreeDepth nodes. Several branches may share a child, as in LightGBM's trees. The time of the check is linear in
// the number of nodes.
func checkTrees(m *onnxpb.ModelProto) error {
	return eachNode(m, func(s *scope, n *onnxpb.NodeProto) error {
		if n.GetDomain() != machineLearning || !slices.Contains(treeOperators, n.GetOpType()) {
			return nil
		}
		branches, err := branchesOf(n)
		if err == nil {
			err = branches.check()
		}
		if err != nil {
			return refuse("the model has a tree that cannot be run, "+err.Error(), s, n, treeHint)
		}
		return nil
	})
}

// branching lists the two children of each node. In a leaf, both are noChild. TreeEnsemble's leaves are not nodes, so
// noChild also stands for a leaf of TreeEnsemble.
type branching [][2]int32

const noChild = -1

var errChild = errors.New("with a child that does not exist")

// branchesOf returns the branching of a tree operator.
func branchesOf(n *onnxpb.NodeProto) (branching, error) {
	seen := make(map[string]bool)
	for _, a := range n.Attribute {
		if seen[a.GetName()] {
			return nil, errors.New("with an attribute given twice")
		}
		seen[a.GetName()] = true
	}
	read := namedBranches
	if n.GetOpType() == "TreeEnsemble" {
		read = numberedBranches
	}
	all, err := read(n)
	// in a local function of the model, an attribute that the caller sets is empty here
	if err == nil && len(all) == 0 {
		err = errors.New("without nodes")
	}
	return all, err
}

// namedBranches returns the branching of TreeEnsembleClassifier and TreeEnsembleRegressor. In these operators two
// numbers identify a node: the number of its tree and its own number in this tree.
func namedBranches(n *onnxpb.NodeProto) (branching, error) {
	trees, ids, modes := attribute(n, "nodes_treeids").GetInts(), attribute(n, "nodes_nodeids").GetInts(), stringsOf(attribute(n, "nodes_modes"))
	children := [2][]int64{attribute(n, "nodes_truenodeids").GetInts(), attribute(n, "nodes_falsenodeids").GetInts()}
	for _, length := range []int{len(ids), len(modes), len(children[0]), len(children[1])} {
		if length != len(trees) {
			return nil, errors.New("whose lists of nodes differ in length")
		}
	}
	index := make(map[[2]int64]int32, len(trees))
	for i := range trees {
		name := [2]int64{trees[i], ids[i]}
		if _, twice := index[name]; twice {
			return nil, errors.New("with two nodes that have the same number")
		}
		index[name] = int32(i)
	}
	all := make(branching, len(trees))
	for i := range trees {
		all[i] = [2]int32{noChild, noChild}
		if modes[i] == "LEAF" {
			continue
		}
		for side, child := range children {
			at, exists := index[[2]int64{trees[i], child[i]}]
			if !exists {
				return nil, errChild
			}
			all[i][side] = at
		}
	}
	return all, nil
}

// numberedBranches returns the branching of TreeEnsemble. In TreeEnsemble, a node's number is its position in the
// attributes that list the nodes.
func numberedBranches(n *onnxpb.NodeProto) (branching, error) {
	sides := [2][2][]int64{
		{attribute(n, "nodes_truenodeids").GetInts(), attribute(n, "nodes_trueleafs").GetInts()},
		{attribute(n, "nodes_falsenodeids").GetInts(), attribute(n, "nodes_falseleafs").GetInts()},
	}
	leaves := int64(len(attribute(n, "leaf_targetids").GetInts()))
	all := make(branching, len(sides[0][0]))
	for _, root := range attribute(n, "tree_roots").GetInts() {
		if root < 0 || root >= int64(len(all)) {
			return nil, errors.New("with a root that does not exist")
		}
	}
	for side, lists := range sides {
		children, leaf := lists[0], lists[1]
		if len(children) != len(all) || len(leaf) != len(all) {
			return nil, errors.New("whose lists of nodes differ in length")
		}
		for i, child := range children {
			all[i][side] = noChild
			if limit := int64(len(all)); leaf[i] == 0 {
				all[i][side] = int32(child)
				if child < 0 || child >= limit {
					return nil, errChild
				}
			} else if child < 0 || child >= leaves {
				return nil, errChild
			}
		}
	}
	return all, nil
}

// These are the states of a node while the method 'check' runs.
const (
	unseen = iota
	open   // on the path to the current node
	closed
)

// The method 'check' visits all nodes, depth first. It returns an error if it finds a cycle or a path of more than
// maxTreeDepth nodes.
func (b branching) check() error {
	marks, next := make([]uint8, len(b)), make([]uint8, len(b))
	height := make([]int32, len(b)) // for each closed node, the number of nodes on the longest path from it to a leaf
	var path []int32
	for start := range b {
		if marks[start] != unseen {
			continue
		}
		for path = append(path, int32(start)); len(path) > 0; {
			at := path[len(path)-1]
			marks[at] = open
			if next[at] == 2 {
				marks[at], path = closed, path[:len(path)-1]
				if height[at] = 1 + b.childHeight(at, height); height[at] > maxTreeDepth {
					return fmt.Errorf("with more than %d nodes on a path", maxTreeDepth)
				}
				continue
			}
			child := b[at][next[at]]
			next[at]++
			switch {
			case child == noChild || marks[child] == closed:
			case marks[child] == open:
				return errors.New("which never ends: a node is its own descendant")
			default:
				path = append(path, child)
			}
		}
	}
	return nil
}

// childHeight returns the larger of the heights of a node's two children. It returns 0 if both children are noChild.
func (b branching) childHeight(at int32, height []int32) (most int32) {
	for _, child := range b[at] {
		if child != noChild {
			most = max(most, height[child])
		}
	}
	return most
}
