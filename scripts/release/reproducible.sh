#!/bin/sh
# Packs the release of HEAD for this machine twice, in different folders, and compares the bytes. The second time Go's
# cache is empty.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
RSCERT_TARGETS=linux-$(go env GOARCH)
export RSCERT_TARGETS
pack() { # FROM FOLDER GOCACHE
	git clone --quiet "$1" "$work/$2"
	(cd "$work/$2" && GOCACHE=$3 scripts/release/release.sh snapshot)
}
pack . one "$(go env GOCACHE)"
pack "$work/one" another/and/deeper "$work/cache"
cmp "$work/one/out/release/SHA256SUMS" "$work/another/and/deeper/out/release/SHA256SUMS"
cat "$work/one/out/release/SHA256SUMS"
