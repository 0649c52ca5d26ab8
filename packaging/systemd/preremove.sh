#!/bin/sh
# Runs before the removal of the Debian package ($1 = remove) or the rpm package ($1 = 0), not before an upgrade.
set -e
case $1 in remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --quiet --now rscert.service
	fi
	;;
esac
