#!/bin/sh
# Makes all files of a package except the program, in out/package. The argument is the version of rscert.
set -eu
cd "$(dirname "$0")/../.."
folder=out/package
rm -rf "$folder"
mkdir -p "$folder/completions"
# The same flags as goreleaser's, so that Go compiles each package once.
CC=${LINUX_CC:?"is not set: run 'make release-snapshot'"} GOFLAGS="${GOFLAGS-} -trimpath" make --no-print-directory build "VERSION=$1"
bin/rscert man "$folder/man"
go run ./scripts/licenses "$folder/THIRD_PARTY_LICENSES"
gzip -9nk "$folder"/man/*.1
bin/rscert completion bash >"$folder/completions/rscert.bash"
bin/rscert completion fish >"$folder/completions/rscert.fish"
bin/rscert completion zsh >"$folder/completions/_rscert"
# Debian wants a changelog in its own form; it refers to CHANGELOG.md.
cat >"$folder/changelog" <<END
rscert ($(echo "$1" | tr - '~')) unstable; urgency=medium

  * See https://github.com/rscert/rscert/blob/v$1/CHANGELOG.md

 -- The rscert developers <rscert@users.noreply.github.com>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
gzip -9n "$folder/changelog"
