package calib

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/rscert/rscert/internal/hint"
)

// Sample is a set of (score, label) pairs in ascending order of score. Scores are in [0, 1], and labels are 0 or 1. A
// Sample does not keep the order of the input, so no bound depends on that order.
type Sample struct {
	// The field 'packed' holds bits<<1 | label for each pair, where bits is the float64 bit pattern of the score. No
	// bit is lost, because the two top bits of a score are 0. The bits ascend with the score, so the integers sort by
	// score.
	packed []uint64
}

// RowError is an error about one row of the input.
type RowError struct {
	Row    int // counted from 0
	Reason string
}

func (e *RowError) Error() string { return fmt.Sprintf("row %d: %s", e.Row, e.Reason) }

// OutsideUnit returns an error about a probability that is not in [0, 1]. The error wraps a *RowError. The argument
// 'name' says what the value is. The error has a hint if the value can be a percentage.
func OutsideUnit(row int, name string, value float64) error {
	err := &RowError{row, fmt.Sprintf("%s %v is outside [0, 1]", name, value)}
	if value > 1 && value <= 100 {
		return hint.Add(err, "are these percentages? Then divide them by 100")
	}
	return err
}

// NewSample returns a sorted copy of the pairs of score and label. An error about a row is a *RowError.
func NewSample(score, label []float64) (*Sample, error) {
	if len(score) != len(label) {
		return nil, fmt.Errorf("%d scores, %d labels", len(score), len(label))
	}
	packed := make([]uint64, len(score))
	for i, s := range score {
		if !(s >= 0 && s <= 1) {
			return nil, OutsideUnit(i, "score", s)
		}
		var y uint64
		switch label[i] {
		case 0:
		case 1:
			y = 1
		default:
			return nil, &RowError{i, fmt.Sprintf("label %v is not 0 or 1", label[i])}
		}
		packed[i] = math.Float64bits(s+0)<<1 | y // +0 turns −0 into 0
	}
	sortRadix(packed)
	return &Sample{packed}, nil
}

var errNoRows = errors.New("no rows")

// N returns the number of pairs.
func (s *Sample) N() int { return len(s.packed) }

func unpack(p uint64) (score float64, label uint64) {
	return math.Float64frombits(p >> 1), p & 1
}

// sortRadix sorts by 11-bit digits, least significant first. It skips digits that are equal in all keys.
func sortRadix(a []uint64) {
	const digit, digits = 11, 6
	var count [digits][1 << digit]int
	for _, x := range a {
		for d := range digits {
			count[d][x>>(d*digit)&(1<<digit-1)]++
		}
	}
	from, to := a, []uint64(nil)
	for d := range digits {
		shift := d * digit
		c := &count[d]
		if len(a) == 0 || c[a[0]>>shift&(1<<digit-1)] == len(a) {
			continue
		}
		if to == nil {
			to = make([]uint64, len(a))
		}
		sum := 0
		for i, n := range c {
			c[i] = sum
			sum += n
		}
		for _, x := range from {
			k := x >> shift & (1<<digit - 1)
			to[c[k]] = x
			c[k]++
		}
		from, to = to, from
	}
	if len(a) > 0 && &from[0] != &a[0] {
		copy(a, from)
	}
}

// splitMix is the generator of Steele, Lea & Flood (2014). It applies a fixed mixing function to a counter, so its
// numbers are the same everywhere.
type splitMix uint64

func (r *splitMix) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix64(uint64(*r))
}

func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uniformBelow returns a random integer from 0 to n−1. All these integers are equally likely (Lemire 2019).
func (r *splitMix) uniformBelow(n int) int {
	hi, lo := bits.Mul64(r.next(), uint64(n))
	if lo < uint64(n) {
		for threshold := -uint64(n) % uint64(n); lo < threshold; {
			hi, lo = bits.Mul64(r.next(), uint64(n))
		}
	}
	return int(hi)
}

// Each constant stands for one use of a seed. newStream gives each use its own stream of random numbers, so that two
// uses of the same seed never share random numbers.
const (
	streamFolds uint64 = iota + 1
	streamPairs
	streamSech
	streamBootstrap
	streamHoldout
	streamBets
	streamRounds
	streamNull
	streamPlan
	streamRejection
	streamSubsample
	streamMatches
	streamPrinted
	streamClusters
)

func newStream(seed, stream uint64) *splitMix {
	r := splitMix(mix64(seed+0x9e3779b97f4a7c15) ^ mix64(stream))
	return &r
}

// assignFolds deals n positions to k folds. The first n mod k folds get one position more than the others. Every
// assignment with these sizes is equally likely. The assignment does not depend on the data. So the folds are random
// even if the caller sorts the sample first and takes ranks as positions.
func assignFolds(n, k int, seed uint64) []uint8 {
	fold := make([]uint8, n)
	for i := range fold {
		fold[i] = uint8(i % k)
	}
	r := newStream(seed, streamFolds)
	for i := n - 1; i > 0; i-- {
		j := r.uniformBelow(i + 1)
		fold[i], fold[j] = fold[j], fold[i]
	}
	return fold
}

// A split holds the training points and the validation points of one fold. Both parts are in ascending order of score.
type split struct {
	train, valid []uint64
}

func (s *Sample) split(fold []uint8, k uint8) split {
	nv := 0
	for _, f := range fold {
		if f == k {
			nv++
		}
	}
	out := split{make([]uint64, 0, len(fold)-nv), make([]uint64, 0, nv)}
	for i, f := range fold {
		if f == k {
			out.valid = append(out.valid, s.packed[i])
		} else {
			out.train = append(out.train, s.packed[i])
		}
	}
	return out
}

// AUROC returns the probability that a random pair with label 1 has a larger score than a random pair with label 0. A
// tie counts as one half (Mann–Whitney).
func (s *Sample) AUROC() (float64, error) {
	var pos, neg, wins float64 // 'wins' counts each pair twice; all three numbers are integers below 2⁵³
	for i := 0; i < len(s.packed); {
		var p, q float64
		at := s.packed[i] >> 1
		for ; i < len(s.packed) && s.packed[i]>>1 == at; i++ {
			if s.packed[i]&1 == 1 {
				p++
			} else {
				q++
			}
		}
		wins += p * (2*neg + q)
		pos += p
		neg += q
	}
	if pos == 0 || neg == 0 {
		return 0, errors.New("AUROC needs labels of both kinds")
	}
	return wins / (2 * pos * neg), nil
}
