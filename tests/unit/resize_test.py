# SPDX-License-Identifier: BSD-3-Clause
"""fur-resize: other logs, another ring, a smaller heap; refusals; a kill at any point.

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


def expect_refused(text, *options):
    before = contents()
    done = run(resize, heap, *options)
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
