package report

import "fmt"

// Certificates returns a phrase for a statement about a run. The phrase says how many certificates the statement is
// about. The argument 'here' is the number of certificates in the file, and the argument 'sampled' is the number of
// certificates of the whole run.
func Certificates(here, sampled int) string {
	if sampled <= here {
		return fmt.Sprintf("these %d certificates", here)
	}
	return fmt.Sprintf("the %d certificates of the whole run, of which %d are here,", sampled, here)
}
