#!/bin/sh
# After an install or an upgrade, of the deb and of the rpm.
#
# The service is neither enabled nor restarted here: a restart of a node that is
# alone frees its locks, and the nodes of a cluster are upgraded one at a time.
set -e
# With dpkg --root, the service manager that runs is not that of the root.
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if systemctl is-active --quiet stiled.service; then
		echo "stile: the old stiled still runs; when it suits: systemctl restart stiled"
	else
		echo "stile: settings are in /etc/stile/stiled.yaml; to start: systemctl enable --now stiled"
	fi
fi
