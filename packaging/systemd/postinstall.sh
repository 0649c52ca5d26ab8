#!/bin/sh
# Runs after the installation of the Debian or rpm package. A running service restarts with the new program. A new
# service is neither enabled nor started.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart rscert.service
fi
