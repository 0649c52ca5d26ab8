#!/bin/sh
# Packs this machine's release of HEAD twice, in different folders, once with an empty cache, and compares the bytes.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
RSCERT_TARGETS=linux-$(go env GOARCH)
export RSCERT_TARGETS
pack() { # FOLDER GOCACHE
	git clone --quiet . "$work/$1"
	(cd "$work/$1" && GOCACHE=$2 scripts/release.sh snapshot)
}
pack one "$(go env GOCACHE)"
pack another/and/deeper "$work/cache"
cmp "$work/one/out/release/SHA256SUMS" "$work/another/and/deeper/out/release/SHA256SUMS"
cat "$work/one/out/release/SHA256SUMS"
