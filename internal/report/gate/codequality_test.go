package gate

import (
	"encoding/json"
	"errors"
	"testing"
)

// A GitLab code quality report is a list of issues with a description, a check_name, a fingerprint, a severity (one of
// five levels), and a location. An issue must keep its fingerprint even if the value of the requirement changes.
func TestCodeQuality(t *testing.T) {
	unmet := Outcome{Requirement: "acr>=0.3", Run: "run", Path: "runs/run", Says: "0.2\n, 0.1 too little"}
	list := func(text []byte, err error) (issues []map[string]any) {
		t.Helper()
		if err == nil {
			err = json.Unmarshal(text, &issues)
		}
		if err != nil {
			t.Fatal(err)
		}
		return issues
	}
	one := list(CodeQuality([]Outcome{unmet, {Requirement: "acr>=0.1", Run: "run", Met: true}}))
	if len(one) != 1 || one[0]["description"] != `run: acr>=0.3: 0.2\n, 0.1 too little` || one[0]["check_name"] != "rscert/acr>=0.3" || one[0]["severity"] != "major" {
		t.Fatalf("%v", one)
	}
	location := one[0]["location"].(map[string]any)
	if location["path"] != "runs/run" || location["lines"].(map[string]any)["begin"] != 1.0 {
		t.Errorf("%v", location)
	}
	other := unmet
	other.Says = "0.1, 0.2 too little"
	if again := list(CodeQuality([]Outcome{other})); again[0]["fingerprint"] != one[0]["fingerprint"] {
		t.Error("the fingerprint depends on the value")
	}
	other.Run = "another"
	if again := list(CodeQuality([]Outcome{other})); again[0]["fingerprint"] == one[0]["fingerprint"] {
		t.Error("two runs have the same fingerprint")
	}
	text, err := CodeQuality([]Outcome{{Met: true}})
	if err != nil || string(text) != "[]\n" {
		t.Errorf("nothing unmet: %s, %v", text, err)
	}
	failed := list(CodeQualityError([]string{"acr>=0.3", "acr>=0.1"}, errors.New("no run")))
	if len(failed) != 2 || failed[1]["severity"] != "blocker" || failed[1]["description"] != "rscert did not check acr>=0.1: no run" {
		t.Errorf("%v", failed)
	}
}
