package cluster

import (
	"bytes"
	"encoding/json"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// YAML writes the manifest as people edit it: the fields of its JSON, which is YAML too, in their order.
func (m Manifest) YAML() (string, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return "", err
	}
	asBlocks(&document)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&document); err != nil {
		return "", err
	}
	return out.String(), e.Close()
}

// word is a string that reads the same without quotes. The encoder quotes what a reader would take for no string.
var word = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9._/-]*$`)

// asBlocks takes JSON's braces, brackets and needless quotes off a node and those below it.
func asBlocks(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || word.MatchString(n.Value) {
		n.Style = 0
	}
	for _, below := range n.Content {
		asBlocks(below)
	}
}
