package main

import (
	"bytes"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// exchangeRun is a run of four examples in three classes, with scores and bounds.
func exchangeRun() runfolder.Run {
	return runfolder.Run{
		Schema: runfolder.Schema, Version: "test",
		Model: runfolder.Model{File: "m.onnx", SHA256: strings.Repeat("ab", 32), Classes: 3},
		Data:  runfolder.Data{File: "d.csv", SHA256: strings.Repeat("cd", 32), Shape: []int{4}, Examples: 4, Selected: 4},
		Parameters: runfolder.Parameters{
			Smoothing: spec.Smoothing{Sigma: 0.5},
			Certification: runfolder.Certification{
				N: 200, N0: 20, Alpha: 0.01, Method: runfolder.ByVotes(certify.ExactMargin), Class: certify.Predicted,
				Margin: certify.SecondMargin, SaveScores: true, Scores: true, Combine: certify.Directed, ConfidenceRadii: []float64{0, 0.1},
				Confidence: certify.ConfidenceTangent, ConfidenceBound: certify.Betting, Band: certify.BandBinomial, Temperature: 1,
			},
			Conditions: spec.Conditions{Noise: spec.Lattice, Seed: 1, Skip: 1, Shard: spec.Whole},
		},
		Noise:   runfolder.Noise{Table: strings.Repeat("ef", 32), Entries: 8},
		Runtime: runfolder.Runtime{Library: "1", Provider: "cpu", Device: "cpu", Batch: 8, Threads: 1},
	}
}

// writeExchangeRun writes a run with random scores and the results that follow from these scores. The argument 'name'
// is the seed of the scores.
func writeExchangeRun(t *testing.T, dir, name string, run runfolder.Run) {
	t.Helper()
	run.TangentSamples = run.Parameters.TangentSamples()
	c, err := run.Certifiers()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	f, err := runfolder.Create(dir, run)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	r := rand.New(rand.NewPCG(h.Sum64(), 0))
	for place, index := range run.Parameters.Positions(run.Data.Examples) {
		err = errors.Join(err, writeExchangeExample(f, c, run, r, place, index))
	}
	if err := errors.Join(err, f.Finish(), f.Close()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func writeExchangeExample(f *runfolder.Folder, c runfolder.Certifiers, run runfolder.Run, r *rand.Rand, place, index int) error {
	p, m := run.Parameters, run.Model.Classes
	v := certify.Votes{Index: index, Label: index % m, N0: p.N0, N: p.N, Counts0: make([]int64, m), Counts: make([]int64, m)}
	draw := func(n int64, counts []int64) (probs []float32) {
		for range n {
			k := index % m
			if r.Float64() < 0.1 {
				k = r.IntN(m)
			}
			for j := range m {
				x := (1 - float32(0.7)) / float32(m-1)
				if j == k {
					x = 0.7
				}
				probs = append(probs, x)
			}
			counts[k]++
		}
		return probs
	}
	selection, estimation := draw(p.N0, v.Counts0), draw(p.N, v.Counts)
	if c.Stopping != nil {
		if err := c.Stopping.Mark(&v); err != nil {
			return err
		}
	}
	a, err := c.Scores.Start(certify.ScoreExample{Index: index, Label: v.Label, Classes: m, N0: p.N0, N: p.N})
	if err != nil {
		return err
	}
	w := f.Scores()
	err = errors.Join(w.WriteExample(place, index, v.Label), w.WriteSelection(place, 0, selection), w.WriteEstimation(place, 0, estimation))
	sum, digestErr := w.Digest(place)
	record := runfolder.Record{Votes: v, Scores: sum}
	err = errors.Join(err, digestErr, a.Selection(selection))
	if c.Votes != nil {
		k, electErr := v.Elected(p.Class)
		err = errors.Join(err, electErr, a.Choose(k), a.Estimation(estimation))
		record.Certificate, electErr = c.Votes.Certify(v)
		err = errors.Join(err, electErr)
	} else {
		var certErr error
		err = errors.Join(err, a.Estimation(estimation))
		record.Certificate, certErr = a.Certificate()
		err = errors.Join(err, certErr)
	}
	record.Bounds = a.Confidence(record.Certificate)
	return errors.Join(err, f.Append(record))
}

// exchangeVariants maps names to functions. Each function changes one condition of the run that exchangeRun returns.
var exchangeVariants = map[string]func(*runfolder.Run){
	"model":      func(r *runfolder.Run) { r.Model.SHA256 = strings.Repeat("ef", 32) },
	"data":       func(r *runfolder.Run) { r.Data.SHA256 = strings.Repeat("ef", 32) },
	"reading":    func(r *runfolder.Run) { r.Data.Options.LabelColumn = "last" },
	"shape":      func(r *runfolder.Run) { r.Data.Shape = []int{2, 2} },
	"sigma":      func(r *runfolder.Run) { r.Parameters.Sigma = 0.25 },
	"seed":       func(r *runfolder.Run) { r.Parameters.Seed = 2 },
	"n":          func(r *runfolder.Run) { r.Parameters.N = 210 },
	"n0":         func(r *runfolder.Run) { r.Parameters.N0 = 21 },
	"alpha":      func(r *runfolder.Run) { r.Parameters.Alpha = 0.02 },
	"method":     func(r *runfolder.Run) { r.Parameters.Method = runfolder.ByVotes(certify.Bonferroni) },
	"by scores":  func(r *runfolder.Run) { r.Parameters.Method = runfolder.ByScores(certify.Betting) },
	"class":      func(r *runfolder.Run) { r.Parameters.Class = certify.Label },
	"precision":  func(r *runfolder.Run) { _ = r.Parameters.Precision.UnmarshalText([]byte("bf16")) },
	"mean":       func(r *runfolder.Run) { r.Parameters.Mean, r.Parameters.Std = []float64{0.5}, []float64{0.5} },
	"radii":      func(r *runfolder.Run) { r.Parameters.ConfidenceRadii = []float64{0, 0.2} },
	"denoiser":   func(r *runfolder.Run) { r.Model.Denoiser = &runfolder.Denoiser{File: "d", SHA256: "12"} },
	"changes":    func(r *runfolder.Run) { r.Model.Changes = []string{"the output is cut"} },
	"table":      func(r *runfolder.Run) { r.Noise.Inputs = "k/255" },
	"classes":    func(r *runfolder.Run) { r.Model.Classes = 4 },
	"float":      func(r *runfolder.Run) { r.Parameters.Noise = spec.Float },
	"format 2":   func(r *runfolder.Run) { r.Schema = 2 },
	"confidence": func(r *runfolder.Run) { r.Parameters.Confidence = certify.ConfidenceCDF },
}

// TestExchangedFiles checks that a run never accepts a file of another run. It exchanges one file of a run at a time.
// The new file has the same name and comes from a run that differs in one condition. Every command that reads the file
// must report an error. In this test, runfolder.Resume takes the place of certify --resume.
func TestExchangedFiles(t *testing.T) {
	root := t.TempDir()
	base, twin := filepath.Join(root, "base"), filepath.Join(root, "twin")
	writeExchangeRun(t, base, "base", exchangeRun())
	writeExchangeRun(t, twin, "base", exchangeRun())
	every := []string{runfolder.RunFile, runfolder.VotesFile, runfolder.CertificatesFile, runfolder.BoundsFile, runfolder.ScoresFile}
	lines := every[:4]
	commands := []struct {
		name  string
		args  func(dir string) []string
		reads []string
	}{
		{"radius", func(dir string) []string { return []string{"radius", dir} }, every[:2]},
		{"confidence", func(dir string) []string { return []string{"confidence", dir, "--radii", "0,0.1"} }, []string{every[0], every[1], every[4]}},
		{"report", func(dir string) []string { return []string{"report", dir} }, lines},
		{"gate", func(dir string) []string { return []string{"report", dir, "--require", "certified-accuracy@0>=0"} }, lines},
		{"compare", func(dir string) []string { return []string{"compare", twin, dir} }, every},
		{"metrics", func(dir string) []string { return []string{"metrics", dir} }, lines},
		{"metrics of bounds.csv", func(dir string) []string {
			return []string{"metrics", filepath.Join(dir, runfolder.BoundsFile), "--radius", "0"}
		}, lines},
		{"acce", func(dir string) []string { return []string{"acce", dir} }, lines},
		{"verify", func(dir string) []string { return []string{"verify", dir} }, every},
		{"merge", func(dir string) []string { return []string{"merge", dir, "--out", dir + "-merged"} }, every},
		{"resume", nil, every},
	}
	do := func(args func(string) []string, dir string) (code int, said string) {
		if args == nil {
			return resumed(dir, exchangeRun())
		}
		var out bytes.Buffer
		code = execute(args(dir), streams{in: strings.NewReader(""), out: &out, err: &out})
		return code, out.String()
	}
	number := 0
	place := func(from map[string]string) (dir string) {
		number++
		dir = filepath.Join(root, "trial", strings.Repeat("x", 1+number%7), string(rune('a'+number%26)))
		if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+"-merged"), os.MkdirAll(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
		for _, name := range every {
			data, err := os.ReadFile(filepath.Join(from[name], name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	from := map[string]string{}
	for _, name := range every {
		from[name] = base
	}
	for _, c := range commands {
		if code, said := do(c.args, place(from)); code != 0 {
			t.Fatalf("%s of a run as it was written: exit code %d\n%s", c.name, code, said)
		}
	}
	trials, silent := 0, 0
	for variant, change := range exchangeVariants {
		run := exchangeRun()
		change(&run)
		other := filepath.Join(root, strings.ReplaceAll(variant, " ", "-"))
		writeExchangeRun(t, other, variant, run)
		for _, file := range every {
			for _, c := range commands {
				if !slices.Contains(c.reads, file) {
					continue
				}
				from[file] = other
				trials++
				if code, said := do(c.args, place(from)); code == 0 {
					silent++
					t.Errorf("%s of a run that differs in its %s passes in %s:\n%s", file, variant, c.name, said)
				}
				from[file] = base
			}
		}
	}
	t.Logf("%d trials, %d silent", trials, silent)
}

// resumed resumes a run in the same way as certify --resume, but without a model. The result 'code' is 0 if every
// example passes the checks.
func resumed(dir string, run runfolder.Run) (code int, said string) {
	run.TangentSamples = run.Parameters.TangentSamples()
	f, err := runfolder.Resume(dir, run)
	if err != nil {
		return 1, err.Error()
	}
	defer f.Close()
	if f.Dropped() > 0 {
		return 1, "examples are sampled again"
	}
	return 0, ""
}

// readers lists the commands that read a run's votes and certificates.
func readers(twin string) map[string]func(dir string) []string {
	return map[string]func(dir string) []string{
		"report":  func(dir string) []string { return []string{"report", dir} },
		"gate":    func(dir string) []string { return []string{"report", dir, "--require", "certified-accuracy@0>=0"} },
		"compare": func(dir string) []string { return []string{"compare", dir, twin} },
		"metrics": func(dir string) []string { return []string{"metrics", dir, "--probabilities", "vote-shares"} },
		"acce":    func(dir string) []string { return []string{"acce", dir} },
	}
}

// TestCertificatesAndTheirVotes checks every command that reads votes and certificates. The command must refuse a
// certificate that the votes do not prove, and a certificate without votes. The error must name the example. The
// checksums in this test are right, because a forger would correct them.
func TestCertificatesAndTheirVotes(t *testing.T) {
	root := t.TempDir()
	twin := filepath.Join(root, "twin")
	writeExchangeRun(t, twin, "base", exchangeRun())
	refused := func(t *testing.T, dir, want string) {
		t.Helper()
		for name, args := range readers(twin) {
			var out bytes.Buffer
			code := execute(args(dir), streams{in: strings.NewReader(""), out: &out, err: &out})
			if text := out.String(); want == "" && code != 0 || want != "" && (code == 0 || !strings.Contains(text, want)) {
				t.Errorf("%s: exit code %d, want an error with %q:\n%s", name, code, want, text)
			}
		}
	}
	edit := func(t *testing.T, name string, change func(lines []string) []string) (dir string) {
		t.Helper()
		dir = filepath.Join(t.TempDir(), "run")
		if err := os.CopyFS(dir, os.DirFS(twin)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(strings.Join(change(strings.SplitAfter(string(data), "\n")), "")), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	forge := func(old, new string) func([]string) []string {
		return func(lines []string) []string {
			seed := exchangeRun().Seed()
			body, state := seed.VerifyJSON([]byte(strings.TrimSpace(lines[2])))
			changed := regexp.MustCompile(old).ReplaceAll(body, []byte(new))
			if state != checksum.Good || bytes.Equal(changed, body) {
				t.Fatalf("%s: %v, not changed", body, state)
			}
			lines[2] = string(seed.AppendJSON(changed)) + "\n"
			return lines
		}
	}
	refused(t, twin, "")
	for name, change := range map[string]func([]string) []string{
		"a larger radius":        forge(`"radius":0\.`, `"radius":1.`),
		"a larger margin":        forge(`"margin":2\.`, `"margin":3.`),
		"another alpha":          forge(`"alpha":0\.00`, `"alpha":0.01`),
		"another method":         forge(`"method":"margin"`, `"method":"bonferroni"`),
		"not sound":              forge(`"sound":true`, `"sound":false`),
		"other bounds":           forge(`"p_a":0\.`, `"p_a":0.1`),
		"idealised":              forge(`"arithmetic":"exact"`, `"arithmetic":"idealised"`),
		"another class":          forge(`"prediction":2`, `"prediction":1`),
		"wrong instead of right": forge(`"correct":true`, `"correct":false`),
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, edit(t, runfolder.CertificatesFile, change), "example 2")
		})
	}
	t.Run("votes are cut", func(t *testing.T) {
		cut := func(lines []string) []string { return lines[:3] }
		refused(t, edit(t, runfolder.VotesFile, cut), "has votes of 3 examples, and certificates.jsonl certificates of 4")
	})
	t.Run("no votes", func(t *testing.T) {
		refused(t, edit(t, runfolder.VotesFile, func([]string) []string { return nil }), "has votes of 0 examples")
	})
	t.Run("two lines are swapped", func(t *testing.T) {
		swap := func(lines []string) []string {
			lines[1], lines[2] = lines[2], lines[1]
			return lines
		}
		refused(t, edit(t, runfolder.CertificatesFile, swap), "of example 2")
		refused(t, edit(t, runfolder.VotesFile, swap), "votes.jsonl:2: index is 2")
	})
	t.Run("not finished", func(t *testing.T) {
		dir := edit(t, runfolder.CertificatesFile, func(lines []string) []string { return lines[:3] })
		for _, probabilities := range []string{"vote-shares", "mean-scores"} {
			var out bytes.Buffer
			code := execute([]string{"metrics", dir, "--probabilities", probabilities}, streams{in: strings.NewReader(""), out: &out, err: &out})
			if code != 0 || !strings.Contains(out.String(), "the run is not finished: 1 examples are missing") {
				t.Errorf("%s: exit code %d: %s", probabilities, code, out.String())
			}
		}
	})
}
