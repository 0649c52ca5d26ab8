#!/bin/sh
# Boots systemd of the Debian in a folder, without a container program: boot.sh FOLDER (as root). The Debian gets
# namespaces and a cgroup of its own. Its network is a loopback interface only. It ends when this process is killed by
# SIGKILL; unshare ignores SIGTERM.
set -eu
cgroups=/sys/fs/cgroup
[ -e $cgroups/cgroup.procs ] || cgroups=$cgroups/unified # where the system mixes both versions of cgroups
mkdir -p "$cgroups/rscert-boot-$$"
echo $$ >"$cgroups/rscert-boot-$$/cgroup.procs"
# shellcheck disable=SC2016
exec unshare --mount --pid --fork --kill-child --uts --ipc --net --cgroup sh -euc '
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup sys/fs/cgroup
for folder in run tmp dev; do mount -t tmpfs tmpfs $folder; done
for device in null zero full random urandom tty; do touch dev/$device; mount --bind /dev/$device dev/$device; done
mkdir dev/pts
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ip link set lo up
mkdir run/outside
pivot_root . run/outside
umount -l run/outside
mount --make-rshared /
exec env -i container=rscert PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --show-status=no
' sh "$1"
