package graph

import (
	"testing"
)

// TestOpsetChanges checks the list of changes for a few operators.
func TestOpsetChanges(t *testing.T) {
	for _, c := range []struct {
		op       string
		from, to int64
		same     bool
	}{
		{"Relu", 7, 22, true}, {"Conv", 7, 22, true}, {"Reshape", 11, 21, true}, {"Gemm", 11, 13, true}, {"Gemm", 9, 11, false},
		{"Softmax", 11, 12, true}, {"Softmax", 12, 13, false}, {"Softmax", 13, 22, true}, {"ReduceMean", 17, 18, false},
		{"Squeeze", 12, 13, false}, {"Pad", 11, 17, true}, {"Pad", 10, 11, false}, {"Resize", 17, 18, false}, {"Upsample", 9, 10, false},
		{"BatchNormalization", 13, 14, false}, {"GroupNormalization", 20, 21, false}, {"Relu", 7, 1000, false}, {"Frobnicate", 11, 12, false},
		{"newest", 11, 12, false},
	} {
		if err := checkRaise(Node(c.op, nil, "y"), c.from, c.to); (err == nil) != c.same {
			t.Errorf("%s from %d to %d: %v", c.op, c.from, c.to, err)
		}
	}
}
