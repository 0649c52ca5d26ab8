package run

import "errors"

// search returns the search of a round.
func (a *auditor) search(round int) (candidateSearch, error) {
	if s := a.searches[round]; s != nil {
		return s, nil
	}
	if a.plan.open == nil {
		return nil, errors.New("not there yet")
	}
	s, err := a.plan.open(a, round)
	a.searches[round] = s
	return s, err
}
