package audit

// Chains tests the candidates of several images at the familywise level γ: with probability at least 1−γ it rejects no
// true hypothesis. The hypothesis of a candidate says that, at this candidate, the certified class is at least as
// probable as the rival class. p[i] holds the p-values of the candidates of image i, the farthest candidate first.
// Chains returns the number of rejected candidates of each image. These are always the first candidates of the image.
//
// The method is the sequentially rejective procedure of Bretz et al. 2009 on a graph of chains. Each image starts with
// the level γ/len(p). A rejected candidate passes its level to the next candidate of the image (fixed sequence). When
// all candidates of an image are rejected, the image's level is divided equally among the images that have a candidate
// not rejected yet. Holm's procedure divides levels in the same way.
func Chains(p [][]float64, gamma float64) []int {
	rejected := make([]int, len(p))
	weights := make([]float64, len(p))
	open := 0
	for i := range p {
		weights[i] = 1 / float64(len(p))
		if len(p[i]) > 0 {
			open++
		}
	}
	for again := true; again; {
		again = false
		for i, values := range p {
			for rejected[i] < len(values) && values[rejected[i]] <= gamma*weights[i]*(1-16*unit) {
				rejected[i]++
				again = true
			}
			if weights[i] > 0 && len(values) > 0 && rejected[i] == len(values) {
				open--
				share(p, rejected, weights, i, open)
			}
		}
	}
	return rejected
}

// share divides the weight of image i equally among the images that have at least one candidate that is not rejected
// yet. The weight of an image is its level divided by γ.
func share(p [][]float64, rejected []int, weights []float64, i, open int) {
	part := weights[i] / float64(max(open, 1)) * (1 - 4*unit)
	weights[i] = 0
	for j := range p {
		if rejected[j] < len(p[j]) {
			weights[j] += part
		}
	}
}
