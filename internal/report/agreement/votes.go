package agreement

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

func sumCounts(pairs []pair) (sum int64) {
	for _, p := range pairs {
		sum += fromCounts(p.first.Votes, p.second.Votes)
	}
	return sum
}

// fromCounts returns a lower bound on the number of samples whose votes differ, among the samples that both runs drew.
// The bound is the sum of a bound for the selection samples and a bound for the estimation samples.
func fromCounts(a, b certify.Votes) int64 {
	return votesMoved(a.N0, a.Counts0, a.None0, b.N0, b.Counts0, b.None0) + votesMoved(a.N, a.Counts, a.None, b.N, b.Counts, b.None)
}

// votesMoved returns Σ_k max(0, a_k − b_k). Here a_k is the number of votes for class k among n samples, and b_k is the
// number of votes for class k among m ≥ n samples. If n > m, votesMoved exchanges the two runs. The votes for no class
// count as one more class. The n samples are the first n of the m samples, so at most b_k of the a_k votes for class k
// can be unchanged. If n = m, this sum is half the L1 distance between the two runs' vectors of vote counts.
func votesMoved(n int64, a []int64, aNone int64, m int64, b []int64, bNone int64) int64 {
	if n > m {
		a, aNone, b, bNone = b, bNone, a, aNone
	}
	sum := max(0, aNone-bNone)
	for k := range a {
		sum += max(0, a[k]-b[k])
	}
	return sum
}

// These values of a vote are not classes.
const (
	nobody = -1 // the sample votes for no class
	untold = -2 // the vote is unknown because scores are tied
)

// fromScores compares the votes of the pairs' samples one by one.
func fromScores(ctx context.Context, first, second string, pairs []pair, done func()) (v Votes, err error) {
	a, err := openSamples(first)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := openSamples(second)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	v = Votes{Source: FromScores, AtMost: new(int64)}
	for _, p := range pairs {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		x, err := a.votes(p.first.Index)
		if err != nil {
			return v, err
		}
		y, err := b.votes(p.second.Index)
		if err != nil {
			return v, err
		}
		if len(x) != len(y) {
			return v, fmt.Errorf("example %d has scores of %d samples in %s and %d in %s", p.first.Index, len(x), first, len(y), second)
		}
		differ, told := compareVotes(x, y)
		// The number 'differ' leaves out the samples with tied scores, because these scores do not show a vote. The
		// recorded counts include the votes of these samples, so the bound from the counts may be larger.
		v.AtLeast += max(differ, fromCounts(p.first.Votes, p.second.Votes))
		*v.AtMost += differ + int64(len(x)) - told
		done()
	}
	return v, errors.Join(a.finish(), b.finish())
}

// compareVotes returns two numbers of samples. The result 'told' is the number of samples whose votes are known in both
// runs. The result 'differ' is the number of these samples whose two votes differ.
func compareVotes(x, y []int32) (differ, told int64) {
	for i := range x {
		if x[i] == untold || y[i] == untold {
			continue
		}
		told++
		if x[i] != y[i] {
			differ++
		}
	}
	return differ, told
}

// samples reads the votes of a run's samples from the scores that the run saved.
type samples struct {
	*runfolder.Scores
	path string
	read []int32 // votes of the current example
}

func openSamples(path string) (*samples, error) {
	e, err := runfolder.Find(path)
	if err != nil {
		return nil, err
	}
	s, err := e.Whole().Scores()
	return &samples{Scores: s, path: path}, err
}

// The method 'votes' returns the votes of the example with the given index, and skips the examples before it. The votes
// of selection samples come first, then the votes of estimation samples.
func (s *samples) votes(index int) ([]int32, error) {
	for {
		i, _, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: has no scores of example %d, or not in its turn", s.path, index)
		}
		if err != nil {
			return nil, err
		}
		if i == index {
			break
		}
	}
	s.read = s.read[:0]
	take := func(probs []float32) error {
		for ; len(probs) >= s.Classes; probs = probs[s.Classes:] {
			s.read = append(s.read, vote(probs[:s.Classes]))
		}
		return nil
	}
	if s.N0 > 0 {
		if err := s.Selection(take); err != nil {
			return nil, err
		}
	}
	err := s.Estimation(take)
	return s.read, err
}

// finish reads the rest of the file. This completes the check of the file's checksums.
func (s *samples) finish() error {
	for {
		if _, _, err := s.Next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// vote returns the vote of a sample with these probabilities. The probabilities are rounded: if two of them are equal,
// either class may have had the larger logit.
func vote(probs []float32) int32 {
	k := smoothing.Vote(probs)
	if k < 0 || probs[k] == 0 { // if a sample votes for no class, all its scores are 0
		return nobody
	}
	for _, p := range probs[k+1:] {
		if p == probs[k] {
			return untold
		}
	}
	return int32(k)
}
