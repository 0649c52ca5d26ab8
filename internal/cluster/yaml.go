package cluster

import (
	"bytes"
	"encoding/json"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// YAML returns the manifest in block style, which people can edit. The fields have the same order as in JSON.
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

// The pattern 'word' matches the strings from which asBlocks removes the quotes. If such a string looks like another
// type, for example true, the encoder quotes it again.
var word = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9._/-]*$`)

// asBlocks removes JSON's braces, brackets and needless quotes from a node and its children.
func asBlocks(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || word.MatchString(n.Value) {
		n.Style = 0
	}
	for _, below := range n.Content {
		asBlocks(below)
	}
}
