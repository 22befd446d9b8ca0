#!/bin/sh
# Before a removal. dpkg says "remove", rpm how many versions stay: 0. An
# upgrade says something else, and leaves the service alone. A service manager
# that is in trouble does not keep the package installed.
set -e
case "$1" in
remove | 0)
	if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
		systemctl disable --now stiled.service ||
			echo "stile: stiled could not be stopped or disabled: see systemctl status stiled" >&2
	fi
	;;
esac
