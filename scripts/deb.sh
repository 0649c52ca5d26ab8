#!/bin/sh
# Packs a Debian package of HEAD for this machine into out/deb, with its SHA-256, by nfpm.
set -eu
cd "$(dirname "$0")/.."
mkdir -p out/deb/man
DEB_VERSION=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' python/src/rscert/__init__.py | sed 's/\.dev/~dev/')
DEB_ARCH=$(go env GOARCH)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export DEB_VERSION DEB_ARCH SOURCE_DATE_EPOCH
GOFLAGS=-trimpath go build -ldflags "-s -w -X main.builtVersion=$DEB_VERSION -X main.builtCommit=$(git rev-parse HEAD)" -o out/deb/rscert ./cmd/rscert
rm -f out/deb/man/* out/deb/*.deb
out/deb/rscert man out/deb/man
out/deb/rscert completion bash >out/deb/rscert.bash
${NFPM:-go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4} package -f packaging/nfpm.yaml -p deb -t out/deb/
(cd out/deb && sha256sum ./*.deb >SHA256SUMS && cat SHA256SUMS)
