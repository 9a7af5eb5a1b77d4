# SPDX-License-Identifier: BSD-3-Clause
"""fur-resize: other logs, another ring, a smaller heap, a larger largest size; refusals; a full
disk; a kill at any point.

    resize_test.py FUR-RESIZE FUR-CHECK FUR-INFO FUR-COPY GROWING-HEAP SWAPPED-PATH.so

Without SWAPPED-PATH.so ("") no other file gets the name meanwhile.  KILLS in the environment: how
many (20).
"""
import json
import os
import random
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time

from sparse_file import contents

resize, fur_check, info, fur_copy, growing_heap = [os.path.abspath(path) for path in sys.argv[1:6]]
swapped_path = sys.argv[6]
place = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
heap = place + "/heap"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


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
    before = contents(heap)
    done = run("prlimit", f"--fsize={limit}", resize, heap, *options) if limit else None
    done = done or run(resize, heap, *options)
    assert done.returncode == 1 and heap in done.stderr and text in done.stderr, done
    assert contents(heap) == before, "a refusal changed it"
    assert os.listdir(place) == ["heap"], os.listdir(place)


run(growing_heap, "make", heap).check_returncode()
first = expect_good(most=64 << 20, log=65536)

# One after the other, and all at once.
run(resize, heap, "--log-bytes", "1048576").check_returncode()
expect_good(**{**first, "log": 1 << 20})
run(resize, heap, "--ring-slots", "64", "--log-bytes", "1M").check_returncode()
expect_good(**{**first, "log": 1 << 20, "ring": 64})
for wrong in ("1m", "M", "1.5M", "-1M", "1MB", "99999999999T"):
    done = run(resize, heap, "--log-bytes", wrong)
    assert done.returncode == 2, done
    assert f"--log-bytes {wrong}: use a number of bytes, as 16777216 or 16M" in done.stderr, done
done = run(resize, heap, "--ring-slots", "1K")
assert done.returncode == 2 and "use a whole number, in digits" in done.stderr, done
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

# Other numbers of threads: more than there are stocks, which they share, and fewer.
for command, numbers in (("make", (5, 64, 3, 4)), ("empty", (1024, 1)), ("fixed", (9,))):
    os.unlink(heap)
    run(growing_heap, command, heap).check_returncode()
    for number in numbers:
        ring = max(64, 2 * number)
        if ring > 64:
            expect_refused("twice max_threads", "--max-threads", str(number), "--ring-slots", "64")
        ring = 1 << (ring - 1).bit_length()
        done = run(resize, heap, "--max-threads", str(number), "--ring-slots", str(ring))
        assert done.returncode == 0, done
        assert state()["max_threads"] == number
        # A library that does not know of shared stocks must refuse the heap while there are any.
        with open(heap, "rb") as f:
            features = struct.unpack_from("<Q", f.read(136), 128)[0]
        assert bool(features & 2) == (number != 4), (features, number)
        if number < 100:
            done = run(growing_heap, "threads", heap)
            assert done.returncode == 0 and done.stdout == f"{number} threads\n", done
        done = run(fur_check, heap)
        assert done.returncode == 0 and "sound, closed" in done.stdout, done
        if command != "empty":
            expect_good()
    expect_refused("at most 1024", "--max-threads", "1025")
    run(
        resize, heap, "--max-bytes", str(state()["regions"]["heap"]["max_bytes"])
    ).check_returncode()
    done = run(growing_heap, "fill", heap)
    assert done.returncode == 0, done

# What belongs to the file stays with it.
os.unlink(heap)
run(growing_heap, "make", heap).check_returncode()


def access_list(user):
    """system.posix_acl_access: the owner and one more user may read and write, others nothing."""
    entries = ((1, 6, NONE), (2, 6, user), (4, 0, NONE), (16, 6, NONE), (32, 0, NONE))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def belongings():
    status = os.stat(heap)
    names = sorted(os.listxattr(heap))
    return (
        *(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid),
        [(name, os.getxattr(heap, name)) for name in names],
    )


def give(name, value):
    try:
        os.setxattr(heap, name, value)
    except OSError as error:
        print(f"not tested, because the file system has none: {name} ({error})")


NONE = 0xFFFFFFFF
give("user.origin", b"a\0b")
give("user.empty", b"")
os.chmod(heap, 0o604)
for wanted in (0o604, 0o4640):
    os.chmod(heap, wanted)
    before = belongings()
    run(resize, heap, "--log-bytes", "16384").check_returncode()
    assert belongings() == before, (before, belongings())
give("system.posix_acl_access", access_list(12345))
if os.geteuid() == 0:
    give("trusted.origin", b"x")
    os.chown(heap, 1000, 1001)
before = belongings()
run(resize, heap, "--log-bytes", "65536").check_returncode()
assert belongings() == before, (before, belongings())

# A copy belongs to who makes it, and is not open to others than the original is.
for has_list in (True, False):
    if not has_list and "system.posix_acl_access" in os.listxattr(heap):
        os.removexattr(heap, "system.posix_acl_access")
    for mode in (0o664, 0o604):
        os.chmod(heap, mode)
        run(fur_copy, heap, heap + "-copy").check_returncode()
        status, copied = os.stat(heap), os.stat(heap + "-copy")
        same_group = copied.st_gid == status.st_gid
        assert (copied.st_uid, copied.st_gid) == (os.geteuid(), os.getegid())
        wanted = mode if same_group and not has_list else mode & ~0o070
        assert stat.S_IMODE(copied.st_mode) == wanted, (oct(copied.st_mode), oct(wanted))
        assert not os.listxattr(heap + "-copy"), os.listxattr(heap + "-copy")
        os.unlink(heap + "-copy")

# Another user who may write the heap cannot keep its owner: nothing is replaced.
if os.geteuid() == 0:
    os.chmod(place, 0o777)
    os.chmod(heap, 0o666)
    before = belongings(), contents(heap)
    done = subprocess.run(
        [resize, heap, "--log-bytes", "16384"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.setresuid(12345, 12345, 12345),
    )
    assert done.returncode == 1 and "to user 1000 and group 1001" in done.stderr, done
    assert (belongings(), contents(heap)) == before
    assert os.listdir(place) == ["heap"], os.listdir(place)
    os.chown(heap, 0, 0)
os.chmod(heap, 0o600)

# Other names: a symbolic link leads to the heap, and stays; a hard link would keep the old heap.
os.mkdir(place + "/links")
os.symlink("../heap", place + "/links/soft")
was = os.stat(heap).st_ino
run(resize, place + "/links/soft", "--log-bytes", "16384").check_returncode()
assert os.readlink(place + "/links/soft") == "../heap"
assert os.listdir(place + "/links") == ["soft"] and os.stat(heap).st_ino != was
expect_good(log=16384)
os.link(heap, place + "/links/hard")
for path in (heap, place + "/links/hard", place + "/links/soft"):
    done = run(resize, path, "--log-bytes", "65536")
    assert done.returncode == 1 and f"{path}: the file has 2 names" in done.stderr, done
assert sorted(os.listdir(place + "/links")) == ["hard", "soft"]
for name in os.listdir(place + "/links"):
    os.unlink(place + "/links/" + name)
os.rmdir(place + "/links")
expect_good(log=16384)
done = subprocess.run([resize, "heap", "--log-bytes", "65536"], cwd=place)
assert done.returncode == 0
expect_good(log=65536)
done = run(resize, place + "/missing/heap")
assert done.returncode == 1 and "no such file" in done.stderr, done

# A file that is not fur-resize's own stays, whatever its name is.
with open(heap + ".resized", "w") as theirs:
    theirs.write("mine")
run(resize, heap, "--log-bytes", "16384").check_returncode()
with open(heap + ".resized") as theirs:
    assert theirs.read() == "mine"
os.unlink(heap + ".resized")

# Another file gets the name while fur-resize works, also at the last moment: it stays.
for use in ("1", "2") if swapped_path else ():
    shutil.copyfile(heap, place + "/other")
    before = contents(heap)
    done = subprocess.run(
        [resize, heap, "--log-bytes", "65536"],
        capture_output=True,
        text=True,
        env=dict(
            os.environ,
            **{"LD_PRELOAD": swapped_path, "SWAP_END": "/heap", "SWAP_USE": use},
            SWAP_OTHER=place + "/other",
        ),
    )
    assert done.returncode == 1 and "another file has got the heap's name" in done.stderr, done
    assert os.listdir(place) == ["heap"] and contents(heap) == before, os.listdir(place)

# Another file gets the name of a new heap as soon as that has it: the program does not touch it.
if swapped_path:
    before = contents(heap)
    os.rename(heap, place + "/other")
    done = subprocess.run(
        [growing_heap, "make", heap],
        capture_output=True,
        text=True,
        env=dict(
            os.environ,
            **{"LD_PRELOAD": swapped_path, "SWAP_PATH": heap, "SWAP_USE": "2"},
            SWAP_OTHER=place + "/other",
        ),
    )
    assert done.returncode == 0, done
    assert os.listdir(place) == ["heap"] and contents(heap) == before, os.listdir(place)

# A kill at any point leaves the old heap or the new one.
chance = random.Random(os.environ.get("FUR_TEST_SEED", "1"))
for _ in range(int(os.environ.get("KILLS", "20"))):
    wanted = chance.choice([16384, 65536, 262144])
    was = state()["regions"]["logs"]["bytes_each"]
    process = subprocess.Popen([resize, heap, "--log-bytes", str(wanted)])
    time.sleep(chance.random() * 0.04)
    process.send_signal(signal.SIGKILL)
    killed = process.wait() == -signal.SIGKILL
    now = expect_good()["log"]
    assert now in ([was, wanted] if killed else [wanted]), (killed, was, wanted, now)
for name in os.listdir(place):
    if name != "heap":
        assert re.fullmatch("heap\\.resized-[0-9a-f]{8}", name), name
        os.unlink(place + "/" + name)
os.unlink(heap)
os.rmdir(place)
