#!/bin/sh
# Runs goreleaser. 'release.sh snapshot' builds a release of HEAD into out/release and publishes nothing. 'release.sh
# publish' publishes the release of the tag at HEAD. $RSCERT_TARGETS lists the platforms. macOS needs $RSCERT_PREBUILT.
set -eu
cd "$(dirname "$0")/../.."
PATH=${RELEASE_TOOLS:?"is not set: run 'make release-snapshot'"}:$PATH
LINUX_CC=$PWD/scripts/release/linux_cc.sh
RSCERT_TARGETS=${RSCERT_TARGETS:-linux-amd64 linux-arm64}
# Python writes 0.1.0-dev0 as 0.1.0.dev0.
RSCERT_VERSION=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' python/src/rscert/__init__.py | sed 's/\.dev/-dev/')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
# goreleaser takes the commit and its time from git only if there is a remote.
if ! git remote | grep -q .; then
	GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/rscert/rscert
	export GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0
fi
export PATH LINUX_CC RSCERT_TARGETS RSCERT_VERSION SOURCE_DATE_EPOCH
case $1 in
snapshot)
	goreleaser check --quiet
	goreleaser release --clean --snapshot "--skip=${RSCERT_SKIP:-publish}"
	;;
publish)
	git tag --points-at HEAD | grep -q -x -F "v$RSCERT_VERSION" ||
		{ echo "release.sh: HEAD has no tag v$RSCERT_VERSION, the version of python/src/rscert/__init__.py" >&2; exit 2; }
	notes=$(mktemp)
	trap 'rm -f "$notes"' EXIT
	awk -v version="$RSCERT_VERSION" '/^## /{inside = index($0, version)} inside && !/^## /' CHANGELOG.md >"$notes"
	grep -q . "$notes" || { echo "release.sh: CHANGELOG.md has no section $RSCERT_VERSION" >&2; exit 2; }
	goreleaser release --clean --release-notes "$notes"
	;;
*) echo "release.sh: want snapshot or publish, not $1" >&2; exit 2 ;;
esac
