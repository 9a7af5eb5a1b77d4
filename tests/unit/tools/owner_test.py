#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fur-replayer works as the owner of the heap when root starts it; it refuses the heaps that
fur_open refuses; systemd accepts its unit, and the drop-in of docs/replayer.md, whose command line
serves a heap.

    owner_test.py FUR_REPLAYER UNCLOSED_HEAP UNIT DOCS/replayer.md SWAPPED-PATH.so

Without SWAPPED-PATH.so ("") no path changes while fur-replayer looks at it.
"""
import ctypes
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

replayer, unclosed_heap, unit, page = [os.path.abspath(path) for path in sys.argv[1:5]]
swapped_path = sys.argv[5]
NOBODY, SOMEBODY = 65534, 12345
PATIENCE_S = 60


def run(*args, status=0):
    done = subprocess.run(
        args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == status, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def status_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":", 1) for line in f)


def ids(text):
    return [int(n) for n in text.split()]


def serve_as_owner(heap):
    run(unclosed_heap, "make", heap)
    os.chown(heap, NOBODY, NOBODY)
    daemon = subprocess.Popen([replayer, "--heap", heap], stdout=subprocess.PIPE, text=True)
    assert daemon.stdout
    assert "waiting for work" in daemon.stdout.readline()
    assert "its process has died" in daemon.stdout.readline()
    assert "replayed 1 updates" in daemon.stdout.readline()
    status = status_of(daemon.pid)
    assert ids(status["Uid"]) == [NOBODY] * 4, status["Uid"]
    assert 0 not in ids(status["Gid"]), status["Gid"]
    assert 0 not in ids(status["Groups"]), status["Groups"]
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0, status["CapPrm"]
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait() == 0
    run(unclosed_heap, "verify", heap)


def once_as_owner(heap):
    run(unclosed_heap, "make", heap)
    # The owner may not write it: root may, so only a process that is not root any more is refused.
    os.chown(heap, NOBODY, NOBODY)
    os.chmod(heap, 0o400)
    assert "Permission denied" in run(replayer, heap, "--once", status=1)
    os.chmod(heap, 0o600)
    assert "replayed 1 updates" in run(replayer, "--heap", heap, "--once")
    run(unclosed_heap, "verify", heap)


def make(heap, owner):
    run(unclosed_heap, "make", heap)
    os.chown(heap, owner, owner)


def serves(*args, expected, **swap):
    """Start fur-replayer, and end it.  It serves the file that was `expected` before it started, as
    that file's owner."""
    file = os.stat(expected)
    user = file.st_uid
    daemon = subprocess.Popen(
        [replayer, *args],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, **swap),
    )
    assert daemon.stdout
    assert "waiting for work" in daemon.stdout.readline(), args
    directory = f"/proc/{daemon.pid}/fd/"
    opened = [os.stat(directory + fd) for fd in os.listdir(directory)]
    assert any(os.path.samestat(file, one) for one in opened), (args, swap)
    assert ids(status_of(daemon.pid)["Uid"]) == [user] * 4, (args, swap)
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait() == 0


def swapped(place):
    """Somebody changes what the path leads to while fur-replayer starts (INV-OW1)."""
    heap, other = os.path.join(place, "swapped"), os.path.join(place, "other")
    # The file is away at the first look, and back at the next one.
    make(heap, NOBODY)
    with_file_away = dict(
        os.environ, LD_PRELOAD=swapped_path, SWAP_PATH=heap, SWAP_AWAY=heap + "-away"
    )
    for option in ("", "--once", "--status"):
        options = [option] if option else []
        done = subprocess.run(
            [replayer, *options, heap],
            stderr=subprocess.PIPE,
            text=True,
            env=with_file_away,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 1 and "no such file" in done.stderr, done
    os.unlink(heap)
    # Another user's file has the path after the first look: the one that was found is served.
    for first, second in ((0, NOBODY), (NOBODY, 0), (NOBODY, SOMEBODY)):
        make(heap, first)
        make(other, second)
        os.link(heap, heap + "-found")
        serves(
            heap,
            expected=heap + "-found",
            LD_PRELOAD=swapped_path,
            SWAP_PATH=heap,
            SWAP_OTHER=other,
        )
        os.unlink(heap + "-found")
        os.unlink(heap)
    # Nothing is opened of which the type alone makes opening do something.
    os.mkfifo(heap)
    assert "not a regular file" in run(replayer, heap, status=1)
    os.unlink(heap)


def damaged_header(heap):
    """A damaged header of the allocator is refused before anything is replayed, with and without
    --once."""
    run(unclosed_heap, "make", heap)
    with open(heap, "r+b") as f:
        f.seek(104)
        f.seek(struct.unpack("<Q", f.read(8))[0])
        f.write(b"\xff" * 8)
    with open(heap, "rb") as f:
        before = f.read()
    assert "allocator" in run(replayer, "--heap", heap, "--once", status=1)
    assert "allocator" in run(replayer, "--heap", heap, status=1)
    assert "allocator" in run(unclosed_heap, "verify", heap, status=1)
    with open(heap, "rb") as f:
        assert f.read() == before, "a refused file was changed"


def verify(name):
    done = subprocess.run(
        ["systemd-analyze", "verify", name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return "" if done.returncode == 0 and "fur-replayer" not in done.stdout else done.stdout


def check_unit(place):
    """As systemd reads it, with our own program in its place."""
    name = os.path.join(place, "fur-replayer@dev-shm-x.service")
    with open(unit) as source, open(name, "w") as f:
        for line in source:
            f.write(f"ExecStart=:{replayer} %f\n" if line.startswith("ExecStart=") else line)
    assert verify(name) == "", verify(name)
    return name


def drop_in():
    """The one of the page, with our own program."""
    with open(page) as f:
        found = re.search(r"^    \[Service\]\n(?:    .*\n)+", f.read(), re.MULTILINE)
    assert found, page
    text = re.sub("^    ", "", found.group(), flags=re.MULTILINE)
    name = "/usr/bin/fur-replayer"
    assert text.count(name) == 1, text
    return text.replace(name, replayer)


def check_drop_in(name, text):
    os.mkdir(name + ".d")
    conf = os.path.join(name + ".d", "override.conf")
    with open(conf, "w") as f:
        f.write(text.replace(replayer, replayer + "-that-is-missing"))
    assert "that-is-missing" in verify(name), "systemd does not look at the drop-in"
    with open(conf, "w") as f:
        f.write(text)
    assert verify(name) == "", verify(name)


def deny_write_execute():
    """As MemoryDenyWriteExecute= of the unit, where the kernel can."""
    ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN


def serve_with_drop_in(heap, text):
    """The command line that the drop-in leaves: an empty one takes the unit's back."""
    lines = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    assert len(lines) == 2 and lines[0] == "" and lines[1][0] == ":", lines
    run(unclosed_heap, "make", heap)
    daemon = subprocess.Popen(
        lines[1][1:].replace("%f", heap).split(" "),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=deny_write_execute,
    )
    assert daemon.stdout
    assert "waiting for work" in daemon.stdout.readline()
    assert "its process has died" in daemon.stdout.readline()
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait() == 0
    run(unclosed_heap, "verify", heap)


with tempfile.TemporaryDirectory(
    dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
) as place:
    os.chmod(place, 0o755)
    damaged_header(os.path.join(place, "header"))
    if os.geteuid() == 0:
        serve_as_owner(os.path.join(place, "serve"))
        once_as_owner(os.path.join(place, "once"))
        if swapped_path:
            swapped(place)
        else:
            print("skipped: no LD_PRELOAD in this build")
    else:
        print("skipped: only root can become another user")
    changes = drop_in()
    serve_with_drop_in(os.path.join(place, "drop-in"), changes)
    if shutil.which("systemd-analyze"):
        check_drop_in(check_unit(place), changes)
    else:
        print("skipped: no systemd-analyze here")
print("ok")
