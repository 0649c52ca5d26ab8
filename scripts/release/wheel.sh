#!/bin/sh
# Builds the wheel of this platform into out/wheel and tries it in a fresh virtual environment. WHEEL_ARCH=arm64 builds
# the wheel for Linux on arm64 and tries it by emulation. RSCERT_WHEEL_TESTS=no skips the trial; with
# RSCERT_WHEEL_TESTS=all, the tests of python/tests run instead, with the extras in RSCERT_WHEEL_EXTRAS, such as
# [torch].
set -eu
cd "$(dirname "$0")/../.."
tools=${WHEEL_TOOLS:?"is not set: run 'make wheel'"}
python=${PYTHON:-python3}
arch=${WHEEL_ARCH:-$(go env GOARCH)}
wheels=out/wheel
mkdir -p "$wheels"
if [ "$(go env GOOS)" = linux ]; then
	case $arch in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; *) echo "wheel.sh: no wheel for $arch" >&2; exit 2 ;; esac
	CC=$PWD/scripts/release/linux_cc.sh
	RSCERT_WHEEL_PLATFORM=linux_$machine
	strip=-extldflags=-Wl,-s # strips symbols that the C linker adds
	export CC RSCERT_WHEEL_PLATFORM
fi
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' python/src/rscert/__init__.py)
CGO_ENABLED=1 GOARCH=$arch go build -trimpath -buildmode=pie -ldflags "-s -w ${strip-} -X main.builtVersion=$version -X main.builtCommit=$(git rev-parse HEAD)" \
	-o python/src/rscert/bin/rscert ./cmd/rscert
cp LICENSE NOTICE python/
go run ./scripts/licenses python/THIRD_PARTY_LICENSES
rm -rf "$wheels"/*.whl "$wheels/raw"
(cd python && SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0) \
	"$tools/bin/python" -I -m hatchling build -t wheel -d "../$wheels/raw")
if [ "$(go env GOOS)" = linux ]; then
	# auditwheel finds the oldest manylinux whose symbols suffice.
	PATH="$tools/bin:$PATH" "$tools/bin/auditwheel" repair --plat auto -w "$wheels" "$wheels"/raw/*.whl
else
	mv "$wheels"/raw/*.whl "$wheels"
fi
rm -rf "$wheels/raw"
ls -l "$wheels"/*.whl
"$python" -I scripts/release/check_wheel.py "$wheels"/*.whl

[ "${RSCERT_WHEEL_TESTS:-yes}" = yes ] || exit 0
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
if [ "$arch" != "$(go env GOHOSTARCH)" ]; then
	emulator=qemu-$machine-static # Debian: apt-get install qemu-user-static libc6-arm64-cross
	if ! command -v "$emulator" >/dev/null || [ ! -d "/usr/$machine-linux-gnu" ]; then
		echo "wheel.sh: the program is not tried, for want of $emulator and /usr/$machine-linux-gnu" >&2
		exit 0
	fi
	"$python" -I -m zipfile -e "$(ls "$wheels"/*.whl)" "$fresh"
	chmod +x "$fresh/rscert/bin/rscert"
	emulated() { "$emulator" -L "/usr/$machine-linux-gnu" "$fresh/rscert/bin/rscert" "$@"; }
	emulated --version | tee /dev/stderr | grep -q "linux/$arch"
	printf '{"index":%d,"label":1,"n":1000,"counts":[%d,%d,3]}\n' 0 7 990 1 300 697 2 990 7 >"$fresh/votes.jsonl"
	emulated radius "$fresh/votes.jsonl" --sigma 0.5 --class label --json >"$fresh/there"
	go run ./cmd/rscert radius "$fresh/votes.jsonl" --sigma 0.5 --class label --json | cmp - "$fresh/there"
	exit
fi
"$python" -I -m venv "$fresh/venv"
wheel=$(ls "$wheels"/*.whl)
tests=${RSCERT_WHEEL_TESTS:-}
if [ "$tests" = all ]; then
	wheel="$wheel${RSCERT_WHEEL_EXTRAS:-} -r scripts/release/requirements-wheel-test.txt"
fi
# shellcheck disable=SC2086 # the option is a second word
"$fresh/venv/bin/pip" install --quiet --disable-pip-version-check $wheel
# With an empty home there is no library in the cache, so that the program uses the library among Python's packages.
export HOME="$fresh" TMPDIR="$fresh" XDG_CACHE_HOME="$fresh/cache"
if [ "$tests" = all ]; then
	"$fresh/venv/bin/python" -m pytest -q -p no:cacheprovider python/tests
	exit
fi
"$fresh/venv/bin/rscert" doctor
"$fresh/venv/bin/python" -c 'import rscert
run = rscert.certify("testdata/mnist-cnn.onnx", "testdata/mnist", sigma=0.5, n=500, max=5)
print(run.certificates[["index", "label", "prediction", "radius"]])
assert run.certificates.correct.all()'
