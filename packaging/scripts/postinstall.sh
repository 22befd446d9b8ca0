#!/bin/sh
# After an install or an upgrade, of the deb and of the rpm.
#
# The service is neither enabled nor restarted here: a restart of a node that is
# alone frees its locks, and the nodes of a cluster are upgraded one at a time.
# An install must not fail for want of what is not essential: it says so instead.
set -e
root="$DPKG_ROOT" # of dpkg --root; the service manager that runs is not that root's

if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers ${root:+--root="$root"} stile.conf || true
elif [ -z "$root" ] && ! getent passwd stile >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/stile --no-create-home --shell /usr/sbin/nologin stile || true
fi
# By number: the names of another root mean nothing here.
group=$(sed -n 's/^stile:[^:]*:\([0-9]*\):.*/\1/p' "$root/etc/group" 2>/dev/null || true)
if [ -n "$group" ]; then
	chgrp "$group" "$root/etc/stile/secrets"
else
	echo "stile: there is no group stile: make the user and the group stile, then: chgrp stile /etc/stile/secrets" >&2
fi

if [ -n "$root" ]; then
	:
elif [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	if systemctl is-active --quiet stiled.service; then
		echo "stile: the old stiled still runs; when it suits, one node after the other: systemctl restart stiled"
		echo "stile: then wait for it before the next: curl -fsS --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:5626/readyz"
	else
		echo "stile: settings are in /etc/stile/stiled.yaml; to start: systemctl enable --now stiled"
	fi
else
	echo "stile: settings are in /etc/stile/stiled.yaml; no systemd runs here, so make the state directory (install -d -o stile -g stile -m 700 /var/lib/stile) and start this as the user stile: stiled --config /etc/stile/stiled.yaml"
fi
