#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# sysroot.sh - a private sysroot for another processor, and the meson cross file that uses it.
#
#     tools/cross/sysroot.sh ppc64le|aarch64 DIRECTORY
#
# It fetches packages (tools/setup.sh, @sysroot) with an apt configuration of its own, and unpacks
# them with dpkg -x: the system's package state stays as it is, and needs no foreign architecture.
set -eu

case $#:${1-} in
2:ppc64le) debian=ppc64el ;;
2:aarch64) debian=arm64 ;;
*)
	echo "usage: tools/cross/sysroot.sh ppc64le|aarch64 DIRECTORY" >&2
	exit 2
	;;
esac
machine=$1
mkdir -p "$2"
root=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
packages=$("$here/../setup.sh" --list @sysroot)

fetch() {
	state=$root/apt
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$root/debs"
	: >"$state/status"
	set -- -o APT::Architecture=$debian -o APT::Architectures::=$debian \
		-o Dir::State="$state" -o Dir::State::lists="$state/lists" \
		-o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
		-o Debug::NoLocking=1 -o APT::Sandbox::User=root
	# One index of several may be out of reach (a mirror being renewed).  If that matters, the
	# download below fails.
	apt-get "$@" update -qq || echo "sysroot.sh: not every package index could be read" >&2
	# shellcheck disable=SC2086 # words on purpose
	(cd "$root/debs" && apt-get "$@" download -qq $packages)
	for deb in "$root"/debs/*.deb; do
		dpkg -x "$deb" "$root"
	done
	echo "$packages" >"$root/complete"
}

[ "$(cat "$root/complete" 2>/dev/null)" = "$packages" ] || fetch
# Meson puts ccache before a compiler that it finds itself, but not before one of a cross file.
ccache=
! command -v ccache >/dev/null || ccache="'ccache', "
# Debian's .pc files say /usr; pkg-config puts the sysroot before it.
sed -e "s|@ROOT@|$root|g" -e "s|@CCACHE@|$ccache|" "$here/$machine.ini.in" >"$root/cross.ini"
