package attack

import (
	"context"
	"math"
	"math/rand/v2"

	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/internal/smoothing"
)

// These are the constants of DDN. In the paper, each step changes the radius by 5 %. Here the change is 10 % in the
// first step, and smaller in later steps. The first step is as long as the radius. For a radius of 1, the first step
// has the same length as in the paper.
const (
	ddnRadius = .1 // relative change of the radius in the first step
	// step lengths and radius changes are multiplied by a factor, which falls from 1 towards this value (see anneal)
	ddnLast = .02
)

// directions returns the perturbation that each restart found, and the number of steps whose gradient was zero or not
// finite.
func (s *SmoothedSearch) directions(ctx context.Context, x Example) (found [][]float64, flat int, err error) {
	return s.restarts(ctx, func(ctx context.Context, restart int) ([]float64, int, error) {
		return s.descend(ctx, x, restart)
	})
}

// runRestart runs one restart. It returns a perturbation and the number of steps whose gradient was zero or not finite.
type runRestart func(ctx context.Context, restart int) (delta []float64, flat int, err error)

// The method 'restarts' runs all restarts side by side. It returns their perturbations and the total number of steps
// whose gradient was zero or not finite.
func (s *SmoothedSearch) restarts(ctx context.Context, run runRestart) (found [][]float64, flat int, err error) {
	found = make([][]float64, s.Restarts)
	zeros := make([]int, s.Restarts)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(s.Workers, 1))
	for restart := range found {
		g.Go(func() (err error) {
			found[restart], zeros[restart], err = run(ctx, restart)
			return err
		})
	}
	err = g.Wait()
	for _, n := range zeros {
		flat += n
	}
	return found, flat, err
}

// descend runs one restart of DDN. The first restart starts at the example, and the others start at random points
// around the example. The result 'flat' is the number of steps whose gradient was zero or not finite.
func (s *SmoothedSearch) descend(ctx context.Context, x Example, restart int) (delta []float64, flat int, err error) {
	blurred, err := s.newBlurred(x)
	if err != nil {
		return nil, 0, err
	}
	radius := min(s.Scale, s.Epsilon)
	delta = s.start(x, restart, radius)
	for step := range s.Steps {
		lost, err := blurred.run(ctx, delta, restart*s.Steps+step)
		if err != nil {
			return nil, flat, err
		}
		anneal := s.anneal(step)
		if !blurred.follow(delta, anneal*radius) {
			flat++
		}
		change := 1 + ddnRadius*anneal
		if lost {
			change = 1 / change
		}
		radius = min(radius*change, s.Epsilon)
		s.rescale(delta, x.Values, radius)
	}
	return delta, flat, nil
}

// anneal returns a factor for the given step. The factor is 1 in the first step, and falls along half a period of a
// cosine towards ddnLast. The callers multiply the step's length by this factor. DDN also multiplies the relative
// change of the radius by this factor.
func (s *SmoothedSearch) anneal(step int) float64 {
	return ddnLast + (1-ddnLast)*(1+math.Cos(math.Pi*float64(step)/float64(s.Steps)))/2
}

// start returns the first perturbation of a restart.
func (s *SmoothedSearch) start(x Example, restart int, radius float64) []float64 {
	delta := make([]float64, len(x.Values))
	if restart == 0 {
		return delta
	}
	rng := rand.New(rand.NewPCG(s.Seed, uint64(x.Index)<<20|uint64(restart)))
	for i := range delta {
		delta[i] = rng.NormFloat64()
	}
	s.rescale(delta, x.Values, radius)
	return delta
}

// rescale scales the perturbation delta to the norm 'radius'. It then changes delta so that x + delta is in the box.
func (s *SmoothedSearch) rescale(delta []float64, x []float32, radius float64) {
	factor := radius / length(delta)
	if math.IsInf(factor, 0) || math.IsNaN(factor) {
		return
	}
	for i, v := range x {
		delta[i] = min(max(delta[i]*factor, float64(s.Low)-float64(v)), float64(s.High)-float64(v))
	}
}

func length(v []float64) float64 {
	sum := 0.
	for _, w := range v {
		sum += w * w
	}
	return math.Sqrt(sum)
}

// The method 'copies' returns the number of noisy copies that the last step's gradient uses.
func (s *SmoothedSearch) copies() int { return s.runs() * s.Gradients.Copies() }

// The method 'runs' returns the number of calls of Gradients.Run in the last step.
func (s *SmoothedSearch) runs() int {
	return (s.Samples + s.Gradients.Copies() - 1) / s.Gradients.Copies()
}

// runsAt is the number of calls of Gradients.Run in a step. Early steps tolerate more noise, so this number grows with
// the square of the step's number. If every step made as many calls as the last step, the attack would take three times
// as long.
func (s *SmoothedSearch) runsAt(step int) int {
	share := float64(step+1) / float64(s.Steps)
	return int(math.Ceil(float64(s.runs()) * share * share))
}

// blurred computes an example's gradients under noise.
type blurred struct {
	*SmoothedSearch
	example  Example
	input    smoothing.Input
	stream   smoothing.Stream
	clean    []float32 // the model's input without noise
	noise    []float32
	scores   []float32
	part     []float32 // gradient of one run
	gradient []float64
}

func (s *SmoothedSearch) newBlurred(x Example) (*blurred, error) {
	input, err := s.Input(x.Values)
	if err != nil {
		return nil, err
	}
	copies, d := s.Gradients.Copies(), input.Len()
	b := &blurred{
		SmoothedSearch: s, example: x, input: input, stream: smoothing.NewStream(s.Seed, x.Index, smoothing.Estimation),
		clean: make([]float32, d), noise: make([]float32, copies*d), scores: make([]float32, copies*s.Classifier.Classes()),
		part: make([]float32, len(x.Values)), gradient: make([]float64, len(x.Values)),
	}
	input.Clean(b.clean)
	return b, nil
}

// run computes the gradient at x + delta with the noise of a step. It reports whether the noisy copies give another
// class more votes than the label. A step calls Gradients.Run several times. In call r, the label has the mean
// probability P_r = exp(−loss_r). The loss of the step is −ln of the mean of all P_r. The gradient of this loss is
// proportional to the sum of the calls' gradients, each multiplied by P_r. The factor of proportionality does not
// matter, because only the gradient's direction is used.
func (b *blurred) run(ctx context.Context, delta []float64, step int) (lost bool, err error) {
	at := make([]float32, len(delta))
	for i, v := range b.example.Values {
		at[i] = min(max(float32(float64(v)+delta[i]), b.Low), b.High)
	}
	m, copies := b.Classifier.Classes(), b.Gradients.Copies()
	votes := make([]int, m)
	clear(b.gradient)
	least := math.Inf(1) // smallest loss so far; the gradient of the call with this loss has weight 1
	for r := range b.runsAt(step % b.Steps) {
		b.draw(int64(step*b.runs()+r) * int64(copies))
		loss, err := b.Gradients.Run(ctx, at, b.noise, b.example.Label, b.scores, b.part)
		if err != nil {
			return false, err
		}
		for row := range copies {
			if class := smoothing.Vote(b.scores[row*m : (row+1)*m]); class >= 0 {
				votes[class]++
			}
		}
		b.add(loss, &least)
	}
	for class, n := range votes {
		lost = lost || class != b.example.Label && n > votes[b.example.Label]
	}
	return lost, nil
}

// follow moves delta along the gradient. The argument 'step' is the length of the move. If the gradient is zero or not
// finite, follow does not move delta and returns false.
func (b *blurred) follow(delta []float64, step float64) bool {
	norm := length(b.gradient)
	if !(norm > 0) || math.IsInf(norm, 1) {
		return false
	}
	for i, g := range b.gradient {
		delta[i] += step * g / norm
	}
	return true
}

// add adds the gradient of one run to the sum of gradients, with a weight proportional to e^{−loss}.
func (b *blurred) add(loss float64, least *float64) {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return
	}
	shrink := 1.
	if loss < *least {
		shrink, *least = math.Exp(loss-*least), loss
	}
	weight := math.Exp(*least - loss)
	for i, g := range b.part {
		b.gradient[i] = b.gradient[i]*shrink + weight*float64(g)
	}
}

// draw sets the noise of the copies. Copy k gets the noise of sample number 'first' + k.
func (b *blurred) draw(first int64) {
	d := len(b.clean)
	for k := 0; k*d < len(b.noise); k++ {
		noise := b.noise[k*d : (k+1)*d]
		b.input.Perturb(noise, b.stream, first+int64(k))
		for i, v := range b.clean {
			noise[i] -= v
		}
	}
}
