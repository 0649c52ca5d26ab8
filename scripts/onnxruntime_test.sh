#!/bin/sh
# Test scripts/onnxruntime.sh without the network: pip, npm and curl are stand-ins that hand out the library that is in
# the cache already, or a damaged copy, in the packaging of each source. Needs 'make onnxruntime' to have run.

set -eu
umask 022

cd "$(dirname "$0")/.."
real=$(scripts/onnxruntime.sh)
platform=$(basename "$(dirname "$real")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0

# The tools of a small system, without pip, npm, curl and wget.
mkdir "$work/tools"
for tool in sh sed cut cat cp mv rm mkdir mktemp ls uname tail chmod tar gzip gunzip unzip sha256sum shasum openssl env dirname basename; do
	path=$(command -v "$tool" || true)
	[ -z "$path" ] || ln -s "$path" "$work/tools/$tool"
done

# stand_in NAME: the rest of the arguments of the call are in "$@" of the program on standard input. Each call is logged.
stand_in() {
	mkdir -p "$work/$1"
	{
		printf '#!/bin/sh\nset -eu\necho "%s $*" >>"%s/calls"\n' "$1" "$work"
		cat
	} >"$work/$1/$1"
	chmod +x "$work/$1/$1"
}

stand_in pip3 <<END
[ "\$1" != --version ] || exit 0
while [ "\$1" != --target ]; do shift; done
mkdir -p "\$2/onnxruntime/capi"
cp "\$SERVED" "\$2/onnxruntime/capi/libonnxruntime.so.1.29.0"
cp "\$SERVED" "\$2/onnxruntime/capi/libonnxruntime.1.29.0.dylib"
END
stand_in npm <<END
for os in linux/x64/libonnxruntime.so.1 linux/arm64/libonnxruntime.so.1 darwin/arm64/libonnxruntime.1.29.0.dylib; do
	mkdir -p package/bin/napi-v6/\${os%/*}
	cp "\$SERVED" package/bin/napi-v6/\$os
done
tar -cf - package | gzip -1 >onnxruntime-node-1.29.0.tgz
END
stand_in curl <<END
while [ "\$1" != -o ]; do shift; done
case \$3 in
https://github.com/*)
	[ -n "\${RELEASE:-}" ] || exit 22
	cp "\$RELEASE" "\$2"
	exit
	;;
esac
mkdir "\$2.d"
cd "\$2.d"
npm pack
mv onnxruntime-node-1.29.0.tgz "\$2"
END

head -c 100000 "$real" >"$work/damaged"

# fetch TOOLS [VARIABLE=VALUE…]: runs the script with those stand-ins and an own cache; output in out, err; status in $status.
fetch() {
	path=$work/tools
	for tool in $1; do path=$path:$work/$tool; done
	shift
	: >"$work/calls"
	status=0
	env -i PATH="$path" HOME="$work/home" XDG_CACHE_HOME="$work/home/.cache" SERVED="$real" "$@" scripts/onnxruntime.sh \
		>"$work/out" 2>"$work/err" || status=$?
}

cached=$work/home/.cache/rscert/onnxruntime/1.29.0/$platform/$(basename "$real")
[ "$(uname -s)" != Darwin ] || cached=$work/home/Library/Caches/rscert/onnxruntime/1.29.0/$platform/$(basename "$real")

fail() {
	printf 'FAIL: %s (status %s)\n' "$1" "$status"
	cat "$work/out" "$work/err" "$work/calls"
	exit 1
}
# private: the cache is the user's alone.
private() {
	[ -z "$(find "$work/home" -path '*/rscert' \( -perm -040 -o -perm -020 -o -perm -004 -o -perm -002 \))" ] || fail 'the cache is open to others'
}
# installed WHAT: the real library is in the cache, nothing beside it, and its path was printed.
installed() {
	private
	[ "$status" = 0 ] && cmp -s "$real" "$cached" && [ "$(cat "$work/out")" = "$cached" ] &&
		[ "$(ls -A "$(dirname "$cached")")" = "$(basename "$cached")" ] || fail "$1"
	passed=$((passed + 1))
}
# refused WHAT MESSAGE: it failed, said so, and left nothing in the cache.
refused() {
	[ "$status" = 1 ] && grep -q "$2" "$work/err" && [ ! -e "$cached" ] && [ ! -s "$work/out" ] &&
		[ -z "$(find "$work/home" -type f)" ] || fail "$1"
	passed=$((passed + 1))
}
called() {
	grep -q "$2" "$work/calls" || fail "$1"
}
empty() { rm -rf "${work:?}/home" && mkdir "$work/home"; }

empty
fetch pip3
installed 'pip alone'
called 'pip alone' '^pip3 install .*onnxruntime==1.29.0'

chmod 755 "${cached%/onnxruntime/*}"
fetch 'pip3 npm curl' SERVED="$work/damaged"
installed 'nothing is fetched the second time'
[ ! -s "$work/calls" ] || fail 'nothing is fetched the second time'

cp "$work/damaged" "$cached"
fetch pip3
installed 'a damaged library in the cache is replaced'

empty
fetch npm
installed 'npm alone'
called 'npm alone' '^npm pack onnxruntime-node@1.29.0'

empty
fetch 'curl npm' RSCERT_ONNXRUNTIME_FROM=download npm_config_registry=https://registry.invalid/npm/
installed 'curl with a mirror of the registry, where the release cannot be reached'
called 'the release is tried first' 'github.com/microsoft/onnxruntime/releases/download/v1.29.0/'
called 'then the mirror' 'https://registry.invalid/npm/onnxruntime-node/-/onnxruntime-node-1.29.0.tgz'

empty
fetch 'curl npm' RSCERT_ONNXRUNTIME_FROM=download npm_config_registry=https://registry.invalid SERVED="$work/damaged"
refused 'a damaged package is refused' 'its SHA-256, .*, is not a pinned one'

fetch pip3 SERVED="$work/damaged"
refused 'a damaged wheel is refused' 'its SHA-256, .*, is not a pinned one'

fetch 'pip3 npm' RSCERT_ONNXRUNTIME_FROM=wget
refused 'an unknown source' "RSCERT_ONNXRUNTIME_FROM is 'wget'"

fetch ''
refused 'no tool at all' 'tried pip (not installed), download (not installed), npm (not installed)'

fetch curl
refused 'no network' 'pip (not installed), download (failed), npm (not installed)'

fetch '' RSCERT_ONNXRUNTIME_URL="file://$real"
installed 'a library by URL'

empty
case $platform in
linux-amd64) release=onnxruntime-linux-x64-1.29.0 name=libonnxruntime.so.1.29.0 ;;
linux-arm64) release=onnxruntime-linux-aarch64-1.29.0 name=libonnxruntime.so.1.29.0 ;;
*) release=onnxruntime-osx-arm64-1.29.0 name=libonnxruntime.1.29.0.dylib ;;
esac
mkdir -p "$work/$release/lib"
cp "$real" "$work/$release/lib/$name"
tar -cf - -C "$work" "$release" | gzip -1 >"$work/release.tgz"
fetch '' RSCERT_ONNXRUNTIME_URL="$work/release.tgz"
installed 'a release archive by path'

empty
fetch curl RELEASE="$work/release.tgz"
refused 'a release archive that is not the published one, whatever is in it' "refused $release.tgz: its SHA-256 is"

fetch '' RSCERT_ONNXRUNTIME_URL="$work/damaged"
refused 'a damaged library by path' 'its SHA-256, .*, is not a pinned one'

fetch '' RSCERT_ONNXRUNTIME_URL="$work/absent"
refused 'a file that is not there' 'tried url (failed)'

if [ "$(uname -s)" != Darwin ]; then
	fetch pip3 XDG_CACHE_HOME=cache
	refused 'a relative cache folder' "XDG_CACHE_HOME is 'cache', not an absolute path"
	fetch pip3 XDG_CACHE_HOME="$work/damaged"
	refused 'a cache that cannot be written' "cannot write to $work/damaged/rscert"
fi

echo "ok onnxruntime.sh: $passed checks"
