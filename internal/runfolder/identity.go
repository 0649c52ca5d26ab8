package runfolder

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/spec"
)

// Bound reports whether every line names its run by its checksum, as since format 3: lines of another run do not pass.
func (r Run) Bound() bool { return r.Schema >= 3 }

// Seed is where the checksums of the run's lines start; 0 if they name no run.
func (r Run) Seed() checksum.Seed {
	if !r.Bound() {
		return 0
	}
	digest := sha256.Sum256([]byte(strings.Join(r.identity(), "\n")))
	return checksum.NewSeed(digest[:])
}

// identity lists what the run certifies, and by which parameters: "name value" in the order of the names. It leaves out
// the shard, all paths, and the software and hardware that computed the results, so it is one for all shards, and stays
// the same after a file is renamed or another version of a library is used. It also leaves out values that are zero or
// empty: a field that a later version adds changes no earlier run.
func (r Run) identity() []string {
	p := r.Parameters
	p.Shard = spec.Shard{}
	fields := append(fieldsOf("", p), fieldsOf("noise.", r.Noise)...)
	fields = append(fields,
		field{"model", r.Model.SHA256}, field{"model.changes", r.Model.Changes}, field{"model.classes", r.Model.Classes},
		field{"denoiser", r.Model.Denoiser.sum()}, field{"denoiser.step", r.Model.Denoiser.step()},
		field{"data", r.Data.SHA256}, field{"data.reading", r.Data.Reading()}, field{"data.shape", r.Data.Shape},
		field{"data.examples", r.Data.Examples})
	var lines []string
	for _, f := range fields {
		if v := reflect.ValueOf(f.value); v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
			continue
		}
		text, err := json.Marshal(f.value)
		if err != nil {
			panic(err) // run.json holds the same values
		}
		lines = append(lines, fmt.Sprintf("%s %s", f.name, text))
	}
	slices.Sort(lines)
	return lines
}

// field is a named value of run.json.
type field struct {
	name  string
	value any
}

// fieldsOf lists the fields of a struct, those of embedded structs among them, by their names in JSON behind prefix.
func fieldsOf(prefix string, of any) (all []field) {
	v := reflect.ValueOf(of)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if !f.Anonymous {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			all = append(all, field{prefix + name, v.FieldByIndex(f.Index).Interface()})
		}
	}
	return all
}

// otherIdentity describes the difference between two runs of equal Differences that do not share their identity; empty
// if they do.
func (r Run) otherIdentity(other Run) string {
	a, b := r.identity(), other.identity()
	if slices.Equal(a, b) {
		return ""
	}
	only := func(these, those []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(these), func(s string) bool { return slices.Contains(those, s) }), ", ")
	}
	return fmt.Sprintf("%s and %s", show(only(a, b)), show(only(b, a)))
}

// encodeLine returns v as a line with its checksum from the seed.
func encodeLine(seed checksum.Seed, v any) ([]byte, error) {
	text, err := encode(v, "")
	if err != nil {
		return nil, err
	}
	return append(seed.AppendJSON(bytes.TrimSuffix(text, []byte("\n"))), '\n'), nil
}
