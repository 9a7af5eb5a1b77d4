#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# debian.sh - build the Debian packages in a copy of the tree, let lintian check them, and run their
# test (debian/tests) with the packages unpacked in a root of their own: nothing is installed.
#
#     tools/debian.sh [DIRECTORY]     leave the packages there
#
# Packages: tools/setup.sh @release.
set -eu

[ $# -le 1 ] || {
	echo "usage: tools/debian.sh [DIRECTORY]" >&2
	exit 2
}
keep=
[ $# -eq 0 ] || {
	mkdir -p "$1"
	keep=$(realpath "$1")
}
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/libfur
root=$scratch/root
mkdir "$tree" "$root" "$scratch/test"

tar -c --exclude=./.git --exclude='./build*' --exclude=./subprojects . | tar -x -C "$tree"
(cd "$tree" && dpkg-buildpackage -us -uc -b)

# The project has no mail address and no bugs in Debian.
lintian --fail-on error,warning --allow-root --suppress-tags \
	bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs \
	"$scratch"/*.changes

for package in "$scratch"/*.deb; do
	dpkg -x "$package" "$root"
done
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
# pkg-config leaves out the compiler's own directories, but here they are those of the root.
(
	cd "$tree"
	export AUTOPKGTEST_TMP="$scratch/test" PATH="$root/usr/bin:$PATH" \
		PKG_CONFIG_PATH="$root/usr/lib/$triplet/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" \
		PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 \
		CMAKE_PREFIX_PATH="$root/usr" LD_LIBRARY_PATH="$root/usr/lib/$triplet"
	debian/tests/examples
)
[ -z "$keep" ] || cp "$scratch"/*.deb "$scratch"/*.changes "$scratch"/*.buildinfo "$keep"
