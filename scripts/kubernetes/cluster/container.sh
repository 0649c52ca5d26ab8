#!/bin/sh
# Runs a command as a container would: container.sh ROOT USER GROUP FOLDER MOUNT… -- COMMAND… (as root). A MOUNT is
# SOURCE:TARGET:rw or SOURCE:TARGET:ro. The command gets a mount namespace, a root folder that it cannot write to,
# no capabilities, and the mounts. The root folder holds this machine's programs and libraries. The process of this
# script becomes the command, so signals reach the command.
set -eu
if [ "${INSIDE_NAMESPACE-}" != yes ]; then
	INSIDE_NAMESPACE=yes exec unshare --mount "$0" "$@"
fi
unset INSIDE_NAMESPACE
root=$1 user=$2 group=$3 folder=$4
shift 4
mount -t tmpfs -o mode=755 tmpfs "$root"
for name in usr bin lib lib64 etc; do
	if [ -L "/$name" ]; then
		cp -P "/$name" "$root/"
	elif [ -d "/$name" ]; then
		mkdir "$root/$name"
		mount --bind -o ro "/$name" "$root/$name"
	fi
done
mkdir "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
for device in null urandom; do
	: >"$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
while [ "$1" != -- ]; do
	source=${1%%:*} target=${1#*:}
	mkdir -p "$root/${target%:*}"
	mount --bind -o "${target##*:}" "$source" "$root/${target%:*}"
	shift
done
shift
mount -o remount,ro "$root"
# shellcheck disable=SC2016
exec chroot "$root" sh -euc 'cd "$1"; user=$2 group=$3; shift 3
exec setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"' \
	sh "$folder" "$user" "$group" "$@"
