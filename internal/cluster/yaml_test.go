package cluster

import (
	"encoding/json"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The manifest in YAML must equal the manifest in JSON for all strings. This includes strings that look like numbers,
// truth values or comments, and strings with line breaks.
func TestYAMLIsItsJSON(t *testing.T) {
	for _, text := range []string{"rscert", "me/rscert:1", "2", "1e5", "0x1f", "true", "yes", "No", "on", "y", "null", "~", "", " ", "-", "- a", "#", "a #b",
		"a: b", "{}", "[", "*x", "&x", "!x", "%x", "@x", "`x`", "'", `"`, `\`, "a\nb", "\t", "é", "\u2028", "😀", "2026-11-22", "<<", "$(X)", "=", "./run"} {
		m := IndexedJob{Name: text, Image: text, Claim: text, Mount: text, Shards: 2, GPUs: 1, Memory: text, Out: text, Certify: []string{"--model=" + text, text}}.Manifest()
		got, err := m.YAML()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var decoded, want any
		if err := yaml.Unmarshal([]byte(got), &decoded); err != nil {
			t.Fatalf("%q: %v in\n%s", text, err, got)
		}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		var back any
		if err := json.Unmarshal(again, &back); err != nil || !reflect.DeepEqual(back, want) {
			t.Errorf("%q: %v, want %v", text, back, want)
		}
	}
}
