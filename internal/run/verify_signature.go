package run

import (
	"context"

	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/signature"
	"github.com/rscert/rscert/internal/spec"
)

// Signature describes a run's signature, as 'verify --json' prints it.
type Signature struct {
	// Key is the id of the key that the signature names. It proves nothing unless Verified is true.
	Key string `json:"key"`
	// Comment is the signed comment. It is set only if Verified is true.
	Comment  string `json:"comment,omitempty"`
	Verified bool   `json:"verified"`
}

// judgeSignature uses the argument 'key' to check the signature of the run in dir. If key is nil, judgeSignature only
// reports which key the signature names.
func (v *verifier) judgeSignature(ctx context.Context, dir string, key *signature.PublicKey) error {
	var state runfolder.SignatureState
	var err error
	if key == nil {
		state, err = runfolder.ReadSignature(dir)
	} else {
		state, err = runfolder.VerifySignature(ctx, dir, *key)
	}
	if err != nil {
		return err
	}
	if state.KeyID != "" {
		v.Signature = &Signature{state.KeyID, state.Comment, state.Verified}
	}
	switch {
	case key != nil:
		v.judge(checkSignature, state.Faults, "the key "+state.KeyID+" signed these files: "+state.Comment)
	case state.KeyID != "":
		v.skip(checkSignature, "the run names the key %s as its signer; %s checks that", state.KeyID, param.Key)
	default:
		v.skip(checkSignature, "%s", state.Faults[0])
	}
	return nil
}

// judgeUnreadable judges a folder by its signature if the folder's run cannot be read. If the user gives a key and the
// signature does not verify, the verdict says that the run is not valid. Otherwise judgeUnreadable returns the argument
// 'unreadable', which is the error of reading the run.
func judgeUnreadable(ctx context.Context, path string, key *signature.PublicKey, spell param.Spelling, unreadable error) (Verdict, error) {
	unreadable = spec.BadInput(unreadable)
	dir, err := runfolder.FolderOf(path)
	if err != nil || key == nil {
		return Verdict{}, unreadable
	}
	v := &verifier{Holdings: &runfolder.Holdings{}, Verdict: Verdict{Run: path}, spell: spell}
	if err := v.judgeSignature(ctx, dir, key); err != nil || v.Signature == nil || v.Signature.Verified {
		return Verdict{}, unreadable
	}
	v.judge(checkLines, []string{param.Spell(unreadable, spell)}, "")
	return v.decide(), nil
}
