package run

import (
	"math"
	"testing"

	"github.com/rscert/rscert/internal/runfolder"
)

// The inputs 'near' and 'far' differ, but rounding to float32 makes them equal. An earlier version of rscert therefore
// certified both of them with the full radius. Now three distances must be subtracted from each radius: how far
// rounding to float32 moves the input, how far this rounding can move a perturbed input, and the loss from rounding to
// the lattice.
func TestReadingFloat64IsTakenOff(t *testing.T) {
	const off = 2e-5 // float32 numbers near 1000 are 6.1e-5 apart
	near, far := make([]float64, imageSize), make([]float64, imageSize)
	for d := range near {
		near[d], far[d] = 1000-off, 1000+off
	}
	p := quick(t, writeImages(t, near, far), func(p *Plan) { p.Sigma, p.Skip, p.Max = .5, 1, 0 })
	mustCertify(t, p)
	evidence, err := runfolder.Find(p.Out)
	if err != nil {
		t.Fatal(err)
	}
	if evidence.Run.Noise.Inputs != "values are on no lattice" || !evidence.Run.Noise.Quantised {
		t.Errorf("run.json says of the noise: %+v", evidence.Run.Noise)
	}
	certs, err := evidence.Certificates()
	if err != nil || len(certs) != 2 {
		t.Fatal(len(certs), err)
	}
	g := .5 / 3640
	lattice := math.Abs(1000-g*math.Round(1000/g)) + g/2
	for _, c := range certs {
		want := math.Sqrt(imageSize) * (lattice + off + 1000*0x1p-24)
		if c.Quantisation < want || c.Quantisation > want*(1+1e-6) {
			t.Errorf("example %d: %v is taken off, want %v", c.Index, c.Quantisation, want)
		}
	}
	// The radius must not shrink if the values are multiples of ⅛, or if they are multiples of 1/255 written with the
	// 17 digits of a float64.
	eighths, bytes := make([]float64, imageSize), make([]float64, imageSize)
	for d := range eighths {
		eighths[d], bytes[d] = float64(d)/8, float64(5*d)/255
	}
	for name, image := range map[string][]float64{"bytes": bytes, "eighths": eighths} {
		p := quick(t, writeImages(t, image, image), func(p *Plan) { p.Sigma, p.Skip = .5, 1 })
		mustCertify(t, p)
		if evidence, err = runfolder.Find(p.Out); err != nil {
			t.Fatal(err)
		}
		if certs, err = evidence.Certificates(); err != nil || certs[0].Quantisation != 0 || evidence.Run.Noise.Quantised {
			t.Errorf("%s: %v is taken off (%v)", name, certs[0].Quantisation, err)
		}
	}
}
