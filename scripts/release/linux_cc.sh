#!/bin/sh
# Runs zig as a C compiler for Linux on $GOARCH, which Go sets. It runs on any system and links against an old glibc.
case $GOARCH in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*) echo "linux_cc.sh: no rscert for linux-$GOARCH" >&2; exit 2 ;;
esac
exec "${WHEEL_TOOLS:?"is not set: run make"}/bin/python" -I -m ziglang cc -target "$machine-linux-gnu.2.17" "$@"
