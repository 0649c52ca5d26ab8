package report

import "fmt"

// Certificates names the certificates that a statement about a run is of: those here, or all that were sampled.
func Certificates(here, sampled int) string {
	if sampled <= here {
		return fmt.Sprintf("these %d certificates", here)
	}
	return fmt.Sprintf("the %d certificates of the whole run, of which %d are here,", sampled, here)
}
