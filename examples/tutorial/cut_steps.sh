#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Writes step01.cpp to step11.cpp, the programs of docs/tutorial.md, to this directory.  Steps 1
# to 5 are cut from count.cpp, steps 6 to 11 from logins.cpp, by the comments that mark the lines of
# a step:
#
#     // from step N ... // end of step N    the lines between are there from step N on
#     CODE // from step N                    so is this line
#     // until step N: CODE                  a line that is there up to step N, without the comment
set -eu
cd "$(dirname "$0")"

cut_step() # SOURCE STEP
{
	awk -v step="$2" -v source="$1" '
	function stop(problem) {
		print source ":" FNR ": " problem > "/dev/stderr"
		failed = 1
		exit 1
	}
	BEGIN { from[0] = 1 }
	!begun { # the comment that says what the source is
		if (/\*\/$/) {
			begun = 1
			print "/* Step " step " of docs/tutorial.md. */"
		}
		next
	}
	/^[ \t]*\/\/ from step [0-9]+$/ {
		if ($4 < from[depth])
			stop("inside lines that come later, from step " from[depth] " on")
		from[++depth] = $4
		next
	}
	/^[ \t]*\/\/ end of step [0-9]+$/ {
		if (depth == 0 || $5 != from[depth])
			stop("ends what has not begun")
		depth--
		next
	}
	from[depth] > step { next }
	/^[ \t]*\/\/ until step [0-9]+: / {
		if ($4 + 0 < step)
			next
		sub(/\/\/ until step [0-9]+: /, "")
	}
	/[ \t]*\/\/ from step [0-9]+$/ {
		if ($NF > step)
			next
		sub(/[ \t]*\/\/ from step [0-9]+$/, "")
	}
	/\/\/ (from|until|end of) step/ { stop("not a mark of a step") }
	{ print }
	END {
		if (!failed && depth != 0)
			stop("step " from[depth] " does not end")
	}' "$1" > "$(printf 'step%02d.cpp' "$2")"
}

for step in 1 2 3 4 5; do
	cut_step count.cpp "$step"
done
for step in 6 7 8 9 10 11; do
	cut_step logins.cpp "$step"
done
