#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clocks that jump change nothing: libfur does not read the wall clock, and the clock that it reads
decides how long it waits, never about data.

    clock_test.py SHIM LIBFUR BANK KILL_TEST REPLAYER
"""
import os
import subprocess
import sys
import tempfile

shim, libfur, bank, kill_test, replayer = (os.path.abspath(a) for a in sys.argv[1:])
jumping = dict(os.environ, LD_PRELOAD=shim, FUR_PM="emulated")


def run(*command, status=0, env=jumping):
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, timeout=120
    )
    print("$ " + " ".join(command) + "\n" + done.stdout, end="")
    assert done.returncode == status, f"status {done.returncode}, not {status}"
    return done.stdout


# Whatever waits with a deadline on the wall clock, or reads it.
clocks = {
    "time",
    "gettimeofday",
    "ftime",
    "timespec_get",
    "clock_settime",
    "pthread_cond_timedwait",
    "pthread_mutex_timedlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_timedwrlock",
    "sem_timedwait",
}
imported = {
    line.split()[-1].split("@")[0]
    for line in run("nm", "-D", "--undefined-only", libfur, env=os.environ).splitlines()
}
assert "clock_gettime" in imported, "nothing to be shown: is this libfur?"
assert not imported & clocks, f"libfur uses {imported & clocks}"

# The shim works: a program that looks at the wall clock sees it jump.
look = "import time; a = [time.time() for _ in range(9)]; assert a != sorted(a)"
run(sys.executable, "-c", look)

with tempfile.TemporaryDirectory() as place:
    for _ in range(3):
        run(bank, place + "/bank.fur")
run(kill_test, "--replayer", replayer, "--kills", "40", "--seed", "5")
