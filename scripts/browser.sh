#!/bin/sh
# Installs the tools for the test of the HTML page. If the system has no Chromium or Chrome, apt-get installs Chromium.
# npm installs axe-core into the user's cache.
set -eu
AXE=4.14.1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rscert/browser
found=
for name in chromium chromium-browser google-chrome; do
	if command -v $name >/dev/null; then found=$name; fi
done
if [ -z "$found" ]; then
	as=
	[ "$(id -u)" = 0 ] || as="sudo -n"
	$as apt-get update -qq
	DEBIAN_FRONTEND=noninteractive $as apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi
if ! grep -q "\"version\": \"$AXE\"" "$cache/node_modules/axe-core/package.json" 2>/dev/null; then
	mkdir -p "$cache"
	npm install --silent --no-audit --no-fund --prefix "$cache" "axe-core@$AXE"
fi
