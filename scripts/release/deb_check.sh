#!/bin/sh
# Installs the Debian package of out/release in a clean Debian ($SUITE, trixie) made by debootstrap (as root), uses it
# as a user would, starts its service under systemd, and removes it. The ONNX Runtime in this Debian is a copy from this
# machine.
set -eu
cd "$(dirname "$0")/../.."
missing=
for program in debootstrap lintian ip:iproute2; do command -v "${program%:*}" >/dev/null || missing="$missing ${program#*:}"; done
# shellcheck disable=SC2086
[ -z "$missing" ] || { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; }
package=$(ls out/release/*_"$(go env GOARCH)".deb)
lintian --fail-on error "$package"

root=$(mktemp -d)
chmod 755 "$root" # so that the user inside can enter the folder
debian=
end() {
	[ -z "$debian" ] || { kill -KILL "$debian"; wait "$debian" || true; } 2>/dev/null
	for _ in $(seq 25); do # until all processes of the Debian have ended
		! find /sys/fs/cgroup -depth -type d -path "*/rscert-boot-$debian*" -exec rmdir {} + 2>/dev/null || break
		sleep 0.2
	done
	rm -rf --one-file-system "$root"
}
trap end EXIT
debootstrap --variant=minbase --include=man-db,bash-completion,systemd,curl "${SUITE:-trixie}" "$root" >"$root.log" ||
	{ cat "$root.log" >&2; exit 1; }
rm "$root.log"
scripts/release/boot.sh "$root" &
debian=$!
# shellcheck disable=SC2317
in_debian() { nsenter --all --root --wd --target "$(pgrep -P $debian)" "$@"; }
inside() { in_debian env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }
user() { in_debian --setuid 1000 --setgid 1000 env -i HOME=/home/user PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@"; }
# Lists all files except those that do not belong to the package: dpkg's log of the removal, man's index of pages, and
# files of systemd and other services.
files() { inside find / -xdev -path /home -prune -o -path /var/lib/dpkg -prune -o -path /var/lib/systemd -prune \
	-o -path /var/log -prune -o -path /var/tmp -prune -o -path /var/cache/man -prune -o -print | sort; }
fail() { echo "deb_check.sh: $*" >&2; inside journalctl --no-pager --lines 40 >&2; exit 1; }
try() { # SECONDS COMMAND: repeats a command until it succeeds
	for _ in $(seq $(($1 * 5))); do (shift; "$@") >/dev/null 2>&1 && return; sleep 0.2; done
	fail "not within $1 s: $*"
}
booted() { case $(inside systemctl is-system-running) in running | degraded) ;; *) false ;; esac; }
try 60 booted
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

# The service.
service() { inside systemctl "$@" rscert.service; }
shown() { inside systemctl show --value --property "$1" rscert.service; }
is() { [ "$(shown "$1")" = "$2" ]; }
ask() { inside curl --silent --show-error --fail --max-time 10 "$@"; }
url=http://127.0.0.1:8000/v2
is UnitFileState disabled || fail "the service is $(shown UnitFileState)"
is ActiveState inactive || fail "the service is $(shown ActiveState)"
inside systemd-analyze verify rscert.service
inside systemd-analyze security --no-pager --threshold=15 rscert.service | tail -n 1
# Without a run the exit code is 2, and systemd does not start the service again.
install -D -m 644 "$root/home/libonnxruntime.so" "$root/srv/rscert/libonnxruntime.so"
echo 'RSCERT_ONNXRUNTIME_URL=/srv/rscert/libonnxruntime.so' >>"$root/etc/rscert/serve.env"
service start
try 30 is ActiveState failed
is ExecMainStatus 2 || fail "without a run the exit code is $(shown ExecMainStatus)"
is NRestarts 0 || fail 'the service restarts without a run'
# With a run it answers, and only to a client with the token.
cp -r "$root/home/user/run" "$root/home/user/mnist-cnn.onnx" "$root/srv/rscert/"
echo 'a token of the test' | install -m 600 /dev/stdin "$root/etc/rscert/token"
install -D -m 644 /dev/stdin "$root/etc/systemd/system/rscert.service.d/override.conf" <<-END
	[Service]
	LoadCredential=token:/etc/rscert/token
END
cat >>"$root/etc/rscert/serve.env" <<END
MODEL=/srv/rscert/mnist-cnn.onnx
OPTIONS=--token-file /run/credentials/rscert.service/token --log answers.jsonl
END
inside systemctl daemon-reload
service start
try 60 ask $url/health/ready
python3 -I -c 'import gzip, json, sys
digits = gzip.open(sys.argv[1]).read()[16:16 + 2 * 784]
tensor = {"name": "input", "shape": [2, 1, 28, 28], "datatype": "UINT8", "data": list(digits)}
print(json.dumps({"inputs": [tensor]}))' testdata/mnist/t10k-images-idx3-ubyte.gz >"$root/home/request"
infer() { ask "$@" --data @/home/request $url/models/mnist-cnn/infer; }
if infer 2>/dev/null; then fail 'a client without the token gets answers'; fi
infer --header 'Authorization: Bearer a token of the test' | grep -q '"name":"class"'
# It has no privileges and a user of its own, and it restarts when it is killed.
pid=$(shown MainPID)
for line in 'CapEff:	0000000000000000' 'NoNewPrivs:	1' 'Seccomp:	2'; do
	inside grep -q -x "$line" "/proc/$pid/status" || fail "not in /proc/$pid/status: $line"
done
[ "$(inside stat -c %u "/proc/$pid")" -ge 61184 ] || fail "the service runs as user $(inside stat -c %u "/proc/$pid")"
service kill --signal KILL
try 60 is NRestarts 1
try 60 ask $url/health/ready
service stop
{ is Result success && is ExecMainStatus 0; } || fail "the service stops with $(shown Result), $(shown ExecMainStatus)"
bin/rscert predict --run "$root/srv/rscert/run" --model testdata/mnist-cnn.onnx --data testdata/mnist \
	--replay "$root/var/lib/private/rscert/answers.jsonl"

# Removal stops the service, and purge leaves nothing but the audit log.
service enable
service start
try 60 ask $url/health/ready
inside dpkg --remove rscert
if ask $url/health/live; then fail 'the service runs after its removal'; fi
inside dpkg --purge rscert
inside rm -r /srv/rscert /etc/rscert /etc/systemd/system/rscert.service.d /var/lib/rscert /var/lib/private/rscert
files >"$root/home/after"
diff "$root/home/before" "$root/home/after"
echo "$package: installed, used, served and removed in Debian ${SUITE:-trixie}"
