# SPDX-License-Identifier: BSD-3-Clause
"""fur-check on a heap that has grown: a size that is damaged or too small, and a file that is too
short.  What nothing proves, --repair leaves as it is.  fur-resize on a heap whose lists of free
runs are damaged: each word of them gets one of three values, with FUR_ALL_DAMAGE in the environment
each of them.

    growth_damage_test.py FUR-CHECK FUR-RESIZE GROWING-HEAP FUR-INFO
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from sparse_file import PIECE, contents, copy_sparse

fur_check, resize, growing_heap, info = sys.argv[1:]
place = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
whole, heap = place + "/whole", place + "/heap"
SIZE = (256, 384)  # of the two copies of the size in the superblock
STATE = 512
MOST = 64 << 20


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def word(path, at):
    with open(path, "rb") as f:
        f.seek(at)
        return f.read(8)


def poke(at, what):
    with open(heap, "r+b") as f:
        f.seek(at)
        f.write(what)


def fresh():
    copy_sparse(whole, heap)


def expect_opens():
    done = run(growing_heap, "check", heap)
    assert done.returncode == 0 and done.stdout.startswith("50 blocks"), done


def expect_sound():
    done = run(fur_check, heap)
    assert done.returncode == 0 and "sound, closed" in done.stdout, done


def expect_as_before():
    """But for the trailer, which means nothing in a closed heap."""
    (size, found), was = contents(heap), contents(whole)
    assert size == was[0], "it has another size"
    at = size - 65536
    assert at % PIECE == 0
    for left in (found, was[1]):
        for trailer in [k for k in left if k >= at]:
            del left[trailer]
    assert found == was[1], "something else is left"


def expect_mended(*says):
    """fur-check finds it and changes nothing; --repair makes the file what it was."""
    before = contents(heap)
    done = run(fur_check, heap)
    assert done.returncode == 1 and "mend with fur-check --repair" in done.stderr, done
    for text in says:
        assert text in done.stdout, (text, done)
    assert contents(heap) == before
    done = run(fur_check, "--repair", heap)
    assert done.returncode == 0 and "repaired: " in done.stdout, done
    expect_as_before()
    expect_opens()
    expect_sound()


def expect_lost(text):
    """Nothing mends it, and nothing is changed."""
    before = contents(heap)
    for command in ([fur_check, heap], [fur_check, "--repair", heap]):
        done = run(*command)
        assert done.returncode == 1 and text in done.stdout + done.stderr, done
        assert "restore the file from a copy" in done.stderr, done
    done = run(growing_heap, "check", heap)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done
    assert contents(heap) == before


run(growing_heap, "make", whole).check_returncode()
is_now = word(whole, SIZE[0])
assert is_now == word(whole, SIZE[1])
used = os.stat(whole).st_size - 65536 - MOST + (int.from_bytes(is_now, "little") >> 8) * 65536
assert used < os.stat(whole).st_size - 65536, "the heap has grown as far as it may"
fresh()
run(resize, heap, "--heap-bytes", str(48 << 20)).check_returncode()
larger = word(heap, SIZE[0])

# One copy is damaged: the other is right, and the heap opens.
for copy, name in zip(SIZE, ("first", "second")):
    for damage in (bytes(8), bytes([is_now[0] ^ 4]) + is_now[1:], b"\xff" * 8):
        fresh()
        poke(copy, damage)
        expect_opens()
        fresh()
        poke(copy, damage)
        expect_mended(f"size: the {name} copy is damaged")

# A growth was cut off between the copies: that is no damage.
fresh()
poke(SIZE[0], larger)
expect_sound()
expect_opens()

# Both are damaged: nothing tells the size before the allocator is known.
fresh()
for copy in SIZE:
    poke(copy, b"\xff" * 8)
expect_lost("both copies of the heap's size now are damaged")

# Both are what they were before the last growth.
fresh()
run(growing_heap, "empty", place + "/small").check_returncode()
smaller = word(place + "/small", SIZE[0])
os.unlink(place + "/small")
assert int.from_bytes(smaller, "little") < int.from_bytes(is_now, "little")
for copy in SIZE:
    poke(copy, smaller)
before = contents(heap)
done = run(growing_heap, "check", heap)
assert done.returncode == 1 and "fur-check --repair" in done.stderr, done
assert contents(heap) == before
done = run(fur_check, heap)
assert done.returncode == 1 and "the first copy is too small" in done.stdout, done
assert "mend with fur-check --repair" in done.stderr, done
assert contents(heap) == before
done = run(fur_check, "--repair", heap)
assert done.returncode == 0, done
assert word(heap, SIZE[0]) == word(heap, SIZE[1]) != smaller
expect_opens()
expect_sound()

# The file is too short: in the hole that the heap has not used, and below.
for bytes_now in (os.stat(whole).st_size - 1, os.stat(whole).st_size - 65536, used):
    fresh()
    os.truncate(heap, bytes_now)
    done = run(growing_heap, "check", heap)
    assert done.returncode == 1 and "truncated" in done.stderr, done
    expect_mended("bytes too short")
fresh()
os.truncate(heap, used - 1)
expect_lost("truncated")
fresh()
os.truncate(heap, used)
poke(STATE, bytes(8))  # not closed: the trailer may have had a proof of damage
expect_lost("truncated")

# Too short, and the size is also damaged.
fresh()
os.truncate(heap, used)
poke(SIZE[0], bytes(8))
done = run(fur_check, "--repair", heap)
done = run(fur_check, "--repair", heap)
assert done.returncode == 0, done
expect_as_before()

# A damaged word in the list of free runs: fur-resize says so, or never needed the word.
run(growing_heap, "check", whole).check_returncode()
offset = json.loads(run(info, whole, "--json").stdout)["regions"]["heap"]["offset"]
with open(whole, "rb") as file:
    image = file.read()
table, first, free_runs, _, grown = struct.unpack_from("<5Q", image, offset + 32)
entries = [struct.unpack_from("<4Q", image, offset + table + 32 * k) for k in range(grown)]
FREE = entries[free_runs][0]
runs = [k for k in range(first, grown) if entries[k][0] == FREE]
assert len(runs) >= 4, entries
words = [48] + [table + 32 * k + at for k in runs for at in (0, 8, 16, 24)]
VALUES = (0, grown - 1, 1 << 40)
each = len(VALUES) if "FUR_ALL_DAMAGE" in os.environ else 1
refused = 0
fresh()
for turn, at in enumerate(words):
    for value in (VALUES[(turn + k) % len(VALUES)] for k in range(each)):
        for sizes in (["--max-bytes", str(2 * MOST)], ["--heap-bytes", str(free_runs << 16)]):
            poke(offset + at, struct.pack("<Q", value))
            done = run(resize, heap, *sizes)
            if done.returncode == 0:  # another file
                fresh()
            else:
                poke(offset + at, image[offset + at : offset + at + 8])
            assert done.returncode in (0, 1), (at, value, sizes, done)
            assert done.stderr.count("\n") == done.returncode, (at, value, sizes, done)
            refused += "lists of free runs contradict" in done.stderr
assert refused * len(VALUES) > len(words) * each, refused

shutil.rmtree(place)
