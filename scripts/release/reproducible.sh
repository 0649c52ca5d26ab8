#!/bin/sh
# Packs this machine's release of HEAD twice, in different folders, once with an empty cache, and compares the bytes.
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
