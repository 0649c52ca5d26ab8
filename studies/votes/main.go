// Votes compares methods of certification on real votes. Some votes come from Cohen et al.'s ResNet-110 (σ = 0.25) on
// 500 CIFAR-10 images with n = 100,000 (Jia et al. 2020). These votes are in a file outside the repository (votesFile).
// The other votes come from runs of the bundled model. The program writes docs/votes-tables.md and docs/img/votes.svg.
// The numbers in docs/votes.md come from docs/votes-tables.md. The commands are:
//
//	rscert certify --model testdata/mnist-cnn.onnx --data testdata/mnist --sigma 0.5 --max 100 --out FULL
//	rscert certify --model testdata/mnist-cnn.onnx --data testdata/mnist --sigma 0.5 --max 100 \
//	    --stop 'radius>=0.5' --out STOPPED
//	go run ./studies/votes docs FULL STOPPED…
//
// To simulate fewer than 100,000 samples of an image, the program draws some of the image's votes, without replacement.
// The program certifies the label of each image, because the file with the votes has no selection samples.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/runfolder"
)

const (
	votesFile = "../shared/data/cifar10-votes/resnet110-sigma0.25-n100000.txt"
	alpha     = 0.001
	sigma     = 0.25
	budget    = 100000
)

var sound = []certify.VoteMethod{certify.ClopperPearson, certify.Bonferroni, certify.ExactMargin}

func main() {
	log.SetFlags(0)
	repeats := flag.Int("repeats", 200, "subsamples at n = 100; fewer at larger n")
	streams := flag.Int("streams", 5, "streams per image, for early stopping")
	only := flag.Bool("figure", false, "make the figure alone")
	flag.Parse()
	if flag.NArg() < 1 {
		log.Fatal("usage: votes [flags] docs [FULL STOPPED…]")
	}
	docs := flag.Arg(0)
	images, err := readImages(votesFile)
	if err != nil {
		log.Fatal(err)
	}
	if *only {
		if err := figure(images, filepath.Join(docs, "img", "votes.svg")); err != nil {
			log.Fatal(err)
		}
		return
	}
	var b bytes.Buffer
	fmt.Fprint(&b, "# Tables of docs/votes.md\n\n`go run ./studies/votes docs FULL STOPPED…` makes these tables. The comment at the top of `studies/votes/main.go`\ndescribes the arguments.\n")
	for _, step := range []func() error{
		func() error { return accuracies(&b, images, *repeats, certify.SecondMargin) },
		func() error { return accuracies(&b, images, *repeats, certify.FirstMargin) },
		func() error { return table1(&b, images, *repeats) },
		func() error { return stopping(&b, images, *streams) },
		func() error { return runs(&b, flag.Args()[1:]) },
		func() error { return figure(images, filepath.Join(docs, "img", "votes.svg")) },
	} {
		if err := step(); err != nil {
			log.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(docs, "votes-tables.md"), b.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// An image holds its label and its votes. Each vote takes one byte.
type image struct {
	certify.Votes
	votes []byte
}

func readImages(path string) (images []image, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		im := image{Votes: certify.Votes{Index: 20 * i, Counts: make([]int64, 10)}}
		r := strings.NewReader(line)
		for k := range im.Counts {
			if _, err := fmt.Fscan(r, &im.Counts[k]); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
			}
			im.N += im.Counts[k]
			im.votes = append(im.votes, bytes.Repeat([]byte{byte(k)}, int(im.Counts[k]))...)
		}
		if _, err := fmt.Fscan(r, &im.Label); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		if err := im.Validate(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		images = append(images, im)
	}
	return images, nil
}

// A stream draws an image's votes in a random order, without replacement. The votes drawn so far are a multivariate
// hypergeometric sample.
type stream struct {
	certify.Votes
	rng  *rand.Rand
	left []byte
}

// newStream begins a stream. The stream permutes the image's votes while it draws.
func (im image) newStream(rng *rand.Rand) *stream {
	s := &stream{Votes: im.Votes, rng: rng, left: im.votes}
	s.N, s.Counts = 0, make([]int64, len(im.Counts))
	return s
}

func (s *stream) drawTo(n int64) certify.Votes {
	for ; s.N < n; s.N++ {
		k := s.rng.IntN(len(s.left))
		s.left[0], s.left[k] = s.left[k], s.left[0]
		s.Counts[s.left[0]]++
		s.left = s.left[1:]
	}
	v := s.Votes
	v.Counts = append([]int64(nil), s.Counts...)
	return v
}

func certifier(m certify.VoteMethod, k certify.MarginKind) (*certify.VoteCertifier, error) {
	return certify.NewVoteCertifier(certify.VoteParams{Target: certify.Target{Margin: k, Class: certify.Label, Alpha: alpha, Sigma: sigma}, Method: m})
}

// repeatsAt returns the number of subsamples of size n that are drawn from the votes of each image.
func repeatsAt(n int64, repeats int) int {
	switch {
	case n == budget:
		return 1
	case n > 1000:
		return max(1, repeats/20)
	case n > 100:
		return max(1, repeats/4)
	}
	return repeats
}

// accuracies prints certified accuracy and average certified radius of the sound methods for every n.
func accuracies(w io.Writer, images []image, repeats int, kind certify.MarginKind) error {
	radii := []float64{0, 0.25, 0.5, 0.75, 0.9}
	if kind == certify.FirstMargin {
		radii = []float64{0, 0.1, 0.2, 0.25, 0.3}
	}
	fmt.Fprintf(w, "\n## Certified accuracy (%%), %v margin, σ = %g, α = %g\n\n", kind, sigma, alpha)
	fmt.Fprint(w, "| n | method |")
	for _, r := range radii {
		fmt.Fprintf(w, " r = %g |", r)
	}
	fmt.Fprintf(w, " average radius | repeats |\n| --- | --- |%s\n", strings.Repeat(" ---: |", len(radii)+2))
	for _, n := range []int64{100, 300, 1000, 10000, budget} {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		var certifiers []*certify.VoteCertifier
		for _, m := range sound {
			c, err := certifier(m, kind)
			if err != nil {
				return err
			}
			certifiers = append(certifiers, c)
		}
		count := repeatsAt(n, repeats)
		// The slices 'sum' and 'gains' have an entry for each method. The entry of 'sum' holds means over the repeats.
		// The entry of 'gains' holds, for each repeat, the average radius of the method minus the average radius of the
		// method 'bonferroni'.
		sum := make([]certify.Summary, len(sound))
		gains := make([][]float64, len(sound))
		for range count {
			certs := make([][]certify.Certificate, len(sound))
			for _, im := range images {
				v := im.newStream(rng).drawTo(n)
				for i, c := range certifiers {
					cert, err := c.Certify(v)
					if err != nil {
						return err
					}
					certs[i] = append(certs[i], cert)
				}
			}
			base := summarize(certs[1], radii).AverageRadius
			for i := range sound {
				s := summarize(certs[i], radii)
				if sum[i].Certified == nil {
					sum[i].Certified = make([]certify.CertifiedAccuracy, len(radii))
				}
				for k := range radii {
					sum[i].Certified[k].Accuracy += s.Certified[k].Accuracy / float64(count)
				}
				sum[i].AverageRadius += s.AverageRadius / float64(count)
				gains[i] = append(gains[i], s.AverageRadius-base)
			}
		}
		for i, m := range sound {
			fmt.Fprintf(w, "| %d | %v |", n, m)
			for _, a := range sum[i].Certified {
				fmt.Fprintf(w, " %.1f |", 100*a.Accuracy)
			}
			fmt.Fprintf(w, " %.4f", sum[i].AverageRadius)
			if m == certify.ExactMargin && count > 1 {
				fmt.Fprintf(w, " (%+.5f ± %.5f)", stat.Mean(gains[i], nil), 2*stat.StdErr(stat.StdDev(gains[i], nil), float64(count)))
			}
			fmt.Fprintf(w, " | %d |\n", count)
		}
	}
	fmt.Fprintln(w, "\nEach column for a radius r gives the certified accuracy at r. The number in brackets is the average radius of the method\nmargin minus the average radius of the method bonferroni on the same votes, ± 2 standard errors. The column 'repeats'\ngives the number of random subsamples of each image's votes.")
	return nil
}

// table1 computes Table 1 of Moutaouakil 2024 for these votes, with n = 100. The thresholds r in the table's header
// apply to the certified second margin, not to a radius.
func table1(w io.Writer, images []image, repeats int) error {
	margins := []float64{0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5}
	methods := []certify.VoteMethod{certify.Bonferroni, certify.Moutaouakil, certify.ExactMargin}
	fmt.Fprint(w, "\n## Moutaouakil 2024, Table 1, corrected for unanimous votes\n\nThe table gives the share of images whose certified second margin is at least r, with n = 100, α = 0.001.\n\n| r |")
	for _, r := range margins {
		fmt.Fprintf(w, " %g |", r)
	}
	fmt.Fprintf(w, "\n| --- |%s\n", strings.Repeat(" ---: |", len(margins)))
	fmt.Fprint(w, "| paper (σ = 0.12): CP + Bonferroni | .774 | .744 | .720 | .662 | .582 | 0 | 0 | 0 | 0 |\n")
	fmt.Fprint(w, "| paper (σ = 0.12): Ours | .780 | .746 | .726 | .670 | .614 | .538 | .538 | .538 | .538 |\n")
	counts := make([][]int, len(methods))
	var certifiers []*certify.VoteCertifier
	for i, m := range methods {
		c, err := certifier(m, certify.SecondMargin)
		if err != nil {
			return err
		}
		certifiers = append(certifiers, c)
		counts[i] = make([]int, len(margins))
	}
	rng := rand.New(rand.NewPCG(100, 2))
	for range repeats {
		for _, im := range images {
			v := im.newStream(rng).drawTo(100)
			for i, c := range certifiers {
				cert, err := c.Certify(v)
				if err != nil {
					return err
				}
				for k, r := range margins {
					if cert.Correct && cert.Margin >= r {
						counts[i][k]++
					}
				}
			}
		}
	}
	for i, m := range methods {
		name := m.String()
		if !m.Sound() {
			name += " (not sound)"
		}
		fmt.Fprintf(w, "| these votes (σ = 0.25): %s |", name)
		for _, k := range counts[i] {
			fmt.Fprintf(w, " %.3f |", float64(k)/float64(repeats*len(images)))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\nThe shares are means over %d random subsamples of each image's votes.\n", repeats)
	return nil
}

// The function 'stopping' compares early stopping with a fixed n.
func stopping(w io.Writer, images []image, streams int) error {
	fmt.Fprintf(w, "\n## Early stopping, budget n = %d, α = %g\n\n", budget, alpha)
	fmt.Fprintf(w, "Each stream takes the votes of one image in a random order; there are %d streams per image. For a rule radius>=R, the\ncolumn 'certified' gives the share of streams (in %%) that certify the radius R when the rule stops. The column 'at fixed\nn' gives the share of streams (in %%) that certify R with all n = %d samples. For a rule precision=F, 'certified' and\n'at fixed n' give the average certified radius instead. The column 'samples' gives the mean number of samples per\nstream, and 'part' gives this number as a share of n. The column 'at the budget' gives the share of streams that use up\nthe budget.\n\n", streams, budget)
	fmt.Fprint(w, "| rule | method | certified | at fixed n | samples | part | at the budget |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |\n")
	for _, rule := range []string{"radius>=0.1", "radius>=0.25", "radius>=0.5", "radius>=0.75", "precision=0.5", "precision=0.2", "precision=0.1"} {
		for _, m := range []certify.VoteMethod{certify.ClopperPearson, certify.ExactMargin} {
			if err := stopRow(w, images, streams, rule, m); err != nil {
				return err
			}
		}
	}
	fmt.Fprint(w, "\nFor comparison, the next table shows another rule for the same streams and the same radii R. The rule uses Cohen's bound\np_B ≤ 1 − p_A, and tests p_A by a mixture martingale with Krichevsky–Trofimov weights. The rule compares the martingale\nwith the threshold 1/α whenever the number of samples has grown by 1 %. The rule stops with a certificate when the\nmartingale rejects the hypothesis that the radius is below R. It stops without a certificate when the martingale rejects\nthe hypothesis that the radius is at least R:\n\n")
	fmt.Fprint(w, "| rule | certified | samples | part |\n| --- | ---: | ---: | ---: |\n")
	for _, radius := range []float64{0.1, 0.25, 0.5, 0.75} {
		martingale(w, images, streams, radius)
	}
	return nil
}

func stopRow(w io.Writer, images []image, streams int, name string, m certify.VoteMethod) error {
	rule, err := certify.ParseStop(name)
	if err != nil {
		return err
	}
	p := certify.VoteParams{Target: certify.Target{Class: certify.Label, Alpha: alpha, Sigma: sigma}, Method: m}
	s, err := certify.NewStopping(p, rule, budget)
	if err != nil {
		return err
	}
	c, err := certify.NewVoteCertifier(p)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(7, 7))
	var radius float64
	byRadius, _ := fmt.Sscanf(name, "radius>=%g", &radius)
	var samples, atBudget, stopped, fixed float64
	// The function 'value' returns an image's contribution to a mean. For a rule radius>=R, the contribution is 1 if
	// the certificate's radius is at least R, and 0 otherwise. For the other rules, the contribution is the
	// certificate's radius.
	value := func(cert certify.Certificate) float64 {
		if byRadius == 0 {
			return cert.Radius
		}
		if cert.Radius >= radius {
			return 1
		}
		return 0
	}
	for _, im := range images {
		full, err := c.Certify(im.Votes)
		if err != nil {
			return err
		}
		fixed += value(full)
		for range streams {
			st := im.newStream(rng)
			v := st.Votes
			for {
				next, err := s.Next(v)
				if err != nil {
					return err
				}
				if next == v.N {
					break
				}
				v = st.drawTo(next)
			}
			if err := s.Mark(&v); err != nil {
				return err
			}
			cert, err := c.Certify(v)
			if err != nil {
				return err
			}
			stopped += value(cert)
			samples += float64(v.N)
			if v.N == budget {
				atBudget++
			}
		}
	}
	n, k := float64(len(images)), float64(len(images)*streams)
	show := func(x float64) string {
		if byRadius == 0 {
			return fmt.Sprintf("%.4f", x)
		}
		return fmt.Sprintf("%.1f", 100*x)
	}
	fmt.Fprintf(w, "| %s | %v | %s | %s | %.0f | %.1f %% | %.1f %% |\n", name, m, show(stopped/k), show(fixed/n), samples/k, 100*samples/k/budget, 100*atBudget/k)
	return nil
}

// martingale checks each stream repeatedly. At each check, it compares two likelihoods of the votes so far. One is the
// likelihood at p = Φ(R/σ), where p is the probability of a vote for the label. The other is a mixture of likelihoods.
// The function stops the stream when the mixture is at least 1/α times the likelihood at p = Φ(R/σ). The mixture
// averages the likelihood over p with a Beta(½, ½) prior. If the label has x of n votes, the mixture equals B(x+½,
// n−x+½)/B(½, ½).
func martingale(w io.Writer, images []image, streams int, radius float64) {
	p := 0.5 * math.Erfc(-radius/sigma/math.Sqrt2)
	rng := rand.New(rand.NewPCG(7, 7))
	var certified, samples float64
	beta := func(a, b float64) float64 {
		la, _ := math.Lgamma(a)
		lb, _ := math.Lgamma(b)
		lab, _ := math.Lgamma(a + b)
		return la + lb - lab
	}
	for _, im := range images {
		for range streams {
			st := im.newStream(rng)
			for n := int64(10); ; n = min(budget, max(n+1, n*101/100)) {
				v := st.drawTo(n)
				x, y := float64(v.Counts[v.Label]), float64(n-v.Counts[v.Label])
				value := beta(x+0.5, y+0.5) - beta(0.5, 0.5) - x*math.Log(p) - y*math.Log1p(-p)
				decided := value >= math.Log(1/alpha)
				if decided && x > p*float64(n) {
					certified++
				}
				if decided || n == budget {
					samples += float64(n)
					break
				}
			}
		}
	}
	k := float64(len(images) * streams)
	fmt.Fprintf(w, "| radius>=%g | %.1f | %.0f | %.1f %% |\n", radius, 100*certified/k, samples/k, 100*samples/k/budget)
}

func readCertificates(dir string) ([]certify.Certificate, error) {
	evidence, err := runfolder.Find(dir)
	if err != nil {
		return nil, err
	}
	return evidence.Certificates()
}

// The function 'runs' compares runs of one model on the same examples. The first run used all samples, and the other
// runs stopped early.
func runs(w io.Writer, dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	fmt.Fprint(w, "\n## Early stopping on the bundled model\n\nEach row is about one run. The first row is the run without early stopping. The column 'certified at R' counts the\nexamples that this run certifies with the right class and a radius of at least R. R is the radius of the rule, or 0 if\nthe rule has no radius. The column 'with all samples' counts the examples that the run of the first row certifies with\nthe right class and a radius of at least R. The column 'samples' gives the mean number of samples per example. The\ncolumn 'part' gives this mean divided by the mean in the first row.\n\n| rule | examples | certified at R | with all samples | average radius | samples | part |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	full, err := readCertificates(dirs[0])
	if err != nil {
		return err
	}
	var all float64
	for _, c := range full {
		all += float64(c.N)
	}
	for i, dir := range dirs {
		certs, err := readCertificates(dir)
		if err != nil {
			return err
		}
		if len(certs) != len(full) {
			return fmt.Errorf("%s has %d examples, %s %d", dir, len(certs), dirs[0], len(full))
		}
		rule := "all samples"
		if i > 0 {
			rule = certs[0].Stop.String()
		}
		var radius, mean, samples float64
		_, _ = fmt.Sscanf(rule, "radius>=%g", &radius)
		has, had := 0, 0
		for k, c := range certs {
			if c.Correct && c.Radius >= radius {
				has++
			}
			if full[k].Correct && full[k].Radius >= radius {
				had++
			}
			samples += float64(c.N)
			if c.Correct {
				mean += c.Radius / float64(len(certs))
			}
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %.4f | %.0f | %.2f %% |\n", rule, len(certs), has, had, mean, samples/float64(len(certs)), 100*samples/all)
	}
	return nil
}

// figure draws certified accuracy by radius at n = 100 and n = 1,000.
func figure(images []image, path string) error {
	p := picture.NewPlot("ResNet-110 on CIFAR-10, σ = 0.25, α = 0.001, second margin", "L2 radius", "certified accuracy")
	p.Y.Min, p.Y.Max = 0, 0.9
	var lines []picture.Line
	const repeats = 20
	for dark, n := range []int64{100, 1000} {
		for style, m := range sound {
			c, err := certifier(m, certify.SecondMargin)
			if err != nil {
				return err
			}
			rng := rand.New(rand.NewPCG(uint64(n), 3))
			line := picture.Line{Name: fmt.Sprintf("n = %d, %v", n, m), Style: style + dark*len(sound)}
			for k := range 161 {
				line.Add(float64(k)/200, 0)
			}
			for range repeats {
				for _, im := range images {
					cert, err := c.Certify(im.newStream(rng).drawTo(n))
					if err != nil {
						return err
					}
					for k := range line.X {
						if cert.Correct && cert.Radius >= line.X[k] {
							line.Y[k] += 1 / float64(repeats*len(images))
						}
					}
				}
			}
			lines = append(lines, line)
		}
	}
	p.Add(picture.Grid())
	picture.AddLines(p, lines...)
	svg, err := picture.Draw(picture.SVG, picture.Size{Width: 18, Height: 11},
		"Certified accuracy by radius of three methods, from 100 and from 1,000 samples", p.Draw)
	if err != nil {
		return err
	}
	return os.WriteFile(path, svg, 0o644)
}

func summarize(certs []certify.Certificate, radii []float64) certify.Summary {
	var t certify.Tally
	t.Add(certs...)
	return t.Summary(radii)
}
