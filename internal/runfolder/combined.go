package runfolder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
)

// CombinedFile is the name of a file in a folder of combined runs. The file describes these runs. The certificates are
// in CertificatesFile in the same folder. A folder of combined runs is not a run folder, because it has no votes.
const CombinedFile = "combined.json"

// Combined describes certificates that were composed from the certificates of several runs.
type Combined struct {
	Version     string              `json:"rscert"` // version of rscert
	Composition certify.Composition `json:"composition"`
	Says        string              `json:"says"` // how the certificates were composed; each certificate has the same text
	// Quorum and AtLeast are numbers of members. The combination predicts a class if at least Quorum members predict
	// it. The combination certifies a class if at least AtLeast members certify it. Quorum and AtLeast are 0 if a
	// router chooses the member.
	Quorum  int `json:"quorum,omitempty"`
	AtLeast int `json:"at_least,omitempty"`
	// Independent means that the runs have different seeds. If it is false, Alpha is a union bound over the runs.
	Independent bool             `json:"independent"`
	Alpha       float64          `json:"alpha"`     // failure probability of each certificate
	Examples    int              `json:"examples"`  // number of certificates
	Sampled     int              `json:"sampled"`   // number of sampled examples; statements about all examples need it
	Certified   int              `json:"certified"` // number of examples with a class and a radius
	Members     []CombinedMember `json:"members"`
}

// CombinedMember is one of the combined runs.
type CombinedMember struct {
	Role        string  `json:"role"`
	Path        string  `json:"path"`
	Run         string  `json:"run"`    // Run.ID
	Digest      string  `json:"digest"` // Run.Digest
	Model       string  `json:"model"`
	ModelSHA256 string  `json:"model_sha256"`
	DataSHA256  string  `json:"data_sha256"`
	Method      string  `json:"method"`
	Alpha       float64 `json:"alpha"`
	Sigma       float64 `json:"sigma"`
	Seed        uint64  `json:"seed"`
}

// isCombined reports whether path is a folder of combined runs.
func isCombined(path string) bool {
	_, err := os.Lstat(filepath.Join(path, CombinedFile))
	return err == nil
}

// errCombined is the error for a command that needs a run and is given combined runs.
func errCombined(path string) error {
	return hint.New(fmt.Sprintf("%s: holds certificates of several runs together, and is no run folder", path), "name one of the runs in its "+CombinedFile)
}

// Certificates returns the path of the certificates if path is a folder of combined runs. Otherwise it returns path.
func Certificates(path string) string {
	if isCombined(path) {
		return filepath.Join(path, CertificatesFile)
	}
	return path
}

// WriteCombined writes a folder of combined runs to the path 'out'. The folder must be empty or missing.
func WriteCombined(out string, c Combined, certs []certify.Certificate) error {
	if err := checkFree(out); err != nil {
		return err
	}
	text, err := encode(c, "  ")
	if err == nil {
		err = os.MkdirAll(out, 0o755)
	}
	if err == nil {
		err = WriteCertificates(filepath.Join(out, CertificatesFile), certs)
	}
	if err != nil {
		return err
	}
	return errors.Join(durable.WriteFile(filepath.Join(out, CombinedFile), checksum.Seal(text)), durable.SyncFolder(out))
}
