package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// 'make build' sets builtVersion and builtCommit with linker flags such as -ldflags '-X main.builtVersion=v1.2.3'. Go
// itself does not record the version and the commit if the flag -buildvcs=false is given or if the sources are outside
// the repository. Outside the repository, the user gives the version: make build VERSION=v1.2.3.
var builtVersion, builtCommit string

// version returns the version that the build set. Otherwise, it returns the version that Go recorded for the module, or
// "unknown".
func version() string {
	if builtVersion != "" {
		return builtVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// commit returns the commit of the source.
func commit() string {
	if builtCommit != "" {
		return builtCommit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	stamp := map[string]string{}
	for _, s := range info.Settings {
		stamp[s.Key] = s.Value
	}
	switch {
	case stamp["vcs.revision"] == "":
		return "unknown"
	case stamp["vcs.modified"] == "true":
		return stamp["vcs.revision"] + ", changed since"
	}
	return stamp["vcs.revision"]
}

// versionText is what --version prints.
func versionText() string {
	return fmt.Sprintf("rscert %s\ncommit %s\n%s %s/%s\n",
		version(), commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
