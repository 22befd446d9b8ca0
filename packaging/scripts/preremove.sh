#!/bin/sh
# Before a removal. dpkg says "remove", rpm how many versions stay: 0. An
# upgrade says something else, and leaves the service alone.
set -e
case "$1" in
remove | 0)
	if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
		systemctl disable --now stiled.service
	fi
	;;
esac
