#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# setup.sh - install the Debian or Ubuntu packages that are missing, of those named; silent when none is.
#
#     tools/setup.sh PACKAGE ...
set -eu

missing=
for package in "$@"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

command -v apt-get >/dev/null || {
	echo "setup.sh: this is not Debian or Ubuntu; install by hand:$missing" >&2
	exit 1
}
as_root=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || {
		echo "setup.sh: not root, and no sudo; as root run: apt-get install$missing" >&2
		exit 1
	}
	as_root=sudo
fi

echo "installing:$missing"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # words on purpose
if ! { $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1 </dev/null; then
	cat "$log" >&2
	echo "setup.sh: could not install:$missing" >&2
	exit 1
fi
rm -f "$log"
