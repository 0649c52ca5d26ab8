package runfolder

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/scorefile"
)

// Evidence is the input at a path given to a command: a run folder, a file of a run folder, or a file from elsewhere.
// All commands find their input here, so they accept the same names for a run.
type Evidence struct {
	Path string // as the user gave it
	// Run is the run of the evidence, nil for a file from elsewhere.
	Run *Run

	dir  string // the run's folder
	file string // name of the given file in dir; "" for the folder itself
}

// Find returns the evidence at path. A file belongs to a run if it has the name of a run's file and is beside a
// run.json; this run.json is then never ignored.
func Find(path string) (*Evidence, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	e := &Evidence{Path: path, dir: path}
	if !info.IsDir() {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, err
		}
		e.dir, e.file = filepath.Split(real)
		if e.dir == "" {
			e.dir = "."
		}
		if !Owns(real) {
			return e, nil
		}
		if e.file == RunFile {
			e.file = ""
		}
	}
	run, err := Read(e.dir)
	if missing(err) {
		return nil, hint.Add(fmt.Errorf("%s: is no run folder: it has no %s", path, RunFile), "name a folder that 'rscert certify %s' wrote", param.Out)
	}
	if err != nil {
		return nil, err
	}
	e.Run = &run
	return e, nil
}

// Whole returns the evidence of the whole run that e belongs to.
func (e *Evidence) Whole() *Evidence {
	whole := *e
	whole.file = ""
	return &whole
}

// Owns reports whether path is a file of a run folder.
func Owns(path string) bool {
	switch filepath.Base(path) {
	case RunFile, VotesFile, CertificatesFile, BoundsFile, ScoresFile, ManifestFile, SignatureFile:
		_, err := os.Stat(filepath.Join(filepath.Dir(path), RunFile))
		return err == nil
	}
	return false
}

// IsFolder reports whether the path is a run folder itself, not one of its files.
func (e *Evidence) IsFolder() bool { return e.Run != nil && e.file == "" }

// choose returns the path to read in place of the run's file called name: the given file if it is of this kind.
func (e *Evidence) choose(name string) (string, error) {
	switch {
	case e.Run == nil:
		return e.Path, nil
	case e.file != "" && e.file != name:
		return "", hint.New(fmt.Sprintf("%s: this command reads another file of the run", e.Path), fmt.Sprintf("name the run's folder, or its %s", name))
	}
	return filepath.Join(e.dir, name), nil
}

// HoldsScores reports whether the path is a file of scores or a run that kept them.
func (e *Evidence) HoldsScores() bool {
	if e.Run != nil && e.file == "" {
		return e.Run.Parameters.SaveScores
	}
	return strings.HasSuffix(e.Path, ".npz")
}

// Supports reports whether the run kept the input of a method. It always keeps votes.
func (e *Evidence) Supports(m Method) bool {
	_, byVotes := m.Votes()
	return byVotes || e.Run.Parameters.SaveScores
}

// sealed reports whether the run's files carry checksums, as they do since format 2.
func (r Run) sealed() bool { return r.Schema >= 2 }

// Votes returns the votes of the examples; votes of a run must fit its run.json. Duplicate examples, unusable lines
// and lines that usable rejects are errors that name the line.
func (e *Evidence) Votes(usable func(certify.Votes) error) ([]certify.Votes, error) {
	path, err := e.choose(VotesFile)
	if err != nil {
		return nil, err
	}
	read := readVotes
	if e.Run != nil {
		read = e.Run.readOwnVotes
	}
	c, err := read(path)
	if err == nil {
		err = c.intact(path)
	}
	if err != nil {
		return nil, err
	}
	var votes []certify.Votes
	for i, v := range c.values {
		if err := usable(v.Votes); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, c.lines[i], err)
		}
		votes = append(votes, v.Votes)
	}
	if len(votes) == 0 {
		return nil, fmt.Errorf("%s: no votes", e.Path)
	}
	return votes, nil
}

// OwnVotes returns the votes stored beside the run's scores, in the order of the examples.
func (e *Evidence) OwnVotes() ([]certify.Votes, error) {
	lines, err := e.ownVotes()
	votes := make([]certify.Votes, len(lines))
	for i, l := range lines {
		votes[i] = l.Votes
	}
	return votes, err
}

// ownVotes reads the votes of the run.
func (e *Evidence) ownVotes() ([]votesLine, error) {
	path := filepath.Join(e.dir, VotesFile)
	c, err := e.Run.readOwnVotes(path)
	if err == nil {
		err = c.intact(path)
	}
	return c.values, err
}

// readVotes reads votes from elsewhere.
func readVotes(path string) (content[votesLine], error) {
	seen := map[int]bool{}
	classes := 0
	return readLines(path, fileFormat[votesLine]{keys: votesKeys, size: votesLine.size, valid: func(v votesLine) error {
		if err := v.Validate(); err != nil {
			return err
		}
		if classes == 0 {
			classes = len(v.Counts)
		}
		switch {
		case len(v.Counts) != classes:
			return fmt.Errorf("counts has %d classes, the lines before have %d", len(v.Counts), classes)
		case seen[v.Index]:
			return fmt.Errorf("index %d appears twice: its noise is one draw, not two independent ones", v.Index)
		}
		seen[v.Index] = true
		return nil
	}})
}

// Certificates returns the certificates of a run or of a file.
func (e *Evidence) Certificates() ([]certify.Certificate, error) {
	path, err := e.choose(CertificatesFile)
	if err != nil {
		return nil, err
	}
	var c content[certify.Certificate]
	if e.Run != nil {
		c, err = e.Run.readOwnCertificates(path)
	} else {
		c, err = readLines(path, fileFormat[certify.Certificate]{keys: certificateKeys, valid: func(certify.Certificate) error { return nil }})
	}
	if err == nil {
		err = c.intact(path)
	}
	return c.values, err
}

// WriteCertificates writes a certificates.jsonl file, completely or not at all.
func WriteCertificates(path string, certs []certify.Certificate) error {
	var lines []byte
	for _, c := range certs {
		line, err := encodeLine(c)
		if err != nil {
			return err
		}
		lines = append(lines, line...)
	}
	return durable.WriteFile(path, lines)
}

// Scores reads a file of scores. It compares a run's scores with the checksums in its votes, one example at a time.
type Scores struct {
	*scorefile.Reader
	path  string
	votes []votesLine // of a run whose votes have checksums; otherwise nil
	turn  int         // examples that Next has reached
}

// Scores opens the scores. The caller must Close them.
func (e *Evidence) Scores() (*Scores, error) {
	path, err := e.choose(ScoresFile)
	if err != nil {
		return nil, err
	}
	s := &Scores{path: path}
	if e.Run != nil {
		if err := e.finished(path); err != nil {
			return nil, err
		}
		if e.Run.sealed() {
			if s.votes, err = e.ownVotes(); err != nil {
				return nil, err
			}
		}
	}
	if s.Reader, err = scorefile.Open(path); err != nil {
		return nil, err
	}
	if e.Run != nil {
		if err := e.Run.fits(s.Shape, path); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// finished returns an error unless the run has its scores.
func (e *Evidence) finished(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if _, err := scorefile.StatPart(path); err == nil {
		return hint.Add(fmt.Errorf("%s: the run is not finished", e.Path), "finish it with 'rscert certify … %s'", param.Resume)
	}
	return hint.Add(fmt.Errorf("%s: has no %s", e.Path, ScoresFile),
		"keep all scores with 'rscert certify %s', or certify in one run with %s and %s", param.SaveScores, param.Scores, param.ConfidenceRadii)
}

// Quantisation returns the loss of radius from rounding the current example.
func (s *Scores) Quantisation() float64 {
	if s.votes == nil {
		return 0
	}
	return s.votes[s.turn-1].Quantisation
}

// Next moves to the next example, as in scorefile. It first checks that the example before is unchanged.
func (s *Scores) Next() (index, label int, err error) {
	if s.votes != nil && s.turn > 0 {
		v := s.votes[s.turn-1]
		switch sum, err := s.Digest(); {
		case err != nil:
			return 0, 0, err
		case sum != v.Scores:
			return 0, 0, fmt.Errorf("%s: the scores of example %d have changed since they were written: their checksum does not match that in %s",
				s.path, v.Index, VotesFile)
		}
	}
	if index, label, err = s.Reader.Next(); err == nil {
		if s.turn++; s.votes != nil && s.turn > len(s.votes) {
			return 0, 0, fmt.Errorf("%s: has scores of more examples than %s", s.path, VotesFile)
		}
	}
	return index, label, err
}

// fits returns an error unless scores have the run's shape.
func (r Run) fits(s scorefile.Shape, path string) error {
	if want := r.scoreShape(); r.sealed() && s != want {
		return fmt.Errorf("%s: has %d examples, n0 = %d, n = %d and %d classes; the run has %d, %d, %d and %d",
			path, s.Examples, s.N0, s.N, s.Classes, want.Examples, want.N0, want.N, want.Classes)
	}
	return nil
}

// Bounds is a file of bounds on the confidence, with the conditions of its run.
type Bounds struct {
	File string
	// Alpha is the failure probability of each bound and Examples the number of sampled examples; both are 0 in a
	// file from elsewhere.
	Alpha    float64
	Examples int
	// ByVotes means that the most votes choose the classes, not the largest mean scores; the confidences are mean
	// scores.
	ByVotes bool
	// AllExamples means that every example with a label has rows, not only examples with a certified class.
	AllExamples bool
	// Label means that the label was certified, not the predicted class: the bounds leave out all wrong predictions.
	Label bool
	// Unfinished is the number of the run's examples still to be sampled.
	Unfinished int
	// Arithmetic is the arithmetic of the run's noise; unknown for a file from elsewhere.
	Arithmetic certify.Arithmetic
	// Norm is the norm of the run's radii; unknown for a file from elsewhere.
	Norm law.Norm
}

// Bounds returns the bounds on the confidence under attack. The bounds of a run must be complete up to its last
// certificate, and all its classes must be certified soundly.
func (e *Evidence) Bounds() (Bounds, error) {
	path, err := e.choose(BoundsFile)
	if err != nil || e.Run == nil {
		return Bounds{File: path}, err
	}
	p := e.Run.Parameters
	if len(p.ConfidenceRadii) == 0 {
		return Bounds{}, hint.Add(fmt.Errorf("%s: the run has no bounds on the confidence", e.Path),
			"give certify %s, or make bounds with 'rscert confidence'", param.ConfidenceRadii)
	}
	certsPath := filepath.Join(e.dir, CertificatesFile)
	certs, err := e.Run.readOwnCertificates(certsPath)
	if err == nil {
		err = certs.intact(certsPath)
	}
	if err != nil {
		return Bounds{}, err
	}
	for _, c := range certs.values {
		if !c.Sound {
			return Bounds{}, fmt.Errorf("%s: the class of example %d was certified by %s, which is not sound", e.Path, c.Index, c.Method)
		}
	}
	all := false
	if e.Run.sealed() {
		rows, err := readBounds(path)
		if err == nil {
			err = rows.intact(path)
		}
		if err != nil {
			return Bounds{}, err
		}
		if n, _ := p.boundsOf(certs.values, rows); n < len(certs.values) {
			return Bounds{}, hint.Add(fmt.Errorf("%s: the rows of example %d are not those of its certificate", path, certs.values[n].Index),
				"'rscert certify … %s' samples it again", param.Resume)
		}
		all = rows.header == boundsHeader
	}
	_, byVotes := p.Method.Votes()
	return Bounds{
		File: path, ByVotes: byVotes, Alpha: p.Alpha, Examples: e.Run.Sampled(len(certs.values)),
		AllExamples: all, Label: p.Class == certify.Label, Unfinished: max(0, e.Run.Data.Selected-len(certs.values)),
		Arithmetic: e.Run.arithmetic(), Norm: p.Law.Law().Norm(),
	}, nil
}

// Sampled returns the number of examples that a statement about all of them must count, given the number here. It
// counts the whole run, even if a merge left out shards or the run is unfinished: whoever stopped or left out
// examples may have seen their results.
func (e *Evidence) Sampled(here int) int {
	if e.Run == nil {
		return here
	}
	return e.Run.Sampled(here)
}

// CountSampled sets the number of sampled examples in certificates of the evidence. Without a run, indices 0, 1, 2, …
// mean that all sampled examples are here; otherwise the number is unknown and left out.
func (e *Evidence) CountSampled(certs []certify.Certificate) []certify.Certificate {
	certs = slices.Clone(certs)
	highest := -1
	for _, c := range certs {
		highest = max(highest, c.Index)
	}
	if e.Run == nil && highest+1 != len(certs) {
		return certs
	}
	for i := range certs {
		certs[i].Sampled = e.Sampled(len(certs))
	}
	return certs
}

// Sampled is Evidence.Sampled.
func (r *Run) Sampled(here int) int { return max(here, r.Data.Selected) }

// OfRun reports whether the bounds belong to a run, and so are on mean scores.
func (b Bounds) OfRun() bool { return b.Alpha != 0 }

// Sampled returns the alpha and the number of sampled examples for a statement about all bounds; 0 means unknown.
// Given values (nil, 0: not given) may be more careful than the run, never less.
func (b Bounds) Sampled(alpha *float64, examples int) (float64, int, error) {
	switch {
	case alpha != nil && !(*alpha > 0 && *alpha < 1):
		return 0, 0, param.Errorf("%s %v: want a number between 0 and 1", param.Alpha, *alpha)
	case examples < 0:
		return 0, 0, param.Errorf("%s %d: want at least 1", param.Examples, examples)
	case alpha != nil && *alpha < b.Alpha:
		return 0, 0, param.Errorf("%s %v: the run's bounds fail with probability up to %v", param.Alpha, *alpha, b.Alpha)
	case examples != 0 && examples < b.Examples:
		return 0, 0, param.Errorf("%s %d: the run has sampled %d", param.Examples, examples, b.Examples)
	}
	if alpha != nil {
		b.Alpha = *alpha
	}
	return b.Alpha, max(examples, b.Examples), nil
}

// Given are the conditions that a command's user gives. A nil field stands for the run's value, or for the default
// with a file from elsewhere.
type Given struct {
	Alpha, Sigma, Lipschitz *float64
	Law                     *law.Name
	Class                   *certify.Class
	Margin                  *certify.MarginKind
}

// defaultAlpha is the alpha of a file from elsewhere.
const defaultAlpha = 0.001

// Target returns the target for certifying the evidence again: the run's conditions, overridden by the given ones.
// Law and σ describe the noise and cannot be overridden.
func (e *Evidence) Target(g Given) (certify.Target, error) {
	t := certify.Target{Alpha: defaultAlpha}
	set(&t.Alpha, g.Alpha)
	if e.Run != nil {
		alpha := e.Run.Parameters.Alpha
		set(&alpha, g.Alpha)
		t = e.Run.Target(alpha)
	}
	set(&t.Class, g.Class)
	if g.Margin != nil && *g.Margin != t.Margin {
		t.Margin, t.Lipschitz = *g.Margin, 0 // the constant belongs to the other margin
	}
	set(&t.Lipschitz, g.Lipschitz)
	switch {
	case g.Law != nil && e.Run != nil && *g.Law != t.Law:
		return t, param.Errorf("%s %s: the run's noise is %s", param.Law, *g.Law, t.Law)
	case g.Sigma == nil && e.Run == nil:
		return t, hint.Add(param.Errorf("%s is missing", param.Sigma), "%s does not say the σ of its noise", e.Path)
	case g.Sigma != nil && e.Run != nil && *g.Sigma != t.Sigma:
		return t, param.Errorf("%s %v: the run's noise has %s = %v", param.Sigma, *g.Sigma, t.Law.Law().Words().Symbol, t.Sigma)
	}
	set(&t.Law, g.Law)
	set(&t.Sigma, g.Sigma)
	if !(t.Sigma > 0) || math.IsInf(t.Sigma, 1) {
		return t, param.Errorf("%s %v: want a number above 0", param.Sigma, t.Sigma)
	}
	return t, nil
}

// ClassTarget is Target for the class alone. If the run also bounds the confidence, it has the certificates' part of
// alpha.
func (e *Evidence) ClassTarget(g Given) (certify.Target, error) {
	t, err := e.Target(g)
	if err == nil && g.Alpha == nil && e.Run != nil && len(e.Run.Parameters.ConfidenceRadii) > 0 {
		t = t.ClassOnly()
	}
	return t, err
}

// ClassMethod returns the run's vote method for classes whose confidence is bounded; empty if scores certify them.
func (e *Evidence) ClassMethod() certify.VoteMethod {
	if e.Run == nil || !e.Run.Parameters.Scores {
		return ""
	}
	method, _ := e.Run.Parameters.Method.Votes()
	return method
}

// Combine returns how scores bound a margin: the given way, or the run's.
func (e *Evidence) Combine(given *certify.Combine) certify.Combine {
	var c certify.Combine
	if e.Run != nil {
		c = e.Run.Parameters.Combine
	}
	set(&c, given)
	return c
}

func set[T any](to *T, given *T) {
	if given != nil {
		*to = *given
	}
}
