package report

import "fmt"

// Certificates describes the certificates covered by a statement about a run: those here, or all sampled ones.
func Certificates(here, sampled int) string {
	if sampled <= here {
		return fmt.Sprintf("these %d certificates", here)
	}
	return fmt.Sprintf("the %d certificates of the whole run, of which %d are here,", sampled, here)
}
