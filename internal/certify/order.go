package certify

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/rscert/rscert/internal/binomial"
)

// An order ranks the outcomes (x1, x2) of n samples by T(x1, x2) = s(x1) + s(n−x2). The count x1 is the number of votes
// for the class, and the count x2 is the number of votes for the runner-up. The function s is nondecreasing, so T does
// not fall as x1 grows and does not rise as x2 grows. The bonferroni margin has this form with s = lower(·, n, α/2) or
// s = Q(lower(·, n, α/2)), because upper(x) = 1 − lower(n−x). The plug-in margin has this form too (plugInOrder).
type order struct {
	n int64
	// returns an interval that contains s(k), the score of the count k in T(x1, x2) = s(x1) + s(n−x2)
	score func(k int64) binomial.Span

	pages sync.Map // page number → *orderPage
}

const pageSize = 512

// An orderPage holds the scores of pageSize consecutive numbers k, as float bits. Zero bits mark a score that is not
// yet computed. packScore never returns zero bits.
type orderPage [pageSize]struct{ lo, hi atomic.Uint64 }

// packScore turns the score 0 into −0, whose bits are not zero.
func packScore(s float64) uint64 {
	if s == 0 {
		s = math.Copysign(0, -1)
	}
	return math.Float64bits(s)
}

func (o *order) enclose(k int64) binomial.Span {
	number := k / pageSize
	v, ok := o.pages.Load(number)
	if !ok {
		v, _ = o.pages.LoadOrStore(number, new(orderPage))
	}
	cell := &v.(*orderPage)[k%pageSize]
	// hi is stored after lo. So if hi is set, lo is set too.
	if hi := cell.hi.Load(); hi != 0 {
		return binomial.Span{Lower: math.Float64frombits(cell.lo.Load()), Upper: math.Float64frombits(hi)}
	}
	s := o.score(k)
	cell.lo.Store(packScore(s.Lower))
	cell.hi.Store(packScore(s.Upper))
	return s
}

// bonferroniOrder orders outcomes by the bonferroni margin at level 1−α.
func bonferroniOrder(q scale, n int64, alpha float64) *order {
	o := &order{n: n}
	o.score = func(k int64) binomial.Span {
		p := binomial.LowerSpan(k, n, alpha/2)
		return binomial.Span{Lower: q.low(p.Lower), Upper: q.high(p.Upper)}
	}
	return o
}

// An event is the set of outcomes at least as extreme as an observed outcome: {x1 ≥ t(x2)}, where t is a nondecreasing
// step function.
type event struct {
	order  *order
	level  float64                 // value of T (see the type 'order') for the observed outcome
	strict bool                    // exclude outcomes whose T equals this level
	member func(x1, x2 int64) bool // if not nil, it decides whether an outcome is in the event, and 'level' is unused

	known map[int64]*eventPage
}

// each element is t(x2)+1 for one x2 (t: see the type event), or 0 if t(x2) is not yet computed
type eventPage [pageSize]int64

// newEvent returns the event {T ≥ T(a, b)}, including every outcome that may tie with (a, b).
func newEvent(o *order, a, b int64) *event {
	return &event{order: o, level: o.enclose(a).Lower + o.enclose(o.n-b).Lower, known: make(map[int64]*eventPage)}
}

// The method 'holds' reports whether the outcome (x1, x2) is in the event.
func (e *event) holds(x1, x2 int64) bool {
	if e.member != nil {
		return e.member(x1, x2)
	}
	s1, s2 := e.order.enclose(x1), e.order.enclose(e.order.n-x2)
	if e.strict {
		// If an outcome ties with the observed outcome, a rounding error may make its T (see the type 'order') slightly
		// larger. The tolerance 1e-12 keeps such outcomes out of the event.
		t := s1.Lower + s2.Lower
		return t > e.level+1e-12*math.Abs(e.level)
	}
	t := s1.Upper + s2.Upper
	if math.IsInf(t, -1) {
		return false
	}
	return t >= e.level-4*unit*(math.Abs(s1.Upper)+math.Abs(s2.Upper)+math.Abs(e.level))
}

// threshold returns t(x2), the least x1 in 0…n−x2 with (x1, x2) in the event, or n−x2+1 if there is no such x1. The
// search starts at the argument 'near'.
func (e *event) threshold(x2, near int64) int64 {
	number := x2 / pageSize
	page := e.known[number]
	if page == nil {
		page = new(eventPage)
		e.known[number] = page
	}
	cell := &page[x2%pageSize]
	if *cell != 0 {
		return *cell - 1
	}
	top := e.order.n - x2 + 1
	// The loop keeps two conditions. First, lo is −1, or (lo, x2) is not in the event. Second, hi is top, or (hi, x2)
	// is in the event.
	lo, hi := int64(-1), top
	x := min(max(near, 0), top-1)
	for step := int64(1); lo+1 < hi; step *= 2 {
		if e.holds(x, x2) {
			hi = x
			x = max(x-step, lo+1)
			if lo >= 0 {
				break
			}
		} else {
			lo = x
			x = min(x+step, hi-1)
			if hi < top {
				break
			}
		}
	}
	for lo+1 < hi {
		mid := lo + (hi-lo)/2
		if e.holds(mid, x2) {
			hi = mid
		} else {
			lo = mid
		}
	}
	*cell = hi + 1
	return hi
}
