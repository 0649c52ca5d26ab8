package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// file returns the name of a file and the start of its digest.
func file(f *summary.File) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%s (SHA-256 %.16s…)", quote.Line(f.File), f.SHA256)
}

// denoiser returns the name of the denoiser of a run and the start of its digest.
func denoiser(c summary.Conditions) string {
	if c.Denoiser == nil {
		return ""
	}
	return fmt.Sprintf("%s (SHA-256 %.16s…)", quote.Line(c.Denoiser.String()), c.Denoiser.SHA256)
}

// parameters lists the conditions of the runs, except conditions that are unknown for all runs.
func (p Page) parameters() []measure {
	var rows []measure
	add := func(name, meaning string, of func(c summary.Conditions) string) {
		said := false
		m := p.single(name, meaning, func(s summary.Summary) cell {
			value := of(s.Conditions)
			if value == "" {
				return none
			}
			said = true
			return cell{Value: value}
		})
		if said {
			rows = append(rows, m)
		}
	}
	add("Model", "The file of the classifier f, and the digest of its "+
		"bytes.", func(c summary.Conditions) string { return file(c.Model) })
	add("Denoiser", "The file of the model in front of f, and the digest of its bytes: what is certified is the "+
		"pair.", denoiser)
	add("Data set", "Where the examples are from, and the digest of their labels and "+
		"values.", func(c summary.Conditions) string { return file(c.Data) })
	add(summary.ScaleSymbol(p.summaries()), p.scale()+" in the units of the data (images: values in "+
		"[0,1]).", func(c summary.Conditions) string {
		if c.Scaled {
			return "one for each column"
		}
		return optional(c.Sigma)
	})
	add("α", "Each certificate may be wrong with this probability, over the noise that was "+
		"drawn.", func(c summary.Conditions) string { return optional(c.Alpha) })
	add("Method", "The statistical bound that the certificates rest "+
		"on.", func(c summary.Conditions) string { return c.Method })
	add("Margin", "Which margin between the classes is bounded.", func(c summary.Conditions) string { return c.MarginKind })
	add("Certified class", "predicted: the class of most selection samples; label: the true "+
		"one.", func(c summary.Conditions) string { return c.Class })
	add("Claim", "What a certificate claims of its class within the radius.", func(c summary.Conditions) string {
		if c.Usual() {
			return ""
		}
		return c.Says()
	})
	add("n", "Noisy samples of each example from which its certificate is computed; the most of them with a "+
		"stopping rule.", func(c summary.Conditions) string { return whole(c.N) })
	add("n₀", "Separate samples of each example from which its class is "+
		"chosen.", func(c summary.Conditions) string { return whole(c.N0) })
	add("Stopping rule", "Sampling of an example ends early by this rule, which the certificates allow "+
		"for.", func(c summary.Conditions) string { return c.Stop })
	add("Samples", "Estimation samples of all examples.", func(c summary.Conditions) string { return whole(c.Samples) })
	add("Soundness", "Whether each certificate is true with probability 1 − α, by a theorem with all its "+
		"conditions.", soundness)
	add("Arithmetic", "exact: for the noise that was drawn; idealised: for a Gaussian of real numbers, which "+
		"floats only come close to.",
		func(c summary.Conditions) string { return c.Arithmetic.String() })
	add("Precision", "The numbers that the model computes in, which are part of what is "+
		"certified.", func(c summary.Conditions) string { return c.Precision })
	add("Quantisation", "At most this has been taken off a radius, because inputs are rounded to a "+
		"lattice.", func(c summary.Conditions) string {
		if c.Quantisation == 0 {
			return ""
		}
		return report.Round(c.Quantisation, report.Up, 0, 6)
	})
	add("Noise", "lattice: integers added to those of the data; float: rounded sums of "+
		"floats.", func(c summary.Conditions) string { return c.Noise })
	add("Seed", "The seed determines the noise, so the same seed gives the same run.", func(c summary.Conditions) string {
		if c.Seed == nil {
			return ""
		}
		return fmt.Sprint(*c.Seed)
	})
	add("Lipschitz constant", "Given by the user; radii may rest on it.", func(c summary.Conditions) string {
		if c.Lipschitz == 0 {
			return ""
		}
		return fmt.Sprint(c.Lipschitz)
	})
	add("Shard", "The run is this part of another one.", func(c summary.Conditions) string { return c.Shard })
	add("Device", "What the model ran on.", func(c summary.Conditions) string {
		if c.Provider == "" {
			return ""
		}
		return c.Provider + ", " + c.Device
	})
	add("rscert", "The version of the program that sampled.", func(c summary.Conditions) string { return c.Version })
	return rows
}

// scale describes the scale of the runs' noise.
func (p Page) scale() string {
	var words []string
	for _, r := range p.Runs {
		w := r.Conditions.Law.Law().Words()
		if text := fmt.Sprintf("The %s of the %s,", w.Scale, w.Name); !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	return strings.Join(words, " ")
}

func optional(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprint(*x)
}

func whole(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func soundness(c summary.Conditions) string {
	switch {
	case c.Sound == nil:
		return ""
	case *c.Sound:
		return "sound"
	}
	return "not sound"
}

// cautions lists the warnings that the page shows before any number.
func (p Page) cautions() (lines []string) {
	for _, r := range p.Runs {
		add := func(format string, args ...any) { lines = append(lines, r.Name+": "+fmt.Sprintf(format, args...)) }
		c := r.Conditions
		if r.Selected > r.Examples {
			add("the run is not finished: %d of %d examples.", r.Examples, r.Selected)
		}
		if c.Only != "" {
			add("%s.", c.Only)
		}
		switch {
		case r.Kind == summary.LogKind:
			add("a log from elsewhere, which does not say its σ, its α or its method: nothing here is certified by " +
				"rscert.")
		case c.Sound != nil && !*c.Sound:
			add("the method is not sound: nothing is certified.")
		case c.Sound == nil:
			add("it is not known whether the method is sound.")
		case c.Arithmetic != certify.Exact:
			add("the arithmetic is idealised: the certificates hold for noise of real numbers, not for the noise " +
				"that was run.")
		}
	}
	return lines
}

// assumption is a question about the certificates or the prediction sets, with its answer.
type assumption struct{ Question, Answer string }

func (p Page) assumptions() []assumption {
	all := []assumption{
		{"What is certified?", "The smoothed classifier, which answers with the class that is most probable under " +
			"the noise, not the model by itself. A deployment has to sample the same noise." + p.pairs()},
		{"What does a radius say?", p.probability() + " perturbation of the " +
			"input of " + article(summary.Norms(p.summaries())) + " norm up to the radius changes the smoothed classifier's class. Radii are rounded " +
			"down." + p.claims() + p.exceptions()},
		{"What may be wrong?", p.failures()},
		{"What is “population”?", "The inputs that the examples represent. If the examples are a random sample of " +
			"these inputs, an interval contains the accuracy on them, with the stated confidence for each single interval " +
			"(Clopper & Pearson 1934; for the average radius, Waudby-Smith & Ramdas 2024). The intervals do not account " +
			"for the randomness of the noise."},
		{"What is assumed?", "That the random numbers are as good as independent ones, and that the model gives " +
			"the same answer to the same input. Nothing is assumed of the model, the data or the attack, beyond " +
			"its " + summary.Norms(p.summaries()) + " norm."},
	}
	all = append(all, p.units()...)
	for _, r := range p.Runs {
		if len(r.Calibration) > 0 {
			return append(all, assumption{"What do the bounds on calibration rest on?", "On an interval of each " +
				"certified example's confidence under every attack within the radius. The adversary then chooses " +
				"the worst confidence within each interval; examples whose class is not certified are left " +
				"out. In the error of confident answers they count as wrong unless their bounds rule that out."})
		}
	}
	return all
}

// probability returns the beginning of the sentence that explains a radius. This beginning says how likely it is that
// the radius holds.
func (p Page) probability() string {
	var names []string
	for _, r := range p.Runs {
		if r.Conditions.Deterministic {
			names = append(names, r.Name)
		}
	}
	switch len(names) {
	case 0:
		return "With probability at least 1 − α over the noise drawn, no"
	case len(p.Runs):
		return "The certificates hold with certainty: no"
	}
	return "With probability at least 1 − α over the noise drawn (with certainty for " + strings.Join(names, ", ") + "), no"
}

// pairs describes the classifier of each run that has a denoiser or a reduced precision.
func (p Page) pairs() string {
	text := ""
	for _, r := range p.Runs {
		if r.Conditions.Denoiser != nil {
			text += fmt.Sprintf(" For %s, the model is the pair of the denoiser and the classifier behind it.", r.Name)
		}
		if c := r.Conditions.Precision; c != "" && c != onnx.F32.String() {
			text += fmt.Sprintf(" For %s, it is the model as computed in %s.", r.Name, c)
		}
	}
	return text
}

// claims describes the claim of the certificates of each run, except for runs with the usual claim
// (certify.Claim.Usual).
func (p Page) claims() string {
	text := ""
	for _, r := range p.Runs {
		if c := r.Conditions; !c.Usual() {
			text += fmt.Sprintf(" A certificate of %s claims that %s.", r.Name, c.Says())
		}
	}
	return text
}

// exceptions lists the runs whose radii are not known to be certified for the noise that the run drew. A run is listed
// for one of three reasons: it is unknown whether its method is sound, its method is not sound, or its arithmetic is
// not exact.
func (p Page) exceptions() string {
	text := ""
	for _, r := range p.Runs {
		switch c := r.Conditions; {
		case c.Sound == nil:
			text += fmt.Sprintf(" For %s, it is not known whether this holds.", r.Name)
		case !*c.Sound:
			text += fmt.Sprintf(" For %s, this does not hold: the method is not sound.", r.Name)
		case c.Arithmetic != certify.Exact:
			text += fmt.Sprintf(" For %s, this holds only for noise of real numbers, which is not the noise that was run.", r.Name)
		}
	}
	return text
}

// The method 'failures' returns a text that states how many certificates may be wrong.
func (p Page) failures() string {
	text := ""
	if slices.ContainsFunc(p.Runs, func(r Run) bool { return !r.Conditions.Deterministic }) {
		text = "Each certificate may fail with probability α, independently of the others. " +
			"The numbers after ≥ or ≤ allow for that."
	}
	said := false
	for _, r := range p.Runs {
		switch d := r.Dataset; {
		case d != nil && r.Conditions.Deterministic:
			text += fmt.Sprintf(" The certificates of %s are deterministic: none of %s is wrong.",
				r.Name, report.Certificates(r.Examples, d.Examples))
			said = true
		case d != nil:
			text += fmt.Sprintf(" For %s: with probability %s, at most %d of %s are "+
				"wrong.", r.Name, complement(d.Delta), d.Failures, report.Certificates(r.Examples, d.Examples))
			said = true
		}
	}
	if !said {
		return "It is not known how many of the certificates may be wrong."
	}
	return strings.TrimSpace(text)
}
