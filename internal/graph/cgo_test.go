package graph_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Programs that only parse and edit models must build without a C compiler: neither this package nor package ortlib may
// depend on cgo.
func TestNeedsNoCgo(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}", ".", "../ortlib")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 20 {
		t.Errorf("%d packages", len(deps))
	}
	for _, p := range deps {
		if strings.HasSuffix(p, "/internal/onnx") || strings.HasSuffix(p, "/onnxruntime_go") {
			t.Errorf("%s is imported", p)
		}
	}
}
