#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fur-ship with real processes, and a log in a file: roles, programs and shippers that are killed,
a heap that is fenced, a heap that is handed over, a log that fails.

    fur_ship_test.py FUR_SHIP FUR_REPLAYER SHIPPED_HEAP UNIT SLOW_LOCKS
                     [FUR_INFO FUR_STAT FUR_CHECK FUR_COPY FUR_RESIZE]

SLOW_LOCKS is a library for LD_PRELOAD, or empty where none can be.  Without the tools, what they
show of a role is not tested.
"""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import programs
from programs import refused, run, until

ship, replayer, heap_program, unit = [os.path.abspath(path) for path in sys.argv[1:5]]
slow_locks = sys.argv[5]
tools = [os.path.abspath(path) for path in sys.argv[6:]]
EFENCED, EBEHIND, FENCED = -24, -23, 3
OTHER_NODE = "00000000000000ab"


class Process(programs.Process):
    def __init__(self, *args, **more):
        super().__init__(*args, stdin=subprocess.PIPE, **more)
        assert self.process.stdin
        self.input = self.process.stdin


class Heap:
    """A primary, and a standby as it was before the first update."""

    def __init__(self, place, name="heap"):
        self.path = os.path.join(place, name)
        self.standby = self.path + "-standby"
        self.log = self.path + "-log"
        run(heap_program, "make", self.path)
        run(ship, "--init", self.path, "--log", "file:" + self.log, "--quiet")
        run("cp", self.path, self.standby)
        self.node = run(heap_program, "standby", self.standby).strip()

    def shipper(self, *options):
        daemon = Process(ship, self.path, *options)
        daemon.expect("waiting for a program")
        return daemon

    def writer(self, level="local", n=0):
        return Process(heap_program, "write", self.path, level, str(n))

    def write(self, level, n):
        return int(run(heap_program, "write", self.path, level, str(n)).split()[-1])

    def shown(self):
        return int(run(heap_program, "show", self.path))

    def shown_closed(self):
        """When it is recovered."""
        until(lambda: "\nclosed\n" in self.status(), "not recovered")
        return self.shown()

    def followed(self):
        return int(run(heap_program, "follow", self.standby, self.log))

    def status(self):
        return run(ship, "--status", self.path)

    def frames(self):
        text = run(heap_program, "frames", self.path, self.log)
        return {kind: int(n) for kind, n in re.findall(r"(\w+) (\d+)", text)}

    def claim(self):
        run(heap_program, "claim", self.path, self.log, OTHER_NODE)


def newest(text):
    """The newest value whose update has returned; a line may be a part of one."""
    return int(text.rpartition("\n")[0].rpartition("\n")[2] or 0)


# ------------------------------------------------------------------------- roles


def usage(place):
    path = os.path.join(place, "usage")
    refused("HEAP is missing", ship, status=2)
    refused("one heap at a time", ship, path, path, status=2)
    refused("--init: the log is missing: use --log NAME", ship, "--init", path, status=2)
    refused("--log is for --init", ship, path, "--log", "file:x", status=2)
    refused("one at a time", ship, "--init", "--status", path, status=2)
    refused("-X x: use KEY=VALUE", ship, "-X", "x", path, status=2)
    refused("--beat 1x: use 0 to 60000", ship, "--beat", "1x", path, status=2)
    for node in ("7", "00000000000000zz", "0" * 16):
        refused("use the node of a standby", ship, "--handover", node, path, status=2)
    refused("no such file", ship, path)


def roles(place):
    path = os.path.join(place, "roles")
    log = "file:" + path + "-log"
    run(heap_program, "make", path)
    assert "no role\nclosed\n" in run(ship, "--status", path)
    refused("not shipped: make it a primary, with fur-ship --init", ship, path)
    refused("the heap has no role", ship, "--detach", path)
    refused("the heap is no primary", ship, "--handover", OTHER_NODE, path)
    refused("is of no kind that libfur knows: use kafka:", ship, "--init", path, "--log", "x")
    refused("has no settings", ship, "--init", path, "--log", log, "-X", "a=b")
    refused("has 500 bytes: 431 at most", ship, "--init", path, "--log", "x" * 500)

    # What keeps the role in its memory is in the way.
    program = Process(heap_program, "hold", path)
    program.expect("begun")
    refused("open in another process", ship, "--init", path, "--log", log)
    program.kill()
    refused("was not closed: let fur-replayer recover it", ship, "--init", path, "--log", log)
    daemon = Process(replayer, path)
    daemon.expect("waiting for work")
    daemon.expect("its process has died")
    refused("a replayer serves this heap already: stop that", ship, "--init", path, "--log", log)
    daemon.end(0, signal.SIGTERM)
    assert not os.path.exists(log[5:]), "a refused init has made the log"

    run("cp", path, path + "-other")
    assert "primary, node" in run(ship, "--init", path, "--log", log)
    refused("is a primary already", ship, "--init", path, "--log", log + "-2")
    refused("no fur-ship ships this heap", ship, "--handover", OTHER_NODE, path)
    node = re.search("node ([0-9a-f]{16})", run(ship, "--status", path))
    assert node
    refused("the heap's own node", ship, "--handover", node.group(1), path)
    daemon = Process(ship, path)
    daemon.expect("waiting for a program")
    for options in ((), ("--detach",), ("--init", "--log", log + "-3")):
        refused("a fur-ship serves this heap already: stop that one first", ship, *options, path)
    refused("no program has the heap open", ship, "--handover", OTHER_NODE, path)
    run(heap_program, "write", path, "local", "3")
    daemon.end(0, signal.SIGINT)
    # The log has a stream of the heap now.
    refused("has a stream of this heap already", ship, "--init", path + "-other", "--log", log)
    assert "no primary any more" in run(ship, "--detach", path)
    assert run(ship, "--status", path).startswith(path + ": no role\n")
    assert run(heap_program, "write", path, "local", "1") == "4\n"

    old = os.path.join(place, "old")
    run(heap_program, "old", old)
    refused("a heap of version 1 cannot be shipped", ship, "--init", old, "--log", log + "-old")


def systemd(place):
    """The unit as systemd reads it, with our own program in its place."""
    if not shutil.which("systemd-analyze"):
        print("skipped: no systemd-analyze here")
        return
    name = os.path.join(place, "fur-ship@dev-shm-x.service")
    with open(unit) as source, open(name, "w") as f:
        text = source.read()
        assert "RestartPreventExitStatus=2 3\n" in text and "ReadWritePaths=%f\n" in text, text
        f.write(re.sub("^ExecStart=.*$", f"ExecStart=:{ship} %f", text, flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0 and "fur-ship" not in done.stdout, done.stdout


def standby(place):
    heap = Heap(place, "follower")
    refused("the heap is a standby, and ships nothing", ship, heap.standby)
    refused("is a standby already", ship, "--init", heap.standby, "--log", "file:x")
    refused("the heap is no primary", ship, "--handover", OTHER_NODE, heap.standby)
    assert "standby\nnode " + heap.node in run(ship, "--status", heap.standby)
    assert "no standby any more" in run(ship, "--detach", heap.standby)


# -------------------------------------------------------------------------- life


def life(place):
    heap = Heap(place)
    # Without a shipper no update begins.
    assert "no process ships them: start fur-ship" in heap.writer("impatient", 1).end(FENCED)[0]
    daemon = heap.shipper("--beat", "20")
    assert heap.write("replicated", 50) == 50
    daemon.expect("opened by process")
    daemon.expect("closed")
    assert heap.followed() == 50
    assert "shipped by process" in heap.status()
    program = Process(heap_program, "hold", heap.path)
    program.expect("begun")
    daemon.expect("opened by process")
    before = heap.frames()["beats"]
    until(lambda: heap.frames()["beats"] > before + 2, "no beats")
    status = heap.status()
    assert f"open in process {program.process.pid}\n" in status, status
    assert "updates may begin\nterm " in status and "; 0 updates are not" in status, status
    program.input.write("\n")
    program.end(0)
    daemon.end(0, signal.SIGTERM)
    assert heap.followed() == 51
    assert heap.frames()["void"] == 0


def kills(place):
    """The program, the shipper, both.  What has returned is there, and the log has it."""
    heap = Heap(place, "kills")
    daemon = heap.shipper()
    for round_ in range(9):
        program = heap.writer("replicated" if round_ % 2 else "local")
        program.expect("")
        if round_ % 3:
            daemon.kill()
        if round_ % 3 == 1:  # the shipper alone: another one goes on beside the program
            before = heap.frames()["data"]
            daemon = heap.shipper()
            # A pipe that is full would stop the program.
            until(
                lambda n=before, out=program.out: out.read(4096) and heap.frames()["data"] > n,
                "nothing is shipped",
            )
        said = program.kill()
        if round_ % 3 == 2:
            # libfur does not recover it without the log.
            assert "fur-ship HEAP recovers it" in heap.writer(n=1).end(FENCED)[0]
            assert "needs recovery, which fur-ship does" in heap.status()
            refused("was not closed: recover it first, with fur-ship", ship, "--detach", heap.path)
            refused("fur-ship HEAP recovers it", replayer, "--once", heap.path)
            said_status = run(replayer, "--status", heap.path)
            assert "needs recovery: start fur-ship" in said_status, said_status
            daemon = heap.shipper()
        last = heap.shown_closed()
        assert last >= newest(said), (last, said[-100:])
        assert heap.followed() == last
    daemon.end(0, signal.SIGTERM)


def beside_replayer(place):
    heap = Heap(place, "replayed")
    serves = Process(replayer, heap.path)
    serves.expect("waiting for work")
    daemon = heap.shipper()
    assert heap.write("local", 100) == 100
    serves.expect("opened by process")
    serves.expect("closed")
    daemon.kill()
    program = heap.writer()
    serves.expect("opened by process")
    program.kill()
    serves.expect("its process has died; fur-ship recovers the heap")
    daemon = heap.shipper()
    daemon.expect("its process has died; recovered")
    # Both go on.
    last = heap.write("replicated", 3000)
    said = serves.expect("")
    said += serves.expect("")
    assert "opened by process" in said, said
    assert heap.followed() == last == heap.shown()
    serves.end(0, signal.SIGTERM)
    daemon.end(0, signal.SIGTERM)


def log_fails(place):
    """The log's disk is full: one line when that begins, one when it ends, and nothing is lost."""
    heap = Heap(place, "full")
    daemon = heap.shipper("--beat", "0")
    assert heap.write("replicated", 10) == 10
    daemon.expect("opened by process")
    daemon.expect("closed")
    program = heap.writer("local")
    daemon.expect("opened by process")
    # The heap's file is longer, and written to below this.
    resource.prlimit(
        daemon.process.pid,
        resource.RLIMIT_FSIZE,
        (os.path.getsize(heap.log) + 50000, resource.RLIM_INFINITY),
    )
    assert "; trying again" in daemon.err.readline()
    resource.prlimit(
        daemon.process.pid,
        resource.RLIMIT_FSIZE,
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
    )
    daemon.expect("the log works again")
    said = program.kill()
    daemon.expect("its process has died")
    assert heap.shown() >= newest(said)
    assert heap.followed() == heap.shown()
    assert daemon.end(0, signal.SIGTERM)[1] == ""


def first_look(place):
    """A fur-ship without a program looks at its log: it reports what is wrong, and what time does
    not mend ends it."""
    heap = Heap(place, "looks")
    refused("a=b: a shipping log in a file has no settings", ship, heap.path, "-X", "a=b")
    os.rename(heap.log, heap.log + "-away")
    daemon = Process(ship, heap.path)
    error = daemon.err.readline()
    assert "there is no shipping log" in error and "; trying again" in error, error
    daemon.expect("waiting for a program")
    os.rename(heap.log + "-away", heap.log)
    daemon.expect("the log works again")
    assert heap.write("replicated", 10) == 10
    daemon.expect("opened by process")
    daemon.expect("closed")
    assert daemon.end(0, signal.SIGTERM)[1] == ""

    # Cut in place, while nothing runs.
    shutil.copyfile(heap.log, heap.log + "-whole")
    os.truncate(heap.log, 16)
    refused(heap.log + ": the stream went back: the log ends below", ship, heap.path)
    shutil.copyfile(heap.log + "-whole", heap.log)
    daemon = heap.shipper()
    assert heap.write("replicated", 1) == 11 == heap.followed()
    daemon.end(0, signal.SIGTERM)

    # Fenced, while nothing runs.
    heap.claim()
    refused("this heap is fenced: end its program", ship, heap.path, status=FENCED, lines=1)
    status = heap.status()
    assert "\nclosed\nanother node writes the stream, and this heap is fenced" in status, status
    assert f"with fur-standby {heap.path}\n" in status and "start" not in status, status
    refused("this heap is fenced: let it follow", ship, "--handover", OTHER_NODE, heap.path)
    # A heap without the role, and with it again, is no longer fenced.
    run(ship, "--detach", heap.path)
    run(ship, "--init", heap.path, "--log", "file:" + heap.log + "-2", "--quiet")
    assert "no fur-ship: updates wait" in heap.status()


# --------------------------------------------------------------- fenced, handover


def fenced(place):
    heap = Heap(place, "fenced")
    daemon = heap.shipper("--beat", "20")
    program = heap.writer("replicated")
    program.expect("")
    heap.claim()
    said, error = daemon.end(FENCED)
    assert "fenced: end its program, and let the heap follow that node" in error, error
    assert f"with fur-standby {heap.path}" in error, error
    assert error.count("\n") == 1, error
    said = program.end(FENCED)[0]
    assert f"error {EFENCED}: another heap has taken this one's place" in said, said[-300:]
    assert "close this heap, and let it follow the other one, with fur-standby" in said, said[-300:]
    # A heap that is opened again is fenced again.
    late = f"not closed: {heap.path}: the heap could not be brought up to date"
    assert late in said, said[-500:]
    assert "fur-standby HEAP puts what the shipping log lacks into HEAP.lost" in said, said[-500:]
    assert "open it again" not in said, said[-500:]
    returned = newest(said.partition("error")[0])
    assert "fur-standby HEAP, and open that one" in heap.writer(n=1).end(FENCED)[0]
    status = heap.status()
    assert "not open, was not closed\nanother node writes the stream" in status, status
    refused("fur-standby HEAP: another node", ship, "--detach", heap.path)
    assert "has taken its place, with fur-standby" in run(replayer, "--status", heap.path)
    # Again, with the heap as it is now: not closed.
    refused("this heap is fenced", ship, heap.path, status=FENCED, lines=2)
    # What has returned is in the log.
    assert heap.followed() >= returned


def handover(place):
    heap = Heap(place, "handed-over")
    daemon = heap.shipper()
    waits = Process(heap_program, "heir", heap.path, heap.log, heap.node)
    program = heap.writer("local")  # a fail-over might lose the newest updates
    program.expect("")
    daemon.expect("opened by process")
    # All other processes end while it looks whether they live.
    slow = ("env", "LD_PRELOAD=" + slow_locks, ship) if slow_locks else (ship,)
    assert f"handed over to node {heap.node}" in run(*slow, "--handover", heap.node, heap.path)
    waits.expect("claimed term")
    waits.end(0)
    daemon.expect("handing over to node " + heap.node)
    daemon.expect("handed over")
    assert daemon.end(0)[1] == ""
    said = program.end(FENCED)[0]
    assert f"error {EFENCED}: " in said, said[-300:]
    assert heap.followed() >= newest(said.partition("error")[0])
    refused("this heap is fenced", ship, "--quiet", heap.path, status=FENCED, lines=1)


def handover_in_update(place):
    """An update that has begun before returns what the log has, or is fenced."""
    heap = Heap(place, "in-update")
    daemon = heap.shipper()
    waits = Process(heap_program, "heir", heap.path, heap.log, heap.node)
    program = Process(heap_program, "hold", heap.path)
    program.expect("begun")
    run(ship, "--handover", heap.node, heap.path)
    waits.end(0)
    daemon.end(0)
    program.input.write("\n")
    assert f"error {EFENCED}: " in program.end(FENCED)[0]
    assert heap.followed() == 0


def handover_in_vain(place):
    heap = Heap(place, "in-vain")
    daemon = heap.shipper()
    program = heap.writer("patient")
    program.expect("1")
    daemon.expect("opened by process")
    asks = Process(ship, "--handover", OTHER_NODE, heap.path)
    daemon.expect("handing over to node")
    refused("being handed over already", ship, "--handover", OTHER_NODE, heap.path)
    while "behind: the heap is being handed over to another node" not in program.out.readline():
        continue
    assert "the heap is being handed over" in heap.status()
    assert "has not claimed the stream within" in asks.end(1)[1]
    assert "this heap goes on" in daemon.err.readline()
    while not program.out.readline()[0].isdigit():
        continue
    said = program.kill()
    last = heap.shown_closed()
    assert last >= newest(said)
    assert heap.followed() == last
    # Another follows if the program's only thread had drawn a durTS when the gate was closed, and
    # stored its marker after the first (INV-SH36).
    assert heap.frames()["handovers"] in (1, 2)
    # A program that closes the heap ends the handover.
    program = Process(heap_program, "hold", heap.path)
    program.expect("begun")
    asks = Process(ship, "--handover", OTHER_NODE, heap.path)
    until(lambda: "the heap is being handed over" in heap.status(), "no handover")
    program.input.write("\n")
    program.end(0)
    assert "no program has the heap open" in asks.end(1)[1]
    assert heap.write("replicated", 1) == last + 2 == heap.followed()
    daemon.end(0, signal.SIGTERM)


# ------------------------------------------------------------------------- tools


def damage_ship_page(path):
    with open(path, "r+b") as f:
        for copy in range(2):
            f.seek(4096 + 512 * copy + 24)
            f.write(b"\xff" * 8)


def copies(heap, program):
    """A copy has no role, of a heap at work and of one at rest."""
    info, _, _, copy, _ = tools
    run(copy, heap.path, heap.path + "-copy")
    program.input.write("\n")
    program.end(0)
    run(copy, heap.path, heap.path + "-copy-2")
    for name in ("-copy", "-copy-2"):
        assert json.loads(run(info, heap.path + name, "--json"))["shipping"] is None
        refused("the heap has no role", ship, "--detach", heap.path + name)
        assert run(heap_program, "write", heap.path + name, "local", "1") in ("2001\n", "2002\n")


def shown_by_tools(place):
    if not tools:
        print("skipped: no tools in this build")
        return
    info, stat, check, copy, resize = tools
    heap = Heap(place, "shown")

    def of_info():
        return json.loads(run(info, heap.path, "--json"))["shipping"]

    def of_stat():
        return json.loads(run(stat, heap.path, "0.01", "1", "--json"))

    assert of_info()["role"] == "primary" and of_info()["offset"] is None, of_info()
    assert "primary, node" in run(info, heap.path) and "; no fur-ship" in run(info, heap.path)
    said = json.loads(run(info, heap.standby, "--json"))["shipping"]
    assert (said["role"], said["node"]) == ("standby", heap.node), said
    assert "sound, closed, a primary" in run(check, heap.path)
    refused("give it a new log, with fur-ship --init", resize, heap.path, "--ring-slots=2048")
    refused("resize that one, and make this one", resize, heap.standby, "--ring-slots=2048")
    assert of_stat()["shipper"] is False and "unacked" not in of_stat(), of_stat()

    daemon = heap.shipper()
    heap.write("replicated", 2000)
    program = Process(heap_program, "hold", heap.path)
    program.expect("begun")
    until(lambda: "updates may begin" in heap.status(), "not shipped")
    shipping = of_stat()
    assert shipping["shipper_pid"] == daemon.process.pid and not shipping["fenced"], shipping
    assert shipping["unacked"] == 0 and shipping["term"] >= 1, shipping
    term = shipping["term"]
    assert f"term {term}, lineage {shipping['lineage']}" in heap.status(), shipping
    assert of_info()["term"] and of_info()["frame"], of_info()
    assert f"shipped by process {daemon.process.pid}" in run(info, heap.path)
    lines = run(stat, heap.path, "0.01", "1").splitlines()
    assert lines[0].endswith("log%  shipper    unacked"), lines
    assert lines[1].split()[-2:] == ["yes", "0"] and len(lines[0]) == len(lines[1]), lines
    metrics = run(stat, heap.path, "0.01", "1", "--prometheus")
    for metric, value in (("up", 1), ("fenced", 0), ("term", term), ("unacked_updates", 0)):
        assert re.search(f"^fur_ship_{metric}{{.*}} {value}$", metrics, re.MULTILINE), metrics
    copies(heap, program)

    # It is not for fur-check to give up what the log may have.
    program = heap.writer()
    program.expect("")
    daemon.kill()
    program.kill()
    assert "needs recovery, which fur-ship does" in run(info, heap.path)
    refused("recover it with fur-ship", check, heap.path, "--forget-from", "9")
    refused("recover it first, with fur-ship", copy, heap.path, heap.path + "-copy-3")
    daemon = heap.shipper()
    last = heap.shown_closed()
    assert heap.followed() == last
    daemon.end(0, signal.SIGTERM)
    damage_ship_page(heap.path)
    assert "ship page: both copies are damaged" in run(check, heap.path, status=1)
    assert "ship page are damaged" in run(info, heap.path)
    refused("both copies of the ship page are damaged", ship, heap.path)


with tempfile.TemporaryDirectory(
    dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
) as directory:
    for test in (
        usage,
        roles,
        systemd,
        standby,
        life,
        kills,
        beside_replayer,
        log_fails,
        first_look,
        fenced,
        handover,
        handover_in_update,
        handover_in_vain,
        shown_by_tools,
    ):
        test(directory)
        print("ok", test.__name__, flush=True)
