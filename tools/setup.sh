#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# setup.sh - install the Debian or Ubuntu packages that are missing; silent when none is.
#
#     tools/setup.sh @GROUP|PACKAGE ...
#     tools/setup.sh --list @GROUP|PACKAGE ...     print them and install nothing
#
# The only list of the project's packages.  Groups:
#     @library    to build the library and fur-replayer
#     @check      for ./check
#     @release    for ./check --release
#     @peers      other systems that benchmarks run beside libfur (docs/benchmarks.md)
#     @site       for the HTML site: ninja -C build site
#     @cross      for ./check --cross
#     @sysroot    libraries of another processor (tools/cross/sysroot.sh; not installed)
set -eu

packages_of() {
	case $1 in
	@library) echo build-essential meson ninja-build pkg-config libpmem-dev libxxhash-dev ;;
	@check)
		packages_of @library
		echo libgtest-dev libbenchmark-dev libboost-context-dev libtomlplusplus-dev
		echo nlohmann-json3-dev
		echo liblmdb-dev libpmemobj-dev spin tcc systemtap-sdt-dev cmake mandoc
		echo clang-format universal-ctags shellcheck valgrind
		echo ccache # meson uses it where there is one
		echo xfsprogs # a file system whose files can share blocks
		echo python3 python3-matplotlib black flake8 mypy
		echo rustc cargo
		# Brokers of Apache Kafka, which Maven fetches (tests/ship/brokers.py).
		echo librdkafka-dev default-jre-headless maven
		# Kernels for emulated near memory, and their interpreter's tests.
		echo gcc-riscv64-unknown-elf qemu-user
		;;
	@release)
		packages_of @check
		packages_of @site
		echo clang clang-tidy abigail-tools
		echo debhelper dpkg-dev libsystemd-dev lintian
		# The tests of GCC's library for transactions (tests/itm/gcc_suite.py).
		echo "gcc-$(gcc -dumpversion 2>/dev/null || echo 12)-source"
		;;
	@peers)
		echo libsqlite3-dev librocksdb-dev liblmdb-dev # in commits and snapshot
		echo redis-server redis-tools postgresql etcd-server
		;;
	@site) echo python3-sphinx python3-myst-parser furo mandoc ;;
	@cross)
		echo build-essential meson ninja-build pkg-config libxxhash-dev python3
		echo gcc-powerpc64le-linux-gnu g++-powerpc64le-linux-gnu
		echo gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user ccache
		;;
	@sysroot)
		echo libpmem-dev libpmem1 libndctl6 libdaxctl1 libkmod2 libuuid1 libudev1 libcap2
		echo liblzma5 libzstd1 libssl3 zlib1g libgtest-dev libxxhash-dev
		echo nlohmann-json3-dev
		;;
	@*)
		echo "setup.sh: no group '$1'; groups:" \
			"@library @check @release @peers @site @cross @sysroot" >&2
		return 2
		;;
	*) echo "$1" ;;
	esac
}

list=false
[ "${1-}" != --list ] || {
	list=true
	shift
}
packages=
for name in "$@"; do
	more=$(packages_of "$name") || exit
	packages="$packages $more"
done
if $list; then
	# shellcheck disable=SC2086 # words on purpose
	echo $packages
	exit 0
fi

missing=
for package in $packages; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' ||
		missing="$missing $package"
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
install_missing() {
	$as_root apt-get update -qq || return
	# shellcheck disable=SC2086 # words on purpose
	$as_root apt-get install -y -qq --no-install-recommends $missing
}
if ! install_missing >"$log" 2>&1 </dev/null; then
	cat "$log" >&2
	echo "setup.sh: could not install:$missing" >&2
	exit 1
fi
rm -f "$log"
