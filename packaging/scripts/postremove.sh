#!/bin/sh
# After a removal. /var/lib/stile stays, also in a purge: the epoch in it keeps
# the tokens of a later install above those that were given out. So does the user
# whose it is. Secrets are settings: a purge, which only dpkg knows, removes them.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
	rm -rf "$DPKG_ROOT/etc/stile/secrets"
	if [ -d "$DPKG_ROOT/etc/stile" ]; then
		rmdir --ignore-fail-on-non-empty "$DPKG_ROOT/etc/stile"
	fi
	if [ -d "$DPKG_ROOT/var/lib/stile" ]; then
		echo "stile: /var/lib/stile stays: it keeps tokens rising over a later install"
	fi
fi
