package runfolder

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/signature"
)

// Sign writes the manifest of the run's files and the manifest's signature. Call Sign after Finish, because only
// complete runs are signed. Sign replaces an existing signature. The same run and key give the same bytes.
func (f *Folder) Sign(ctx context.Context, key signature.SecretKey) error {
	return signFolder(ctx, f.dir, f.run, key)
}

// signedWhole reports whether the run is complete and signed. A resumed run must not rewrite the run.json of a signed
// folder, because a new run.json would break the signature.
func (f *Folder) signedWhole() bool {
	_, err := os.Lstat(f.path(SignatureFile))
	return err == nil && f.done == len(f.run.positions())
}

// SignWith makes Merge sign the merged run. The signatures of the shards do not cover the merged run.
func (s *Shards) SignWith(key signature.SecretKey) { s.key = &key }

// signFolder signs the finished run in dir.
func signFolder(ctx context.Context, dir string, run Run, key signature.SecretKey) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{ManifestFile, SignatureFile} { // refuse to replace links, which rscert does not make
		if _, err := statRegular(root, name); err != nil && !missing(err) {
			return fmt.Errorf("signing %s: %w", dir, err)
		}
	}
	m, err := describeFiles(ctx, root)
	if err != nil {
		return fmt.Errorf("signing %s: %w", dir, err)
	}
	text, err := encode(m, "  ")
	if err != nil {
		return err
	}
	// An interruption between the two writes leaves a manifest without a signature, or with an old signature. In both
	// cases the verification fails.
	if err := durable.WriteFile(filepath.Join(dir, ManifestFile), text); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, SignatureFile), key.Sign(text, run.signedComment()))
}

// signedComment describes the run for people. Programs find the same facts in run.json, which the manifest covers.
func (r Run) signedComment() string {
	p := r.Parameters
	denoiser := ""
	if sum := r.Model.Denoiser.sum(); sum != "" {
		denoiser = " denoiser sha256 " + digest(sum)
	}
	shard := ""
	if p.Shard.K > 1 {
		shard = " shard " + p.Shard.String()
	}
	return fmt.Sprintf("rscert run: model sha256 %s%s data sha256 %s examples %d seed %d%s",
		digest(r.Model.SHA256), denoiser, digest(r.Data.SHA256), len(r.positions()), p.Seed, shard)
}

// digest returns the argument 'sum' if it is a SHA-256 in hex, and "unknown" otherwise. The run.json of a shard may
// come from another person and hold any text.
func digest(sum string) string {
	if b, err := hex.DecodeString(sum); err != nil || len(b) != 32 {
		return "unknown"
	}
	return sum
}

// SignatureState describes the signature of a run folder.
type SignatureState struct {
	// KeyID is the id of the key that the signature names. It proves nothing unless Verified is true. It is "" if the
	// run has no signature that can be read.
	KeyID string
	// Comment is the signed comment. It is set only if Verified is true.
	Comment string
	// Verified is true if VerifySignature found that its key made the signature, and that the files have not changed
	// since then.
	Verified bool
	// Faults lists the reasons why VerifySignature did not verify the run. In the result of ReadSignature, Faults lists
	// only the reasons why the signature cannot be read.
	Faults []string
}

// FolderOf returns the run folder of a path. If the path leads to a file, FolderOf returns the folder that holds the
// file. If the path is a folder, FolderOf returns the path itself.
func FolderOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return path, err
	}
	real, err := filepath.EvalSymlinks(path)
	return filepath.Dir(real), err
}

// ReadSignature reads the id of the key that a folder's signature names. It does not verify the signature.
func ReadSignature(dir string) (s SignatureState, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return s, err
	}
	defer root.Close()
	_, err = s.read(root)
	return s, err
}

// read returns the content of the signature's file, and sets s.KeyID.
func (s *SignatureState) read(root *os.Root) ([]byte, error) {
	text, err := s.take(root, SignatureFile, signature.MaxSize)
	if text == nil {
		return nil, err
	}
	if s.KeyID, err = signature.ID(text); err != nil {
		s.KeyID = ""
		s.Faults = append(s.Faults, fmt.Sprintf("%s: %v", SignatureFile, err))
		return nil, nil
	}
	return text, nil
}

// take returns the content of a small file. If the file is missing, too long or not regular, the method returns nil and
// records a fault.
func (s *SignatureState) take(root *os.Root, name string, limit int64) ([]byte, error) {
	text, err := readSmall(root, name, limit)
	var irregular irregularError
	var long tooLongError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("the run is not signed: it has no %s", name)
	case errors.As(err, &irregular), errors.As(err, &long):
	case err != nil:
		return nil, err
	default:
		return text, nil
	}
	s.Faults = append(s.Faults, err.Error())
	return nil, nil
}

// VerifySignature checks that the key signed the run in dir. It checks the manifest's signature. It checks that the
// files in the manifest are unchanged, and that the manifest names every result in the folder. VerifySignature returns
// an error only if it could not read the folder or a file, or if the context is done.
func VerifySignature(ctx context.Context, dir string, key signature.PublicKey) (s SignatureState, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return s, err
	}
	defer root.Close()
	signed, err := s.read(root)
	if signed == nil {
		return s, err
	}
	text, err := s.take(root, ManifestFile, maxManifest)
	if text == nil {
		return s, err
	}
	comment, err := key.Verify(text, signed)
	if err != nil { // the manifest is not signed by the key, so its content does not matter
		s.Faults = append(s.Faults, fmt.Sprintf("%s: %v", SignatureFile, err))
		return s, nil
	}
	m, err := decodeManifest(text)
	if err != nil {
		s.Faults = append(s.Faults, err.Error())
		return s, nil
	}
	if s.Faults, err = m.differences(ctx, root); err != nil || len(s.Faults) > 0 {
		return s, err
	}
	s.Comment, s.Verified = comment, true
	return s, nil
}
