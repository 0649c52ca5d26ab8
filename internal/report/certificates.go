package report

import "fmt"

// Certificates describes in words which certificates a statement about a run covers. The argument 'here' is the number
// of certificates in the file, and the argument 'sampled' is the number of certificates of the whole run.
func Certificates(here, sampled int) string {
	if sampled <= here {
		return fmt.Sprintf("these %d certificates", here)
	}
	return fmt.Sprintf("the %d certificates of the whole run, of which %d are here,", sampled, here)
}
