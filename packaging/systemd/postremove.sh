#!/bin/sh
# Runs after the removal of the Debian package ($1 = remove or purge) or the rpm package ($1 = 0). It removes the ONNX
# Runtime that the service fetched. Audit logs in /var/lib/private/rscert stay.
set -e
case $1 in purge | 0)
	rm -rf /var/cache/private/rscert /var/cache/rscert
	if [ -L /var/lib/rscert ]; then
		rmdir --ignore-fail-on-non-empty /var/lib/private/rscert
		[ -e /var/lib/private/rscert ] || rm /var/lib/rscert
	fi
	;;
esac
case $1 in remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload
	fi
	;;
esac
