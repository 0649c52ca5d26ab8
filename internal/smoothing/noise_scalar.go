//go:build !(goexperiment.simd && amd64 && go1.26 && !go1.27)

package smoothing

// buffer holds a block while it is made.
type buffer struct {
	words     [block]uint32
	gaussians [block]float32
}

func (s Stream) gaussians(b *buffer, counter uint64, n int) {
	s.scalarGaussians(b, counter, n)
}

func perturb(dst, base, scale, noise []float32) {
	scalarPerturb(dst, base, scale, noise)
}
