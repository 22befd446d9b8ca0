#!/bin/sh
# After a removal. /var/lib/stile stays, also in a purge: the epoch in it keeps
# the tokens of a later install above those that were given out.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
