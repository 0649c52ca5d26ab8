package graph

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
	"google.golang.org/protobuf/proto"
)

// This file reconciles the operator sets of two models.

//go:embed opsets.txt
var opsetList string

// opsetChanges returns, for each ONNX operator, the versions in which its meaning changed. The list omits versions that
// only allow more types (see scripts/opsets.py). opsetChanges also returns the newest version that the list covers.
var opsetChanges = sync.OnceValues(func() (map[string][]int64, int64) {
	changes := make(map[string][]int64)
	for line := range strings.Lines(opsetList) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		for _, field := range fields[1:] {
			version, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				panic(err)
			}
			changes[fields[0]] = append(changes[fields[0]], version)
		}
	}
	newest := changes["newest"][0]
	delete(changes, "newest")
	return changes, newest
})

const opsetHint = "export the models for the same operator set (in PyTorch opset_version=N), or convert one with onnx.version_converter"

// checkRaise refuses a node if its meaning may change when the version of ONNX's operators is raised. The argument
// 'from' is the old version, and the argument 'to' is the new version.
func checkRaise(n *onnxpb.NodeProto, from, to int64) error {
	changes, newest := opsetChanges()
	known, ok := changes[n.GetOpType()]
	if ok && to <= newest && !slices.ContainsFunc(known, func(v int64) bool { return v > from && v <= to }) {
		return nil
	}
	return hint.New(fmt.Sprintf("%s of operator set %d may not mean the same in %d", quote.Name(n.GetOpType()), from, to), opsetHint)
}

// raiseOpset raises a model to the given later version of ONNX's operators. It fails if the meaning of a node may
// change.
func raiseOpset(m *onnxpb.ModelProto, to int64) error {
	local := localFunctions(m)
	oldVersion := make(map[string]int64) // by name of the function; the key "" stands for the graph
	oldVersion[""] = raiseImport(m.OpsetImport, to)
	for _, f := range m.Functions { // for functions of the same name, keep the oldest version
		from := raiseImport(f.OpsetImport, to)
		if known, again := oldVersion[f.GetName()]; again {
			from = min(from, known)
		}
		oldVersion[f.GetName()] = from
	}
	return eachNode(m, func(s *scope, n *onnxpb.NodeProto) error {
		from := oldVersion[s.function]
		if from == to || domainOf(n.GetDomain()) != "" || local[opKey{"", n.GetOpType()}] {
			return nil
		}
		return checkRaise(n, from, to)
	})
}

// raiseImport sets the version of ONNX's own operators and returns the old version.
func raiseImport(imports []*onnxpb.OperatorSetIdProto, to int64) int64 {
	from := to
	for _, o := range imports {
		if domainOf(o.GetDomain()) == "" {
			from, o.Version = o.GetVersion(), proto.Int64(to)
		}
	}
	return from
}

// joinOpsets raises models to common operator sets and returns these sets. The argument 'least' is the oldest version
// of ONNX's own operators that joinOpsets may return.
func joinOpsets(least int64, models ...*onnxpb.ModelProto) ([]*onnxpb.OperatorSetIdProto, error) {
	to := least
	for _, m := range models {
		to = max(to, importsOf(m)[""])
	}
	var all []*onnxpb.OperatorSetIdProto
	versions := make(map[string]int64)
	for _, m := range models {
		switch importsOf(m)[""] {
		case 0:
			return nil, hint.New("a model does not say which version of ONNX's operators it uses", opsetHint)
		case to:
		default:
			if err := raiseOpset(m, to); err != nil {
				return nil, err
			}
		}
		for _, o := range m.OpsetImport {
			domain := domainOf(o.GetDomain())
			version, known := versions[domain]
			if known && version != o.GetVersion() {
				return nil, hint.New(fmt.Sprintf("operators of '%s' are of version %d in one model and %d in another", quote.Name(domain), version, o.GetVersion()), opsetHint)
			}
			if versions[domain] = o.GetVersion(); !known {
				all = append(all, o)
			}
		}
	}
	return all, nil
}

// A model's graph imports operator sets. importsOf maps the domain of each set to the imported version.
func importsOf(m *onnxpb.ModelProto) map[string]int64 {
	versions := make(map[string]int64)
	for _, o := range m.OpsetImport {
		versions[domainOf(o.GetDomain())] = o.GetVersion()
	}
	return versions
}

// localFunctions returns the functions that the model itself defines.
func localFunctions(m *onnxpb.ModelProto) map[opKey]bool {
	local := make(map[opKey]bool)
	for _, f := range m.Functions {
		local[opKey{domainOf(f.GetDomain()), f.GetName()}] = true
	}
	return local
}
