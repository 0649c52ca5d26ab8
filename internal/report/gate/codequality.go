package gate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/rscert/rscert/internal/quote"
)

// codeIssue is an issue of a GitLab code quality report (a subset of Code Climate's format). Its fingerprint depends
// only on the requirement and the run. So GitLab recognises the issue in later reports.
type codeIssue struct {
	Description string       `json:"description"`
	Check       string       `json:"check_name"`
	Fingerprint string       `json:"fingerprint"`
	Severity    string       `json:"severity"`
	Location    codeLocation `json:"location"`
}

type codeLocation struct {
	Path  string    `json:"path"`
	Lines codeLines `json:"lines"`
}

type codeLines struct {
	Begin int `json:"begin"`
}

// newCodeIssue returns the issue about a requirement. GitLab needs a path. If the argument 'path' is empty, the issue
// has the path "rscert".
func newCodeIssue(requirement, run, path, severity, description string) codeIssue {
	if path == "" {
		path = "rscert"
	}
	sum := sha256.Sum256([]byte(requirement + "\x00" + run))
	return codeIssue{quote.Line(description), "rscert/" + requirement, hex.EncodeToString(sum[:]), severity,
		codeLocation{quote.Line(filepath.ToSlash(path)), codeLines{1}}}
}

// CodeQuality returns a GitLab code quality report with an issue for each requirement that is not met.
func CodeQuality(outcomes []Outcome) ([]byte, error) {
	issues := []codeIssue{}
	for _, o := range outcomes {
		if !o.Met {
			issues = append(issues, newCodeIssue(o.Requirement, o.Run, o.Path, "major", fmt.Sprintf("%s: %s: %s", o.Run, o.Requirement, o.Says)))
		}
	}
	return encodeIssues(issues)
}

// CodeQualityError returns a GitLab code quality report with an issue for each requirement that could not be checked
// because of err.
func CodeQualityError(names []string, err error) ([]byte, error) {
	issues := []codeIssue{}
	for _, name := range names {
		issues = append(issues, newCodeIssue(name, "", "", "blocker", "rscert did not check "+name+": "+err.Error()))
	}
	return encodeIssues(issues)
}

func encodeIssues(issues []codeIssue) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // print radius>=0.5, not radius\u003e=0.5
	e.SetIndent("", "  ")
	err := e.Encode(issues)
	return text.Bytes(), err
}
