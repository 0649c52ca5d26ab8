package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/runfolder"
)

// certifyLine returns the shell command that made the run. The user must run this command in the folder where the run
// began.
func certifyLine(run runfolder.Run, out string) string {
	values := recordedFlags(run)
	values["out"] = []string{out}
	words := []string{"rscert certify"}
	newCertify(streams{}).Flags().VisitAll(func(f *pflag.Flag) {
		for _, value := range values[f.Name] {
			switch {
			case value == "" || isDefault(f, value):
			case f.Value.Type() == "bool":
				words = append(words, "--"+f.Name)
			default:
				words = append(words, "--"+f.Name, quote.Shell(value))
			}
		}
	})
	return strings.Join(words, " ")
}

// flagValues returns the flags that one part of run.json records. An example of such a part is 'parameters'. The keys
// of the result are the names of the flags.
func flagValues(document any) map[string]string {
	text, err := json.Marshal(document)
	var fields map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		panic(err) // cannot happen: the document came from run.json
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
