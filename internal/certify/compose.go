package certify

import (
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/choice"
)

// This file turns the certificates of several smoothed classifiers into certificates of one composite classifier.

// Composition says how several smoothed classifiers, the members, form one classifier.
type Composition string

// These are the compositions.
const (
	// With Router, the router's class selects an expert, and the class of this expert is the answer.
	Router Composition = "router"
	// With Majority, the answer is the class that more than half of the members answer. If no class has this majority,
	// there is no answer.
	Majority Composition = "majority"
	// With Agree, the answer is the class that all members answer. If the members differ, there is no answer.
	Agree Composition = "agree"
)

// Compositions lists the compositions that treat all members alike.
var Compositions = choice.Of("composition", Majority, Agree).Describe(func(c Composition) string {
	return map[Composition]string{Majority: "the class that more than half of the runs answer", Agree: "the class that all runs answer"}[c]
})

func (c Composition) String() string { return string(c) }

// MarshalText writes the name.
func (c Composition) MarshalText() ([]byte, error) { return []byte(c), nil }

// Quorum returns how many members must answer a class to make it the answer. The argument is the number of members.
func (c Composition) Quorum(members int) int {
	if c == Agree {
		return members
	}
	return members/2 + 1
}

// Composed is the name of the method in certificates whose claim was made by Route or Poll.
const Composed = "combined"

// MemberCertificate is the part of a composed certificate that one member contributed.
type MemberCertificate struct {
	Run        string  `json:"run"` // identifies the member
	Prediction int     `json:"prediction"`
	Radius     float64 `json:"radius"`
	Alpha      float64 `json:"alpha"`
	Sigma      float64 `json:"sigma"`
}

// CombinedClaim is the class and the radius that a composition certifies for one example.
type CombinedClaim struct {
	Class  int // Abstained if there is no claim
	Radius float64
	Used   []int // positions of the certificates that the claim rests on: 0 is the router or the first member
}

// Route returns the claim of a router and its experts. The router's class is constant within its radius. If the class
// is s, all inputs within this radius go to expert s. So the answer is constant within the smaller of two radii: the
// router's radius and the radius of expert s.
//
// Let s* be the class that the smoothed router really answers. The claim can be false only if the router's certificate
// or the certificate of expert s* is false. The noise does not affect s*. So the probability of a false claim is at
// most the sum of the alphas of these two certificates (RouterAlpha), even if the runs share their noise.
func Route(router Certificate, experts []Certificate) CombinedClaim {
	s := router.Prediction
	if s == Abstained {
		return CombinedClaim{Class: Abstained, Used: []int{0}}
	}
	c := CombinedClaim{Class: experts[s].Prediction, Used: []int{0, s + 1}}
	if c.Class != Abstained {
		c.Radius = min(router.Radius, experts[s].Radius)
	}
	return c
}

// RouterAlpha returns the failure probability of a claim of Route, rounded up. The claim depends on the expert of the
// class that the smoothed router really answers. This class is unknown, so RouterAlpha uses the largest alpha of the
// experts.
func RouterAlpha(router float64, experts []float64) float64 {
	return addUp(router, slices.Max(experts))
}

// addUp returns a + b, rounded up.
func addUp(a, b float64) float64 {
	sum := a + b
	part := sum - a
	if lost := (a - (sum - part)) + (b - part); lost > 0 { // the exact error of the sum (Knuth's TwoSum)
		return math.Nextafter(sum, math.Inf(1))
	}
	return sum
}

// Poll returns the claim of a composition that treats all members alike. Let c* be the argument 'atLeast'. Poll claims
// a class if c* or more members certify it. The claimed radius is the largest radius at which c* or more members
// certify the class. The number c* must be more than half of the number of members, so that at most one class can be
// claimed.
func Poll(members []Certificate, atLeast int) CombinedClaim {
	for _, a := range members {
		var used []int
		var radii []float64
		for k, m := range members {
			if m.Prediction == a.Prediction && m.Prediction != Abstained {
				used, radii = append(used, k), append(radii, m.Radius)
			}
		}
		if len(used) >= atLeast {
			slices.Sort(radii)
			return CombinedClaim{Class: a.Prediction, Radius: radii[len(radii)-atLeast], Used: used}
		}
	}
	return CombinedClaim{Class: Abstained}
}

// MostMembers limits the number of members of a composition.
const MostMembers = 256

// PollAlpha returns the failure probability of a claim of Poll, rounded up. The argument 'alphas' holds the failure
// probabilities of the K members. The argument 'quorum' is the number q of members that must answer a class to make it
// the answer. The argument 'atLeast' is the number c* of members that must certify the answer.
//
// Suppose that the claim is false at a radius r. Then at most q−1 members really give the claimed answer everywhere
// within r. A claim at r needs c* members that certify the radius r. Even if q−1 of them are right, at least c*−q+1 of
// the other members certify r wrongly.
//
// If the members certify the predicted class, the claimed class depends on the noise. So does the set of the members
// that do not really give this class everywhere within r. So the wrong certificates may come from any c*−q+1 of all K
// members. If failures are independent and each alpha is α, the probability of c*−q+1 or more wrong members is at most
// P(Bin(K, α) ≥ c*−q+1). If failures may depend on each other, Markov's inequality bounds this probability by the sum
// of the alphas divided by c*−q+1.
//
// If the members certify the label, the claimed class does not depend on the noise. Then the same formulas hold for the
// other members alone. These are the members that do not really give the claimed answer everywhere within r. Their
// number is K−q+1 or more. If their number is K−q+1+j, a false claim needs c*−q+1+j wrong certificates. So among any
// K−q+1 of the other members, c*−q+1 or more have a wrong certificate. The function bounds the probability of this
// event for the K−q+1 members with the largest alphas. The radius of a claim depends on the noise. But members that
// certify a radius also certify all smaller radii. So the bound for the smallest radius at which the claim is false
// also covers all larger radii.
func PollAlpha(alphas []float64, quorum, atLeast int, class Class, independent bool) (float64, error) {
	k := len(alphas)
	switch {
	case k < 2 || k > MostMembers:
		return 0, fmt.Errorf("%d members: want 2 to %d", k, MostMembers)
	case 2*quorum <= k || quorum > k:
		return 0, fmt.Errorf("%d of %d members are no majority", quorum, k)
	case atLeast < quorum || atLeast > k:
		return 0, fmt.Errorf("%d members that must certify: want %d to %d", atLeast, quorum, k)
	}
	worst, wrong := slices.Sorted(slices.Values(alphas)), atLeast-quorum+1
	if class == Label {
		worst = worst[quorum-1:]
	}
	if !independent {
		sum := 0.0
		for _, a := range worst {
			sum = addUp(sum, a)
		}
		if wrong == 1 {
			return min(sum, 1), nil
		}
		return min(math.Nextafter(sum/float64(wrong), math.Inf(1)), 1), nil
	}
	if len(worst) == 1 {
		return worst[0], nil
	}
	return atLeastOf(worst, wrong), nil
}

// atLeastOf returns the probability, rounded up, that k or more events happen. The events are independent and have the
// given probabilities.
func atLeastOf(probabilities []float64, k int) float64 {
	exactly := make([]float64, k+1) // exactly[j] is the probability of j events if j < k, and of k or more if j = k
	exactly[0] = 1
	for _, p := range probabilities {
		exactly[k] += p * exactly[k-1]
		for j := k - 1; j > 0; j-- {
			exactly[j] = exactly[j]*(1-p) + exactly[j-1]*p
		}
		exactly[0] *= 1 - p
	}
	// All terms are positive, so each step has a relative error of a few units in the last place.
	const slack = 0x1p-40 // more than 4·MostMembers units in the last place
	return min(exactly[k]*(1+slack), 1)
}
