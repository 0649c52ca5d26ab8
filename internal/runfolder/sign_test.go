package runfolder

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/scorefile"
	"github.com/rscert/rscert/internal/signature"
	"github.com/rscert/rscert/internal/signature/signaturetest"
	"github.com/rscert/rscert/internal/spec"
)

// keys makes a pair of keys.
func keys(t *testing.T) (signature.SecretKey, signature.PublicKey) {
	t.Helper()
	secretFile, publicFile, err := signaturetest.Keys(t.TempDir(), "a", "")
	if err != nil {
		t.Fatal(err)
	}
	secret, err := signature.ReadSecretKey(secretFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	public, err := signature.ReadPublicKey(publicFile)
	if err != nil {
		t.Fatal(err)
	}
	return secret, public
}

// signedRun makes the folder of a finished run, with all kinds of files, and signs it.
func signedRun(t *testing.T, run Run, key signature.SecretKey) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	f, err := Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	for place, index := range run.positions() {
		sample(t, f, place, index)
	}
	if err := errors.Join(f.Finish(), f.Sign(t.Context(), key), f.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// verifySigned calls VerifySignature and returns the faults that it finds. A run without faults must be verified and
// have a comment. A run with faults must be unverified and have no comment. Otherwise verifySigned fails the test.
func verifySigned(t *testing.T, dir string, key signature.PublicKey) []string {
	t.Helper()
	s, err := VerifySignature(t.Context(), dir, key)
	if err != nil {
		t.Fatal(err)
	}
	if s.Verified != (len(s.Faults) == 0) || s.Verified != (s.Comment != "") {
		t.Errorf("%+v", s)
	}
	return s.Faults
}

func TestSignedRun(t *testing.T) {
	key, public := keys(t)
	dir := signedRun(t, splitRun, key)
	s, err := VerifySignature(t.Context(), dir, public)
	want := "rscert run: model sha256 " + strings.Repeat("ab", 32) + " data sha256 " + strings.Repeat("cd", 32) + " examples 23 seed 1"
	if err != nil || !s.Verified || s.KeyID != key.ID() || s.Comment != want {
		t.Errorf("%+v %v", s, err)
	}
	if s, err := ReadSignature(dir); err != nil || s.KeyID != key.ID() || s.Verified || s.Comment != "" || s.Faults != nil {
		t.Errorf("%+v %v", s, err)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range manifestFiles {
		if !strings.Contains(string(manifest), `"name": "`+name+`"`) {
			t.Errorf("the manifest lacks %s:\n%s", name, manifest)
		}
	}

	// If the run is resumed, even on other GPUs, the signed files must not change. Signing again must give the same
	// bytes.
	before := everyFile(t, dir)
	moved := splitRun
	moved.Runtime.GPUs = []string{"B"}
	f, err := Resume(dir, moved)
	if err != nil {
		t.Fatal(err)
	}
	if f.Moved() != nil {
		t.Error("nothing is sampled, so nothing moved")
	}
	if err := errors.Join(f.Finish(), f.Sign(t.Context(), key), f.Close()); err != nil {
		t.Fatal(err)
	}
	if after := everyFile(t, dir); !maps.Equal(before, after) {
		t.Error("resuming changed a signed run")
	}
	if faults := verifySigned(t, dir, public); faults != nil {
		t.Error(faults)
	}
	for name := range before {
		if path := filepath.Join(dir, name); !Owns(path) {
			t.Errorf("outputs may replace %s", path)
		}
	}
}

// VerifySignature must find a flipped bit anywhere except in the untrusted comment. It must also find a missing file,
// an added file, and a link in place of a file.
func TestSignedRunChanges(t *testing.T) {
	key, public := keys(t)
	dir := signedRun(t, splitRun, key)
	all := everyFile(t, dir)
	flips := 0
	for name, text := range all {
		path := filepath.Join(dir, name)
		first := 0
		if name == SignatureFile {
			first = strings.IndexByte(text, '\n') + 1 // minisign does not sign the untrusted comment
		}
		for at := first; at < len(text); at += 1 + len(text)/50 {
			changed := []byte(text)
			changed[at] ^= 1 << (at % 8)
			put(t, path, string(changed))
			if verifySigned(t, dir, public) == nil {
				t.Errorf("%s: byte %d", name, at)
			}
			flips++
		}
		for _, other := range []string{"", text[:len(text)-1], text + "x"} {
			put(t, path, other)
			if verifySigned(t, dir, public) == nil {
				t.Errorf("%s of %d bytes, not %d", name, len(other), len(text))
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if verifySigned(t, dir, public) == nil {
			t.Errorf("%s is missing", name)
		}
		if err := os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), path); err != nil {
			t.Fatal(err)
		}
		put(t, path, text) // 'put' writes to the link's target, so the link leads to the right content
		if faults := verifySigned(t, dir, public); len(faults) != 1 || faults[0] != name+" is no regular file" {
			t.Errorf("a link as %s: %q", name, faults)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		put(t, path, text)
	}
	if flips < 300 {
		t.Errorf("only %d flips", flips)
	}
	put(t, filepath.Join(dir, scorefile.Part(ScoresFile)), "")
	if faults := verifySigned(t, dir, public); len(faults) != 1 || !strings.HasSuffix(faults[0], "is not in the signed manifest") {
		t.Errorf("%q", faults)
	}
	if err := os.Remove(filepath.Join(dir, scorefile.Part(ScoresFile))); err != nil {
		t.Fatal(err)
	}
	if faults := verifySigned(t, dir, public); faults != nil {
		t.Errorf("the restored run: %q", faults)
	}
	few := signedRun(t, votesRun, key)
	put(t, filepath.Join(few, BoundsFile), boundsHeader+"\n")
	if faults := verifySigned(t, few, public); len(faults) != 1 || faults[0] != "bounds.csv is not in the signed manifest" {
		t.Errorf("%q", faults)
	}
}

// everyFile returns the contents of run.json and of the files that allFiles reads. The keys are the files' names.
func everyFile(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := allFiles(t, dir)
	data, err := os.ReadFile(filepath.Join(dir, RunFile))
	if err != nil {
		t.Fatal(err)
	}
	files[RunFile] = string(data)
	return files
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A signature by another key, or of another run, must not verify.
func TestExchangedSignatures(t *testing.T) {
	key, public := keys(t)
	other, otherPublic := keys(t)
	dir := signedRun(t, votesRun, key)
	if faults := verifySigned(t, dir, otherPublic); len(faults) != 1 || !strings.Contains(faults[0], "signed by the key "+key.ID()+", not by the key "+other.ID()) {
		t.Errorf("%q", faults)
	}
	second := votesRun
	second.Parameters.Seed = 2
	another := signedRun(t, second, key)
	move := func(names ...string) {
		for _, name := range names {
			data, err := os.ReadFile(filepath.Join(another, name))
			if err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(dir, name), string(data))
		}
	}
	move(SignatureFile)
	if faults := verifySigned(t, dir, public); len(faults) != 1 || !strings.Contains(faults[0], "the signature does not match") {
		t.Errorf("%q", faults)
	}
	move(SignatureFile, ManifestFile)
	var want []string // the two runs have different seeds, so the following three files differ
	for _, name := range []string{RunFile, VotesFile, CertificatesFile} {
		want = append(want, name+" has changed since it was signed: its SHA-256 is another")
	}
	if faults := verifySigned(t, dir, public); !slices.Equal(faults, want) {
		t.Errorf("%q, want %q", faults, want)
	}
	if err := os.Remove(filepath.Join(dir, SignatureFile)); err != nil {
		t.Fatal(err)
	}
	if faults := verifySigned(t, dir, public); len(faults) != 1 || faults[0] != "the run is not signed: it has no manifest.json.minisig" {
		t.Errorf("%q", faults)
	}
}

// A manifest that rscert never writes must be refused, even if the key signed it. VerifySignature must not open a file
// outside the folder, even if a signed manifest names this file.
func TestHostileManifests(t *testing.T) {
	key, public := keys(t)
	dir := signedRun(t, votesRun, key)
	own, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	begin := "{\n  \"schema\": \"rscert/manifest/1\",\n  \"files\": [\n    {\n      \"name\": "
	if !strings.HasPrefix(string(own), begin) {
		t.Fatalf("%s", own)
	}
	replace := func(old, new string) string {
		if !strings.Contains(string(own), old) {
			t.Fatalf("no %s", old)
		}
		return strings.Replace(string(own), old, new, 1)
	}
	check := func(text, want string) {
		t.Helper()
		put(t, filepath.Join(dir, ManifestFile), text)
		put(t, filepath.Join(dir, SignatureFile), string(key.Sign([]byte(text), "c")))
		if faults := verifySigned(t, dir, public); len(faults) != 1 || !strings.Contains(faults[0], want) {
			t.Errorf("%.200q: %q, want %q", text, faults, want)
		}
	}
	for _, name := range []string{"../run.json", "/etc/passwd", "./run.json", "..", ".", "", "RUN.JSON", "run.json/", "x/../run.json", ManifestFile, "notes.txt", "run.json\\u0000"} {
		check(replace(`"run.json"`, `"`+name+`"`), "which is no file of a run")
	}
	check(replace(`"votes.jsonl"`, `"run.json"`), "twice or out of order")
	check(replace(`"votes.jsonl"`, `"scores.npz"`), "twice or out of order")
	check(replace("rscert/manifest/1", "rscert/manifest/2"), "its schema is")
	check(replace("rscert/manifest/1", ""), "its schema is")
	check(replace(`"size": `, `"extra": 1, "size": `), "not as rscert writes it")
	check(replace(`"size": `, `"Size": 1, "size": `), "not as rscert writes it")
	check(replace(`"size": `, `"size": -`), "run.json has ")
	check(string(own)+"\n", "not as rscert writes it")
	check(string(own)+"{}", ManifestFile)
	check("", ManifestFile)
	check("null", "its schema is")
	check(`{"schema":"rscert/manifest/1","files":`+strings.Repeat("[", 8000), ManifestFile)
	check(string(own)+strings.Repeat(" ", maxManifest), "manifest.json has more than 16384 bytes")
	put(t, filepath.Join(dir, ManifestFile), string(own))
	put(t, filepath.Join(dir, SignatureFile), strings.Repeat("x", signature.MaxSize+1))
	if faults := verifySigned(t, dir, public); len(faults) != 1 || !strings.Contains(faults[0], "has more than") {
		t.Errorf("%q", faults)
	}
	check(string(own[:len(own)-1]), "not as rscert writes it")

	// This manifest names no files, so it lacks the files of the run.
	text := "{\n  \"schema\": \"rscert/manifest/1\",\n  \"files\": []\n}\n"
	put(t, filepath.Join(dir, ManifestFile), text)
	put(t, filepath.Join(dir, SignatureFile), string(key.Sign([]byte(text), "c")))
	if faults := verifySigned(t, dir, public); len(faults) != 3 {
		t.Errorf("%q", faults)
	}
}

// If a link has replaced the manifest or a result, Sign must not follow this link.
func TestSignFollowsNoLinks(t *testing.T) {
	key, _ := keys(t)
	for _, name := range []string{ManifestFile, SignatureFile, VotesFile} {
		dir := signedRun(t, votesRun, key)
		victim := filepath.Join(t.TempDir(), "victim")
		put(t, victim, "untouched")
		if err := errors.Join(os.Remove(filepath.Join(dir, name)), os.Symlink(victim, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
		if err := signFolder(t.Context(), dir, votesRun, key); err == nil || !strings.HasSuffix(err.Error(), name+" is no regular file") {
			t.Errorf("%s: %v", name, err)
		}
		if data, err := os.ReadFile(victim); err != nil || string(data) != "untouched" {
			t.Errorf("%s: %q %v", name, data, err)
		}
	}
}

// Signing and verifying stop when the context is done.
func TestSignIsInterrupted(t *testing.T) {
	key, public := keys(t)
	dir := signedRun(t, votesRun, key)
	if err := os.Remove(filepath.Join(dir, SignatureFile)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := signFolder(ctx, dir, votesRun, key); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, SignatureFile)); err == nil {
		t.Error("an interrupted signature")
	}
	if err := signFolder(t.Context(), dir, votesRun, key); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifySignature(ctx, dir, public); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The signed comment must be one line for any content of run.json.
func TestSignedComment(t *testing.T) {
	r := votesRun
	r.Model.Denoiser = &Denoiser{SHA256: strings.Repeat("0f", 32)}
	r.Parameters.Shard = spec.Shard{I: 1, K: 2}
	if got, want := r.signedComment(), " denoiser sha256 "+strings.Repeat("0f", 32)+" data sha256 "; !strings.Contains(got, want) || !strings.HasSuffix(got, " examples 11 seed 1 shard 1/2") {
		t.Error(got)
	}
	r.Model.SHA256, r.Data.SHA256 = "x\ny", strings.Repeat("ab", 33)
	if got := r.signedComment(); !strings.HasPrefix(got, "rscert run: model sha256 unknown ") || !strings.Contains(got, "data sha256 unknown ") {
		t.Error(got)
	}
}

// Merge must sign the merged run with the key that SignWith received. It must not copy the signatures of the shards.
func TestSignedMerge(t *testing.T) {
	key, public := keys(t)
	shardKey, _ := keys(t)
	var dirs []string
	for i := range 3 {
		run := splitRun
		run.Parameters.Shard = spec.Shard{I: i, K: 3}
		run.Data.Selected = len(run.positions())
		dirs = append(dirs, signedRun(t, run, shardKey))
	}
	out, err := merge(t, dirs)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := ReadSignature(out); err != nil || s.KeyID != "" || !slices.Equal(s.Faults, []string{"the run is not signed: it has no manifest.json.minisig"}) {
		t.Errorf("%+v %v", s, err)
	}
	shards, err := OpenShards(dirs)
	if err != nil {
		t.Fatal(err)
	}
	defer shards.Close()
	shards.SignWith(key)
	signed := filepath.Join(t.TempDir(), "signed")
	if err := shards.Merge(t.Context(), signed, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	if faults := verifySigned(t, signed, public); faults != nil {
		t.Error(faults)
	}
	all := everyFile(t, signed)
	delete(all, ManifestFile)
	delete(all, SignatureFile)
	if !maps.Equal(all, everyFile(t, out)) {
		t.Error("signing changed other files of the merge")
	}
}

func TestFolderOf(t *testing.T) {
	key, _ := keys(t)
	dir := signedRun(t, votesRun, key)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, VotesFile), link); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, VotesFile), link} {
		if got, err := FolderOf(path); err != nil || got != dir && got != real {
			t.Errorf("%s: %s %v", path, got, err)
		}
	}
	if _, err := FolderOf(filepath.Join(dir, "none")); !missing(err) {
		t.Error(err)
	}
}
