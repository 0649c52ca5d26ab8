package history

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
)

// commitVariables are the environment variables that hold the commit in CI systems: GitHub Actions, GitLab, Jenkins,
// Azure Pipelines, Bitbucket, CircleCI and Travis CI.
var commitVariables = []string{"GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILD_SOURCEVERSION", "BITBUCKET_COMMIT", "CIRCLE_SHA1", "TRAVIS_COMMIT"}

// FindCommit returns the current commit. It looks for an environment variable of a CI system, then for the git
// repository that holds the folder. It reads the repository's files directly. It does not run git, because the settings
// of a repository can make git run other programs.
func FindCommit(folder string) (string, error) {
	for _, name := range commitVariables {
		if commit := os.Getenv(name); commit != "" {
			return commit, CheckCommit(commit)
		}
	}
	if git, err := findGit(folder); err == nil {
		if commit, err := head(git); err == nil {
			return commit, CheckCommit(commit)
		}
	}
	return "", hint.Add(errors.New("the commit is not known: there is no git repository, and no variable of a CI system names the commit"), "give it by %s", param.Commit)
}

var errNoRepository = errors.New("no git repository")

// findGit finds the git repository that contains the given folder. It returns the path of the repository's folder .git.
// In a worktree, .git is a file that holds the path of the real folder.
func findGit(folder string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	for {
		path := filepath.Join(folder, ".git")
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			return path, nil
		}
		if err == nil {
			return named(path, "gitdir: ", folder)
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errNoRepository
		}
		folder = parent
	}
}

// named returns the path that a file holds. The file has one line: the prefix, then the path. If the path is relative,
// named joins it to the argument 'folder'.
func named(file, prefix, folder string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(string(text)), prefix)
	if !ok {
		return "", errNoRepository
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return path, nil
}

// head returns the commit of HEAD.
func head(git string) (string, error) {
	text, err := os.ReadFile(filepath.Join(git, "HEAD"))
	if err != nil {
		return "", err
	}
	ref, symbolic := strings.CutPrefix(strings.TrimSpace(string(text)), "ref: ")
	if !symbolic {
		return ref, nil
	}
	if !filepath.IsLocal(ref) {
		return "", errNoRepository
	}
	common := git // in a worktree, the file 'commondir' holds the path of the folder with the branches
	if path, err := named(filepath.Join(git, "commondir"), "", git); err == nil {
		common = path
	}
	if commit, err := os.ReadFile(filepath.Join(common, ref)); err == nil {
		return strings.TrimSpace(string(commit)), nil
	}
	packed, err := os.ReadFile(filepath.Join(common, "packed-refs"))
	if err != nil {
		return "", err
	}
	lines := bufio.NewScanner(bytes.NewReader(packed))
	for lines.Scan() {
		if commit, name, ok := strings.Cut(lines.Text(), " "); ok && name == ref {
			return commit, nil
		}
	}
	return "", errNoRepository
}
