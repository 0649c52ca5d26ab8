package runfolder

import (
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

// Evidence is the input of a command. The user gives the path of a run folder, of a file in a run folder, or of a file
// outside of run folders. All commands find their input through Find, so they all accept the same paths.
type Evidence struct {
	Path string // as the user gave it
	// Run is the run that the evidence belongs to. It is nil for a file without a run.
	Run *Run

	dir  string // the run's folder
	file string // name of the given file in dir; "" for the folder itself
}

// SweepFile is the name of the file that records a sweep. The folder of a sweep holds this file. For each point of the
// sweep, it also holds a subfolder with the run of the point.
const SweepFile = "sweep.json"

// Find returns the evidence at path. A file belongs to a run if it lies in a folder with a run.json and has one of the
// names that rscert uses in run folders, for example votes.jsonl. If this run.json cannot be read, Find returns an
// error.
func Find(path string) (*Evidence, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	e := &Evidence{Path: path, dir: path}
	if !info.IsDir() {
		if Owns(path) { // a link in a run folder could lead to a file that is not part of the run
			if err := checkOwn(path); err != nil {
				return nil, err
			}
		}
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
		refused := fmt.Errorf("%s: is no run folder: it has no %s", path, RunFile)
		if _, err := os.Lstat(filepath.Join(e.dir, SweepFile)); err == nil {
			return nil, hint.Add(refused, "the folder holds a sweep: name the folder of a point")
		}
		return nil, hint.Add(refused, "name a folder that 'rscert certify %s' wrote", param.Out)
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

// Owns reports whether path lies in a run folder and ends in a name that rscert uses for a file of a run, for example
// votes.jsonl.
func Owns(path string) bool {
	switch filepath.Base(path) {
	case RunFile, VotesFile, CertificatesFile, BoundsFile, ScoresFile, ManifestFile, SignatureFile:
		_, err := os.Lstat(filepath.Join(filepath.Dir(path), RunFile))
		return err == nil
	}
	return false
}

// IsFolder reports whether the path is a run folder itself, not one of its files.
func (e *Evidence) IsFolder() bool { return e.Run != nil && e.file == "" }

// choose returns the path of the run's file with this name. If the user gave another file of the run, choose returns an
// error. If the user gave a file without a run, choose returns the path of this file.
func (e *Evidence) choose(name string) (string, error) {
	switch {
	case e.Run == nil:
		return e.Path, nil
	case e.file != "" && e.file != name:
		return "", hint.New(fmt.Sprintf("%s: this command reads another file of the run", e.Path), fmt.Sprintf("name the run's folder, or its %s", name))
	}
	path := filepath.Join(e.dir, name)
	return path, checkOwn(path) // a link could lead to a file that is not part of the run
}

// HoldsScores reports whether the path is a file of scores, or the folder of a run that kept its scores.
func (e *Evidence) HoldsScores() bool {
	if e.Run != nil && e.file == "" {
		return e.Run.Parameters.SaveScores
	}
	return strings.HasSuffix(e.Path, ".npz")
}

// Supports reports whether the run kept the data that the method m needs. A run always keeps its votes.
func (e *Evidence) Supports(m Method) bool {
	_, byVotes := m.Votes()
	return byVotes || e.Run.Parameters.SaveScores
}

// sealed reports whether the run's lines carry checksums, as in all formats since format 2.
func (r Run) sealed() bool { return r.Schema >= 2 }

// Votes returns the votes of the examples. The votes of a run must match its run.json. Votes returns an error if an
// example appears twice, a line cannot be decoded, or the function 'usable' rejects the votes. The error names the
// line.
func (e *Evidence) Votes(usable func(certify.Votes) error) ([]certify.Votes, error) {
	path, err := e.choose(VotesFile)
	if err != nil {
		return nil, err
	}
	open := openVotes
	if e.Run != nil {
		open = e.Run.openVotes
	}
	c, err := readAll(path, open)
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

// OwnVotes returns the votes in the run's votes.jsonl, in the order of the examples, even if the user gave the run's
// file of scores.
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
	c, err := readAll(path, e.Run.openVotes)
	return c.values, err
}

// openVotes opens a file of votes that belongs to no run.
func openVotes(path string) (*valueReader[votesLine], error) {
	seen := map[int]bool{}
	classes, rejectBelow := 0, 0.
	return fileFormat[votesLine]{keys: votesKeys, alone: true, size: votesLine.size, valid: func(v votesLine) error {
		if err := v.Validate(); err != nil {
			return err
		}
		if classes == 0 {
			classes, rejectBelow = len(v.Counts), v.RejectBelow
		}
		switch {
		case v.RejectBelow != rejectBelow:
			return fmt.Errorf("reject_below is %v, the lines before have %v", v.RejectBelow, rejectBelow)
		case len(v.Counts) != classes:
			return fmt.Errorf("counts has %d classes, the lines before have %d", len(v.Counts), classes)
		case seen[v.Index]:
			return fmt.Errorf("index %d appears twice: its noise is one draw, not two independent ones", v.Index)
		}
		seen[v.Index] = true
		return nil
	}}.open(path)
}

// Certificates returns the certificates of a run or of a file.
func (e *Evidence) Certificates() ([]certify.Certificate, error) {
	path, err := e.choose(CertificatesFile)
	if err != nil {
		return nil, err
	}
	open := openCertificates
	if e.Run != nil {
		open = e.Run.openCertificates
	}
	c, err := readAll(path, open)
	return c.values, err
}

// openCertificates opens a file of certificates that belongs to no run.
func openCertificates(path string) (*valueReader[certify.Certificate], error) {
	return fileFormat[certify.Certificate]{keys: certificateKeys, alone: true, valid: func(certify.Certificate) error { return nil }}.open(path)
}

// readAll reads a file of lines. A damaged line is an error.
func readAll[T any](path string, open func(path string) (*valueReader[T], error)) (content[T], error) {
	c, err := hold(path, open)
	if err == nil {
		err = c.intact(path)
	}
	return c, err
}

// hold reads a file of lines up to the first damaged line, and reports this line in the result.
func hold[T any](path string, open func(path string) (*valueReader[T], error)) (content[T], error) {
	r, err := open(path)
	if err != nil {
		return content[T]{}, err
	}
	return r.collect()
}

// WriteCertificates writes a certificates.jsonl file that appears whole or not at all. The checksums of its lines do
// not identify a run.
func WriteCertificates(path string, certs []certify.Certificate) error {
	var lines []byte
	for _, c := range certs {
		line, err := encodeLine(0, c)
		if err != nil {
			return err
		}
		lines = append(lines, line...)
	}
	return durable.WriteFile(path, lines)
}

// Scores reads a file of scores, one example at a time. It compares a run's scores with the checksums in the run's
// votes.
type Scores struct {
	*scorefile.Reader
	path    string
	votes   *valueReader[votesLine] // set for a run whose votes have checksums; otherwise nil
	current votesLine               // votes of the current example
	begun   bool                    // Next has returned an example
}

// Scores opens the scores. The caller must close the result.
func (e *Evidence) Scores() (*Scores, error) {
	path, err := e.choose(ScoresFile)
	if err != nil {
		return nil, err
	}
	if e.Run == nil {
		return openScores(path, nil)
	}
	if err := e.finished(path); err != nil {
		return nil, err
	}
	if !e.Run.sealed() {
		return openScores(path, nil)
	}
	votes, err := e.Run.openVotes(filepath.Join(e.dir, VotesFile))
	if err != nil {
		return nil, err
	}
	s, err := openScores(path, votes)
	if err == nil {
		err = e.Run.fits(s.Shape, path)
	}
	if err != nil {
		votes.close()
		return nil, err
	}
	return s, nil
}

func openScores(path string, votes *valueReader[votesLine]) (*Scores, error) {
	r, err := openScoreFile(path)
	if err != nil {
		return nil, err
	}
	return &Scores{Reader: r, path: path, votes: votes}, nil
}

// Close closes the files.
func (s *Scores) Close() error {
	s.votes.close()
	return s.Reader.Close()
}

// The method 'finished' returns an error if the scores.npz at the path is missing. The error says whether the run is
// unfinished or did not keep its scores.
func (e *Evidence) finished(path string) error {
	_, err := os.Lstat(path)
	if !missing(err) {
		return err
	}
	if _, err := scorefile.StatPart(path); err == nil {
		return hint.Add(fmt.Errorf("%s: the run is not finished", e.Path), "finish it with 'rscert certify … %s'", param.Resume)
	}
	return hint.Add(fmt.Errorf("%s: has no %s", e.Path, ScoresFile),
		"keep all scores with 'rscert certify %s', or certify in one run with %s and %s", param.SaveScores, param.Scores, param.ConfidenceRadii)
}

// Quantisation returns how much the rounding of the current example reduces every radius.
func (s *Scores) Quantisation() float64 { return s.current.Quantisation }

// Next moves to the next example, as scorefile.Reader.Next does. It first checks that the scores of the current example
// are unchanged.
func (s *Scores) Next() (index, label int, err error) {
	if s.votes != nil && s.begun {
		switch sum, err := s.Digest(); {
		case err != nil:
			return 0, 0, err
		case sum != s.current.Scores:
			return 0, 0, fmt.Errorf("%s: the scores of example %d have changed since they were written: their checksum does not match that in %s",
				s.path, s.current.Index, VotesFile)
		}
	}
	if index, label, err = s.Reader.Next(); err != nil || s.votes == nil {
		return index, label, err
	}
	s.begun = true
	v, ok, err := s.votes.next()
	if err == nil && !ok {
		if err = s.votes.damage.intact(s.votes.path); err == nil {
			err = fmt.Errorf("%s: has scores of more examples than %s", s.path, VotesFile)
		}
	}
	s.current = v
	return index, label, err
}

// fits returns an error unless the scores have the run's shape.
func (r Run) fits(s scorefile.Shape, path string) error {
	if want := r.scoreShape(); r.sealed() && s != want {
		return fmt.Errorf("%s: has %d examples, n0 = %d, n = %d and %d classes; the run has %d, %d, %d and %d",
			path, s.Examples, s.N0, s.N, s.Classes, want.Examples, want.N0, want.N, want.Classes)
	}
	return nil
}

// Bounds names a file of bounds on the confidence. If the file belongs to a run, the other fields describe the run.
type Bounds struct {
	File string
	// Alpha is the failure probability of each bound, and Examples is the number of sampled examples. Both fields are 0
	// for a file without a run.
	Alpha    float64
	Examples int
	// ByVotes means that the run certified the class with the most votes and not the class with the largest mean score.
	// The confidences are mean scores in both cases.
	ByVotes bool
	// AllExamples means that every example with a label has rows. Otherwise only examples with a certified class have
	// rows.
	AllExamples bool
	// Label means that the run certified the label and not the predicted class. The bounds then have no rows for wrong
	// predictions.
	Label bool
	// Unfinished is the number of the run's examples that are not sampled yet.
	Unfinished int
	// Arithmetic says for which noise the run's certificates hold: for the noise that the computer really added
	// (certify.Exact), or for real-valued noise (certify.Idealised). It is unknown for a file without a run.
	Arithmetic certify.Arithmetic
	// Norm is the norm of the run's radii. It is unknown for a file without a run.
	Norm law.Norm
}

// Bounds returns the bounds on the confidence under attack. For a run, every certificate must be sound and must have
// all its rows.
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
	certs, rows, err := e.readRows(path)
	if err != nil {
		return Bounds{}, err
	}
	for _, c := range certs {
		if !c.Sound {
			return Bounds{}, fmt.Errorf("%s: the class of example %d was certified by %s, which is not sound", e.Path, c.Index, c.Method)
		}
	}
	_, byVotes := p.Method.Votes()
	return Bounds{
		File: path, ByVotes: byVotes, Alpha: p.Alpha, Examples: e.Run.Sampled(len(certs)),
		AllExamples: rows.header != certifiedHeader, Label: p.Class == certify.Label, Unfinished: max(0, e.Run.Data.Selected-len(certs)),
		Arithmetic: e.Run.arithmetic(), Norm: p.Law.Law().Norm(),
	}, nil
}

// readRows reads the run's certificates and the rows of its bounds.csv. The rows must match the certificates. For a run
// in format 1, readRows returns no rows, because format 1 did not record the data for this check.
func (e *Evidence) readRows(path string) (certs []certify.Certificate, rows ownBounds, err error) {
	c, err := readAll(filepath.Join(e.dir, CertificatesFile), e.Run.openCertificates)
	if err != nil || !e.Run.sealed() {
		return c.values, rows, err
	}
	if rows, err = e.Run.readBounds(path); err == nil {
		err = rows.intact(path)
	}
	if err != nil {
		return nil, rows, err
	}
	if n, _ := e.Run.Parameters.boundsOf(c.values, rows); n < len(c.values) {
		return nil, rows, hint.Add(fmt.Errorf("%s: the rows of example %d are not those of its certificate", path, c.values[n].Index),
			"'rscert certify … %s' samples it again", param.Resume)
	}
	return c.values, rows, nil
}

// CheckBounds returns an error unless the rows of the run's bounds.csv match the run's certificates.
func (e *Evidence) CheckBounds() error {
	_, _, err := e.readRows(filepath.Join(e.dir, BoundsFile))
	return err
}

// Sampled returns the number of sampled examples, which statements about all examples need. The argument 'here' is the
// number of examples whose results the caller has. For a run, the result is at least the number of examples of the
// whole run, even if the run is unfinished or a merge omitted shards. The reason is that somebody may have seen results
// before stopping the run or omitting shards.
func (e *Evidence) Sampled(here int) int {
	if e.Run == nil {
		return here
	}
	return e.Run.Sampled(here)
}

// CountSampled returns a copy of the certificates in which the field Sampled is set. Without a run, it looks at the
// indices of the certificates. If they are 0, 1, 2, …, it assumes that the certificates cover all sampled examples.
// Otherwise, the number of sampled examples is unknown, and CountSampled does not set the field.
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

// Sampled does the same as Evidence.Sampled.
func (r *Run) Sampled(here int) int { return max(here, r.Data.Selected) }

// OfRun reports whether the bounds belong to a run. If so, they bound mean scores.
func (b Bounds) OfRun() bool { return b.Alpha != 0 }

// Sampled returns what a statement about all bounds needs: alpha and the number of sampled examples. If the number is
// unknown, it is 0. The arguments are the values that the user gave; nil and 0 mean that the user gave none. The user's
// values may be larger than the run's values, but not smaller.
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

// Given holds the conditions that the user gives to a command. A nil field stands for the run's value or, for a file
// without a run, for the default.
type Given struct {
	Alpha, Sigma, Lipschitz *float64
	Law                     *law.Name
	Class                   *certify.Class
	Margin                  *certify.MarginKind
	TopK                    *int
	None                    *certify.NoneMode
}

// defaultAlpha is the alpha that commands assume for a file without a run.
const defaultAlpha = 0.001

// Target returns the target for certifying the evidence again. The conditions in g replace the run's conditions. The
// law and σ describe the noise that was drawn, so g cannot replace them.
func (e *Evidence) Target(g Given) (certify.Target, error) {
	t := certify.Target{Alpha: defaultAlpha}
	set(&t.Alpha, g.Alpha)
	if e.Run != nil {
		alpha := e.Run.Parameters.Alpha
		set(&alpha, g.Alpha)
		t = e.Run.Target(alpha)
	}
	set(&t.Class, g.Class)
	set(&t.TopK, g.TopK)
	set(&t.None, g.None)
	if g.Margin != nil && *g.Margin != t.Margin {
		t.Margin, t.Lipschitz = *g.Margin, 0 // the recorded Lipschitz constant holds only for the run's margin
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
	switch {
	case t.Law.Deterministic() && e.Run == nil:
		return t, param.Errorf("%s %s: needs a run folder, which records the step of the lattice", param.Law, t.Law)
	case t.Law.Deterministic() && g.Alpha != nil:
		return t, param.Errorf("%s %v: a certificate of %s %s holds with certainty and has no alpha", param.Alpha, *g.Alpha, param.Law, t.Law)
	}
	if !(t.Sigma > 0) || math.IsInf(t.Sigma, 1) {
		return t, param.Errorf("%s %v: want a number above 0", param.Sigma, t.Sigma)
	}
	return t, nil
}

// ClassTarget returns the Target for certifying the class without bounds on the confidence. If the run also bounds the
// confidence and g gives no alpha, the target has only the part of alpha that the run spent on the certificates.
func (e *Evidence) ClassTarget(g Given) (certify.Target, error) {
	t, err := e.Target(g)
	if err == nil && g.Alpha == nil && e.Run != nil && len(e.Run.Parameters.ConfidenceRadii) > 0 {
		t = t.ClassOnly()
	}
	return t, err
}

// ClassMethod returns the vote method that certified the classes in a run with scores. The result is empty if the
// classes were certified with scores, if the run computed no scores, or if the evidence belongs to no run.
func (e *Evidence) ClassMethod() certify.VoteMethod {
	if e.Run == nil || !e.Run.Parameters.Scores {
		return ""
	}
	method, _ := e.Run.Parameters.Method.Votes()
	return method
}

// Combine returns the method for bounding a margin from scores. It is the user's method 'given' or, if 'given' is nil,
// the run's method.
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
