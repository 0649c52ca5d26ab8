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

// commitVariables are the variables in which CI systems give the commit: GitHub Actions, GitLab, Jenkins, Azure
// Pipelines, Bitbucket, CircleCI and Travis CI.
var commitVariables = []string{"GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILD_SOURCEVERSION", "BITBUCKET_COMMIT", "CIRCLE_SHA1", "TRAVIS_COMMIT"}

// FindCommit returns the present commit: from a variable of a CI system, or from the git repository that holds the
// folder. It reads the repository's files and runs no program, because a repository can name programs for git to run.
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

// findGit returns the folder .git of the repository that holds a folder. In a worktree, .git is a file that holds the
// path of the real folder.
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

// named reads a file of one line, which holds a prefix and a path, and returns the path. A relative path begins at the
// folder.
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
	common := git // the branches of a worktree are in the folder whose path is in the file commondir
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
