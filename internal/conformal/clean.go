package conformal

import "fmt"

// chooseClean prepares split conformal prediction (Papadopoulos et al. 2002). It takes one score for each example and
// for each query. An attack within any radius above 0 voids the guarantee.
func (d *Design) chooseClean(p Params) error {
	if p.Draws > 1 || p.CalibrationDraws > 1 || d.Attack.queries() > 1 {
		return fmt.Errorf("rule %s: %d and %d draws, %d submissions: want 1", Clean, p.Draws, p.CalibrationDraws, d.Attack.queries())
	}
	d.Rule = Clean
	d.M, d.T, d.QueryM, d.QueryT = 1, 1, 1, 1
	d.Sound = d.Shift == 0
	return nil
}
