package attack

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/smoothing"
)

// SmoothedMethod is the name of an attack on a smoothed classifier.
type SmoothedMethod string

// These are the attacks on a smoothed classifier.
const (
	// SmoothAdv follows the gradient of the mean softmax of noisy copies (Salman et al. 2019).
	SmoothAdv SmoothedMethod = "smoothadv"
	// Stein estimates the gradient from the scores of noisy copies, by Stein's identity.
	Stein SmoothedMethod = "stein"
)

// SmoothedMethods lists all attacks on a smoothed classifier.
var SmoothedMethods = choice.Of("smoothed", SmoothAdv, Stein).Describe(func(m SmoothedMethod) string {
	return map[SmoothedMethod]string{SmoothAdv: "follows gradients of the model", Stein: "uses only scores, so the model needs no gradients"}[m]
})

func (m SmoothedMethod) String() string { return string(m) }

// MarshalText writes the method.
func (m SmoothedMethod) MarshalText() ([]byte, error) { return []byte(m), nil }

// UnmarshalText reads a method.
func (m *SmoothedMethod) UnmarshalText(text []byte) error { return SmoothedMethods.Unmarshal(text, m) }

// These are the defaults of a SmoothedSearch.
const (
	DefaultSmoothedSteps    = 150
	DefaultSmoothedRestarts = 4
	DefaultSmoothedSamples  = 256
	DefaultScreenSamples    = 10_000
)

// Candidate is a perturbed input that may make the smoothed classifier answer another class. The search selected the
// candidate because the class Rival won among noisy samples. Because of this selection, these samples are no evidence,
// and the caller must verify the candidate with fresh noise.
type Candidate struct {
	Values   []float32 // in the units of the data; a point of the search's lattice if there is one
	Distance float64   // distance from the example, rounded up
	Rival    int       // the class with the most votes, which is not the label
}

// NoisyGradients computes a loss from several noisy copies of an input, and the gradient of this loss. Several
// goroutines may call Run at the same time.
type NoisyGradients interface {
	Copies() int // number C of noisy copies per Run
	// Run makes C noisy copies of x [D]. Here and below, brackets hold the lengths of slices, and D is the number of
	// values of an input. The values of x are in the units of the data. To make the copies, Run adds noise [C·D] to the
	// model's input for x. Run computes the model's scores [C·m] for these copies, where m is the number of classes. It
	// also computes the loss for the class 'label', and the gradient [D] of this loss with respect to x. The loss is
	// −ln of the mean of the label's softmax probability over the C copies. An implementation with another loss returns
	// 0 as the loss.
	Run(ctx context.Context, x, noise []float32, label int, scores, gradient []float32) (loss float64, err error)
}

// SmoothedSearch searches for small perturbations that change the answer of a smoothed classifier. The answer is the
// class with the most votes under noise.
//
// Each restart follows DDN (Rony et al. 2019, algorithm 1). A step follows the normalised gradient and then scales the
// perturbation to a radius. The radius shrinks if the label loses among the step's noisy copies, and grows if the label
// wins. Gradients computes the gradient with fresh noise in each step. This gradient is SmoothAdv's gradient (Salman et
// al. 2019) or an estimate from scores (see ScoreGradients). The search then draws further noisy samples, the selection
// samples, along the perturbation of each restart. These samples show at which distance the label starts to lose. The
// search chooses the restart with the smallest distance.
//
// All noise comes from Seed and the example's index. It does not depend on batches or the number of goroutines. Seed
// must not be a seed with which rscert certifies or verifies answers.
type SmoothedSearch struct {
	Threat // Norm must be L2; Epsilon is the largest distance to try, and may be infinite
	// lattice of the candidates; nil: the values of a candidate may be any float32 numbers in the box
	Lattice    *Lattice
	Scale      float64 // scale of the noise; DDN also uses it as the first radius
	Gradients  NoisyGradients
	Classifier Classifier
	// Input returns a generator of noisy inputs for the Classifier. The argument holds the values of the example or of
	// a candidate.
	Input    func(values []float32) (smoothing.Input, error)
	Steps    int
	Restarts int
	Samples  int // number of noisy copies for the last step's gradient, rounded up to a multiple of Gradients.Copies()
	Screen   int // largest number of selection samples per perturbation
	Seed     uint64
	Workers  int
	// Probabilities is true if the scores are probabilities, and false if they are logits. Only the method Lower uses
	// this field.
	Probabilities bool
}

// firstPoll is the number of selection samples that the method 'poll' draws before it counts votes for the first time.
const firstPoll = 256

// ladder holds the distances of the candidates, as multiples of the smallest distance at which the label loses. A
// candidate farther beyond the boundary needs fewer samples for its verification.
var ladder = []float64{2, 1.7, 1.4, 1.2, 1.1, 1.05, 1.02, 1.01, 1}

// Candidates searches for candidates near an example. The example's Label must be the smoothed classifier's answer.
// Candidates returns the farthest candidate first, or no candidate if it found none. If the label already loses the
// vote among noisy samples of the example itself, the example is the only candidate.
func (s *SmoothedSearch) Candidates(ctx context.Context, x Example) ([]Candidate, error) {
	candidates, _, err := s.Search(ctx, x)
	return candidates, err
}

// Search does the same as Candidates, and also returns the number of steps whose gradient was zero or not finite.
func (s *SmoothedSearch) Search(ctx context.Context, x Example) (candidates []Candidate, flat int, err error) {
	if err := s.check(x); err != nil {
		return nil, 0, err
	}
	at, err := s.poll(ctx, x, x.Values, s.Screen)
	if err != nil {
		return nil, 0, err
	}
	if at.lost() {
		return []Candidate{{slices.Clone(x.Values), 0, at.rival}}, 0, nil
	}
	directions, flat, err := s.directions(ctx, x)
	if err != nil {
		return nil, flat, err
	}
	best, err := s.nearest(ctx, x, directions)
	if err != nil || math.IsInf(best.radius, 1) {
		return nil, flat, err
	}
	candidates, err = s.climbLadder(ctx, x, best)
	return candidates, flat, err
}

// nearest tries each direction. It returns the ray along which the label loses at the smallest distance.
func (s *SmoothedSearch) nearest(ctx context.Context, x Example, directions [][]float64) (ray, error) {
	best := ray{radius: math.Inf(1)}
	for _, d := range directions {
		r, err := s.crossing(ctx, x, ray{d, length(d)}, min(s.Screen, 4*s.Samples), .02)
		if err != nil {
			return r, err
		}
		if r.radius < best.radius {
			best = r
		}
	}
	if math.IsInf(best.radius, 1) {
		return best, nil
	}
	return s.crossing(ctx, x, best, s.Screen, .005)
}

// check returns an error if a setting of the search is missing or out of range.
func (s *SmoothedSearch) check(x Example) error {
	samples := float64(s.Steps) * float64(s.Restarts) * float64(s.copies())
	switch {
	case s.Norm != L2:
		return fmt.Errorf("a smoothed search measures perturbations in %s, not in %s", L2, s.Norm)
	case s.Steps < 1 || s.Restarts < 1 || s.Samples < 1 || s.Screen < 1:
		return fmt.Errorf("%d steps, %d restarts, %d and %d samples: want at least 1", s.Steps, s.Restarts, s.Samples, s.Screen)
	case samples >= smoothing.MaxSamples || s.Screen >= smoothing.MaxSamples:
		return fmt.Errorf("a search draws less than %d samples", smoothing.MaxSamples)
	case x.Label < 0 || x.Label >= s.Classifier.Classes():
		return fmt.Errorf("example %d: class %d of %d", x.Index, x.Label, s.Classifier.Classes())
	}
	if v, outside := s.Outside(x.Values); outside {
		return fmt.Errorf("example %d: the value %v is outside %v,%v", x.Index, v, s.Low, s.High)
	}
	return nil
}

// ray is a direction with a radius. The radius estimates the distance at which the label starts to lose, and is
// infinite if the label never loses.
type ray struct {
	direction []float64
	radius    float64
}

// point moves x in the ray's direction by at most the ray's radius. It returns the resulting input and the distance of
// this input from x.
func (s *SmoothedSearch) point(x Example, r ray) (values []float32, distance float64) {
	if s.Lattice != nil {
		return s.Lattice.Within(s.Threat).Move(x.Values, r.direction, r.radius)
	}
	values = s.stretch(x.Values, r)
	t := Threat{L2, r.radius, s.Low, s.High}
	t.Project(values, x.Values)
	return values, t.Distance(values, x.Values)
}

// stretch returns x + λ·direction, clipped to the box. It searches for the largest λ for which the distance from x to
// the result is at most the ray's radius. The search may end at a slightly smaller λ.
func (s *SmoothedSearch) stretch(x []float32, r ray) []float32 {
	at := func(lambda float64) (values []float32, distance float64) {
		values = make([]float32, len(x))
		for i, v := range x {
			values[i] = min(max(float32(float64(v)+lambda*r.direction[i]), s.Low), s.High)
		}
		return values, s.Distance(values, x)
	}
	low, high := 0., 1.
	for range 40 {
		if _, d := at(high); d > r.radius {
			break
		}
		low, high = high, 2*high
	}
	for range 40 {
		if _, d := at((low + high) / 2); d > r.radius {
			high = (low + high) / 2
		} else {
			low = (low + high) / 2
		}
	}
	values, _ := at(low)
	return values
}

// crossing returns a ray in the direction of r. The radius of the new ray is the smallest radius at which the label
// loses among selection samples, up to a relative tolerance. The search for this radius starts at the radius of r, or
// at the scale of the noise if r has the radius 0.
func (s *SmoothedSearch) crossing(ctx context.Context, x Example, r ray, samples int, tolerance float64) (ray, error) {
	loses := func(radius float64) (bool, error) {
		values, _ := s.point(x, ray{r.direction, radius})
		p, err := s.poll(ctx, x, values, samples)
		return p.lost(), err
	}
	farthest := min(s.Epsilon, s.farthest(x))
	low, high, factor := 0., min(cmp.Or(r.radius, s.Scale), farthest), 1.05
	for {
		lost, err := loses(high)
		if err != nil {
			return r, err
		}
		if lost {
			break
		}
		if low = high; high >= farthest {
			return ray{r.direction, math.Inf(1)}, nil
		}
		high, factor = min(high*factor, farthest), min(factor*factor, 1.5)
	}
	for step := 1.1; high-low > tolerance*high; step *= step {
		middle := (low + high) / 2
		if low == 0 { // the label loses at every radius tried so far
			middle = high / step
		}
		lost, err := loses(middle)
		if err != nil {
			return r, err
		}
		if lost {
			high = middle
		} else {
			low = middle
		}
		if high < tolerance*s.Scale {
			break
		}
	}
	return ray{r.direction, high}, nil
}

// farthest returns an upper bound on the distance from x to any input in the box. Without a box it returns 1000 times
// the scale of the noise.
func (s *SmoothedSearch) farthest(x Example) float64 {
	span := float64(s.High) - float64(s.Low)
	if math.IsInf(span, 1) {
		return 1000 * s.Scale
	}
	return span * math.Sqrt(float64(len(x.Values)))
}

// climbLadder counts votes at points along a ray. The distances of these points are the ray's radius times the factors
// in the list 'ladder'. climbLadder returns the points at which the label loses.
func (s *SmoothedSearch) climbLadder(ctx context.Context, x Example, r ray) ([]Candidate, error) {
	var all []Candidate
	for _, factor := range ladder {
		values, distance := s.point(x, ray{r.direction, min(factor*r.radius, s.Epsilon)})
		if len(all) > 0 && distance >= all[len(all)-1].Distance {
			continue // this point is no nearer to x than the last candidate
		}
		p, err := s.poll(ctx, x, values, s.Screen)
		if err != nil {
			return nil, err
		}
		if p.lost() {
			all = append(all, Candidate{values, distance, p.rival})
		}
	}
	return all, nil
}

// poll holds the numbers of votes that selection samples give to the label and to its rival.
type poll struct {
	label, rival       int // rival: the class with the most votes, apart from the label
	forLabel, forRival int
}

// lost reports whether the label has fewer votes than the rival.
func (p poll) lost() bool { return p.forRival > p.forLabel }

// clear reports whether one class is so far ahead that more samples are unlikely to change the order.
func (p poll) clear() bool {
	lead := float64(p.forLabel - p.forRival)
	return lead*lead > 9*float64(p.forLabel+p.forRival)
}

// poll draws selection samples and counts their votes. It doubles the number of samples until one class is clearly
// ahead, or until it has drawn 'most' samples, the maximum number.
func (s *SmoothedSearch) poll(ctx context.Context, x Example, values []float32, most int) (poll, error) {
	input, err := s.Input(values)
	if err != nil {
		return poll{}, err
	}
	votes, p := make([]int, s.Classifier.Classes()), poll{label: x.Label}
	stream := smoothing.NewStream(s.Seed, x.Index, smoothing.Selection)
	for drawn, next := 0, min(most, firstPoll); drawn < most && (drawn == 0 || !p.clear()); drawn, next = next, min(2*next, most) {
		if err := s.count(ctx, input, stream, drawn, next, votes); err != nil {
			return p, err
		}
		p.forLabel, p.forRival = votes[x.Label], -1
		for class, n := range votes {
			if class != x.Label && n > p.forRival {
				p.rival, p.forRival = class, n
			}
		}
	}
	return p, nil
}

// Votes draws n noisy samples, and returns the number of votes for each class. Each sample is the argument 'values' (an
// example or a candidate) plus noise from the stream.
func (s *SmoothedSearch) Votes(ctx context.Context, values []float32, stream smoothing.Stream, n int) ([]int, error) {
	input, err := s.Input(values)
	if err != nil {
		return nil, err
	}
	votes := make([]int, s.Classifier.Classes())
	const piece = 1 << 14 // limits the memory
	for first := 0; first < n; first += piece {
		if err := s.count(ctx, input, stream, first, min(first+piece, n), votes); err != nil {
			return nil, err
		}
	}
	return votes, nil
}

// count runs the classifier on the samples whose numbers are at least 'first' and below 'end'. It adds their votes to
// the argument 'votes'.
func (s *SmoothedSearch) count(ctx context.Context, input smoothing.Input, stream smoothing.Stream, first, end int, votes []int) error {
	scores, err := s.scores(ctx, input, stream, first, end)
	for m := s.Classifier.Classes(); len(scores) > 0; scores = scores[m:] {
		if class := smoothing.Vote(scores[:m]); class >= 0 {
			votes[class]++
		}
	}
	return err
}

// scores returns the scores of the samples whose numbers are at least 'first' and below 'end'.
func (s *SmoothedSearch) scores(ctx context.Context, input smoothing.Input, stream smoothing.Stream, first, end int) ([]float32, error) {
	batch, d, m := max(s.Classifier.Batch(), 1), s.Classifier.InputLen(), s.Classifier.Classes()
	pieces := (end - first + batch - 1) / batch
	scores := make([]float32, pieces*batch*m)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(s.Workers, 1))
	for k := range pieces {
		g.Go(func() error {
			in := make([]float32, batch*d)
			for row := range batch { // the last sample fills the rest of the last batch
				input.Perturb(in[row*d:(row+1)*d], stream, int64(min(first+k*batch+row, end-1)))
			}
			return s.Classifier.Run(ctx, in, scores[k*batch*m:(k+1)*batch*m])
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return scores[:(end-first)*m], nil
}
