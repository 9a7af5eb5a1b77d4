#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fur-operators: its command line; it works as the owner of the heap when root starts it, loads
only operators of root or of its own user (INV-OP4), and shows what a program asks for.  The header
compiles in C and in C++.

    program_test.py FUR_OPERATORS FUR_REPLAYER UNCLOSED_HEAP OPERATORS.so
"""
import ctypes
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

program, replayer, unclosed_heap, operators = [os.path.abspath(path) for path in sys.argv[1:5]]
LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = os.path.join(os.path.dirname(os.path.dirname(LAB)), "include")
NOBODY, SOMEBODY = 65534, 12345
PATIENCE_S = 60
CODE = """
#include <fur_operator.h>
static bool one(void *c, size_t b, uint64_t n, void *a)
{ return c == a && b == n; }
static const struct fur_operator all[] = {{"one", one}};
FUR_OPERATORS(all)
"""


def expect(arguments, status, text, user=None):
    become = None if user is None else (lambda: os.setresuid(user, user, user))
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=become
    )
    said = done.stdout + done.stderr
    assert done.returncode == status and text in said, (arguments, done.returncode, said)


def make(heap, owner=None):
    expect([unclosed_heap, "make", heap], 0, "")
    if owner is not None:
        os.chown(heap, owner, owner)


def command_line(place):
    heap = os.path.join(place, "heap")
    expect([program], 2, "HEAP is missing")
    expect([program, heap], 2, "--operators FILE is missing")
    expect([program, heap, heap], 2, "one heap at a time")
    expect([program, heap, "--operators", "x", "--status"], 2, "not with --status")
    expect([program, heap, "--operators", operators], 1, heap + ": no such file")
    make(heap)
    text = f"{heap}: --operators {place}: it is not a regular file: name a shared object"
    expect([program, heap, "--operators", place], 1, text)
    expect([program, heap, "--operators", place + "/x"], 1, "/x: cannot open it: No such file")


def start(*arguments, user=None, mdwe=False):
    def become():
        if mdwe:  # as MemoryDenyWriteExecute= of systemd, where the kernel can
            ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN
        if user is not None:
            os.setresuid(user, user, user)

    daemon = subprocess.Popen(
        [program, *arguments], stdout=subprocess.PIPE, text=True, preexec_fn=become
    )
    assert daemon.stdout and "waiting for work" in daemon.stdout.readline(), arguments
    return daemon


def stop(daemon):
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(PATIENCE_S) == 0


def serves(file, heap, owner, user=None, mdwe=False):
    daemon = start("--operators", file, heap, user=user, mdwe=mdwe)
    with open(f"/proc/{daemon.pid}/status") as f:
        status = dict(line.rstrip("\n").split(":", 1) for line in f)
    assert [int(n) for n in status["Uid"].split()] == [owner] * 4, status["Uid"]
    with open(f"/proc/{daemon.pid}/maps") as f:
        assert os.path.basename(file) in f.read(), "the operators are not loaded"
    expect([program, "--status", heap], 0, f"served by process {daemon.pid}")
    expect([program, "--operators", file, heap], 1, "one is enough", user)
    stop(daemon)
    expect([program, "--status", heap], 0, "no fur-operators")


def beside_a_replayer(place):
    heap = os.path.join(place, "beside")
    make(heap)
    daemon = start("--operators", operators, heap)
    other = subprocess.Popen([replayer, heap], stdout=subprocess.PIPE, text=True)
    assert other.stdout and "waiting for work" in other.stdout.readline()
    assert "its process has died" in other.stdout.readline()
    stop(daemon)
    stop(other)
    expect([unclosed_heap, "verify", heap], 0, "")


def foreign_operators(place):
    """Operators belong to root or to the process's own user, not to the heap's (INV-OP4)."""
    heap, of = os.path.join(place, "foreign"), {}
    for owner in (0, NOBODY, SOMEBODY):
        of[owner] = os.path.join(place, f"operators-of-{owner}.so")
        shutil.copyfile(operators, of[owner])
        os.chown(of[owner], owner, owner)
    make(heap, NOBODY)
    os.chmod(heap, 0o666)
    for owner in (0, NOBODY):
        serves(of[owner], heap, NOBODY)
    says = f"belongs to user {SOMEBODY}, and fur-operators runs as user {NOBODY}"
    expect([program, "--operators", of[SOMEBODY], heap], 1, says)
    for owner in (0, SOMEBODY):
        serves(of[owner], heap, SOMEBODY, user=SOMEBODY)
    says = f"runs as user {SOMEBODY}: give"
    expect([program, "--operators", of[NOBODY], heap], 1, says, SOMEBODY)
    # What stays root runs nothing of others.
    make(heap + "-of-root", 0)
    expect([program, "--operators", of[NOBODY], heap + "-of-root"], 1, "runs as user 0: give")


def poke(heap, offset, data):
    with open(heap, "r+b") as f:
        f.seek(offset)
        f.write(data)


def shows_a_request(place):
    """The words of struct control_errand: request 3, with states 1 and 2; done; records; name."""
    heap = os.path.join(place, "shows")
    make(heap)
    # The superblock's control_offset is the offset after log_offset; found by its effect.
    with open(heap, "rb") as f:
        head = f.read(4096)
    at = None
    for word in range(0, 256, 8):
        offset = struct.unpack_from("<Q", head, word)[0]
        if offset == 0 or offset % 4096 or offset + 4096 > os.path.getsize(heap):
            continue
        with open(heap, "rb") as f:
            f.seek(offset + 512)
            before = f.read(96)
        if any(before):
            continue
        poke(heap, offset + 512 + 80, b"interest\0")
        poke(heap, offset + 512, (3 * 5 + 1).to_bytes(8, sys.byteorder))
        done = subprocess.run([program, "--status", heap], capture_output=True, text=True)
        if "operator 'interest' is asked for, and has not begun" in done.stdout:
            at = offset + 512
            break
        poke(heap, offset + 512, before)
    assert at is not None, "no control region"
    poke(heap, at + 64, (1000).to_bytes(8, sys.byteorder))
    poke(heap, at + 8, (70).to_bytes(8, sys.byteorder))
    poke(heap, at, (3 * 5 + 2).to_bytes(8, sys.byteorder))
    shown = "operator 'interest' has mapped 70 of 1000 records"
    expect([program, "--status", heap], 0, shown)
    poke(heap, at, (3 * 5 + 3).to_bytes(8, sys.byteorder))
    done = subprocess.run([program, "--status", heap], capture_output=True, text=True)
    assert done.returncode == 0 and "interest" not in done.stdout, done


def header_compiles(place):
    for compiler, suffix, more in (
        ("cc", "c", ["-std=c11", "-Wstrict-prototypes"]),
        ("c++", "cpp", ["-std=c++17"]),
    ):
        source = os.path.join(place, "operators." + suffix)
        with open(source, "w") as f:
            f.write(CODE)
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        command = [compiler, *more, *warnings, "-I", LAB, "-I", INCLUDE]
        expect([*command, "-fsyntax-only", source], 0, "")


with tempfile.TemporaryDirectory(
    dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
) as directory:
    os.chmod(directory, 0o755)
    command_line(directory)
    header_compiles(directory)
    shows_a_request(directory)
    beside_a_replayer(directory)
    if os.geteuid() == 0:
        foreign_operators(directory)
    else:
        print("skipped: only root can become another user")
    own = os.path.join(directory, "own")
    make(own)
    serves(operators, own, os.geteuid(), mdwe=True)
print("ok")
