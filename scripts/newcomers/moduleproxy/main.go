// Moduleproxy writes a commit of a repository into a folder. With GOPROXY=file://FOLDER, the go command can read the
// module from this folder. The folder has the files that a module proxy serves after the commit is published.
// Moduleproxy also checks the names and sizes of the files, as the proxy does.
//
//	go run . REPOSITORY REVISION FOLDER
//
// It prints the commit's pseudo-version. In the folder, the query @latest gives the same version.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("moduleproxy: ")
	if len(os.Args) != 4 {
		log.Fatal("usage: moduleproxy REPOSITORY REVISION FOLDER")
	}
	version, err := write(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(version)
}

// write puts the commit's module into the folder and returns the module's version.
func write(repository, revision, folder string) (string, error) {
	gomod, err := git(repository, "show", revision+":go.mod")
	if err != nil {
		return "", err
	}
	commit, err := git(repository, "log", "-1", "--format=%ct %H", revision)
	if err != nil {
		return "", err
	}
	var seconds int64
	var hash string
	if _, err := fmt.Sscan(string(commit), &seconds, &hash); err != nil {
		return "", err
	}
	made := time.Unix(seconds, 0).UTC()
	m := module.Version{
		Path:    modfile.ModulePath(gomod),
		Version: module.PseudoVersion("v0", "", made, hash[:12]),
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return "", err
	}
	base := filepath.Join(folder, filepath.FromSlash(escaped))
	if err := os.MkdirAll(filepath.Join(base, "@v"), 0o755); err != nil {
		return "", err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.Version, made})
	if err != nil {
		return "", err
	}
	for name, text := range map[string][]byte{
		"@latest":                   info,
		"@v/list":                   nil, // empty, because a proxy lists no pseudo-versions
		"@v/" + m.Version + ".info": info,
		"@v/" + m.Version + ".mod":  gomod,
	} {
		if err := os.WriteFile(filepath.Join(base, name), text, 0o644); err != nil {
			return "", err
		}
	}
	archive, err := os.Create(filepath.Join(base, "@v", m.Version+".zip"))
	if err != nil {
		return "", err
	}
	if err := zip.CreateFromVCS(archive, m, repository, revision, ""); err != nil {
		return "", err
	}
	return m.Version, archive.Close()
}

func git(repository string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", append([]string{"-C", repository}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
