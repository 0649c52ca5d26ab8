#!/bin/sh
# Installs the Debian package of out/release in a clean Debian ($SUITE, trixie) made by debootstrap (as root), uses it
# as a user would, and removes it. The ONNX Runtime in this Debian is a copy from this machine.
set -eu
cd "$(dirname "$0")/../.."
missing=
for name in debootstrap lintian; do command -v $name >/dev/null || missing="$missing $name"; done
# shellcheck disable=SC2086
[ -z "$missing" ] || { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; }
package=$(ls out/release/*_"$(go env GOARCH)".deb)
lintian --fail-on error "$package"

root=$(mktemp -d)
chmod 755 "$root" # so that the user inside can enter the folder
trap 'umount "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase --include=man-db,bash-completion "${SUITE:-trixie}" "$root" >"$root.log" ||
	{ cat "$root.log" >&2; exit 1; }
rm "$root.log"
mount -t proc proc "$root/proc"
inside() { chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }
user() { chroot --userspec=1000:1000 "$root" env -i HOME=/home/user PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@"; }
# Lists all files except those that do not belong to the package: dpkg's log of the removal, man's index of pages, and
# files that ONNX Runtime leaves in /tmp.
files() { inside find / -xdev -path /proc -prune -o -path /home -prune -o -path /tmp -prune -o -path /var/lib/dpkg -prune \
	-o -path /var/log -prune -o -path /var/cache/man -prune -o -print | sort; }
inside useradd --create-home --uid 1000 user
inside man -w ls >/dev/null
files >"$root/home/before"

cp "$package" "$root/home/rscert.deb"
inside dpkg -i /home/rscert.deb
user rscert --version
bin/rscert setup --quiet | xargs -I LIBRARY install -m 644 LIBRARY "$root/home/"
user rscert setup --quiet --url /home/libonnxruntime.so
user rscert doctor
cp -r testdata/mnist testdata/mnist-cnn.onnx "$root/home/user/"
user sh -c 'cd && rscert certify --model mnist-cnn.onnx --data mnist --sigma 0.5 --n 1000 --max 20 --seed 1 --out run'
bin/rscert certify --quiet --model testdata/mnist-cnn.onnx --data testdata/mnist --sigma 0.5 --n 1000 --max 20 --seed 1 \
	--out "$root/home/here" >/dev/null
cmp "$root/home/here/votes.jsonl" "$root/home/user/run/votes.jsonl"
cmp "$root/home/here/certificates.jsonl" "$root/home/user/run/certificates.jsonl"
user man -P cat rscert | grep -q 'certifies ONNX classifiers'
user man -P cat rscert-certify | grep -q -e --sigma
# shellcheck disable=SC2016
user bash -c '. /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/rscert
	COMP_LINE="rscert cert" COMP_POINT=11 COMP_WORDS=(rscert cert) COMP_CWORD=1; __start_rscert 2>/dev/null; printf "%s\n" "${COMPREPLY[@]}"' |
	grep -q '^certify'
inside dpkg --purge rscert
files >"$root/home/after"
diff "$root/home/before" "$root/home/after"
echo "$package: installed, used and removed in Debian ${SUITE:-trixie}"
