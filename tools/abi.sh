#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# abi.sh - compare the binary interface of libfur.so with the recorded one, src/libfur-x86_64.abi.
#
#     tools/abi.sh BUILD            exit status 0: they are equal
#     tools/abi.sh BUILD --renew    record the interface of BUILD
#
# Every difference counts, also a function or a field that is new: a commit that changes the
# interface renews the record, and its reader sees what changes.  BUILD needs debug information,
# which is the default here.
# Package: abigail-tools.
set -eu

[ $# -eq 1 ] || [ "$#-${2-}" = 2---renew ] || {
	echo "usage: tools/abi.sh BUILD [--renew]" >&2
	exit 2
}
root=$(dirname "$0")/..
library=$1/src/libfur.so
record=$root/src/libfur-x86_64.abi
[ "$(uname -m)" = x86_64 ] || {
	echo "abi.sh: the record is of x86-64, and this machine is none" >&2
	exit 2
}

# Without what differs from one build of the same interface to another.
dump() {
	abidw --headers-dir "$root/include" --drop-private-types --drop-undefined-syms \
		--exported-interfaces-only --no-corpus-path --no-comp-dir-path --no-show-locs \
		--no-elf-needed --no-parameter-names --no-write-default-sizes --type-id-style hash \
		--out-file "$1" "$library"
}

if [ $# -eq 2 ]; then
	dump "$record"
	exit
fi
now=$(mktemp)
trap 'rm -f "$now"' EXIT
dump "$now"
grep -q "name='fur_options'" "$now" || {
	echo "abi.sh: $library has no debug information: configure with -Ddebug=true" >&2
	exit 2
}
abidiff "$record" "$now" || {
	echo "abi.sh: the interface has changed: if that is meant, run tools/abi.sh $1 --renew"
	exit 1
}
