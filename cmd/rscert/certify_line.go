package main

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/runfolder"
)

// certifyLine returns the shell command that made the run. The command works in the folder in which the run began.
func certifyLine(run runfolder.Run, out string) string {
	values := flagValues(run.Parameters)
	maps.Copy(values, flagValues(run.Data.Options))
	first, further := run.Model.Paths()
	if len(further) > 0 {
		values["outputs"] = run.Model.Reopened(run.Parameters.Conditions).Outputs.String()
	}
	maps.Copy(values, map[string]string{"model": first, "data": run.Data.File, "out": out, "device": run.Runtime.Device})
	if run.Parameters.Max > 0 { // --select matters only with --max
		values["select"] = run.Parameters.Select.String()
	}
	if run.Parameters.Law.Deterministic() { // for such a law, the user does not choose the following parameters
		for _, name := range []string{"n", "n0", "alpha", "margin"} {
			delete(values, name)
		}
	}
	words := []string{"rscert certify"}
	newCertify(streams{}).Flags().VisitAll(func(f *pflag.Flag) {
		value, recorded := values[f.Name]
		switch {
		case !recorded || value == "" || value == f.DefValue || "["+value+"]" == f.DefValue:
		case f.Name == "temperature" && value == "0": // a run without scores
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name)
		default:
			words = append(words, "--"+f.Name, quote.Shell(value))
		}
		if f.Name == "model" {
			for _, path := range further {
				words = append(words, "--model", quote.Shell(path))
			}
		}
	})
	return strings.Join(words, " ")
}

// flagValues returns the members of a document in run.json as the values of flags, by name.
func flagValues(document any) map[string]string {
	text, err := json.Marshal(document)
	var fields map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		panic(err) // the document came from run.json
	}
	values := map[string]string{}
	for name, field := range fields {
		var s string
		if json.Unmarshal(field, &s) != nil {
			s = strings.Trim(string(field), "[]")
		}
		values[name] = s
	}
	return values
}
