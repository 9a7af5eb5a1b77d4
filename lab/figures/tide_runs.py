# SPDX-License-Identifier: BSD-3-Clause
"""The runs of the figures of the paper on PIM-TIDE: their commands, and what they measured."""
from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import Refused, journal_line, run_program

PROGRAM = "lab/tide/tide"  # from the build directory
CPU_PROGRAM = "lab/tide/tide-cpu"
LOG_PROGRAM = "lab/tide/tide-log"
ACCESS = "lab/near/tests/near-host-tests"
MACHINE, HOST = "upmem-sdk", "xeon-5320"
MACHINES = Path(__file__).resolve().parents[2] / "emulator/machines"
LIMIT_SECONDS = 1800
COLOURS = ("#0072b2", "#d55e00", "#009e73")
MOST_TASKLETS = 11
# By the accounts of a transaction: large ones are slow to emulate, so a batch has fewer.
RECORDS = {2: 128, 5: 128, 10: 128, 20: 64, 50: 32, 100: 16}
Mix = tuple[int, int]  # percent of Payment, and of NewOrder
PROFILES: dict[str, Mix] = {"Payment": (100, 0), "NewOrder": (0, 100), "OrderStatus": (0, 0)}
MIXES: dict[str, Mix] = {"STD": (44, 43), "CUST": (25, 25)}
LARGEST = 2048  # modules
RANK = 64
RANKS = LARGEST // RANK
RECORDS_OF_BATCH = 128  # of a tasklet
MANY_LOCKS = 65536  # of tide --many-locks
MENDED, PRINTED = "pim-tide", "pim-tide-paper"
LOCAL = "local"
# A value of a machine's description that is changed, or none.
Change = tuple[str, str] | None
# The only value of the description that was fitted: busy_cycles, to random accesses of PrIM.  It is
# a part of the fixed cycles of a write, 61, so its double is cut to that.
FITTED = {"half": 16, "double": 61}


@dataclass(frozen=True)
class Way:
    """Other options of a run, and a changed value of its machine."""

    options: str = ""
    change: Change = None


USUAL = Way()
# Locks need a scratchpad that no DPU has.
LOCKS = Way(" --many-locks", ("scratch_bytes", "524288"))


@dataclass(frozen=True)
class Points:
    """The values of each axis; `quick` has a few of them."""

    accounts: tuple[int, ...] = (2, 5, 10, 20, 50, 100)
    tasklets: tuple[int, ...] = (1, 2, 4, 6, 8, 11)
    # Figures 3 and 4: modules of the machine, and of the rank that runs
    sizes: tuple[int, ...] = (512, 1024, 2048)
    shares: tuple[int, ...] = (0, 15, 45, 75)
    rank: int = RANK
    some: int = 16  # modules, where many runs are compared
    few: int = 4  # modules, where one takes long
    records: int = RECORDS_OF_BATCH
    whole: bool = True  # all ranks once
    seconds: str = ""  # of the CPU


QUICK = Points(
    accounts=(2, 50, 100),
    tasklets=(1, 11),
    sizes=(512, 2048),
    shares=(0, 75),
    rank=2,
    some=2,
    few=1,
    records=8,
    whole=False,
    seconds="0.0002",
)


def one_batch(records: int) -> str:
    """The options for a batch of `records` of each tasklet."""
    return "--batches 1" + ("" if records == RECORDS_OF_BATCH else f" --records {records}")


class Runs:
    """The measurements. A run is made when it is first asked for, unless it is known, and then kept
    in the journal at once; without a build directory it must be known."""

    def __init__(
        self, points: Points, known: dict[str, dict[str, Any]], build: Path | None, journal: Path
    ):
        self.points, self.known, self.build, self.journal = points, known, build, journal

    def measured(self, command: str, change: Change = None) -> dict[str, Any]:
        key = f"{command} ({change[0]} {change[1]})" if change else command
        if key not in self.known:
            if self.build is None:
                raise Refused(f"{key}: not measured: leave out --plot-only to measure")
            self.known[key] = self.make(command, change)
            with open(self.journal, "a", encoding="utf-8") as journal:
                journal.write(journal_line({"command": key, "result": self.known[key]}))
        return self.known[key]

    def make(self, command: str, change: Change) -> dict[str, Any]:
        assert self.build is not None
        if command == ACCESS:
            return measure_access(self.build / ACCESS)
        program, *arguments = command.split()
        changed_one = "host" if program == LOG_PROGRAM and change else "machine"
        at = arguments.index(f"--{changed_one}") + 1
        machine = arguments[at]
        with tempfile.TemporaryDirectory() as scratch:
            if change:
                arguments[at] = f"{scratch}/changed.toml"
                text = (MACHINES / f"{machine}.toml").read_text()
                changed = re.sub(rf"\b{change[0]} = [\d.]+", f"{change[0]} = {change[1]}", text)
                Path(arguments[at]).write_text(changed)
            result = run_program(self.build, program, [*arguments, "--json", "-"], LIMIT_SECONDS)[1]
        result[changed_one] = machine  # not the path of the changed one
        return result

    def run(self, arguments: str, mode: str, busy: str = "", way: Way = USUAL) -> dict[str, Any]:
        """`mode`: local, or the variant that keeps local transactions in an order."""
        order = "" if mode == LOCAL else f" --deterministic --tm {mode}"
        change = ("busy_cycles", busy) if busy else way.change
        return self.measured(
            f"{PROGRAM} --machine {MACHINE} --batches 1 {arguments}{way.options}{order}", change
        )

    def bank(self, mode: str, accounts: int, busy: str = "", way: Way = USUAL) -> dict[str, Any]:
        arguments = f"--accounts {accounts} --records {RECORDS[accounts]}"
        return self.run(arguments, mode, busy, way)

    def tpcc(self, mode: str, profile: str, tasklets: int, busy: str = "") -> dict[str, Any]:
        payment, new_order = PROFILES[profile]
        arguments = (
            f"--workload tpcc --payment {payment} --new-order {new_order} "
            f"--tasklets {tasklets} --records {self.points.records}"
        )
        return self.run(arguments, mode, busy)

    # -------------------------------------------------------- a machine of many modules

    def modules(
        self,
        mix: Mix,
        share: int,
        extra: str = "",
        change: Change = None,
        ran: int = 0,
        records: int = 0,
    ) -> dict[str, Any]:
        """A batch on a rank of the largest machine, for all of its modules, and for machines of
        half as many and so on. `ran`: modules of the rank, if fewer than all; `records`: of a
        tasklet's batch, likewise."""
        records = records or self.points.records
        return self.measured(
            f"{PROGRAM} --machine {MACHINE} --workload tpcc --modules {ran or self.points.rank} "
            f"--of {LARGEST} {one_batch(records)} --payment {mix[0]} --new-order {mix[1]} "
            f"--remote {share}{extra}",
            change,
        )

    def logged(
        self, mix: Mix, share: int, extra: str = "", change: Change = None, ranks: int = RANKS
    ) -> dict[str, Any]:
        """The same with the command log, whose host has a thread for each of 32 ranks; `change` is
        the host's."""
        rank, records = self.points.rank, self.points.records
        return self.measured(
            f"{LOG_PROGRAM} --machine {MACHINE} --host {HOST} --modules {rank} "
            f"--of {rank * ranks} {one_batch(records)} --payment {mix[0]} "
            f"--new-order {mix[1]} --remote {share} --verify{extra}",
            change,
        )

    def cpu(
        self, mix: Mix, share: int, size: int, extra: str = "", change: Change = None
    ) -> dict[str, Any]:
        """The paper's baseline, with a warehouse for each module."""
        seconds = f" --seconds {self.points.seconds}" if self.points.seconds else ""
        return self.measured(
            f"{CPU_PROGRAM} --machine {HOST} --warehouses {size} --payment {mix[0]} "
            f"--new-order {mix[1]} --remote {share}{seconds}{extra}",
            change,
        )

    def gain(self, mode: str, accounts: int, busy: str = "", way: Way = USUAL) -> float:
        """Of local transactions without an order over the same in an order."""
        local, ordered = (self.bank(m, accounts, busy, way) for m in (LOCAL, mode))
        return float(local["throughput"] / ordered["throughput"])

    def aborts(self, mode: str, accounts: int, way: Way = USUAL) -> float:
        return float(self.bank(mode, accounts, way=way)["abort_rate"])

    def scaling(self, mode: str, profile: str, busy: str = "") -> float:
        most, one = (self.tpcc(mode, profile, n, busy) for n in (MOST_TASKLETS, 1))
        return float(most["throughput"] / one["throughput"])

    def tpcc_aborts(self, mode: str, profile: str) -> float:
        return float(self.tpcc(mode, profile, MOST_TASKLETS)["abort_rate"])


def measure_access(program: Path) -> dict[str, Any]:
    """What the calibration test prints."""
    done = subprocess.run(
        [str(program), "--gtest_filter=NearHost.*Access*"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = dict(re.findall(r"^(own|another) module: ([0-9.]+) [nu]s$", done.stdout, re.MULTILINE))
    if done.returncode or len(found) != 2:
        raise Refused(f"{program}: no result: build it, and see what it prints")
    return {"own_ns": float(found["own"]), "another_us": float(found["another"]), "verified": True}
