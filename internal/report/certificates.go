package report

import "fmt"

// Certificates describes in words the certificates that a statement about a run covers: the certificates in the file,
// or the certificates of all sampled examples.
func Certificates(here, sampled int) string {
	if sampled <= here {
		return fmt.Sprintf("these %d certificates", here)
	}
	return fmt.Sprintf("the %d certificates of the whole run, of which %d are here,", sampled, here)
}
