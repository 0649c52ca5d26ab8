#!/bin/sh
# Builds rscert of HEAD twice, in different folders, with different caches, and compares the bytes.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
for folder in one another/and/deeper; do
	mkdir -p "$work/$folder"
	git archive HEAD | tar -x -C "$work/$folder"
	(cd "$work/$folder" && GOCACHE="$work/cache-${folder%%/*}" GOFLAGS=-trimpath CGO_ENABLED=1 \
		go build -buildvcs=false -ldflags '-s -w' -o rscert ./cmd/rscert)
done
cmp "$work/one/rscert" "$work/another/and/deeper/rscert"
sha256sum "$work/one/rscert" | cut -d' ' -f1
