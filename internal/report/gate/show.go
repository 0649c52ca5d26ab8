package gate

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/quote"
)

// junitSuite is a JUnit report for CI systems, with one test per requirement.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitMessage `xml:"failure"`
	Error   *junitMessage `xml:"error"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit returns the outcomes as JUnit XML.
func JUnit(outcomes []Outcome) ([]byte, error) {
	suite := junitSuite{Name: "rscert", Tests: len(outcomes), Failures: Unmet(outcomes)}
	for _, o := range outcomes {
		c := junitCase{Class: quote.Line(o.Run), Name: o.Requirement, Output: quote.Line(o.Says)}
		if !o.Met {
			c.Failure = &junitMessage{quote.Line(o.Says), quote.Line(o.Line())}
		}
		suite.Cases = append(suite.Cases, c)
	}
	return suite.encode()
}

// JUnitError returns JUnit XML for requirements that could not be checked because of err. It counts every requirement
// as an error, because a test that did not run is neither a success nor a failure.
func JUnitError(names []string, err error) ([]byte, error) {
	suite := junitSuite{Name: "rscert", Tests: len(names), Errors: len(names)}
	for _, name := range names {
		suite.Cases = append(suite.Cases, junitCase{Class: "rscert", Name: name, Error: &junitMessage{quote.Line(err.Error()), ""}})
	}
	return suite.encode()
}

func (s junitSuite) encode() ([]byte, error) {
	body, err := xml.MarshalIndent(s, "", "  ")
	return append([]byte(xml.Header), append(body, '\n')...), err
}

// GitHub returns the outcome as a workflow command, which GitHub Actions shows as an annotation of the workflow run.
func (o Outcome) GitHub() string {
	level, title := "notice", "rscert: requirement met"
	if !o.Met {
		level, title = "error", "rscert: requirement not met"
	}
	return GitHubCommand(level, title, quote.Line(fmt.Sprintf("%s: %s: %s", o.Run, o.Requirement, o.Says)))
}

// GitHubCommand returns a workflow command, with its parts escaped as in GitHub's toolkit.
func GitHubCommand(level, title, message string) string {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	return fmt.Sprintf("::%s title=%s::%s", level, property.Replace(title), data.Replace(message))
}
