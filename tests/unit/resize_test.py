# SPDX-License-Identifier: BSD-3-Clause
"""fur-resize: other logs, another ring, a smaller heap, a larger largest size; refusals; a full
disk; a kill at any point.

    resize_test.py FUR-RESIZE FUR-CHECK FUR-INFO GROWING-HEAP
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

resize, fur_check, info, growing_heap = sys.argv[1:]
place = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
heap = place + "/heap"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def contents():
    with open(heap, "rb") as f:
        return f.read()


def state():
    done = run(info, heap, "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def expect_good(**wanted):
    done = run(fur_check, heap)
    assert done.returncode == 0 and "sound, closed" in done.stdout, done
    done = run(growing_heap, "check", heap)
    assert done.returncode == 0 and done.stdout.startswith("50 blocks"), done
    regions = state()["regions"]
    is_now = {
        "heap": regions["heap"]["bytes"],
        "most": regions["heap"]["max_bytes"],
        "log": regions["logs"]["bytes_each"],
        "ring": regions["ring"]["slots"],
    }
    for name, value in wanted.items():
        assert is_now[name] == value, (name, is_now)
    return is_now


def expect_space(command, is_now, most):
    """The heap that this command of growing-heap made has these sizes, and its data."""
    if command != "empty":
        expect_good(heap=is_now, most=most)
        return
    done = run(fur_check, heap)
    assert done.returncode == 0 and "sound, closed" in done.stdout, done
    regions = state()["regions"]
    assert (regions["heap"]["bytes"], regions["heap"]["max_bytes"]) == (is_now, most), regions


def expect_refused(text, *options, limit=None):
    """`limit`: on the size of the files that fur-resize writes."""
    before = contents()
    done = run("prlimit", f"--fsize={limit}", resize, heap, *options) if limit else None
    done = done or run(resize, heap, *options)
    assert done.returncode == 1 and heap in done.stderr and text in done.stderr, done
    assert contents() == before, "a refusal changed it"
    assert os.listdir(place) == ["heap"], os.listdir(place)


run(growing_heap, "make", heap).check_returncode()
first = expect_good(most=64 << 20, log=65536)

# One after the other, and all at once.
run(resize, heap, "--log-bytes", "1048576").check_returncode()
expect_good(**{**first, "log": 1 << 20})
run(resize, heap, "--ring-slots", "64").check_returncode()
expect_good(**{**first, "log": 1 << 20, "ring": 64})
run(resize, heap, "--ring-slots", "4096", "--log-bytes", "16384").check_returncode()
expect_good(**{**first, "log": 16384, "ring": 4096})
blocks = os.stat(heap).st_blocks
run(resize, heap, "--heap-bytes", str(16 << 20)).check_returncode()
expect_good(heap=16 << 20, most=64 << 20)
assert os.stat(heap).st_blocks <= blocks

# Down to the last memory in use, which the refusal names; and up again.
refused = run(resize, heap, "--heap-bytes", "1000000")
assert refused.returncode == 1, refused
least = int(refused.stderr.split("up to byte ")[1].split()[0])
expect_refused("memory is in use", "--heap-bytes", str(least - 65536))
run(resize, heap, "--heap-bytes", str(least)).check_returncode()
expect_good(heap=least)
run(resize, heap, "--heap-bytes", str(40 << 20)).check_returncode()
expect_good(heap=40 << 20)

expect_refused("67108864 at most", "--heap-bytes", str(65 << 20))
expect_refused("power of two", "--log-bytes", "5000")
expect_refused("power of two", "--ring-slots", "100")
with open(place + "/foreign", "wb") as foreign:
    foreign.write(b"x" * 100000)
done = run(resize, place + "/foreign", "--ring-slots", "64")
assert done.returncode == 1 and "not a libfur heap" in done.stderr, done
os.unlink(place + "/foreign")
assert run(resize).returncode == 2

# A larger largest size, as far as the refusal says there is room.
TOO_MUCH = str(1 << 37)
for command in ("make", "empty", "fixed"):
    os.unlink(heap)
    run(growing_heap, command, heap).check_returncode()
    most = state()["regions"]["heap"]["max_bytes"]
    has = state()["regions"]["heap"]["bytes"]
    expect_refused("use a size in between", "--max-bytes", str(most - 1))
    expect_refused("use a size in between", "--max-bytes", str(1 << 47))
    refused = run(resize, heap, "--max-bytes", TOO_MUCH)
    assert refused.returncode == 1 and "copy the data" in refused.stderr, refused
    room = int(refused.stderr.split(": use ")[1].split()[0])
    assert room > most, (room, most)
    expect_refused("memory is in use", "--max-bytes", TOO_MUCH)
    expect_refused("memory is in use", "--max-bytes", str(room + 1))
    expect_refused("memory is in use", "--max-bytes", TOO_MUCH, "--heap-bytes", str(40 << 20))
    if command == "fixed":  # its memory in use lies at its end: there is room for GiB
        room = 64 << 20
    expect_refused("RLIMIT_FSIZE", "--max-bytes", str(room), limit=most)
    run(resize, heap, "--max-bytes", str(most)).check_returncode()
    expect_space(command, has, most)
    run(resize, heap, "--max-bytes", str(room), "--log-bytes", "16384").check_returncode()
    expect_space(command, has, room)
    larger = min(room, most + (1 << 20))
    run(resize, heap, "--heap-bytes", str(larger)).check_returncode()
    expect_space(command, larger, room)
    done = run(growing_heap, "fill", heap)
    assert done.returncode == 0 and f"heap {room} of {room}" in done.stdout, done
    # What is left is less than a block, and what the tables and other blocks take.
    assert int(done.stdout.split()[0]) > (room >> 20) * 8 // 10 - 12, done
    expect_space(command, room, room)
os.unlink(heap)
run(growing_heap, "make", heap).check_returncode()

# A disk that has room for the heap, and not for the new file next to it.
full = place + "/full"
os.mkdir(full)
done = run(
    *["unshare", "--map-root-user", "--mount", "sh", "-c"],
    f"mount -t tmpfs -o size=36m none {full} || exit 77; cp --sparse=always {heap} {full}/heap; "
    f"{resize} {full}/heap --max-bytes 80000000; status=$?; "
    f"cmp {full}/heap {heap} && test $(ls {full}) = heap || exit 78; exit $status",
)
if done.returncode == 77:
    print("not tested, because tmpfs cannot be mounted here: a full disk")
else:
    assert done.returncode == 1 and "the file system has" in done.stderr, done
    assert done.stderr.count("\n") == 1, done
os.rmdir(full)

# A kill at any point leaves the old heap or the new one.
seed = random.randrange(1 << 32)
print("seed", seed)
chance = random.Random(seed)
for _ in range(60):
    wanted = chance.choice([16384, 65536, 262144])
    was = state()["regions"]["logs"]["bytes_each"]
    process = subprocess.Popen([resize, heap, "--log-bytes", str(wanted)])
    time.sleep(chance.random() * 0.04)
    process.send_signal(signal.SIGKILL)
    killed = process.wait() == -signal.SIGKILL
    now = expect_good()["log"]
    assert now in ([was, wanted] if killed else [wanted]), (killed, was, wanted, now)
assert set(os.listdir(place)) <= {"heap", "heap.resized"}, os.listdir(place)
run(resize, heap, "--log-bytes", "4096").check_returncode()
assert os.listdir(place) == ["heap"], os.listdir(place)
os.unlink(heap)
os.rmdir(place)
