#!/bin/sh
# Stands in for go on machines where go cannot cross-compile: 'prebuilt.sh build … -o FILE …' copies $RSCERT_PREBUILT to
# FILE.
set -eu
while [ $# -gt 1 ]; do
	if [ "$1" = -o ]; then
		exec cp "${RSCERT_PREBUILT:?"is not set: name the program for $GOOS-$GOARCH"}" "$2"
	fi
	shift
done
echo 'prebuilt.sh: want -o FILE' >&2
exit 2
