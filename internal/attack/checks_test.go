package attack

import (
	"context"
	"testing"
)

// TestBrokenByScores: BrokenByScores counts an example only if an attack by scores broke it and an attack by gradients
// ran before. If these examples are more than 0.2 % of all examples, BrokenByScores warns.
func TestBrokenByScores(t *testing.T) {
	found := make([]Found, 1000)
	broken := func(by ...Method) []Found {
		all := append([]Found(nil), found...)
		for i, m := range by {
			all[i].Adversarial, all[i].By = []float32{1}, m
		}
		return all
	}
	for _, c := range []struct {
		name   string
		found  []Found
		stages []Method
		want   int
		warn   bool
	}{
		{"none", broken(), []Method{APGDCE, Square}, 0, false},
		{"by gradients", broken(APGDCE, APGDCE, APGDT, APGDT), []Method{APGDCE, APGDT, Square}, 0, false},
		{".2 %", broken(Square, Square, APGDT), []Method{APGDCE, APGDT, Square}, 2, false},
		{".3 %", broken(Square, APGDCE, Square, Square), []Method{APGDCE, APGDT, Square}, 3, true},
		{"before gradients", broken(Square, Square, Square), []Method{Square, APGDCE}, 0, false},
		{"alone", broken(Square, Square, Square), []Method{Square}, 0, false},
	} {
		if got, warn := BrokenByScores(c.found, c.stages); got != c.want || warn != c.warn {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, got, warn, c.want, c.warn)
		}
	}
}

// TestFlat: the function Flat counts examples, not steps.
func TestFlat(t *testing.T) {
	if got := Flat([]Found{{Flat: 3}, {}, {Flat: 1}}); got != 2 {
		t.Errorf("%d examples, want 2", got)
	}
}

// shaky is a classifier of two classes. In every second call its first score is the second score times the field
// 'amount'. In the other calls the first score is 0.
type shaky struct {
	*linear
	calls  *int
	amount float32
}

func (s shaky) Run(ctx context.Context, in, out []float32) error {
	if err := s.linear.Run(ctx, in, out); err != nil {
		return err
	}
	*s.calls++
	if *s.calls%2 == 0 {
		for i := range len(out) / 2 {
			out[2*i] = s.amount * out[2*i+1]
		}
	}
	return nil
}

// TestRandom: scores that change by more than 10⁻⁴ of their norm count as random. Smaller changes count as rounding
// errors.
func TestRandom(t *testing.T) {
	l := newLinear()
	all, _ := examplesOf(l, 70, Linf)
	for _, c := range []struct {
		amount float32
		want   int
	}{{0, 0}, {.9e-4, 0}, {1.1e-4, 64}, {.5, 64}} {
		s := newSearch(l, Square, Linf, .1)
		l.batch = 100
		s.Classifier = shaky{l, new(int), c.amount}
		if got, err := s.Random(t.Context(), all); err != nil || got != c.want {
			t.Errorf("a change of %g: %d examples, %v; want %d", c.amount, got, err, c.want)
		}
	}
}
