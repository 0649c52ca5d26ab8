package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rscert/rscert/internal/dataset"
)

// digit is one of the bundled digits.
type digit struct {
	label  int
	pixels []byte
}

// digitNames are class names whose alphabetical order differs from the order of the digits.
var digitNames = []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}

// writeDigits is the script command 'digits'. It writes the first bundled digits in common formats.
func writeDigits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: digits")
	}
	all, err := dataset.Open(context.Background(), filepath.Join(ts.Getenv("TESTDATA"), "mnist"), dataset.Options{})
	ts.Check(err)
	defer all.Close()
	var list []digit
	for i := range 100 {
		e, err := all.Example(i)
		ts.Check(err)
		d := digit{label: e.Label}
		for _, v := range e.Values {
			d.pixels = append(d.pixels, byte(math.Round(255*float64(v))))
		}
		list = append(list, d)
	}
	put := func(name string, data []byte) {
		path := ts.MkAbs(name)
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o777))
		ts.Check(os.WriteFile(path, data, 0o666))
	}
	put("names.txt", []byte(strings.Join(digitNames, "\n")+"\n"))
	putTables(put, list)
	putImages(put, list)
}

func putTables(put func(string, []byte), list []digit) {
	var header []string
	for j := range list[0].pixels {
		header = append(header, fmt.Sprintf("p%d", j))
	}
	header = slices.Clip(header) // each table appends its own columns to a copy of the header
	for name, t := range map[string]struct {
		comma  rune
		header []string
		row    func(i int, d digit, pixels []string) []string
	}{
		"last.csv":      {',', append(header, "label"), func(_ int, d digit, p []string) []string { return append(p, strconv.Itoa(d.label)) }},
		"noheader.csv":  {',', nil, func(_ int, d digit, p []string) []string { return append(p, strconv.Itoa(d.label)) }},
		"last.tsv":      {'\t', append(header, "label"), func(_ int, d digit, p []string) []string { return append(p, strconv.Itoa(d.label)) }},
		"semicolon.csv": {';', append(header, "Class"), func(_ int, d digit, p []string) []string { return append(p, strconv.Itoa(d.label)) }},
		"fromone.csv":   {',', append(header, "y"), func(_ int, d digit, p []string) []string { return append(p, strconv.Itoa(d.label+1)) }},
		"named.csv":     {',', append([]string{"label"}, header...), func(_ int, d digit, p []string) []string { return append([]string{digitNames[d.label]}, p...) }},
		"index.csv": {',', append(append([]string{""}, header...), "label"), func(i int, d digit, p []string) []string {
			return append(append([]string{strconv.Itoa(i)}, p...), strconv.Itoa(d.label))
		}},
	} {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.Comma = t.comma
		if t.header != nil {
			_ = w.Write(t.header)
		}
		for i, d := range list {
			var pixels []string
			for _, v := range d.pixels {
				pixels = append(pixels, strconv.Itoa(int(v)))
			}
			_ = w.Write(t.row(i, d, pixels))
		}
		w.Flush()
		put(name, b.Bytes())
	}
}

func putImages(put func(string, []byte), list []digit) {
	type row struct {
		Image struct {
			Bytes []byte  `parquet:"bytes,optional"`
			Path  *string `parquet:"path,optional"`
		} `parquet:"image"`
		Label int64 `parquet:"label"`
	}
	var rows []row
	var archive, table, parquetFile bytes.Buffer
	tarWriter := tar.NewWriter(&archive)
	add := func(name string, data []byte) {
		_ = tarWriter.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o666})
		_, _ = tarWriter.Write(data)
	}
	table.WriteString("filename,label\n")
	for i, d := range list {
		var b bytes.Buffer
		_ = png.Encode(&b, &image.Gray{Pix: d.pixels, Stride: 28, Rect: image.Rect(0, 0, 28, 28)})
		put(fmt.Sprintf("val/%s/%03d.png", digitNames[d.label], i), b.Bytes())
		put(fmt.Sprintf("numbered/%d/%03d.png", d.label, i), b.Bytes())
		if d.label != 0 {
			put(fmt.Sprintf("missing/class%d/%03d.png", d.label, i), b.Bytes())
		}
		put(fmt.Sprintf("flat/%03d.png", i), b.Bytes())
		fmt.Fprintf(&table, "%03d.png,%d\n", i, d.label)
		add(fmt.Sprintf("%03d.png", i), b.Bytes())
		add(fmt.Sprintf("%03d.cls", i), []byte(strconv.Itoa(d.label)))
		r := row{Label: int64(d.label)}
		r.Image.Bytes = b.Bytes()
		rows = append(rows, r)
	}
	_ = tarWriter.Close()
	w := parquet.NewGenericWriter[row](&parquetFile)
	_, _ = w.Write(rows)
	_ = w.Close()
	put("labels.csv", table.Bytes())
	put("test.tar", archive.Bytes())
	put("test.parquet", parquetFile.Bytes())
}

// shellBlock matches a block of shell commands in a document. pipelineStep matches a command in a YAML block for a CI
// system.
var (
	shellBlock   = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	pipelineStep = regexp.MustCompile("(?m)^ +- (?:run: )?(sh .*)$")
)

// steps is the script command 'steps FILE'. It writes the commands in the document FILE to steps.sh: first the shell
// blocks, then the pipeline steps.
func steps(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: steps file")
	}
	text, err := os.ReadFile(args[0])
	ts.Check(err)
	var script bytes.Buffer
	found := append(shellBlock.FindAllSubmatch(text, -1), pipelineStep.FindAllSubmatch(text, -1)...)
	for _, m := range found {
		fmt.Fprintf(&script, "%s\n", bytes.TrimSpace(m[1]))
	}
	ts.Logf("%d steps", len(found))
	ts.Check(os.WriteFile(ts.MkAbs("steps.sh"), script.Bytes(), 0o666))
}

// certifyCommand matches a command in a document. MODEL stands for the flags that all commands share.
var certifyCommand = regexp.MustCompile(`(?m)^    rscert certify MODEL (--data .*)$`)

// commands is the script command 'commands FILE'. It runs the certify commands of the document on a few of the bundled
// digits, with little noise. The model must classify at least 95 % of these digits right, so wrong labels or wrong
// pixels fail the test.
func commands(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: commands file")
	}
	text, err := os.ReadFile(args[0])
	ts.Check(err)
	found := certifyCommand.FindAllSubmatch(text, -1)
	if len(found) < 10 {
		ts.Fatalf("%s: only %d commands", args[0], len(found))
	}
	for k, m := range found {
		flags := append(strings.Fields("certify --model "+ts.Getenv("TESTDATA")+"/mnist-cnn.onnx --sigma 0.1 --n 50 --n0 5 --max 20 --seed 1"),
			append(strings.Fields(string(m[1])), "--out", fmt.Sprintf("docs%d", k))...)
		ts.Logf("rscert %s", flags)
		ts.Check(ts.Exec("rscert", flags...))
		if !regexp.MustCompile(`margin +(95|100)\.0 `).MatchString(ts.ReadFile("stdout")) {
			ts.Fatalf("rscert %s: the accuracy is wrong:\n%s", flags, ts.ReadFile("stdout"))
		}
	}
}
