package certify
func (c *VoteCertifier) moutaouakil(t tally) bounded {
	return bonferroni(c.params.Margin, t.a, t.b, t.n, c.params.Alpha)
}
