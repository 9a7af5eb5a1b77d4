#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The red-black tree's mixes: the updates of `authors` all change the tree; wrong usage is refused.

    rbtree_test.py RBTREE
"""
import json
import subprocess
import sys

rbtree = sys.argv[1]
KEYS, THREADS = 1000, 3


def run(*args):
    return subprocess.run(
        [rbtree, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def measured(*args):
    result = run("--keys", str(KEYS), "--seconds", "0.2", "--json", "-", *args)
    assert result.returncode == 0, (args, result.stdout, result.stderr)
    r = json.loads(result.stdout)
    assert r["verified"] is True and r["throughput"] > 0, r
    return r


def authors():
    """Each thread inserts a key, and then removes that key.  Nearly no key of 4,000,000 is in the
    tree already: few inserts change nothing, and no remove does."""
    for tm in ("fur-opacity", "fur-snapshot", "spht", "pisces", "specpmt"):
        r = measured("--tm", tm, "--mix", "authors", "--update", "50", "--threads", str(THREADS))
        assert r["mix"] == "authors", r
        inserts, removes = (r["run_commits"][kind] for kind in ("insert", "remove"))
        grown = r["keys_at_end"] - KEYS
        assert 0 <= grown <= THREADS and inserts > THREADS, r
        # Every remove has taken a key out: what is left of the inserts changed nothing.
        unchanged = inserts - removes - grown
        assert 0 <= unchanged <= inserts / 100 + 10, r


def random():
    """The default; the set's size is checked against the threads' own counts (`verified`)."""
    r = measured("--tm", "fur-opacity", "--update", "100", "--threads", str(THREADS))
    assert r["mix"] == "random" and r["keys_at_end"] < 2 * KEYS, r


def usage():
    for args, says in [
        (["--mix", "sorted"], "--mix sorted: use random or authors"),
        (["--mix", "authors", "--keys", "2000001"], "use at most half as many"),
        (["--update", "101"], "--update"),
    ]:
        result = run(*args)
        assert result.returncode == 2, (args, result.returncode, result.stderr)
        assert says in result.stderr and result.stderr.count("\n") == 1, (args, result.stderr)


authors()
random()
usage()
print("ok")
