package certify

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// randomVotes returns random votes. Each vote is for class 0 with probability p.
func randomVotes(r *rand.Rand, index, classes int, n int64, p float64) Votes {
	v := Votes{Index: index, N0: 100, N: n, Counts0: make([]int64, classes), Counts: make([]int64, classes)}
	draw := func(counts []int64, n int64) {
		for range n {
			if r.Float64() < p {
				counts[0]++
			} else {
				counts[1+int(float64(classes-1)*r.Float64()*r.Float64())]++
			}
		}
	}
	draw(v.Counts0, v.N0)
	draw(v.Counts, v.N)
	return v
}

// If Certify returns at least the given margin, CertifyAtLeast must also return at least this margin. It must never
// claim more than the exact bound allows.
func TestCertifyAtLeast(t *testing.T) {
	for _, method := range VoteMethods() {
		p := VoteParams{Target: Target{Alpha: 0.001, Sigma: 0.5, Class: Predicted, Margin: SecondMargin}, Method: method.Name}
		full, err := NewVoteCertifier(p)
		if err != nil {
			t.Fatal(err)
		}
		r, direct := rand.New(rand.NewPCG(3, 0)), 0
		for i := range 40 {
			classes := 3 + i%3
			if i%10 == 9 {
				classes = 2
			}
			v := randomVotes(r, i, classes, 200, 0.4+0.6*r.Float64())
			want, err := full.Certify(v)
			if err != nil {
				t.Fatal(err)
			}
			quick, _ := NewVoteCertifier(p) // 'quick' does not share the cached bounds of 'full'
			got, err := quick.CertifyAtLeast(v, want.Margin)
			if err != nil {
				t.Fatal(err)
			}
			if got.Margin < want.Margin || got.Margin > want.Margin*(1+1e-7) || got.Radius < want.Radius || !reflect.DeepEqual(got.Bounds, want.Bounds) {
				t.Errorf("%s, votes %v: %+v, and in full %+v", method.Name, v.Counts, got, want)
			}
			if len(quick.known) == 0 {
				direct++
			}
			// The votes cannot prove this larger margin. So CertifyAtLeast must search for the largest margin, and
			// return the certificate of Certify.
			if more, err := quick.CertifyAtLeast(v, 1.001*want.Margin+0.01); err != nil || !reflect.DeepEqual(more, want) {
				t.Errorf("%s, votes %v, a margin too large: %+v (%v), want %+v", method.Name, v.Counts, more, err, want)
			}
		}
		if method.Name == ExactMargin && direct < 20 {
			t.Errorf("%d of 40 certificates needed no search, want most", direct)
		}
	}
}

func BenchmarkCheckCertificates(b *testing.B) {
	p := VoteParams{Target: Target{Alpha: 0.001, Sigma: 0.5, Class: Predicted, Margin: SecondMargin}, Method: ExactMargin}
	r := rand.New(rand.NewPCG(1, 0))
	full, err := NewVoteCertifier(p)
	if err != nil {
		b.Fatal(err)
	}
	var votes []Votes
	var margins []float64
	for i := range 200 {
		votes = append(votes, randomVotes(r, i, 10, 1000, 0.4+0.6*r.Float64()))
		cert, err := full.Certify(votes[i])
		if err != nil {
			b.Fatal(err)
		}
		margins = append(margins, cert.Margin)
	}
	for name, certify := range map[string]func(c *VoteCertifier, i int) (Certificate, error){
		"search": func(c *VoteCertifier, i int) (Certificate, error) { return c.Certify(votes[i]) },
		"check":  func(c *VoteCertifier, i int) (Certificate, error) { return c.CertifyAtLeast(votes[i], margins[i]) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, _ := NewVoteCertifier(p)
				for i := range votes {
					if _, err := certify(c, i); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*len(votes)), "ms/example")
		})
	}
}
