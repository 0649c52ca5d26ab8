package smoothing

import (
	"reflect"
	"testing"
)

// If a Sampler has a Voter, every vote must come from the Voter. The test makes noise on the host, and then on a device
// that could also count votes by itself.
func TestVoter(t *testing.T) {
	noise := plainNoise(t)
	reject := func(outputs []float32) int {
		if k := Vote(outputs); k != 1 {
			return k
		}
		return none
	}
	run := func(c Classifier, voter func([]float32) int) []*observed {
		var log []string
		seen := examples(3, []int64{10, 60}, &log)
		for i, e := range seen {
			in, err := noise.Input([]int32{int32(60 * i), int32(200 - 60*i)}, twoChannels)
			if err != nil {
				t.Fatal(err)
			}
			e.input = in
		}
		s := Sampler{Classifier: c, Seed: 9, N0: 11, Workers: 2, Voter: voter, Compare: func(int) bool { return true }}
		if err := s.Run(t.Context(), sourceOf(seen, false)); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	plain := run(&linear{batch: 7}, nil)
	here := run(&linear{batch: 7}, reject)
	device := newGadget(t, 7, noise)
	there := run(device, reject)
	if device.noisy.Load() == 0 {
		t.Fatal("no noise is made on the device")
	}
	rejected := int64(0)
	for i, e := range here {
		p, v := plain[i].final, e.final
		rejected += p.Counts[1]
		if v.Counts[1] != 0 || v.None != p.None+p.Counts[1] || v.None0 != p.None0+p.Counts0[1] || v.Counts[0] != p.Counts[0] || v.N != p.N {
			t.Errorf("votes %+v; without the voter %+v", v, p)
		}
		if v.Compared == 0 || !reflect.DeepEqual(v, there[i].final) {
			t.Errorf("votes %+v on the device, %+v here", there[i].final, v)
		}
	}
	if rejected == 0 {
		t.Fatal("nothing is rejected")
	}
}
