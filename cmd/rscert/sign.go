package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/signature"
	"github.com/rscert/rscert/internal/warning"
)

// passwordEnv is the name of the environment variable that holds the password of an encrypted key.
const passwordEnv = "RSCERT_SIGN_PASSWORD"

// signOptions are the flags for signing a run.
type signOptions struct {
	file, passwordFile string
	flags              *pflag.FlagSet // nil when slurm merges shards, because slurm does not sign
}

// add adds the flags for signing.
func (o *signOptions) add(f *pflag.FlagSet) {
	o.flags = f
	f.StringVar(&o.file, "sign", "", "sign the finished run with the secret key in this `file`; 'minisign -G' makes such a key")
	f.StringVar(&o.passwordFile, "sign-password-file", "", "with --sign, a `file` whose first line is the password of the key; default: $"+passwordEnv+", or else rscert asks for the password at the terminal")
}

func (o signOptions) given() bool {
	return o.flags != nil && (o.flags.Changed("sign") || o.flags.Changed("sign-password-file"))
}

// key reads the secret key before the work starts. So a wrong password is an error at once, not after hours of
// sampling. Without --sign, it returns nil.
func (o signOptions) key(ctx context.Context, s streams) (*signature.SecretKey, error) {
	switch {
	case !o.given():
		return nil, nil
	case !o.flags.Changed("sign"):
		return nil, badInputf("--sign-password-file is of no use without --sign")
	case o.file == "": // an empty name can come from an unset variable in a script that should sign the run
		return nil, badInputf("--sign is empty: name a key file")
	}
	if signature.Exposed(o.file) {
		if err := s.warnf(warning.ExposedKey, "%s: others can read the secret key; 'chmod 600' keeps it to you", o.file); err != nil {
			return nil, err
		}
	}
	key, err := signature.ReadSecretKey(o.file, func() (string, error) { return o.password(ctx, s.err) })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, badInput(fmt.Errorf("--sign %w", err))
	}
	return &key, nil
}

// password returns the password of the key: from the file, the environment or the terminal, in this order.
func (o signOptions) password(ctx context.Context, prompt io.Writer) (string, error) {
	if o.flags.Changed("sign-password-file") {
		return readPassword(o.passwordFile)
	}
	if password, ok := os.LookupEnv(passwordEnv); ok {
		return password, nil
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", hint.New("the key is encrypted, and there is no terminal to ask for its password",
			"give the password by "+passwordEnv+" or --sign-password-file")
	}
	defer terminal.Close()
	fmt.Fprintf(prompt, "password of %s: ", quote.Line(o.file))
	password, err := askPassword(ctx, int(terminal.Fd()))
	fmt.Fprintln(prompt)
	return password, err
}

// askPassword reads a line from a terminal without showing it. If the context ends first, askPassword restores the
// terminal's settings, and the terminal shows typed text again.
func askPassword(ctx context.Context, terminal int) (string, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return "", err
	}
	type answer struct {
		password []byte
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		password, err := term.ReadPassword(terminal)
		answers <- answer{password, err}
	}()
	select {
	case a := <-answers:
		return string(a.password), a.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(terminal, before))
	}
}

// readPassword returns the first line of a file, which may be a pipe.
func readPassword(path string) (string, error) {
	const longest = 4096 // minisign's limit is 1024
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

// publicKey reads the key of --key. It returns nil without --key. It refuses an empty file name, which can come from an
// unset variable in a script. Without this error, the signature would not be checked, and a run without a signature
// would count as VALID.
func publicKey(path *string) (*signature.PublicKey, error) {
	if path == nil {
		return nil, nil
	}
	if *path == "" {
		return nil, badInputf("--key is empty: name a public key file")
	}
	key, err := signature.ReadPublicKey(*path)
	if err != nil {
		return nil, badInput(fmt.Errorf("--key %w", err))
	}
	return &key, nil
}
