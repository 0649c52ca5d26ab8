package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestConfigSchema checks that docs/schemas/config.json describes every flag that a config file can set. With
// RSCERT_WRITE_SCHEMA=1, the test writes the file.
func TestConfigSchema(t *testing.T) {
	const file = "../../docs/schemas/config.json"
	want := configSchemaDocument()
	if os.Getenv("RSCERT_WRITE_SCHEMA") != "" {
		text, err := json.MarshalIndent(want, "", " ")
		if err == nil {
			err = os.WriteFile(file, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var normal map[string]any
	if err := json.Unmarshal(text, &normal); err != nil {
		t.Fatal(err)
	}
	got, err := readSchema("../../docs/schemas", "config")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, normal) {
		t.Error("docs/schemas/config.json is not up to date: RSCERT_WRITE_SCHEMA=1 go test ./cmd/rscert -run TestConfigSchema")
	}
}

// configSchemaDocument builds the schema of config files. Its members are the flags of all commands, and a section for
// each command.
func configSchemaDocument() map[string]any {
	var started bool
	all := map[string]any{"schema": map[string]any{"description": "name and version of this schema", "const": configSchema}}
	sections := map[string]map[string]any{}
	for _, c := range leaves(newRoot(streams{}, &started)) {
		if c.Flags().Lookup("config") == nil {
			continue
		}
		own := map[string]any{}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "config" || f.Name == "help" {
				return
			}
			_, usage := pflag.UnquoteUsage(f)
			own[f.Name] = map[string]any{"description": usage, "type": configTypes(f)}
			if _, exists := all[f.Name]; !exists {
				all[f.Name] = map[string]any{"description": "flag --" + f.Name, "type": []string{"string", "number", "boolean", "array"}}
			}
		})
		name := strings.TrimPrefix(c.CommandPath(), "rscert ")
		sections[name] = map[string]any{"description": "flags of rscert " + name, "type": "object", "properties": own, "additionalProperties": false}
	}
	for name, section := range sections {
		if _, isFlag := all[name]; isFlag { // both a command and a flag, such as attack
			section["type"] = []string{"string", "array", "object"}
		}
		all[name] = section
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "rscert --config",
		"description": "a config file: flags of the command, by name, and sections with the flags of one command each",
		"type":        "object", "properties": all, "additionalProperties": false,
	}
}

// configTypes returns the JSON types of a flag's value.
func configTypes(f *pflag.Flag) []string {
	types := []string{"string", "number"}
	if f.Value.Type() == "bool" {
		types = []string{"boolean"}
	}
	if repeats(f) || takesList(f) {
		types = append(types, "array")
	}
	return types
}
