package report

import (
	"math"
	"strconv"
	"strings"
)

// Rounding is the direction in which a column rounds its numbers.
type Rounding int

// These are the directions of rounding.
const (
	Nearest Rounding = iota
	Down             // towards −∞: for certified radii, certified accuracies, and values that an attack attains
	Up               // towards +∞: for upper bounds
)

// Shortest is a special value for the number of decimals. A column with this value prints the shortest decimal that
// reads back as the number.
const Shortest = -1

// Round prints 10^shift·x with the given number of decimals. In place of the binary value of x, it uses the shortest
// decimal that reads back as x. JSON holds the same decimal. So 0.57 prints as 57.0 %, although the float64 is slightly
// less than 0.57. Round rounds this decimal by its digits, without arithmetic. Suppose that shift is 0 and that the
// printed number is read back as a float64. After rounding down, this float64 is at most x. After rounding up, it is at
// least x. The printed number differs from 10^shift·x by less than one unit of its last decimal. Infinities print as ∞
// and −∞, and NaN prints as Missing.
func Round(x float64, to Rounding, shift, decimals int) string {
	switch {
	case math.IsNaN(x):
		return Missing
	case math.IsInf(x, 1):
		return "∞"
	case math.IsInf(x, -1):
		return "−∞"
	}
	number := parseDecimal(x, shift)
	if decimals == Shortest {
		return number.shortest()
	}
	return number.round(to, decimals)
}

// decimal is the number ±0.d₁d₂d₃… · 10^point; zero has no digits.
type decimal struct {
	negative bool
	digits   string // the last digit is not 0
	point    int
}

// parseDecimal returns the shortest decimal that reads back as x, times 10^shift.
func parseDecimal(x float64, shift int) decimal {
	if x == 0 {
		return decimal{}
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(math.Abs(x), 'e', -1, 64), "e")
	e, _ := strconv.Atoi(exponent) // cannot fail: FormatFloat wrote the exponent
	return decimal{x < 0, strings.Replace(mantissa, ".", "", 1), e + 1 + shift}
}

// shortest prints the number as %g does.
func (d decimal) shortest() string {
	if d.digits == "" {
		return "0"
	}
	// The shortest decimal of a float64 keeps its digits when it is read as a float64 and printed again. After a shift
	// of the decimal point (see parseDecimal), the last digits can change if there are more than 15 digits.
	x, _ := strconv.ParseFloat("0."+d.digits+"e"+strconv.Itoa(d.point), 64)
	if d.negative {
		x = -x
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// round prints the number with the given number of decimals.
func (d decimal) round(to Rounding, decimals int) string {
	keep := d.point + decimals // digits to keep
	if keep < 0 {              // all digits of d come after the last printed decimal, and the first dropped digit is 0
		d.digits, d.point, keep = strings.Repeat("0", -keep)+d.digits, -decimals, 0
	}
	if keep < len(d.digits) {
		up := d.awayFromZero(to, d.digits[keep])
		d.digits = d.digits[:keep]
		if up {
			d = d.increment(keep)
		}
	}
	return d.format(decimals)
}

// awayFromZero reports whether the number must be rounded away from zero when its last digits are dropped. The argument
// 'dropped' is the first dropped digit. The caller ensures that at least one dropped digit is not 0.
func (d decimal) awayFromZero(to Rounding, dropped byte) bool {
	switch to {
	case Up:
		return !d.negative
	case Down:
		return d.negative
	}
	return dropped >= '5'
}

// increment adds one unit to the last digit that is kept. The argument 'keep' is the number of kept digits.
func (d decimal) increment(keep int) decimal {
	digits := []byte(d.digits)
	for k := keep - 1; k >= 0; k-- {
		if digits[k] != '9' {
			digits[k]++
			d.digits = string(digits)
			return d
		}
		digits[k] = '0'
	}
	d.digits = "1" + string(digits)
	d.point++
	return d
}

// format prints a number whose digits fit into the given number of decimals. A zero has no sign.
func (d decimal) format(decimals int) string {
	whole, fraction := "", ""
	if d.point > 0 {
		whole = d.digits[:min(d.point, len(d.digits))]
		whole += strings.Repeat("0", d.point-len(whole))
		fraction = d.digits[min(d.point, len(d.digits)):]
	} else if d.digits != "" {
		fraction = strings.Repeat("0", -d.point) + d.digits
	}
	if whole == "" {
		whole = "0"
	}
	if decimals > 0 {
		whole += "." + fraction + strings.Repeat("0", decimals-len(fraction))
	}
	if d.negative && strings.ContainsAny(whole, "123456789") {
		whole = "-" + whole
	}
	return whole
}
