# SPDX-License-Identifier: BSD-3-Clause
"""fur-group: a group is made, changed, listed, checked, copied, recovered and made again from its
heaps; what is refused, and with which words.  And what other tools say to a member.

    group_test.py FUR-GROUP FUR-INFO FUR-RESIZE FUR-SHIP FUR-STANDBY FUR-COPY FUR-CHECK
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

fur_group, info, resize, ship, standby, copy, check = [os.path.abspath(p) for p in sys.argv[1:8]]
place = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
group = place + "/bank.group"
SMALL = ["--new", "--heap-bytes", "2M", "--log-bytes", "4K", "--ring-slots", "64"]
SMALL += ["--max-threads", "4"]


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status, (command, done)
    return done


def refused(text, *command, status=1):
    done = run(*command, status=status)
    assert text in done.stderr, (text, done)


def listed():
    return json.loads(run(fur_group, "list", group, "--json").stdout)["members"]


def heap(name):
    return f"{place}/{name}"


def life():
    run(fur_group, "create", group, "--most-members", "4")
    refused("the file exists", fur_group, "create", group)
    done = run(fur_group, "add", group, heap("a"), heap("b b"), heap("c"), *SMALL)
    assert done.stdout.splitlines()[2] == f"{heap('c')}: member 2", done
    refused("is member 0", fur_group, "add", group, heap("a"))
    refused("the file exists", fur_group, "add", group, heap("a"), *SMALL)
    run(fur_group, "remove", group, "1")
    refused("there is no member 1", fur_group, "remove", group, "1")
    assert run(fur_group, "add", group, heap("b b")).stdout.endswith(": member 3\n")
    refused("as many as it was made for", fur_group, "add", group, heap("d"), *SMALL)
    assert not os.path.exists(heap("d"))
    members = listed()
    assert [m["listed"] for m in members] == ["member", "removed", "member", "member"], members
    assert [m.get("state") for m in members] == ["closed", None, "closed", "closed"], members
    text = run(fur_group, "list", group).stdout
    assert "  1  removed\n" in text and f"  3  {heap('b b')}: closed\n" in text, text
    run(fur_group, "recover", group)
    assert run(fur_group, "check", group).stdout.count("sound, closed") == 3
    shown = json.loads(run(info, heap("c"), "--json").stdout)["group"]
    assert shown["member"] == 2 and shown["most_members"] == 4, shown
    assert "member 2 of at most 4" in run(info, heap("c")).stdout


def usage():
    refused("is no command", fur_group, "frobnicate", group, status=2)
    refused("HEAP is missing", fur_group, "add", group, status=2)
    refused("DIRECTORY is missing", fur_group, "backup", group, status=2)
    refused("unexpected argument", fur_group, "list", group, "more", status=2)
    refused("is not the index of a member", fur_group, "remove", group, "x", status=2)
    refused("GROUP is missing", fur_group, "list", status=2)
    refused("no/group", fur_group, "list", place + "/no/group")
    refused("no such file", fur_group, "recover", place + "/no.group")


def other_tools():
    """A member has no role, no other sizes, and no standby."""
    log = "file:" + place + "/log"
    refused("fur-group remove", resize, heap("a"), "--log-bytes", "8K")
    refused("member of a group", ship, "--init", heap("a"), "--log", log)
    refused("not shipped", copy, "--for-standby", heap("a"), heap("standby"))
    refused("member of a group", standby, heap("a"))
    run(check, heap("a"))


def missing():
    os.rename(heap("c"), heap("away"))
    refused("member 2", fur_group, "recover", group)
    assert [m.get("state") for m in listed()][2] == "missing"
    done = run(fur_group, "check", group, status=1)
    assert "no such file" in done.stdout and "not all members" in done.stderr, done
    run(fur_group, "recover", group, "--partial")
    refused("member 2", fur_group, "backup", group, place + "/copy")
    shutil.copy(heap("a"), heap("c"))
    refused("is another member", fur_group, "recover", group)
    assert "is another member" in run(fur_group, "list", group).stdout
    os.remove(heap("c"))


def rebuild():
    """The file is gone, or torn; and a member has moved."""
    with open(group) as file:
        text = file.read()
    with open(group, "w") as file:
        file.write(text[:-9])
    refused("fur-group rebuild", fur_group, "recover", group)
    refused("fur-group rebuild", fur_group, "list", group)
    there = [heap("a"), heap("away"), heap("b b")]
    refused("as is a", fur_group, "rebuild", group, *there, heap("a"))
    run(fur_group, "create", place + "/other")
    run(fur_group, "add", place + "/other", heap("e"), *SMALL)
    refused("another group", fur_group, "rebuild", group, *there, heap("e"))
    run(fur_group, "remove", place + "/other", "0")
    refused("in no group", fur_group, "rebuild", group, *there, heap("e"))
    run(fur_group, "rebuild", group, *there)
    members = listed()
    assert [m.get("path") for m in members] == [heap("a"), None, heap("away"), heap("b b")]
    os.remove(group)
    run(fur_group, "rebuild", group, *there)
    assert listed() == members
    run(fur_group, "recover", group)


def backup():
    copied = place + "/copied"
    run(fur_group, "backup", group, copied)
    refused("the file exists", fur_group, "backup", group, copied)
    assert sorted(os.listdir(copied)) == ["a", "away", "b b", "bank.group"]
    run(fur_group, "check", copied + "/bank.group")
    run(fur_group, "recover", copied + "/bank.group")
    # A member comes back from the copy: no update over several heaps has come since.
    shutil.copy(copied + "/a", heap("a"))
    run(fur_group, "recover", group)


try:
    life()
    usage()
    other_tools()
    missing()
    rebuild()
    backup()
finally:
    shutil.rmtree(place)
