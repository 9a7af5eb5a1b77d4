#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fur-standby and fur-copy --for-standby with real processes, and a log in a file: copies of a heap
that is in use, standbys that are killed, and fail-overs by hand, by handover and by silence.

    fur_standby_test.py FUR_SHIP FUR_STANDBY FUR_COPY SHIPPED_HEAP FUR_INFO FUR_STAT
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

import programs
from programs import refused, run, until

ship, standby, fur_copy, heap_program, info, stat = [
    os.path.abspath(path) for path in sys.argv[1:7]
]
FENCED, PROMOTED = 3, 4


class Process(programs.Process):
    def __init__(self, *args):
        super().__init__(*args, start_new_session=True)

    def kill(self):
        """End it, and those that it has started; returns all that it has printed."""
        os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.communicate()[0]


def role(path):
    return run(ship, "--status", path).split("\n")[0].rpartition(": ")[2]


def shown(path):
    return int(run(heap_program, "show", path))


def newest(text):
    """The newest value whose update has returned; a line may be a part of one."""
    return int(text.rpartition("\n")[0].rpartition("\n")[2] or 0)


class Heap:
    """A primary, which fur-ship ships."""

    def __init__(self, place, name):
        self.path = os.path.join(place, name)
        self.log = self.path + "-log"
        run(heap_program, "make", self.path)
        run(ship, "--init", self.path, "--log", "file:" + self.log, "--quiet")
        self.shipper = Process(ship, self.path, "--beat", "20", "--quiet")

    def writer(self, level="local", n=0):
        return Process(heap_program, "write", self.path, level, str(n))

    def write(self, level, n):
        return int(run(heap_program, "write", self.path, level, str(n)).split()[-1])

    def copy(self, name, source=None):
        """A new standby; returns its path and its node."""
        path = self.path + name
        said = run(fur_copy, "--for-standby", source or self.path, path)
        found = re.search("standby, node ([0-9a-f]{16})", said)
        assert found, said
        return path, found.group(1)


def follow(path, *options):
    keeper = Process(standby, path, *options)
    keeper.expect("follows")
    return keeper


def reaches(path, value):
    until(lambda: shown(path) >= value, f"{path} does not reach {value}")


def usage(place):
    path = os.path.join(place, "usage")
    refused("HEAP is missing", standby, status=2)
    refused("one heap at a time", standby, path, path, status=2)
    refused("--rank is for --takeover", standby, path, "--rank", "1", status=2)
    refused("--takeover 999: use 1000 to", standby, path, "--takeover", "999", status=2)
    refused("--rank 16: use 0 to 15", standby, path, "--takeover", "1000", "--rank=16", status=2)
    refused("-X x: use KEY=VALUE", standby, "-X", "x", path, status=2)
    refused("give the other options to that one", standby, "--promote", path, "-X", "a=b", status=2)
    refused("no such file", standby, path)
    run(heap_program, "make", path)
    refused("the heap has no role: a standby begins as a copy", standby, path)
    refused("the heap is no standby", standby, "--promote", path)
    refused("so no standby can follow", fur_copy, "--for-standby", path, path + "-copy")
    assert not os.path.exists(path + "-copy")


def copies(place):
    """Of a primary that is closed, of one that works, and of a standby."""
    heap = Heap(place, "copies")
    heap.write("local", 100)
    first, _ = heap.copy("-first")
    writer = heap.writer()
    for _ in range(50):
        writer.expect("")
    second, _ = heap.copy("-second")
    keeper = follow(first)
    third, _ = heap.copy("-third", first)
    keepers = [keeper, follow(second), follow(third)]
    last = newest(writer.out.readline() + "\n")
    for path in (first, second, third):
        reaches(path, last)
    refused("open in another process", standby, first)
    writer.kill()
    until(lambda: "closed" in run(ship, "--status", heap.path), "fur-ship does not recover it")
    value = heap.write("replicated", 10)
    for path, one in zip((first, second, third), keepers):
        reaches(path, value)
        assert shown(path) == value
        assert one.end(0, signal.SIGTERM) == ("", "")
        assert role(path) == "standby"
        assert shown(path) == value
    heap.shipper.end(0, signal.SIGTERM)


def follow_without_log(heap, path, of_info, of_stat):
    """The log is away when the standby begins to follow, and comes back."""
    os.rename(heap.log, heap.log + "-away")
    keeper = Process(standby, path)
    assert "; trying again" in keeper.err.readline()
    assert "\nfollows, and does not know where the log ends: see what" in run(
        ship, "--status", path
    )
    assert "; follows, and does not know where the log ends: see what" in run(info, path)
    assert of_info()["follows"] is True and of_info()["unread"] is None, of_info()
    assert of_stat()["follows"] is True and "unread" not in of_stat(), of_stat()
    os.rename(heap.log + "-away", heap.log)
    keeper.expect("follows")
    return keeper


def how_far(place):
    """Anyone may see what a standby has applied, and how far the log's end is."""
    heap = Heap(place, "far")
    path, _ = heap.copy("-standby")

    def status():
        return run(ship, "--status", path)

    def of_info():
        return json.loads(run(info, path, "--json"))["shipping"]

    def of_stat():
        return json.loads(run(stat, path, "0.01", "1", "--json"))

    assert f"\nnothing follows: start fur-standby {path}\n" in status()
    assert "; nothing follows: start fur-standby" in run(info, path)
    assert of_info()["follows"] is False and of_info()["unread"] is None, of_info()
    assert of_stat()["follows"] is False and "unread" not in of_stat(), of_stat()

    keeper = follow_without_log(heap, path, of_info, of_stat)
    keeper.expect("the shipping log works again")
    value = heap.write("replicated", 10)
    reaches(path, value)
    # It tells of an update after readers can find it.
    until(lambda: of_info()["durts"] >= 10, "the position does not move")
    first = of_info()
    assert first["offset"] >= 10 and first["term"] >= 1, first
    assert shown(path) == value
    value = heap.write("replicated", 20)
    reaches(path, value)
    until(lambda: of_info()["durts"] >= first["durts"] + 20, "the position does not move")
    until(lambda: of_info()["unread"] == 0, "it does not say that it has read all")
    said, counts = of_info(), of_stat()
    assert said["offset"] > first["offset"] and said["heard_s"] >= 0, said
    assert counts["unread"] == 0 and counts["heard_s"] >= 0, counts
    assert counts["durts"] == said["durts"] and counts["offset"] >= said["offset"], (said, counts)
    assert "; follows, 0 messages behind the end of the log, read the newest" in run(info, path)
    text = status()
    assert f", durTS {said['durts']}\n" in text and "at offset" in text, text
    assert "\nfollows, 0 messages behind the end of the log\nread the newest frame" in text, text
    lines = run(stat, path, "0.01", "1").splitlines()
    assert lines[0].endswith("log%  follows     unread    heard"), lines
    assert lines[1].split()[-3:-1] == ["yes", "0"] and len(lines[0]) == len(lines[1]), lines
    metrics = run(stat, path, "0.01", "1", "--prometheus")
    for metric, expected in (("up", 1), ("unread_messages", 0), ("durts", said["durts"])):
        assert re.search(f"^fur_follow_{metric}{{.*}} {expected}$", metrics, re.MULTILINE), metrics

    # The position stays when nothing follows: ended, or killed.
    keeper.end(0, signal.SIGTERM)
    assert "nothing follows" in status()
    assert of_info()["follows"] is False and of_info()["durts"] == said["durts"], of_info()
    keeper = follow(path)
    until(lambda: of_info()["unread"] == 0, "it does not follow again")
    keeper.kill()
    assert "nothing follows" in status() and of_stat()["follows"] is False
    assert of_info()["durts"] == said["durts"], of_info()
    heap.shipper.end(0, signal.SIGTERM)


def kills(place):
    heap = Heap(place, "kills")
    path, _ = heap.copy("-standby")
    writer = heap.writer()
    # A pipe that is full would stop it.
    said = []
    reader = threading.Thread(target=lambda: said.extend(writer.out))
    reader.start()
    for _ in range(15):
        before = shown(path)
        keeper = follow(path)
        until(lambda n=before: shown(path) > n, "it does not follow")
        keeper.kill()
    writer.process.kill()
    reader.join()
    writer.process.wait()
    until(lambda: "closed" in run(ship, "--status", heap.path), "fur-ship does not recover it")
    value = heap.write("replicated", 1)
    assert value > newest("".join(said))
    keeper = follow(path)
    reaches(path, value)
    assert shown(path) == value
    keeper.end(0, signal.SIGTERM)
    heap.shipper.end(0, signal.SIGTERM)


def by_hand(place):
    """A program writes meanwhile; then the old primary follows, and takes its place back."""
    heap = Heap(place, "hand")
    path, _ = heap.copy("-standby")
    refused("no fur-standby of this machine has the heap open", standby, "--promote", path)
    writer = heap.writer("replicated")
    for _ in range(20):
        writer.expect("")
    keeper = follow(path)
    assert "promoted" in run(standby, "--promote", path)
    said, _ = keeper.end(PROMOTED)
    assert "asked to take over" in said and "start the program that updates it" in said, said
    assert "open it again" not in said, said  # that is for programs
    assert role(path) == "primary"
    refused("the heap is a primary already", standby, "--promote", path)
    heap.shipper.end(FENCED)
    returned = newest(writer.line + writer.end(FENCED)[0].partition("error")[0])
    assert shown(path) >= returned > 0

    after = Process(ship, path, "--beat", "20", "--quiet")
    value = int(run(heap_program, "write", path, "replicated", "50").split()[-1])
    assert value >= returned + 50
    keeper = Process(standby, heap.path)
    line = keeper.out.readline()
    assert "nothing was lost" in line or "follows" in line, line
    reaches(heap.path, value)
    assert shown(heap.path) == value
    assert "promoted" in run(standby, "--promote", heap.path)
    keeper.end(PROMOTED)
    after.end(0, signal.SIGTERM)
    back = Process(ship, heap.path, "--beat", "20", "--quiet")
    assert heap.write("replicated", 5) == value + 5
    back.end(0, signal.SIGTERM)


def dropped(heap, path, size):
    """The heap's newest update is not shipped, and the standby takes over; then the heap follows.
    Returns what the heap has dropped, as fur-standby shows it."""
    keeper = follow(path)
    program = programs.Process(heap_program, "hold", heap.path, str(size), stdin=subprocess.PIPE)
    program.expect("begun")
    heap.shipper.kill()
    assert program.process.stdin
    program.process.stdin.write("\n")
    program.process.stdin.flush()
    until(lambda: "; 1 updates are not" in run(ship, "--status", heap.path), "it is shipped")
    program.kill()
    run(standby, "--promote", path)
    keeper.end(PROMOTED)
    old = Process(standby, heap.path)
    error = old.err.readline()
    assert f"1 updates that had not been shipped are dropped, and kept in {heap.path}.lost" in error
    assert f"fur-standby --show-lost {heap.path}.lost {heap.path}\n" in error, error
    old.expect("follows")
    said = run(standby, "--show-lost", heap.path + ".lost", heap.path)
    old.end(0, signal.SIGTERM)
    return said


def lost(place):
    """What a rejoin has dropped can be read."""
    heap = Heap(place, "lost")
    path, _ = heap.copy("-standby")
    value = heap.write("replicated", 5)
    file = heap.path + ".lost"
    refused("there is no file", standby, "--show-lost", file, heap.path)
    refused("is not the log of a stream", standby, "--show-lost", path, heap.path)
    refused("leave the other", standby, "--show-lost", file, "--promote", path, status=2)
    said = dropped(heap, path, 0)
    word = (value + 1).to_bytes(8, "little").hex()
    found = re.fullmatch(
        rf"term 1, durTS \d+: stored 8 bytes\n  0x[0-9a-f]+: 8 bytes: {word} = {value + 1}\n"
        "1 updates, which stored 8 bytes\n",
        said,
    )
    assert found, said

    # A block, whose bytes no log has.
    heap = Heap(place, "lost-block")
    path, _ = heap.copy("-standby")
    said = dropped(heap, path, 30000)
    assert re.search("^term 1, durTS [0-9]+: stored [0-9]{5} bytes$", said, re.MULTILINE), said
    block = re.search(r"^  0x([0-9a-f]+): \d{5} bytes: (62){32}\.\.\.$", said, re.MULTILINE)
    assert block, said
    root = re.search(r"\(root 1\): 8 bytes: \S+ = (\d+)$", said, re.MULTILINE)
    assert root and int(root.group(1)) == int(block.group(1), 16), said
    assert re.search(r"\(allocator\): 8 bytes: ", said), said
    refused("has no update of this heap", standby, "--show-lost", file, heap.path)


def handover(place):
    heap = Heap(place, "handover")
    path, node = heap.copy("-standby")
    keeper = follow(path)
    writer = heap.writer("local")
    for _ in range(20):
        writer.expect("")
    run(ship, "--handover", node, heap.path)
    heap.shipper.end(0)
    said, _ = keeper.end(PROMOTED)
    assert "the primary hands over to this heap" in said, said
    # All that has returned, also at this level.
    returned = newest(writer.line + writer.end(FENCED)[0].partition("error")[0])
    assert shown(path) >= returned > 0
    assert role(path) == "primary"


def silence(place):
    """The primary's machine dies: one standby takes over, and the other follows it."""
    heap = Heap(place, "silence")
    first, _ = heap.copy("-first")
    second, _ = heap.copy("-second")
    command = f'{ship} --quiet "$FUR_HEAP" & exec {heap_program} write "$FUR_HEAP" replicated 0'
    one = follow(first, "--takeover", "5000", "--on-primary", command)
    two = follow(second, "--takeover", "80000000", "--rank", "1")
    writer = heap.writer("replicated")
    for _ in range(50):
        writer.expect("")
    heap.shipper.kill()
    returned = newest(writer.line + writer.kill())
    one.expect("the primary is silent")
    one.expect("the heap is a primary now")
    one.expect("running the command")
    value = int(one.expect(""))
    assert value > returned, (value, returned)
    reaches(second, value)
    until(lambda: role(first) == "primary", "it is no primary")
    assert role(second) == "standby"
    value = newest(one.line + one.kill())
    # The program's heap was not closed: fur-ship recovers it, with the log.
    after = Process(ship, first, "--quiet")
    until(lambda: "closed" in run(ship, "--status", first), "fur-ship does not recover it")
    assert shown(first) >= value
    reaches(second, shown(first))
    assert shown(second) == shown(first)
    two.end(0, signal.SIGTERM)
    after.end(0, signal.SIGTERM)


def unfinished(place):
    """The next fur-standby finishes a promotion that ended between its claim and its role; and a
    heap that is the primary goes on as such."""
    heap = Heap(place, "unfinished")
    path, node = heap.copy("-standby")
    value = heap.write("replicated", 20)
    heap.shipper.kill()
    run(heap_program, "claim", path, heap.log, node)
    keeper = follow(path)
    keeper.expect("it goes on to become the primary")
    keeper.end(PROMOTED)
    assert shown(path) == value
    assert role(path) == "primary"
    assert f"at {path}\n" in run(standby, path, "--on-primary", 'echo at "$FUR_HEAP"')
    assert "primary: let fur-ship ship it" in run(standby, path, status=PROMOTED)


place_of_all = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
with tempfile.TemporaryDirectory(prefix="fur-standby-", dir=place_of_all) as directory:
    for test in (usage, copies, how_far, kills, by_hand, lost, handover, silence, unfinished):
        print(test.__name__, flush=True)
        test(directory)
