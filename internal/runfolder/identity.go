package runfolder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/spec"
)

// Bound reports whether the checksum of every line also identifies the run, as in all formats since format 3. Lines
// of another run then fail the check.
func (r Run) Bound() bool { return r.Schema >= 3 }

// Seed is the value from which the checksums of the run's lines start. Seed is 0 if the lines do not identify their
// run.
func (r Run) Seed() checksum.Seed {
	if !r.Bound() {
		return 0
	}
	digest := r.digest()
	return checksum.NewSeed(digest[:])
}

func (r Run) digest() [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(r.identity(), "\n")))
}

// ID returns the run's name, which has 16 hex digits. The digits depend on the model, the data, the noise and the
// parameters of the run (see the method 'identity'). All shards and copies of a run have the same ID.
func (r Run) ID() string { return fmt.Sprintf("%.8x", r.digest()) }

// identity lists the model, the data, the noise and the parameters of the run. Each entry has the form "name value".
// The entries are sorted by name. The list omits the shard, all paths, and the software and hardware that computed the
// results. So the list is the same for all shards. It also stays the same if a file gets a new name or a library has
// another version. The list also omits values that are zero or empty. So a field that a later version adds does not
// change the identity of earlier runs.
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
			panic(err) // encoding cannot fail, because run.json holds the same values
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

// fieldsOf lists the fields of a struct, including the fields of embedded structs. Each name is the prefix followed by
// the field's name in JSON.
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

// otherIdentity describes how the identities of two runs differ. Callers use it when Differences finds no difference
// between the runs. The description is empty if the identities are equal.
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

// encodeLine returns v as a line of JSON with a checksum that starts from the seed.
func encodeLine(seed checksum.Seed, v any) ([]byte, error) {
	text, err := encode(v, "")
	if err != nil {
		return nil, err
	}
	return append(seed.AppendJSON(bytes.TrimSuffix(text, []byte("\n"))), '\n'), nil
}

// Digest returns the SHA-256, in hex, of the model, the data, the noise and the parameters of the run (see the method
// 'identity'). The digest is the same for all shards, and does not depend on paths, software or hardware.
func (r Run) Digest() string {
	digest := sha256.Sum256([]byte(strings.Join(r.identity(), "\n")))
	return hex.EncodeToString(digest[:])
}
