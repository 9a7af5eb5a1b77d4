#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fur-replayer beside a working process: what it says and returns, through the life of a heap.

    replayer_daemon_test.py FUR_REPLAYER RBTREE
"""
import os
import signal
import subprocess
import sys
import tempfile

replayer, rbtree = sys.argv[1:]


def run(*args, status=0):
    result = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert result.returncode == status, (args, result.returncode, result.stdout, result.stderr)
    return result.stdout if status == 0 else result.stderr


def work(heap, *more, seconds="0.3"):
    return [
        rbtree,
        "--heap",
        heap,
        "--keys",
        "1000",
        "--update",
        "100",
        "--seconds",
        seconds,
        "--log-mib",
        "1",
        "--ring-slots",
        "4096",
        *more,
    ]


class Daemon:
    def __init__(self, heap, *options, **more):
        self.process = subprocess.Popen(
            [replayer, "--heap", heap, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )
        assert self.process.stdout and self.process.stderr
        self.out, self.err = self.process.stdout, self.process.stderr
        self.expect("waiting for work")

    def expect(self, text):
        line = self.out.readline()
        assert text in line, (text, line, self.err.read() if not line else "")

    def end(self, how, status):
        if how:
            self.process.send_signal(how)
        assert self.process.wait() == status, self.err.read()
        return self.err.read()


def life(heap):
    run(*work(heap))
    assert "closed cleanly\nno replayer" in run(replayer, "--heap", heap, "--status")
    daemon = Daemon(heap)
    assert f"replayed by process {daemon.process.pid}" in run(replayer, "--heap", heap, "--status")
    assert "a replayer serves this heap already" in run(replayer, "--heap", heap, status=1)

    # A process that closes the heap.
    run(*work(heap, "--reuse"))
    daemon.expect("opened by process")
    daemon.expect("closed")

    # One that is killed, at work: the heap is up to date when the daemon says so.
    worker = subprocess.Popen(work(heap, "--reuse", seconds="1000"), stdout=subprocess.DEVNULL)
    daemon.expect("opened by process " + str(worker.pid))
    assert f"open in process {worker.pid}" in run(replayer, "--heap", heap, "--status")
    assert "open in another process" in run(replayer, "--heap", heap, "--once", status=1)
    worker.kill()
    worker.wait()
    daemon.expect("its process has died")
    daemon.expect("replayed")
    status = run(replayer, "--heap", heap, "--status")
    assert "closed cleanly" in status, status
    assert "preload: sequential; distance in replay " in status, status
    run(*work(heap, "--reuse"))  # verifies the tree
    daemon.expect("opened by process")
    daemon.expect("closed")

    # Its own death, and a stop, in the middle of somebody's work.
    for how in (signal.SIGKILL, signal.SIGSTOP):
        worker = subprocess.Popen(work(heap, "--reuse"), stdout=subprocess.DEVNULL)
        daemon.expect("opened by process")
        daemon.process.send_signal(how)
        if how == signal.SIGKILL:
            assert worker.wait() == 0
            daemon.end(None, -signal.SIGKILL)
            daemon = Daemon(heap)
        else:
            daemon.process.send_signal(signal.SIGCONT)
            assert worker.wait() == 0
            daemon.expect("closed")
    daemon.end(signal.SIGTERM, 0)

    # A heap that was not closed, found when it starts.
    worker = subprocess.Popen(work(heap, "--reuse", seconds="1000"), stdout=subprocess.DEVNULL)
    while "open in process" not in run(replayer, "--heap", heap, "--status"):
        pass
    worker.kill()
    worker.wait()
    daemon = Daemon(heap)
    daemon.expect("its process has died")
    daemon.expect("replayed")

    # The file goes.
    os.truncate(heap, 70000)
    run(*work(heap, "--reuse"), status=2)
    os.unlink(heap)
    daemon.process.send_signal(signal.SIGTERM)
    daemon.process.wait()


def another_way_to_preload(heap):
    run(*work(heap))
    daemon = Daemon(heap, "--preload", "batch:8")
    worker = subprocess.Popen(work(heap, "--reuse", seconds="1000"), stdout=subprocess.DEVNULL)
    daemon.expect("opened by process")
    says = "preload: batch-wise; distance in replay 8, in inspection 8\n"
    while says not in run(replayer, "--heap", heap, "--status"):
        pass
    worker.kill()
    worker.wait()
    daemon.expect("its process has died")
    daemon.expect("replayed")
    daemon.end(signal.SIGTERM, 0)


with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
    life(os.path.join(place, "heap"))
    another_way_to_preload(os.path.join(place, "heap"))
print("ok")
