#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fur-replayer works as the owner of the heap when root starts it; it refuses the heaps that
fur_open refuses; systemd accepts its unit.

    owner_test.py FUR_REPLAYER UNCLOSED_HEAP UNIT
"""
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

replayer, unclosed_heap, unit = [os.path.abspath(path) for path in sys.argv[1:]]
NOBODY = 65534


def run(*args, status=0):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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


def check_unit(place):
    """As systemd reads it, with our own program in its place."""
    name = os.path.join(place, "fur-replayer@dev-shm-x.service")
    with open(unit) as source, open(name, "w") as f:
        for line in source:
            f.write(f"ExecStart=:{replayer} %f\n" if line.startswith("ExecStart=") else line)
    done = subprocess.run(
        ["systemd-analyze", "verify", name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0 and "fur-replayer" not in done.stdout, done.stdout


with tempfile.TemporaryDirectory(
    dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
) as place:
    os.chmod(place, 0o755)
    damaged_header(os.path.join(place, "header"))
    if os.geteuid() == 0:
        serve_as_owner(os.path.join(place, "serve"))
        once_as_owner(os.path.join(place, "once"))
    else:
        print("skipped: only root can become another user")
    if shutil.which("systemd-analyze"):
        check_unit(place)
    else:
        print("skipped: no systemd-analyze here")
print("ok")
