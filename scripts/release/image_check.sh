#!/bin/sh
# Builds packaging/docker/Dockerfile with buildah. In the image, a user without root rights certifies bundled digits.
# Then the script runs the image's default command, a server, and asks it over HTTP. If no registry can be reached,
# debootstrap makes stand-ins of the base images (as root). DEVICE=cuda builds the image for CUDA and only checks that
# its libraries are there. IMAGE_STORE keeps the images between runs.
set -eu
cd "$(dirname "$0")/../.."
device=${DEVICE:-cpu}
work=$(mktemp -d)
network=rscert-image-$$
trap 'ip netns delete $network 2>/dev/null || true; rm -rf "$work"' EXIT
store=${IMAGE_STORE:-$work/store}
base=docker.io/library/debian:trixie-slim
[ "$device" = cpu ] || base=docker.io/$(sed -n 's/.*--build-arg BASE=\([^ ]*\) .*/\1/p' packaging/docker/Dockerfile)
compiler=docker.io/library/$(sed -n 's/^FROM \(golang:[^ ]*\) AS build$/\1/p' packaging/docker/Dockerfile)

store() { # runs buildah with storage that needs no support from the kernel
	command=$1
	shift
	buildah --storage-driver vfs --root "$store" --runroot "$work/buildah" "$command" "$@"
}

stand_in() { # NAME SUITE PACKAGES: makes an image with this machine's certificates
	echo "image_check.sh: $1 cannot be had: a Debian of the suite $2 stands in for it" >&2
	debootstrap --variant=minbase --include="ca-certificates,libstdc++6$3" "$2" "$work/root" >"$work/debootstrap.log" ||
		{ cat "$work/debootstrap.log" >&2; exit 1; }
	rm -rf "$work/root/var/cache/apt/archives" "$work/root/var/lib/apt/lists"
	cp /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/"
	container=$(store from scratch)
	store add --quiet "$container" "$work/root" /
	case $1 in */golang:*)
		store add --quiet "$container" "$(go env GOROOT)" /usr/local/go
		store config --env PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container" ;;
	esac
	store commit --quiet --rm "$container" "$1"
	rm -rf "$work/root"
}

have() { # NAME SUITE PACKAGES
	store inspect "$1" >/dev/null 2>&1 || store pull --quiet "$1" 2>/dev/null || stand_in "$@"
}

have "$base" trixie ""
have "$compiler" bookworm ",gcc,libc6-dev,make,python3-pip"

version=$(git describe --tags --always)
store build --isolation chroot --quiet --build-arg "DEVICE=$device" --build-arg "BASE=$base" \
	--build-arg "VERSION=$version" --build-arg "COMMIT=$(git rev-parse HEAD)" \
	-f packaging/docker/Dockerfile -t "rscert:$device" .
container=$(store from "rscert:$device")
size=$(du -sm "$(store mount "$container")" | cut -f1)
from=$(du -sm "$(store mount "$(store from "$base")")" | cut -f1)
echo "rscert:$device: $size MB, $((size - from)) MB more than $base"
inspected=$(store inspect --format '{{with .OCIv1.Config}}{{.User}} {{.Entrypoint}} {{.Cmd}} {{.ExposedPorts}} {{.Volumes}} {{.Labels}}{{end}}' "rscert:$device")
case $inspected in
"65532:65532 [rscert] [serve --run run --listen 0.0.0.0:8000] map[8000/tcp:{}] map[/work:{}] "*"org.opencontainers.image.version:$version"*) ;;
*) echo "image_check.sh: the image has other settings: $inspected" >&2; exit 1 ;;
esac
inside() { store run --isolation chroot "$@"; }
# Runs the image's default command with the run in the folder 'run', in a network of its own, asks it over HTTP, and
# stops it.
serve() {
	mv "$work/runs/digits" "$work/run"
	command=$(store inspect --format '{{range .OCIv1.Config.Entrypoint}}{{.}} {{end}}{{range .OCIv1.Config.Cmd}}{{.}} {{end}}' "rscert:$device")
	ip netns add "$network"
	ip -netns "$network" link set lo up
	# shellcheck disable=SC2086
	ip netns exec "$network" buildah --storage-driver vfs --root "$store" --runroot "$work/buildah" \
		run --isolation chroot -v "$work:/work" "$container" -- $command >"$work/serve.log" 2>&1 &
	server=$!
	for _ in $(seq 300); do
		! ask health/ready >/dev/null 2>&1 || break
		kill -0 $server || break
		sleep 0.2
	done
	ask health/ready || { cat "$work/serve.log" >&2; exit 1; }
	python3 -I -c 'import gzip, json, sys
tensor = {"name": "input", "shape": [1, 1, 28, 28], "datatype": "UINT8", "data": list(gzip.open(sys.argv[1]).read()[16:16 + 784])}
print(json.dumps({"inputs": [tensor]}))' testdata/mnist/t10k-images-idx3-ubyte.gz >"$work/request"
	ask models/mnist-cnn/infer --data @"$work/request" | grep -q '"name":"class","datatype":"INT64","shape":\[1\],"data":\[7\]'
	pid=$(ip netns pids "$network" | while read -r p; do [ "$(cat "/proc/$p/comm")" != rscert ] || echo "$p"; done)
	[ "$(stat -c %u "/proc/$pid")" = 65532 ]
	kill "$pid"
	wait $server # SIGTERM ends the server with exit code 0
	echo "the default command answers: $command"
}
ask() { path=$1; shift; ip netns exec "$network" curl --silent --show-error --fail --max-time 10 "$@" "http://127.0.0.1:8000/v2/$path"; }
inside "$container" -- rscert --version | grep -q -x -F "rscert $version"
[ "$(inside "$container" -- id -u)" = 65532 ]
inside "$container" -- grep -q '^github.com/yalue/onnxruntime_go v' /usr/share/doc/rscert/THIRD_PARTY_LICENSES
if [ "$device" = cpu ]; then
	cp -r testdata/mnist testdata/mnist-cnn.onnx "$work/"
	mkdir -m 777 "$work/runs"
	chmod 755 "$work"
	store config --volume /work- "$container" # buildah would mount that over the folder
	inside -v "$work:/work" "$container" -- rscert certify --model mnist-cnn.onnx --data mnist --sigma 0.5 \
		--n 1000 --max 20 --seed 1 --out runs/digits
	bin/rscert certify --quiet --model testdata/mnist-cnn.onnx --data testdata/mnist --sigma 0.5 \
		--n 1000 --max 20 --seed 1 --out "$work/here" >/dev/null
	cmp "$work/runs/digits/votes.jsonl" "$work/here/votes.jsonl"
	cmp "$work/runs/digits/certificates.jsonl" "$work/here/certificates.jsonl"
	[ "$(stat -c %u "$work/runs/digits/votes.jsonl")" = 65532 ]
	serve
else
	# Without a GPU: checks that the libraries are there as published, and that loading them names the missing driver.
	inside "$container" -- rscert setup --device "$device" --json
fi
