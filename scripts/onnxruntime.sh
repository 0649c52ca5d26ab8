#!/bin/sh
# Fetch the ONNX Runtime library into the user's cache, where rscert looks for it, and print its path.
#
#   scripts/onnxruntime.sh             the usual build
#   scripts/onnxruntime.sh openvino    the build with Intel's OpenVINO, for x86-64 Linux: PyPI's onnxruntime-openvino (84 MB)
#
# Nothing is downloaded where the right library is in the cache already. Else the sources below are tried in turn with
# whichever tools are there: pip (20 MB), curl or wget (11 MB), npm (112 MB). Whatever the source, the
# library is installed only if its SHA-256 is one of those in internal/onnx/libraries.sha256, where rscert too has them from.
#
# OpenVINO's wheel is fetched by pip, or by curl or wget from the index that PIP_INDEX_URL or pip's configuration names,
# and unpacked by unzip, bsdtar, busybox or 7z; Python, which pip needs, unpacks it only where there is none of these.
#
#   RSCERT_ONNXRUNTIME_FROM=pip|download|npm   try this source only
#   RSCERT_ONNXRUNTIME_URL=URL                 fetch this only: a wheel, npm package, release archive or library; a
#                                              mirror's address, file:///… or a path
#   npm_config_registry=URL                    a mirror of the npm registry that curl or wget may use as well
#
# The cache is the one of Go's os.UserCacheDir: $XDG_CACHE_HOME or ~/.cache, on macOS ~/Library/Caches.

set -eu

flavour=${1:-}
case $flavour in
'' | cpu) version=1.29.0 flavour= ;;
openvino) version=1.24.1-openvino ;;
*)
	printf "onnxruntime: no build is known for DEVICE=%s: want cpu or openvino\n" "$flavour" >&2
	exit 1
	;;
esac
pins=$(dirname "$0")/../internal/onnx/libraries.sha256

# What is fetched will run inside rscert: nobody else may write it.
umask 077

say() { printf 'onnxruntime: %s\n' "$*" >&2; }
die() {
	say "$1"
	[ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2
	exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

platform() {
	case "$(uname -s)/$(uname -m)" in
	Linux/x86_64 | Linux/amd64)
		platform=linux-amd64 file=libonnxruntime.so
		wheel_tag=manylinux_2_28_x86_64 wheel_member=onnxruntime/capi/libonnxruntime.so.$version
		npm_member=package/bin/napi-v6/linux/x64/libonnxruntime.so.1
		release=onnxruntime-linux-x64-$version release_member=lib/libonnxruntime.so.$version
		release_sha256=c3fddc4f139a045b0c4902c57410f0694f1c2fdf9b6939fbe38b1aeae7cd14ba
		;;
	Linux/aarch64 | Linux/arm64)
		platform=linux-arm64 file=libonnxruntime.so
		wheel_tag=manylinux_2_28_aarch64 wheel_member=onnxruntime/capi/libonnxruntime.so.$version
		npm_member=package/bin/napi-v6/linux/arm64/libonnxruntime.so.1
		release=onnxruntime-linux-aarch64-$version release_member=lib/libonnxruntime.so.$version
		release_sha256=e1799098ebc054b370f6176a450f158720f297818c613e5dc99b92e2ec82346f
		;;
	Darwin/arm64)
		platform=darwin-arm64 file=libonnxruntime.dylib
		wheel_tag=macosx_14_0_arm64 wheel_member=onnxruntime/capi/libonnxruntime.$version.dylib
		npm_member=package/bin/napi-v6/darwin/arm64/libonnxruntime.$version.dylib
		release=onnxruntime-osx-arm64-$version release_member=lib/libonnxruntime.$version.dylib
		release_sha256=d0706fc34f315d8c88639d0a8c81f2e09e815f282cabed3493c06a054352cf92
		;;
	*)
		die "no ONNX Runtime $version library is published for $(uname -s) $(uname -m)" \
			"build it from source and name it with RSCERT_ONNXRUNTIME; on Windows, use WSL"
		;;
	esac
	if [ -n "$flavour" ] && [ "$platform" != linux-amd64 ]; then
		die "OpenVINO is fetched for Linux on x86-64 only" "build ONNX Runtime with it and name it with RSCERT_ONNXRUNTIME"
	fi
	case $platform in
	linux-*)
		if [ -n "$(ls /lib/ld-musl-*.so.1 2>/dev/null)" ] && [ -z "$(ls /lib*/ld-linux-*.so.* 2>/dev/null)" ]; then
			die "ONNX Runtime's libraries need glibc, and this system has musl" \
				"use a distribution with glibc, or build the library and name it with RSCERT_ONNXRUNTIME"
		fi
		;;
	esac
}

cache() {
	if [ "$(uname -s)" = Darwin ]; then
		cache=${HOME:?is not set}/Library/Caches
	elif [ -n "${XDG_CACHE_HOME:-}" ]; then
		cache=$XDG_CACHE_HOME
		case $cache in
		/*) ;;
		*) die "XDG_CACHE_HOME is '$cache', not an absolute path" ;;
		esac
	else
		cache=${HOME:?is not set}/.cache
	fi
}

sha256() {
	if have sha256sum; then
		sha256sum <"$1" | cut -d ' ' -f 1
	elif have shasum; then
		shasum -a 256 <"$1" | cut -d ' ' -f 1
	elif have openssl; then
		openssl dgst -sha256 -r <"$1" | cut -d ' ' -f 1
	else
		die "nothing here can compute a SHA-256" "install sha256sum, shasum or openssl"
	fi
}

# is_pinned FILE NAME: FILE is the published NAME of this platform.
is_pinned() {
	found=$(sha256 "$1")
	while read -r hash place _; do
		if [ "$hash" = "$found" ] && [ "$place" = "$version/$platform/$2" ]; then return 0; fi
	done <"$pins"
	return 1
}

# get URL FILE
get() {
	case $1 in
	file://*) cp "${1#file://}" "$2" ;;
	*://*)
		if have curl; then
			curl -fsSL --connect-timeout 10 -o "$2" "$1"
		elif have wget; then
			# GNU wget would try a silent host 20 times; others try once and do not know the flag.
			tries=
			if wget --version 2>/dev/null | grep -q GNU; then tries=-t1; fi
			wget -q -T 30 $tries -O "$2" "$1"
		else
			say "neither curl nor wget is there to fetch $1"
			return 1
		fi
		;;
	*) cp "$1" "$2" ;;
	esac
}

# unpack ARCHIVE MEMBER: MEMBER of a .tgz becomes $tmp/library.
unpack() {
	have tar || die "tar is needed to unpack ONNX Runtime" "install tar"
	tar -xzOf "$1" "$2" >"$tmp/library"
}

# find_pip sets pip to the command that runs it.
find_pip() {
	pip=
	for candidate in pip3 pip 'python3 -m pip' 'python -m pip'; do
		# shellcheck disable=SC2086 # two words are meant to be two
		if have "${candidate%% *}" && $candidate --version >/dev/null 2>&1; then
			pip=$candidate
			break
		fi
	done
	[ -n "$pip" ]
}

from_pip() {
	find_pip || return 2
	say "fetching $version with $pip"
	# Only unpacked, for the platform and a Python named here: the Python that runs pip does not matter.
	# shellcheck disable=SC2086
	PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_ROOT_USER_ACTION=ignore $pip install --quiet --disable-pip-version-check --no-input --no-cache-dir \
		--no-deps --no-compile --only-binary=:all: --implementation cp --python-version 3.12 --platform "$wheel_tag" \
		--target "$tmp/wheel" "onnxruntime==$version" >&2 || return 1
	mv "$tmp/wheel/$wheel_member" "$tmp/library"
}

from_npm() {
	have npm || return 2
	say "fetching $version with npm"
	(cd "$tmp" && npm pack "onnxruntime-node@$version" --silent --ignore-scripts --cache "$tmp/npm" >/dev/null) >&2 || return 1
	unpack "$tmp/onnxruntime-node-$version.tgz" "$npm_member"
}

from_download() {
	have curl || have wget || return 2
	say "fetching $release.tgz"
	if get "https://github.com/microsoft/onnxruntime/releases/download/v$version/$release.tgz" "$tmp/release.tgz"; then
		found=$(sha256 "$tmp/release.tgz")
		if [ "$found" = "$release_sha256" ]; then
			unpack "$tmp/release.tgz" "$release/$release_member"
			return
		fi
		say "refused $release.tgz: its SHA-256 is $found, not $release_sha256"
	fi
	registry=${npm_config_registry:-}
	if [ -z "$registry" ] && [ -f "${HOME:-}/.npmrc" ]; then
		registry=$(sed -n 's/^ *registry *= *//p' "$HOME/.npmrc" | tail -n 1)
	fi
	[ -n "$registry" ] || return 1
	say "fetching $version from the npm registry that is configured here"
	get "${registry%/}/onnxruntime-node/-/onnxruntime-node-$version.tgz" "$tmp/package.tgz" || return 1
	unpack "$tmp/package.tgz" "$npm_member"
}

from_url() {
	say "fetching $RSCERT_ONNXRUNTIME_URL"
	get "$RSCERT_ONNXRUNTIME_URL" "$tmp/fetched" || return 1
	case $RSCERT_ONNXRUNTIME_URL in
	*.tgz | *.tar.gz)
		for member in "$npm_member" "$release/$release_member"; do
			if unpack "$tmp/fetched" "$member" 2>/dev/null; then return 0; fi
		done
		say "$RSCERT_ONNXRUNTIME_URL holds neither $npm_member nor $release/$release_member"
		return 1
		;;
	*.whl)
		have unzip || die "unzip is needed to unpack a wheel" "install unzip, or name another file"
		unzip -p "$tmp/fetched" "$wheel_member" >"$tmp/library"
		;;
	*) mv "$tmp/fetched" "$tmp/library" ;;
	esac
}

# The wheel with OpenVINO. Any Python's has the same libraries; this one's hash is pinned.
openvino_wheel=onnxruntime_openvino-1.24.1-cp312-cp312-manylinux_2_28_x86_64.whl
openvino_sha256=d617fac2f59a6ab5ea59a788c3e1592240a129642519aaeaa774761dfe35150e

# fetch_wheel SOURCE: the wheel becomes $tmp/$openvino_wheel.
fetch_wheel() {
	case $1 in
	url) get "$RSCERT_ONNXRUNTIME_URL" "$tmp/$openvino_wheel" ;;
	pip)
		find_pip || return 2
		say "fetching $openvino_wheel with $pip"
		# shellcheck disable=SC2086
		$pip download --quiet --disable-pip-version-check --no-input --no-cache-dir --no-deps --only-binary=:all: --implementation cp \
			--python-version 3.12 --platform manylinux_2_28_x86_64 --dest "$tmp" onnxruntime-openvino==1.24.1 >&2
		;;
	download)
		have curl || have wget || return 2
		index=${PIP_INDEX_URL:-}
		for config in "${PIP_CONFIG_FILE:-}" "${HOME:-}/.config/pip/pip.conf" "${HOME:-}/.pip/pip.conf" /etc/pip.conf; do
			if [ -z "$index" ] && [ -f "$config" ]; then index=$(sed -n 's/^ *index-url *= *//p' "$config" | tail -n 1); fi
		done
		[ -n "$index" ] || return 1
		get "${index%/}/onnxruntime-openvino/" "$tmp/index" || return 1
		link=$(sed -n "s|.*href=\"\([^\"#]*$openvino_wheel\)[\"#].*|\1|p" "$tmp/index" | head -n 1)
		case $link in
		'') return 1 ;;
		*://*) ;;
		*) link=${index%/}/onnxruntime-openvino/$link ;;
		esac
		say "fetching $openvino_wheel"
		get "$link" "$tmp/$openvino_wheel"
		;;
	*) return 2 ;;
	esac
}

# unzip_wheel FOLDER
unzip_wheel() {
	if have unzip; then
		unzip -q -o "$tmp/$openvino_wheel" 'onnxruntime/capi/*.so*' -d "$1"
	elif have bsdtar; then
		mkdir -p "$1" && bsdtar -xf "$tmp/$openvino_wheel" -C "$1"
	elif have busybox; then
		busybox unzip -q -o "$tmp/$openvino_wheel" -d "$1"
	elif have 7z; then
		7z x -bd -y -o"$1" "$tmp/$openvino_wheel" >/dev/null
	elif have python3; then
		python3 -m zipfile -e "$tmp/$openvino_wheel" "$1"
	else
		die "nothing here can unpack a wheel" "install unzip, bsdtar, busybox or 7z"
	fi
}

# install_openvino SOURCE: puts all of its libraries into $folder, the one that rscert looks for last.
install_openvino() {
	fetch_wheel "$1" || return
	found=$(sha256 "$tmp/$openvino_wheel")
	if [ "$found" != "$openvino_sha256" ]; then
		say "refused the wheel from $1: its SHA-256 is $found, not $openvino_sha256"
		return 1
	fi
	unzip_wheel "$tmp/wheel" || return 1
	mv "$tmp/wheel/onnxruntime/capi/libonnxruntime.so.1.24.1" "$tmp/wheel/onnxruntime/capi/$file" || return 1
	for name in $openvino_files $file; do
		is_pinned "$tmp/wheel/onnxruntime/capi/$name" "$name" || return 1
		mv -f "$tmp/wheel/onnxruntime/capi/$name" "$folder/$name" || return 1
	done
}

# complete: all the libraries of the flavour are there, as they were published.
complete() {
	for name in $openvino_files $file; do
		[ -f "$folder/$name" ] && is_pinned "$folder/$name" "$name" || return 1
	done
}

platform
cache
folder=$cache/rscert/onnxruntime/$version/$platform
library=$folder/$file

if [ -d "$cache/rscert" ]; then chmod 700 "$cache/rscert"; fi # made by an earlier version
openvino_files=
if [ -n "$flavour" ]; then
	while read -r _ name _; do
		case $name in
		"$version/$platform/$file") ;;
		"$version/$platform/"*) openvino_files="$openvino_files ${name##*/}" ;;
		esac
	done <"$pins"
fi
if [ -f "$library" ]; then
	if complete; then
		printf '%s\n' "$library"
		exit 0
	fi
	say "$library is not the published library (SHA-256 $found): fetching it again"
fi

mkdir -p "$folder" 2>/dev/null && tmp=$(mktemp -d "$folder/.fetch.XXXXXX" 2>/dev/null) ||
	die "cannot write to $folder" "set XDG_CACHE_HOME to a folder that can be written (not on macOS), or name a library with RSCERT_ONNXRUNTIME"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if [ -n "${RSCERT_ONNXRUNTIME_URL:-}" ]; then
	sources=url
else
	sources=${RSCERT_ONNXRUNTIME_FROM:-pip download npm}
	[ -z "$flavour" ] || sources=${RSCERT_ONNXRUNTIME_FROM:-pip download}
fi
tried=
for source in $sources; do
	case $source in
	pip | download | npm | url) ;;
	*) die "RSCERT_ONNXRUNTIME_FROM is '$source', not pip, download or npm" ;;
	esac
	status=0
	if [ -n "$flavour" ]; then
		install_openvino "$source" || status=$?
		if [ "$status" = 0 ]; then
			printf '%s\n' "$library"
			exit 0
		fi
	else
		"from_$source" || status=$?
	fi
	if [ "$status" = 0 ] && [ -s "$tmp/library" ]; then
		if is_pinned "$tmp/library" "$file"; then
			mv -f "$tmp/library" "$library"
			printf '%s\n' "$library"
			exit 0
		fi
		say "refused the library from $source: its SHA-256, $found, is not a pinned one"
		tried="$tried, $source (wrong SHA-256)"
	elif [ "$status" = 2 ]; then
		tried="$tried, $source (not installed)"
	else
		tried="$tried, $source (failed)"
	fi
	rm -rf "$tmp/library"
done
die "no ONNX Runtime $version could be fetched: tried${tried#,}" \
	"install pip, npm, curl or wget, check the network or proxy, or name a library with RSCERT_ONNXRUNTIME (a file) or RSCERT_ONNXRUNTIME_URL"
