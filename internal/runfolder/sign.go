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

// Sign writes the manifest of the run's files and its signature. Call it after Finish: only whole runs are signed. A
// signature that is already there is replaced. The same run and key give the same bytes.
func (f *Folder) Sign(ctx context.Context, key signature.SecretKey) error {
	return signFolder(ctx, f.dir, f.run, key)
}

// signedWhole reports whether the run is whole and signed: nothing is sampled any more, and a new run.json would break
// the signature.
func (f *Folder) signedWhole() bool {
	_, err := os.Lstat(f.path(SignatureFile))
	return err == nil && f.done == len(f.run.positions())
}

// SignWith makes Merge sign the merged run. Signatures of shards are not signatures of the merge.
func (s *Shards) SignWith(key signature.SecretKey) { s.key = &key }

// signFolder signs the finished run in dir.
func signFolder(ctx context.Context, dir string, run Run, key signature.SecretKey) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{ManifestFile, SignatureFile} { // a link is somebody else's doing
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
	// A cut between the two leaves a manifest without its signature, or one that fails: never a wrong VALID.
	if err := durable.WriteFile(filepath.Join(dir, ManifestFile), text); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, SignatureFile), key.Sign(text, run.signedComment()))
}

// signedComment names the run for people. The manifest, through run.json, says the same to programs.
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

// digest returns a SHA-256 of run.json if it is one: a shard from elsewhere may hold any text.
func digest(sum string) string {
	if b, err := hex.DecodeString(sum); err != nil || len(b) != 32 {
		return "unknown"
	}
	return sum
}

// SignatureState says what a run folder holds of a signature.
type SignatureState struct {
	// KeyID is the id of the key that the signature names, which nobody vouches for until it is Verified; "" if the
	// run has no signature that can be read.
	KeyID string
	// Comment is the signed comment; only if Verified.
	Comment string
	// Verified means that the key made the signature, and that the files are the signed ones.
	Verified bool
	// Faults says why not, after VerifySignature. ReadSignature lists only what keeps it from reading a signature.
	Faults []string
}

// FolderOf returns the run folder that a path names: itself, or the folder of a file of a run.
func FolderOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return path, err
	}
	real, err := filepath.EvalSymlinks(path)
	return filepath.Dir(real), err
}

// ReadSignature reads whose signature a folder has, without verifying it.
func ReadSignature(dir string) (s SignatureState, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return s, err
	}
	defer root.Close()
	_, err = s.read(root)
	return s, err
}

// read returns the signature's file.
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

// take returns the content of a small file, or nil and a fault if there is no such file or it is none of rscert's.
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

// VerifySignature checks that key signed the run in dir: the signature of the manifest, every file that the manifest
// names, and that no result is left out. An error means that a file could not be read.
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
	if err != nil { // nobody vouches for the manifest: its content does not matter
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
