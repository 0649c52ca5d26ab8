package table

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/rscert/rscert/internal/quote"
)

// pow10 lists the powers of ten that are exact as float64.
var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// parseDecimal parses decimals such as -12.5. The decimal must have no exponent, and its digits must form an integer of
// at most 2⁵³. One correctly rounded division of this integer by an exact power of ten then gives the nearest float64
// (Clinger 1990). The result 'ok' is false for all other text.
func parseDecimal(b []byte) (x float64, ok bool) {
	i, neg := 0, false
	if len(b) > 0 && b[0] == '-' {
		neg = true
		i = 1
	}
	var m uint64
	digits, point := 0, -1
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case '0' <= c && c <= '9':
			m = m*10 + uint64(c-'0')
			digits++
			if digits > 19 {
				return 0, false
			}
		case c == '.' && point < 0:
			point = digits
		default:
			return 0, false
		}
	}
	if digits == 0 || m > 1<<53 {
		return 0, false
	}
	x = float64(m)
	if point >= 0 {
		x /= pow10[digits-point]
	}
	if neg {
		x = -x
	}
	return x, true
}

var (
	errEmpty     = errors.New("empty value")
	errNonFinite = errors.New("must be finite")
)

// parseValue parses a number. It parses true as 1 and false as 0.
func parseValue(b []byte, nonFinite bool) (float64, error) {
	if x, ok := parseDecimal(b); ok {
		return x, nil
	}
	if len(b) == 0 {
		return 0, errEmpty
	}
	switch string(b) {
	case "true", "True", "TRUE":
		return 1, nil
	case "false", "False", "FALSE":
		return 0, nil
	}
	for _, c := range b {
		if c == 'x' || c == 'X' || c == '_' { // Go's literals allow these characters, data do not
			return 0, notNumber(b)
		}
	}
	x, err := strconv.ParseFloat(string(b), 64)
	if err != nil && !(errors.Is(err, strconv.ErrRange) && x != 0) {
		return 0, notNumber(b)
	}
	if !nonFinite && (math.IsNaN(x) || math.IsInf(x, 0)) {
		return 0, fmt.Errorf("%s %w", quote.Name(string(b)), errNonFinite)
	}
	return x, nil
}

func notNumber(b []byte) error { return fmt.Errorf("%s is not a number", quote.Field(b)) }
