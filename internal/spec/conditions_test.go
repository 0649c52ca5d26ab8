package spec

import (
	"slices"
	"testing"
)

func FuzzShard(f *testing.F) {
	for _, s := range []string{"0/1", "3/4", "4/4", "-1/2", "1", "a/b", "9999999999999999999/2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var shard, again Shard
		if shard.UnmarshalText([]byte(s)) != nil {
			return
		}
		if shard.K < 1 || shard.I < 0 || shard.I >= shard.K {
			t.Errorf("%q is the shard %v", s, shard)
		}
		if err := again.UnmarshalText([]byte(shard.String())); err != nil || again != shard {
			t.Errorf("%q does not read back: %v", shard, err)
		}
	})
}

// TestSpread checks that the selection Spread takes examples from all parts of the dataset.
func TestSpread(t *testing.T) {
	for _, c := range []struct{ examples, max, skip int }{{1000, 20, 1}, {1000, 7, 3}, {50, 50, 1}, {5, 9, 1}, {9, 4, 2}, {1, 1, 1}} {
		p := Conditions{Skip: c.skip, Max: c.max, Shard: Whole, Select: Spread}
		got := p.Positions(c.examples)
		candidates := (c.examples-1)/c.skip + 1
		turns := min(c.max, candidates)
		if len(got) != turns {
			t.Errorf("%+v: %d positions, want %d", c, len(got), turns)
		}
		for turn, i := range got {
			// The selection must have one example from each part of the dataset. It then has an example of each class,
			// if the data are sorted by class and no part is larger than a class.
			if k := i / c.skip; i%c.skip != 0 || k*turns < turn*candidates-turns || k*turns >= (turn+1)*candidates {
				t.Errorf("%+v: position %d at turn %d", c, i, turn)
			}
		}
		var joined []int
		for i := range 3 {
			p.Shard = Shard{I: i, K: 3}
			joined = append(joined, p.Positions(c.examples)...)
		}
		slices.Sort(joined)
		if !slices.Equal(joined, got) {
			t.Errorf("%+v: the shards have %v, want %v", c, joined, got)
		}
	}
	for _, p := range []Conditions{{}, {Skip: 1}, {Skip: 1, Max: 3, Shard: Whole, Select: Spread}} {
		if got := p.Positions(0); got != nil {
			t.Errorf("%+v: positions %v in nothing", p, got)
		}
	}
	if got := (Conditions{}).Positions(9); got != nil {
		t.Errorf("positions %v of a run that does not say which", got)
	}
	// The positions must never change, because later versions of rscert must find the examples of a run again.
	p := Conditions{Skip: 1, Max: 5, Shard: Whole, Select: Spread}
	if got, want := p.Positions(1000), []int{176, 286, 405, 794, 821}; !slices.Equal(got, want) {
		t.Errorf("positions %v, want %v", got, want)
	}
}

// TestShards checks that shards partition the examples.
func TestShards(t *testing.T) {
	p := Conditions{Skip: 3, Max: 7, Shard: Whole}
	want := []int{0, 3, 6, 9, 12, 15, 18}
	if got := p.Positions(100); !slices.Equal(got, want) {
		t.Errorf("positions %v, want %v", got, want)
	}
	var joined []int
	for i := range 3 {
		p.Shard = Shard{I: i, K: 3}
		joined = append(joined, p.Positions(100)...)
	}
	slices.Sort(joined)
	if !slices.Equal(joined, want) {
		t.Errorf("the shards have %v, want %v", joined, want)
	}
}

func TestNoiseKindText(t *testing.T) {
	for text, ok := range map[string]bool{"lattice": true, "float": true, "": true, "Lattice": false, "gauss": false} {
		k := NoiseKind("before")
		if err := k.UnmarshalText([]byte(text)); (err == nil) != ok || ok && k.String() != text {
			t.Errorf("%q is read as %q (%v)", text, k, err)
		}
	}
}

// By definition, the experiment takes every Skip-th example, and at most Max of them. Shard I of K takes every K-th of
// these examples, starting with example number I, counted from 0.
func TestPositionsAreTheDefinition(t *testing.T) {
	for examples := range 12 {
		for skip := 1; skip <= 4; skip++ {
			for most := range 6 {
				for k := 1; k <= 3; k++ {
					for i := range k {
						var whole []int
						for e := range examples {
							if e%skip == 0 && (most == 0 || len(whole) < most) {
								whole = append(whole, e)
							}
						}
						var want []int
						for turn := i; turn < len(whole); turn += k {
							want = append(want, whole[turn])
						}
						p := Conditions{Skip: skip, Max: most, Shard: Shard{I: i, K: k}}
						if got := p.Positions(examples); !slices.Equal(got, want) {
							t.Errorf("skip %d, max %d, shard %v of %d examples: %v, want %v", skip, most, p.Shard, examples, got, want)
						}
					}
				}
			}
		}
	}
}
