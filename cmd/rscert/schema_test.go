package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
)

// schemasEnv is the name of the environment variable that holds the path of the folder of schemas. The testscripts set
// it for the program.
const schemasEnv = "RSCERT_TEST_SCHEMAS"

// rejectedDocument is the exit code of checkedMain for a document that violates its schema.
const rejectedDocument = 99

// checkedMain runs main and checks its --json output against docs/schemas. So every testscript also tests the schemas.
func checkedMain() {
	s := streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	schemas := os.Getenv(schemasEnv)
	if schemas == "" || !slices.Contains(os.Args, "--json") {
		os.Exit(execute(os.Args[1:], s))
	}
	var printed bytes.Buffer
	s.out = io.MultiWriter(os.Stdout, &printed)
	code := execute(os.Args[1:], s)
	if printed.Len() > 0 {
		if err := checkDocument(schemas, printed.Bytes()); err != nil {
			fmt.Fprintf(os.Stderr, "the document violates docs/schemas: %v\n", err)
			os.Exit(rejectedDocument)
		}
	}
	os.Exit(code)
}

// checkDocument checks one document against the schema that it names. A member that the schema does not list is an
// error in this test, although programs that read the documents must tolerate new members.
func checkDocument(schemas string, text []byte) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	members, _ := document.(map[string]any)
	name, _ := members["schema"].(string)
	kind, ok := strings.CutPrefix(name, "rscert/")
	kind, version := strings.CutSuffix(kind, "/1")
	if !ok || !version {
		return fmt.Errorf("schema %q", name)
	}
	if n := bytes.Count(text, []byte("\n  \"schema\":")); n != 1 {
		return fmt.Errorf("%d members are called schema", n)
	}
	source, err := readSchema(schemas, kind)
	if err != nil {
		return err
	}
	forbidOthers(source)
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(kind, source); err != nil {
		return err
	}
	schema, err := compiler.Compile(kind)
	if err != nil {
		return err
	}
	return schema.Validate(document)
}

func readSchema(folder, kind string) (map[string]any, error) {
	text, err := os.ReadFile(filepath.Join(folder, kind+".json"))
	if err != nil {
		return nil, err
	}
	var schema map[string]any
	return schema, json.Unmarshal(text, &schema)
}

// forbidOthers makes a schema refuse unlisted members.
func forbidOthers(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		_, lists := s["properties"].(map[string]any)
		if _, open := s["additionalProperties"]; lists && !open {
			s["additionalProperties"] = false
		}
		for _, part := range s {
			forbidOthers(part)
		}
	case []any:
		for _, part := range s {
			forbidOthers(part)
		}
	}
}

// TestSchemasAreWhole checks that every command with the flag --json has a schema. In each schema, every member must
// have a description, and the member 'schema' must have the right value.
func TestSchemasAreWhole(t *testing.T) {
	const folder = "../../docs/schemas"
	var started bool
	for _, c := range leaves(newRoot(streams{}, &started)) {
		if c.Flags().Lookup("json") != nil {
			kind := strings.ReplaceAll(strings.TrimPrefix(c.CommandPath(), "rscert "), " ", "-")
			if _, err := readSchema(folder, kind); err != nil {
				t.Errorf("%s --json: %v", c.CommandPath(), err)
			}
		}
	}
	files, err := filepath.Glob(folder + "/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	for _, file := range files {
		kind := strings.TrimSuffix(filepath.Base(file), ".json")
		schema, err := readSchema(folder, kind)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for _, problem := range undescribed(kind, schema) {
			t.Errorf("%s has no description", problem)
		}
		named, _ := schema["properties"].(map[string]any)["schema"].(map[string]any)
		if named["const"] != "rscert/"+kind+"/1" {
			t.Errorf("%s: schema is %v", file, named["const"])
		}
	}
}

// leaves returns the commands without subcommands.
func leaves(cmd *cobra.Command) []*cobra.Command {
	if !cmd.HasSubCommands() {
		return []*cobra.Command{cmd}
	}
	var all []*cobra.Command
	for _, c := range cmd.Commands() {
		all = append(all, leaves(c)...)
	}
	return all
}

// undescribed returns the members that have no description.
func undescribed(place string, schema map[string]any) (found []string) {
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		member, _ := p.(map[string]any)
		if d, _ := member["description"].(string); d == "" {
			found = append(found, place+"."+name)
		}
		found = append(found, undescribed(place+"."+name, member)...)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if part, ok := schema[key].(map[string]any); ok {
			found = append(found, undescribed(place, part)...)
		}
	}
	return found
}

// TestDocumentsAreChecked checks that checkDocument notices a missing member, a wrong type, a member that the schema
// does not list, a wrong schema and a second member 'schema'.
func TestDocumentsAreChecked(t *testing.T) {
	const folder = "../../docs/schemas"
	good := `{
  "schema": "rscert/setup/1",
  "device": "cpu", "version": "1", "library": "/l", "fetched": true}`
	if err := checkDocument(folder, []byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"fetched": true`, `"fetched": 1`}, {`, "fetched": true`, ""}, {"true", `true, "more": 1`},
		{"setup/1", "setup/2"}, {"setup/1", "doctor/1"}, {`"device"`, "\n  \"schema\": \"rscert/setup/1\", \"device\""},
	} {
		if err := checkDocument(folder, []byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("%q for %q is not noticed", change[1], change[0])
		}
	}
}
