package run

import (
	"fmt"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/smoothing"
)

// polls supplies the votes of the samples whose scores were saved. If the scores are in a run folder and the user does
// not change the number of selection samples (SavedScores.N0), the votes come from this folder. Otherwise each sample
// votes for the class of its largest probability.
type polls struct {
	certifier *certify.VoteCertifier // nil: scores certify the classes
	run       []certify.Votes        // votes of the run; nil if the samples vote by their probabilities
	turn      int
}

// poll holds the votes of one example.
type poll struct {
	certifier *certify.VoteCertifier
	votes     certify.Votes
	given     bool // the votes come from the run, so the method 'count' does nothing
}

func (q SavedScores) newPolls() (*polls, error) {
	p := &polls{}
	if q.Votes == "" {
		return p, nil
	}
	var err error
	if p.certifier, err = certify.NewVoteCertifier(certify.VoteParams{Target: q.Params.ClassTarget(), Method: q.Votes}); err != nil {
		return nil, err
	}
	if q.Evidence.Run != nil && q.N0 == 0 {
		p.run, err = q.Evidence.OwnVotes()
	}
	return p, err
}

// next returns the poll of the next example. If the votes come from the run, the poll already holds them. If scores
// certify the classes, next returns nil.
func (p *polls) next(e certify.ScoreExample) (*poll, error) {
	if p.certifier == nil {
		return nil, nil
	}
	if p.run == nil {
		v := certify.Votes{
			Index: e.Index, Label: e.Label, N0: e.N0, N: e.N, Counts: make([]int64, e.Classes), Quantisation: e.Quantisation,
		}
		if e.N0 > 0 {
			v.Counts0 = make([]int64, e.Classes)
		}
		return &poll{certifier: p.certifier, votes: v}, nil
	}
	if p.turn++; p.turn > len(p.run) || p.run[p.turn-1].Index != e.Index {
		return nil, fmt.Errorf("example %d has scores and no votes", e.Index)
	}
	return &poll{p.certifier, p.run[p.turn-1], true}, nil
}

// count counts the votes of samples. The slice 'probs' holds the class probabilities of one sample after another.
func (p *poll) count(probs []float32, selection bool) {
	if p.given {
		return
	}
	m := len(p.votes.Counts)
	counts, none := p.votes.Counts, &p.votes.None
	if selection {
		counts, none = p.votes.Counts0, &p.votes.None0
	}
	for ; len(probs) >= m; probs = probs[m:] {
		// Zeros stand for a sample whose outputs were not finite.
		if k := smoothing.Vote(probs[:m]); k < 0 || probs[k] == 0 {
			*none++
		} else {
			counts[k]++
		}
	}
}
