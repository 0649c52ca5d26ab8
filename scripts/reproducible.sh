#!/bin/sh
# Packs this machine's release of HEAD twice, in different folders, with different caches, and compares the bytes.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
RSCERT_TARGETS=linux-$(go env GOARCH)
export RSCERT_TARGETS
for folder in one another/and/deeper; do
	git clone --quiet . "$work/$folder"
	(cd "$work/$folder" && GOCACHE="$work/cache-${folder%%/*}" scripts/release.sh snapshot)
done
cmp "$work/one/out/release/SHA256SUMS" "$work/another/and/deeper/out/release/SHA256SUMS"
cat "$work/one/out/release/SHA256SUMS"
