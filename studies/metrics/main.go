// Metrics runs rscert to make the outputs and the table of docs/metrics.md. The outputs are between marks that
// studies/page reads:
//
//	go run ./studies/metrics bin/rscert | go run ./studies/page docs/metrics.md
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"

	"github.com/rscert/rscert/internal/report"
)

const (
	scores = "testdata/calibration/scores.csv.gz"
	logits = "testdata/calibration/logits.npz"
)

// methods lists the calibration maps of the table, in the table's order.
var methods = []string{"temperature", "vector", "matrix", "dirichlet", "structured-vector", "structured-matrix", "platt",
	"isotonic", "beta", "venn-abers", "histogram"}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: metrics RSCERT")
	}
	if err := run(command(os.Args[1])); err != nil {
		log.Fatal("metrics: ", err)
	}
}

// A command is the path of the program rscert.
type command string

// output runs rscert and returns its output.
func (c command) output(args ...string) (string, error) {
	cmd := exec.Command(string(c), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

func run(c command) error {
	text, err := c.output("metrics", scores)
	if err != nil {
		return err
	}
	printMarked("metrics", indent(text))
	table, err := c.tabulateMaps()
	if err != nil {
		return err
	}
	printMarked("maps", table)
	if text, err = c.output("temperature", logits); err != nil {
		return err
	}
	printMarked("temperature", indent(text))
	return nil
}

func printMarked(name, text string) {
	fmt.Printf("<!-- made: %s -->\n\n%s\n<!-- end: %s -->\n\n", name, text, name)
}

// indent turns text into a block of code.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		if line != "\n" {
			b.WriteString("    ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// An estimate is a metric of 'calibrate --json'. Value is nil (null in the JSON) if the metric is infinite.
type estimate struct {
	Value *float64 `json:"value"`
}

func (e estimate) String() string {
	if e.Value == nil {
		return "∞"
	}
	return report.Round(*e.Value, report.Nearest, 0, 4)
}

type figures struct {
	Accuracy estimate `json:"accuracy"`
	ECE      estimate `json:"ece"`
	NLL      estimate `json:"nll"`
}

// tabulateMaps returns a table of metrics on the held-out rows. The table has one row per map.
func (c command) tabulateMaps() (string, error) {
	var b strings.Builder
	b.WriteString("| method | accuracy | ECE | NLL |\n| --- | --- | --- | --- |\n")
	row := func(name string, f figures) {
		fmt.Fprintf(&b, "| %s | %v | %v | %v |\n", name, f.Accuracy, f.ECE, f.NLL)
	}
	for i, method := range methods {
		text, err := c.output("calibrate", logits, "--method", method, "--json")
		if err != nil {
			return "", err
		}
		var result struct {
			Before figures `json:"before"`
			After  figures `json:"after"`
		}
		if err := json.Unmarshal([]byte(text), &result); err != nil {
			return "", err
		}
		if i == 0 {
			row("none", result.Before)
		}
		row(method, result.After)
	}
	return b.String(), nil
}
