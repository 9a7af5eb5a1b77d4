#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check the protocol's model: what must hold does, and every mutation is found.

    models.py                every case
    models.py NAME ...       some of them
    models.py --list         their names
    models.py --table        the mutations' cases, a line each, between tabs: case, the invariant
                             that it breaks, the planted bugs that break it in the sources
                             (between commas)
    models.py --long         also cases with more updates or readers (minutes)
    models.py --trace NAME   the steps that lead to the violation of a case that must fail

Each case is one run of Spin over fur.pml, software.pml, parallel.pml, versions.pml, sweep.pml,
switch.pml, snapshot.pml, group.pml, async.pml, naming.pml, fresh.pml, event.pml, claims.pml,
bulk.pml, bulkblock.pml, bulkoperator.pml, ship.pml, shipapply.pml, gate.pml, tide.pml, csn.pml,
grouplocks.pml, groupwaits.pml, groupdraws.pml, groupheaps.pml or batches.pml.  Before any,
models.py checks that its table of mutations agrees with the lists at the heads of the models, and
with the headings of the planted bugs (tests/plants/*.patch).  Exit status: 0 all as expected, 1
not, 2 wrong usage.

Without options and names it searches no verifier a second time: what it has found stays in
$XDG_CACHE_HOME/libfur, or ~/.cache/libfur, under a hash of all that Spin has generated.
"""
import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple, Optional

HERE = Path(__file__).resolve().parent
FUR = HERE / "fur.pml"
SOFTWARE = HERE / "software.pml"
PARALLEL = HERE / "parallel.pml"
VERSIONS = HERE / "versions.pml"
SWEEP = HERE / "sweep.pml"
SWITCH = HERE / "switch.pml"
SNAPSHOT = HERE / "snapshot.pml"
GROUP = HERE / "group.pml"
ASYNC = HERE / "async.pml"
NAMING = HERE / "naming.pml"
FRESH = HERE / "fresh.pml"
EVENT = HERE / "event.pml"
CLAIMS = HERE / "claims.pml"
BULK = HERE / "bulk.pml"
BULK_BLOCK = HERE / "bulkblock.pml"
BULK_OPERATOR = HERE / "bulkoperator.pml"
SHIP = HERE / "ship.pml"
SHIP_APPLY = HERE / "shipapply.pml"
GROUP_LOCKS = HERE / "grouplocks.pml"
GROUP_WAITS = HERE / "groupwaits.pml"
GROUP_DRAWS = HERE / "groupdraws.pml"
GROUP_HEAPS = HERE / "groupheaps.pml"
BATCHES = HERE / "batches.pml"
GATE = HERE / "gate.pml"
TIDE = HERE / "tide.pml"
CSN = HERE / "csn.pml"
PLANTS = HERE.parent / "plants"
MACHINES = {
    "tsx": ["TSX"],
    "tracked": ["TRACKED"],
    "power": ["POWER"],
    "rot": ["POWER", "ROT"],
    "soft": ["SOFT"],
}
WORKLOADS: list[list[str]] = [
    [],
    ["ISO"],
    ["RING=1"],
    ["BESIDE"],
    ["APART"],
    ["TICKET"],
    ["TICKET", "HANDON"],
]
LONG_WORKLOADS = [["NR=2"], ["NR=2", "ISO"], ["NR=2", "RING=1"]]
# With hardware and software updates, and with three updates.
MIXED = {
    "tsx-soft": ["TSX", "SOFT"],
    "power-soft": ["POWER", "SOFT"],
    "rot-soft": ["POWER", "ROT", "SOFT"],
    "soft-nw3": ["SOFT", "NW=3"],
    "soft-nw3-ring1": ["SOFT", "NW=3", "RING=1"],
}
LONG_MIXED = {
    "soft-nw3-apart": ["SOFT", "NW=3", "APART"],
    "soft-nw3-beside": ["SOFT", "NW=3", "BESIDE"],
    "tsx-soft-nw3": ["TSX", "SOFT", "NW=3", "NHW=1"],
    "power-soft-nw3": ["POWER", "SOFT", "NW=3", "NHW=1"],
    "rot-soft-nw3": ["POWER", "ROT", "SOFT", "NW=3", "NHW=1"],
}
# Of software.pml.  The names begin the names of the cases.
SETTINGS: dict[str, list[str]] = {
    "software": [],
    "serial": ["SERIAL"],
    "timeout": ["TIMEOUT"],
    "collide": ["COLLIDE"],
    "aba": ["ABA", "NS=3", "NR=0"],
    "inplace": ["INPLACE", "NR=0"],
    "publish": ["HWPUB"],
    "publishtimeout": ["HWPUB", "TIMEOUT"],
    "besidetracked": ["HARD", "NR=0"],
    "besiderot": ["HARD", "ROT", "NR=0"],
}
LONG_SETTINGS: dict[str, list[str]] = {
    "three": ["NS=3"],
    "inplaceread": ["INPLACE"],
    "trackedread": ["HARD"],
    "rotread": ["HARD", "ROT"],
    "threepublish": ["HWPUB", "NS=3"],
    "serialtracked": ["SERIAL", "HARD"],
    "serialrot": ["SERIAL", "HARD", "ROT"],
    "publishtracked": ["HWPUB", "HARD"],
    "publishrot": ["HWPUB", "HARD", "ROT"],
    "inplacetracked": ["INPLACE", "HARD", "NR=0"],
    "inplacerot": ["INPLACE", "HARD", "ROT", "NR=0"],
}
# Of parallel.pml.
PARALLEL_SETTINGS: dict[str, list[str]] = {
    "parallel": ["OPTIMISTIC"],
    "parallelplain": ["PLAINLY"],
    "parallelcross": ["CROSS", "OPTIMISTIC"],
    "parallelblind": ["CROSS", "BLIND", "OPTIMISTIC"],
    "parallelcollide": ["CROSS", "COLLIDE", "OPTIMISTIC"],
    "parallelonelook": ["ONELOOK"],
    "parallelsame": ["CROSS", "BLIND", "SAME", "TRIES=2"],
    "parallelapart": ["APART", "TRIES=2"],
    "parallelwide": ["NU=3", "WIDE", "SAME", "OPEN"],
    "parallelwidecollide": ["WIDE", "COLLIDE"],
    "parallelthree": ["NU=3", "OPEN"],
    "parallelinplace": ["INPLACE", "OPTIMISTIC"],
    "parallelinplaceplain": ["INPLACE", "PLAINLY"],
    "parallelinplacewide": ["NU=3", "INPLACE", "WIDE", "OPEN"],
    "parallelserial": ["SERIAL", "OPTIMISTIC"],
    "parallelserialplain": ["SERIAL", "PLAINLY"],
    "parallelfresh": ["FRESH", "INPLACE", "OPTIMISTIC"],
    "parallelfreshcollide": ["FRESH", "INPLACE", "COLLIDE", "OPTIMISTIC"],
    "parallelfreshserial": ["FRESH", "SERIAL", "OPTIMISTIC"],
    "parallelloose": ["LOOSE", "CROSS", "OPTIMISTIC"],
    "parallellooseblind": ["LOOSE", "CROSS", "BLIND", "OPTIMISTIC"],
}
LONG_PARALLEL_SETTINGS: dict[str, list[str]] = {
    "parallelboth": ["OPTIMISTIC", "PLAINLY"],
    "parallelinplaceboth": ["INPLACE", "OPTIMISTIC", "PLAINLY"],
    "parallelserialboth": ["SERIAL", "OPTIMISTIC", "PLAINLY"],
    "parallelreads": ["OPTIMISTIC", "TRIES=2"],
    "parallelreadsplain": ["PLAINLY", "TRIES=2"],
    "parallelthreeapart": ["NU=3", "APART"],
    "parallelthreeonelook": ["NU=3", "ONELOOK"],
    "parallelthreewide": ["NU=3", "WIDE", "COLLIDE"],
    "parallelthreeblind": ["NU=3", "CROSS", "BLIND"],
    "parallelthreeinplace": ["NU=3", "INPLACE"],
    "parallelthreefresh": ["NU=3", "FRESH", "INPLACE"],
    "parallelthreefreshserial": ["NU=3", "FRESH", "SERIAL"],
    "parallellooseboth": ["LOOSE", "CROSS", "BLIND", "OPTIMISTIC", "PLAINLY"],
}
# Of versions.pml.
VERSIONS_SETTINGS: dict[str, list[str]] = {
    "versions": [],
    "versionsmixed": ["MIXED"],
    "versionstwice": ["T=2", "TR=0"],
    "versionsboth": ["NU=3", "TR=0", "BOTH", "NAMED=1"],
    "versionslate": ["LATE", "MIXED", "TR=0"],
    "versionslateboth": ["LATE", "T=2", "LAST=1", "TR=0", "BOTH", "NAMED=1"],
}
LONG_VERSIONS_SETTINGS: dict[str, list[str]] = {
    "versionslong": ["T=2", "TR=1"],
    "versionslatelong": ["LATE", "MIXED"],
    "versionslatetwice": ["LATE", "T=2", "TR=0"],
}
# Of sweep.pml.
SWEEP_SETTINGS: dict[str, list[str]] = {"sweep": [], "sweeptso": ["TSO", "SWEEPS=1"]}
LONG_SWEEP_SETTINGS: dict[str, list[str]] = {
    "sweepthree": ["SWEEPS=3"],
    "sweeptsotwo": ["TSO"],
}
# Of switch.pml.
SWITCH_SETTINGS: dict[str, list[str]] = {
    "switch": ["READERS"],
    "switchupdates": ["UPDATES"],
    "switchback": ["BEGIN=2", "READERS"],
    "switchbackupdates": ["BEGIN=2", "UPDATES"],
    "switchtwo": ["BEGIN=1", "NSW=2", "SWITCHES=2", "READERS"],
}
LONG_SWITCH_SETTINGS: dict[str, list[str]] = {
    "switchtwice": ["SWITCHES=2"],
}
# Of snapshot.pml.
SNAPSHOT_SETTINGS: dict[str, list[str]] = {
    "snapshot": ["NB=1"],
    "snapshotshared": ["NB=1", "SHARED"],
    "snapshotbeside": ["NP=0"],
    "snapshottwo": ["NB=1", "NS=2", "FIXED"],
    "snapshotrevoked": ["NB=0", "W=3", "NI=1"],
    "snapshotrevokedtwo": ["NB=1", "NR=0", "NI=1", "NS=2"],
    "snapshotsettles": ["NR=0", "SETTLES", "FIXED"],
    "snapshotsets": ["NB=1", "NS=2", "FIXED", "SETS"],
    "snapshothardware": ["NB=1", "NP=0", "NH=1"],
    "snapshothardwaretwo": ["NB=0", "NP=0", "NH=2", "NS=2"],
}
LONG_SNAPSHOT_SETTINGS: dict[str, list[str]] = {
    "snapshotthree": [],
    "snapshotthreeshared": ["SHARED"],
    "snapshottwobeside": ["NP=0", "NS=2", "FIXED"],
    "snapshottight": ["NP=0", "NS=2", "FIXED", "NI=2"],
    "snapshotsetsbeside": ["NS=2", "NR=1", "FIXED", "SETS"],
    "snapshottwoany": ["NB=1", "NS=2"],
    "snapshottwoinplace": ["NB=0", "NP=2", "NS=2"],
    "snapshottworeaders": ["NB=1", "NS=2", "NR=2", "FIXED"],
    "snapshotrevokedbeside": ["NP=0", "NI=1"],
    "snapshotrevokedany": ["NB=1", "NI=1", "NS=2"],
    "snapshotsettlesany": ["NR=0", "SETTLES"],
}
# Of group.pml.
GROUP_SETTINGS: dict[str, list[str]] = {
    "group": [],
    "grouptwo": ["NT=2", "NC=3"],
    "groupfails": ["FAILS", "NT=2"],
    "groupthreefails": ["FAILS"],
}
# Of naming.pml.
NAMING_SETTINGS: dict[str, list[str]] = {"naming": [], "namingpower": ["POWER"]}
# Of async.pml.
ASYNC_SETTINGS: dict[str, list[str]] = {
    "async": ["NOREADER"],
    "asyncbeside": ["NOREADER", "BESIDE"],
    "asyncbesideone": ["NOREADER", "BESIDE", "ONETHREAD"],
    "asyncreader": [],
}
# Those that wait for --long, for they have millions of states: of group.pml, naming.pml and
# async.pml; mutations; and two proofs of which fewer updates or settings have the parts
# (parallelinplace and parallelwide; versionslate and versionsboth).
LONG = [
    "group",
    "groupthreefails",
    "namingpower",
    "asyncbeside",
    "asyncreader",
    "snapshotsetsbeside-NUMBERFIRST",
    "snapshotsetsbeside-SETSBESIDE",
    "parallelinplacewide",
    "parallelinplacewide-EXTENDSWEPT",
    "versionslateboth",
]
# Of claims.pml.
CLAIMS_SETTINGS: dict[str, list[str]] = {
    "claims": [],
    "claimsfull": ["NS=2"],
    "claimsdeath": ["DEATH"],
    "claimsdeathfull": ["DEATH", "NS=2"],
    "claimsdeathtwo": ["DEATH", "NP=2", "NR=2"],
}
# Of event.pml.
EVENT_SETTINGS: dict[str, list[str]] = {
    "event": [],
    "eventone": ["ONE"],
    "eventshared": ["SHARED"],
    "eventlook": ["LOOK"],
}
# Of bulk.pml.
BULK_SETTINGS: dict[str, list[str]] = {
    "bulk": [],
    "bulkhard": ["HARD"],
    "bulkrot": ["HARD", "ROT"],
}
# Of ship.pml.
SHIP_SETTINGS: dict[str, list[str]] = {
    "ship": [],
    "shippower": ["POWER"],
    "shiptakeover": ["TAKEOVER"],
    "shippowertakeover": ["POWER", "TAKEOVER", "WINDOW=1"],
    "shipreader": ["READER"],
    "shiptwice": ["TWICE"],
    "shipanew": ["NA=2"],
}
LONG_SHIP_SETTINGS: dict[str, list[str]] = {
    "shippoweranew": ["POWER", "NA=2"],
    "shippoweragain": ["POWER", "NF=2", "NA=2"],
    "shippowertakeovertwo": ["POWER", "TAKEOVER"],
    "shippowertwice": ["POWER", "TWICE", "WINDOW=1"],
    "shiptakeoveranew": ["TAKEOVER", "NB=2", "WINDOW=1"],
    "shiptakeoverback": ["TAKEOVER", "BACK", "NA=2", "WINDOW=1"],
    "shiptakeovertwice": ["TAKEOVER", "TWICE", "WINDOW=1"],
    "shipreaderpower": ["READER", "POWER"],
    "shipreadertakeover": ["READER", "TAKEOVER", "WINDOW=1"],
}
# Of shipapply.pml.
SHIP_APPLY_SETTINGS: dict[str, list[str]] = {
    "shipapply": [],
    "shipapplyfirst": ["FIRSTDROPS"],
}
# Of grouplocks.pml.
GROUP_LOCKS_SETTINGS: dict[str, list[str]] = {
    "grouplocks": ["PLAINLY"],
    "grouplockscross": ["CROSS"],
    "grouplocksserial": ["SERIAL", "LOCAL"],
    "grouplocksroom": ["LOCAL", "ROOM"],
    "grouplocksone": ["ONE", "LOCAL", "PLAINLY"],
    "grouplockshard": ["HARD", "PLAINLY"],
    "grouplockshardserial": ["HARD", "SERIAL", "PLAINLY"],
    "grouplocksoptimistic": ["ONE", "LOCAL", "OPTIMISTIC"],
    "grouplocksempty": ["HARD", "EMPTY"],
}
LONG_GROUP_LOCKS_SETTINGS: dict[str, list[str]] = {
    "grouplockslocal": ["LOCAL", "PLAINLY"],
    "grouplockstwo": ["OPTIMISTIC"],
    "grouplocksserialplain": ["SERIAL", "LOCAL", "PLAINLY"],
}
# Of groupwaits.pml.
GROUP_WAITS_SETTINGS: dict[str, list[str]] = {
    "groupwaitslate": ["LATE"],
    "groupwaitssame": ["SAME"],
    "groupwaitsreads": ["READS", "LATE"],
    "groupwaitslocal": ["SAME", "LOCAL", "RING=1"],
    "groupwaitslatelocal": ["SAME", "LOCAL", "LATE"],
}
LONG_GROUP_WAITS_SETTINGS: dict[str, list[str]] = {
    "groupwaits": [],
    "groupwaitsring": ["RING=1"],
    "groupwaitsreadslong": ["READS"],
    "groupwaitslatefour": ["LATE", "LOCAL"],
}
# Of groupdraws.pml.
GROUP_DRAWS_SETTINGS: dict[str, list[str]] = {"groupdraws": [], "groupdrawsextends": ["EXTENDS"]}
# Of groupheaps.pml.
GROUP_HEAPS_SETTINGS: dict[str, list[str]] = {
    "groupheaps": [],
    "groupheapslate": ["LATE"],
    "groupheapsonly": ["ONLYB"],
    "groupheapsreplayer": ["REPLAYER"],
    "groupheapsends": ["NOFAIL"],
    "groupheapsendslate": ["NOFAIL", "LATE", "LATEREAD"],
    "groupheapsendsonly": ["NOFAIL", "ONLYB"],
}
LONG_GROUP_HEAPS_SETTINGS: dict[str, list[str]] = {
    "groupheapslateread": ["LATEREAD"],
    "groupheapslateboth": ["LATE", "LATEREAD"],
}
# Of batches.pml.
BATCHES_SETTINGS: dict[str, list[str]] = {"batches": [], "batchesone": ["NW=1"]}
# Of gate.pml.
GATE_SETTINGS: dict[str, list[str]] = {
    "gate": [],
    "gatetso": ["TSO"],
    "gatelent": ["LENT"],
    "gatelenttso": ["LENT", "TSO"],
    "gatekeep": ["KEEP"],
    "gatereads": ["READS"],
}
# Of tide.pml.
TIDE_SETTINGS: dict[str, list[str]] = {"tide": [], "tidereads": ["RO"], "tidesame": ["SAME"]}
# Of csn.pml.
CSN_SETTINGS: dict[str, list[str]] = {"csn": [], "csnatomic": ["ATOMIC"]}
LONG_CLAIMS_SETTINGS: dict[str, list[str]] = {
    "claimstwice": ["NR=2"],
    "claimsdeathtwice": ["DEATH", "NR=2", "NS=2"],
}


class Mutation(NamedTuple):
    """What a model leaves out or swaps, and how it is found."""

    name: str
    invariant: str  # that it breaks
    plants: list[str]  # the planted bugs that do the same to libfur's sources
    workload: list[str]  # on which it is found
    machines: list[str]  # on each of which it is found: of MACHINES, or of SETTINGS


MUTATIONS = [
    Mutation(
        "NOFENCE",
        "INV-H2",
        ["no-fence-power", "no-fence-tsx"],
        ["ISO"],
        ["tsx", "power", "rot"],
    ),
    Mutation("NOISO", "INV-H2", ["no-isolation-wait"], ["ISO"], ["tsx", "power", "rot"]),
    Mutation(
        "NOWAITD",
        "INV-D2",
        ["reader-no-wait", "update-no-wait"],
        [],
        ["tsx", "tracked", "power", "rot", "soft"],
    ),
    Mutation(
        "EARLYD",
        "INV-D1",
        ["early-d"],
        [],
        ["tsx", "tracked", "power", "rot", "soft"],
    ),
    Mutation(
        "TICKETEARLY",
        "INV-D7",
        ["ticket-covers-next"],
        ["TICKET"],
        ["tsx", "tracked", "power", "rot", "soft"],
    ),
    Mutation(
        "TICKETSKIP",
        "INV-D7",
        ["ticket-no-wait"],
        ["TICKET"],
        ["tsx", "tracked", "power", "rot", "soft"],
    ),
    Mutation("EARLYLEAVE", "INV-D5", [], [], ["tsx", "power", "soft"]),
    Mutation("NODEPS", "INV-D3", ["no-dependencies"], [], ["tsx", "power", "soft"]),
    Mutation("NOSLOTWAIT", "INV-D4", ["no-slot-wait"], [], ["tsx"]),
    Mutation(
        "NOMARK",
        "INV-D5",
        ["abort-marker-not-durable", "no-abort-marker"],
        [],
        ["power", "rot"],
    ),
    Mutation("EARLYLAP", "INV-R3", ["early-lap"], ["RING=1"], ["tsx", "rot"]),
    Mutation("TAILFIRST", "INV-R1", ["tail-first"], [], ["tsx", "power"]),
    Mutation("NOWRITEOUT", "INV-R6", [], ["BESIDE"], ["tsx", "power", "rot"]),
    Mutation("NOCLOSURE", "INV-R2", [], [], ["tsx", "power"]),
    Mutation("LATEACTIVE", "INV-H1", ["no-reader-fence"], ["ISO"], ["tsx", "power", "rot"]),
    Mutation("NOSUBSCRIBE", "INV-H3", ["no-subscription"], [], ["tsx", "power", "rot"]),
    Mutation("NOLOOK", "INV-H3", ["no-look"], ["ISO"], ["tsx", "rot"]),
    Mutation("NODRAIN", "INV-H3", ["no-drain"], ["ISO"], ["tsx", "rot"]),
    Mutation("UNLOCKFIRST", "INV-D1", ["unlock-first"], [], ["tsx", "power", "soft"]),
    Mutation("LATECLAIM", "INV-M4", ["claims-too-much"], ["APART"], ["tsx", "tracked"]),
    Mutation("WINDOWCLAIM", "INV-M4", [], [], ["power", "rot"]),
    Mutation("LEFTUNNAMED", "INV-M5", ["left-unnamed"], [], ["tsx", "tracked"]),
    Mutation("LEFTUNSEEN", "INV-M5", [], [], ["tsx", "tracked"]),
    Mutation("PAPER", "INV-D2", [], [], ["power", "rot"]),
]
# Of software.pml.
SOFTWARE_MUTATIONS = [
    Mutation("LATESTAMP", "INV-SW1", [], [], ["software"]),
    Mutation("NOSTAMPS", "INV-SW1", [], [], ["software", "publish"]),
    Mutation("OLDVERSION", "INV-SW1", ["no-hardware-stamps"], [], ["software", "publish"]),
    Mutation("UNCHECKED", "INV-SW1", ["extension-without-stamps"], [], ["aba"]),
    Mutation("BARE", "INV-SW1", [], [], ["inplace"]),
    Mutation("NOEXTEND", "INV-SW2", [], [], ["software", "publish"]),
    Mutation("EARLYEXTEND", "INV-SW2", [], [], ["software"]),
    Mutation("NOTURN", "INV-SW2", [], [], ["software"]),
    Mutation("NOSHUT", "INV-SW3", [], [], ["software"]),
    Mutation("LATESHUT", "INV-SW3", [], [], ["software"]),
    Mutation("UNDRAINED", "INV-SW3", [], [], ["software"]),
    Mutation("READERBLIND", "INV-SW3", [], [], ["software"]),
    Mutation("PUBNOWAIT", "INV-SW3", [], [], ["publish"]),
    Mutation(
        "HARDNOWAIT", "INV-SW4", ["hardware-skips-software"], [], ["besidetracked", "besiderot"]
    ),
    Mutation("LEAVEFIRST", "INV-SW4", [], [], ["besidetracked", "besiderot"]),
    Mutation("BODYBLIND", "INV-SW5", [], [], ["inplace"]),
    Mutation("LATETURN", "INV-SW6", [], [], ["serial"]),
]
# Of parallel.pml.
PARALLEL_MUTATIONS = [
    Mutation("NOFIRSTLOOK", "INV-SW1", ["no-first-look"], [], ["parallel"]),
    Mutation("NOSECONDLOOK", "INV-SW1", ["no-second-look"], [], ["parallel"]),
    Mutation("ONELOOKFIRST", "INV-SW1", ["no-look-after"], [], ["parallelonelook"]),
    Mutation("ONELOOKNEWER", "INV-SW1", [], [], ["parallelonelook"]),
    Mutation("BODYNEWER", "INV-SW1", ["no-snapshot"], [], ["parallel"]),
    Mutation("FUTURESNAP", "INV-SW1", ["snapshot-too-late"], [], ["parallel"]),
    Mutation("EXTENDBLIND", "INV-SW1", [], [], ["parallel"]),
    Mutation("EXTENDONCE", "INV-SW1", [], [], ["parallelwide"]),
    Mutation("EXTENDNEWER", "INV-SW1", [], [], ["parallelwide"]),
    Mutation("HOLDLATE", "INV-ST1", ["hold-after-store"], [], ["parallel"]),
    Mutation("FREEFIRST", "INV-ST1", ["free-before-store"], [], ["parallel"]),
    Mutation("FREEOLD", "INV-ST1", [], [], ["parallel"]),
    Mutation("DRAWUNHELD", "INV-ST1", ["hold-after-draw"], [], ["parallel"]),
    Mutation(
        "NOVALID",
        "INV-SW2",
        ["no-current-check"],
        [],
        ["parallelcross", "parallelloose", "parallellooseblind"],
    ),
    Mutation("COMPAREFIRST", "INV-SW2", ["compare-before-hold"], [], ["parallelcross"]),
    Mutation(
        "VALIDONCE",
        "INV-SW2",
        ["no-still-current"],
        [],
        ["parallelblind", "parallelloose", "parallellooseblind"],
    ),
    Mutation(
        "STOREUNDRAINED",
        "INV-SW3",
        [],
        [],
        ["parallelplain", "parallelinplaceplain", "parallelserialplain"],
    ),
    Mutation(
        "SHUTLATE",
        "INV-SW3",
        [],
        [],
        ["parallelplain", "parallelinplaceplain", "parallelserialplain"],
    ),
    Mutation("OPENUNDRAINED", "INV-SW3", [], [], ["parallelplain"]),
    Mutation(
        "PLAINIGNORES",
        "INV-SW3",
        [],
        [],
        ["parallelplain", "parallelinplaceplain", "parallelserialplain"],
    ),
    Mutation(
        "PLAINLOOKFIRST",
        "INV-SW3",
        [],
        [],
        ["parallelplain", "parallelinplaceplain", "parallelserialplain"],
    ),
    Mutation(
        "BODIESMISSED", "INV-ST2", ["bulk-no-sweep", "in-place-no-sweep"], [], ["parallelinplace"]
    ),
    Mutation("BODIESEARLY", "INV-SW5", [], [], ["parallelinplace"]),
    Mutation("BODYIGNORES", "INV-SW5", ["body-no-look"], [], ["parallelinplace"]),
    Mutation("BODYLOOKFIRST", "INV-SW5", [], [], ["parallelinplace"]),
    Mutation("SERIALBESIDE", "INV-SW6", [], [], ["parallelserial"]),
    Mutation(
        "PUBNOLOOK",
        "INV-SW7",
        [],
        [],
        ["parallelplain", "parallelinplaceplain", "parallelserialplain"],
    ),
    Mutation(
        "PUBLOOKFIRST",
        "INV-SW7",
        ["publish-without-second-look"],
        [],
        ["parallelplain", "parallelinplaceplain", "parallelserialplain"],
    ),
    Mutation(
        "QUITSFIRST",
        "INV-SW7",
        [],
        [],
        ["parallelplain", "parallelinplaceplain", "parallelserialplain"],
    ),
    Mutation(
        "CLOSENOWAIT",
        "INV-SW7",
        ["close-does-not-wait"],
        [],
        ["parallelplain", "parallelinplaceplain", "parallelserialplain"],
    ),
    Mutation(
        "CLOSELATE",
        "INV-SW7",
        [],
        [],
        ["parallelplain", "parallelinplaceplain", "parallelserialplain"],
    ),
    Mutation("ROOMINSIDE", "INV-SW8", ["room-while-publishing"], [], ["parallel"]),
    Mutation(
        "READERSEARLY",
        "INV-SW7",
        ["claim-lets-in-early"],
        [],
        ["parallelinplaceplain", "parallelserialplain"],
    ),
    Mutation(
        "SWEEPBLIND",
        "INV-ST2",
        [],
        [],
        ["parallelinplace", "parallelinplacewide", "parallelfreshserial"],
    ),
    Mutation("SWEEPUNBOUND", "INV-ST2", [], [], ["parallelinplace", "parallelfreshserial"]),
    Mutation("SWEEPLATE", "INV-ST2", ["sweep-after-store"], [], ["parallelinplace"]),
    Mutation("SWEEPODD", "INV-ST2", [], [], ["parallelinplace"]),
    Mutation(
        "SWEEPUNSEEN",
        "INV-ST2",
        [],
        [],
        ["parallelinplace", "parallelinplacewide", "parallelfreshserial"],
    ),
    Mutation("SWEEPNEWER", "INV-ST2", ["sweep-compares-newer"], [], ["parallelinplace"]),
    Mutation("SWEEPMISSED", "INV-ST2", [], [], ["parallelinplace"]),
    Mutation("PUBSWEPT", "INV-ST2", ["publishes-swept"], [], ["parallelinplace"]),
    Mutation(
        "READERMISSES",
        "INV-OR1",
        ["reader-misses-sweep"],
        [],
        ["parallelinplace", "parallelfreshserial"],
    ),
    Mutation("READERNEWER", "INV-OR1", ["reader-takes-newer"], [], ["parallel"]),
    Mutation("NOFRESHSWEEP", "INV-FM1", ["fresh-without-sweep"], [], ["parallelfreshserial"]),
    Mutation("FRESHLATE", "INV-FM1", [], [], ["parallelfreshserial"]),
    Mutation("FRESHOWN", "INV-FM2", ["fresh-given-by-itself"], [], ["parallelfreshserial"]),
    Mutation("ANNOUNCELATE", "INV-D1", [], [], ["parallel"]),
    Mutation("EXTENDUNNOTED", "INV-DV1", [], [], ["parallelsame"]),
    Mutation("READERUNNOTED", "INV-OR2", ["version-not-noted"], [], ["parallel"]),
    Mutation("READERUNSETTLED", "INV-DV1", ["versions-unsettled"], [], ["parallel"]),
    Mutation("SETTLEONE", "INV-DV1", [], [], ["parallel"]),
    Mutation("UPDATEUNSETTLED", "INV-DV1", [], [], ["parallel"]),
    Mutation("NOUNSTAMPED", "INV-OR2", [], [], ["parallelinplace"]),
    Mutation("UNSTAMPEDUNREAD", "INV-OR2", ["unstamped-not-read"], [], ["parallelinplace"]),
    Mutation("UNSTAMPEDEARLY", "INV-OR2", [], [], ["parallelinplace"]),
    Mutation("UNSTAMPEDLATE", "INV-OR2", [], [], ["parallelinplace"]),
    Mutation("SWEEPUNREAD", "INV-DV1", ["sweep-not-read"], [], ["parallelinplace"]),
    Mutation("DEPSUNNAMED", "INV-D3", [], [], ["parallel"]),
]
# Of versions.pml.
VERSIONS_MUTATIONS = [
    Mutation("LOADUNNOTED", "INV-DV1", [], [], ["versions", "versionstwice"]),
    Mutation("REPLACEDUNNOTED", "INV-DV1", ["replaced-not-noted"], [], ["versionstwice"]),
    Mutation("NAMEDALONE", "INV-DV1", [], [], ["versions", "versionstwice"]),
    Mutation("SETTLEDBLIND", "INV-DV1", [], [], ["versions", "versionstwice"]),
    Mutation("NEXTLATE", "INV-DV1", [], [], ["versions", "versionstwice"]),
    Mutation("UNDRAWNSKIPPED", "INV-DV1", [], [], ["versions", "versionstwice"]),
    Mutation("DRAWFIRST", "INV-DV1", [], [], ["versions", "versionstwice"]),
    Mutation("FULLFORGETS", "INV-DV1", [], [], ["versionsboth"]),
    Mutation("OWNEARLY", "INV-DV1", [], [], ["versionstwice"]),
    Mutation("LEFTAWAITED", "INV-DV1", [], [], ["versions"]),
    Mutation("LATEUNAWAITED", "INV-AS2", [], [], ["versionslate"]),
    Mutation("NOTLATE", "INV-AS3", [], [], ["versionslateboth"]),
    Mutation("CLAIMSLATE", "INV-AS6", [], [], ["versionslateboth"]),
    Mutation("UNDURABLE", "INV-D5", [], [], ["versions"]),
    Mutation("UNMARKED", "INV-D5", [], [], ["versionstwice"]),
    Mutation("CLAIMNEXT", "INV-M4", [], [], ["versions", "versionsmixed"]),
]
# Of sweep.pml.
SWEEP_MUTATIONS = [
    Mutation("NUMBERUNFENCED", "INV-ST2", [], [], ["sweep", "sweeptso"]),
    Mutation("STORESUNFENCED", "INV-ST2", ["sweep-not-ordered"], [], ["sweep"]),
    Mutation("ENDUNFENCED", "INV-ST2", [], [], ["sweep"]),
    Mutation("ENTRYUNFENCED", "INV-ST2", [], [], ["sweep", "sweeptso"]),
    Mutation("BOUNDUNFENCED", "INV-ST2", [], [], ["sweep", "sweeptso"]),
    Mutation("UNSTAMPEDPAST", "INV-OR2", [], [], ["sweep", "sweeptso"]),
]
# Of switch.pml.
SWITCH_MUTATIONS = [
    Mutation("NOTTRACKED", "INV-UR1", ["hardware-unsubscribed"], [], ["switch"]),
    Mutation("UNSETTLED", "INV-UR2", ["software-unsettled"], [], ["switch"]),
    Mutation("SETTLEFIRST", "INV-UR2", [], [], ["switch"]),
    Mutation("FROMSETTLING", "INV-UR2", [], [], ["switchtwo"]),
    Mutation("MODEEARLY", "INV-UR3", ["versions-early"], [], ["switchbackupdates"]),
    Mutation("READERNOLOOK", "INV-UR3", ["reader-versions-early"], [], ["switchback"]),
    Mutation("WAITSFORREADERS", "INV-SW4", [], [], ["switchback", "switchupdates"]),
    Mutation("NEXTEARLY", "INV-UR4", [], [], ["switchupdates"]),
    Mutation("UNRAISED", "INV-UR4", [], [], ["switchupdates"]),
]
# Of snapshot.pml.
SNAPSHOT_MUTATIONS = [
    Mutation("SAVELATE", "INV-SN1", [], [], ["snapshot", "snapshotbeside"]),
    Mutation("TORN", "INV-SN1", [], [], ["snapshot", "snapshotbeside"]),
    Mutation("SAVEDONCE", "INV-SN1", [], [], ["snapshottwo"]),
    Mutation("LASTFIRST", "INV-SN2", ["snapshot-last-first"], [], ["snapshotbeside"]),
    Mutation("LOOKFIRST", "INV-SN2", [], [], ["snapshotbeside"]),
    Mutation("SAVESNEWEST", "INV-SN2", ["snapshot-saves-newest"], [], ["snapshotbeside"]),
    Mutation("NUMBERLATE", "INV-SN2", [], [], ["snapshot"]),
    Mutation("HEADFIRST", "INV-SN3", [], [], ["snapshot"]),
    Mutation("NEWESTIMAGE", "INV-SN3", [], [], ["snapshottwo"]),
    Mutation("HEADLOST", "INV-SN3", [], [], ["snapshottwo"]),
    Mutation("NOTRAISED", "INV-SN4", [], [], ["snapshot", "snapshotshared"]),
    Mutation("RAISEDLATE", "INV-SN4", [], [], ["snapshot", "snapshotshared"]),
    Mutation("RAISEDEARLY", "INV-SN4", [], [], ["snapshotsettles"]),
    Mutation("BOUNDPAST", "INV-SN4", [], [], ["snapshot"]),
    Mutation("TRACKEDUNRAISED", "INV-SN4", ["snapshot-tracked-unraised"], [], ["snapshothardware"]),
    Mutation("FREEEARLY", "INV-SN6", [], [], ["snapshottwo"]),
    Mutation("FREENONE", "INV-SN6", [], [], ["snapshotrevokedtwo"]),
    Mutation("FREEINUSE", "INV-SN6", [], [], ["snapshottight"]),
    Mutation("REVOKEDUNSEEN", "INV-SN7", [], [], ["snapshotrevoked"]),
    Mutation("REVOKEDFIRST", "INV-SN7", [], [], ["snapshotrevoked"]),
    Mutation("BOUNDKEPT", "INV-SN7", [], [], ["snapshotrevoked"]),
    Mutation("BOUNDFIRST", "INV-SN7", [], [], ["snapshotrevoked"]),
    Mutation("SETSTALE", "INV-SN8", ["snapshot-set-stale"], [], ["snapshotsets"]),
    Mutation("NUMBERFIRST", "INV-SN8", ["snapshot-set-number-first"], [], ["snapshotsetsbeside"]),
    Mutation("BEGINBLIND", "INV-SN7", [], [], ["snapshotrevoked"]),
    Mutation("SETSBESIDE", "INV-SN8", [], [], ["snapshotsetsbeside"]),
    Mutation("READSEARLY", "INV-SN5", ["snapshot-not-durable"], [], ["snapshotbeside"]),
    Mutation("NEXTEARLY", "INV-SN9", ["snapshot-next-early"], [], ["snapshottwo"]),
    Mutation("FREEALLEARLY", "INV-SN9", [], [], ["snapshottwobeside"]),
]
# Of group.pml.
GROUP_MUTATIONS = [
    Mutation("LATECLOSE", "INV-GC1", ["group-closes-late"], [], ["group"]),
    Mutation("SYNCFIRST", "INV-GC1", ["group-syncs-first"], [], ["group"]),
    Mutation("FORGETS", "INV-GC2", [], [], ["groupfails"]),
    Mutation("NOTIMEOUT", "INV-GC3", [], [], ["group"]),
]
# Of async.pml.
ASYNC_MUTATIONS = [
    Mutation("LEAVEFIRST", "INV-AS1", ["late-and-unseen"], [], ["asyncreader"]),
    Mutation("READERBLIND", "INV-AS2", ["late-not-awaited"], [], ["asyncreader"]),
    Mutation("OVERGAP", "INV-AS2", ["late-over-a-gap"], [], ["async"]),
    Mutation("NOTLATE", "INV-AS3", ["late-not-inherited"], [], ["async"]),
    Mutation("KEPTALONE", "INV-AS4", ["late-kept-alone"], [], ["async"]),
    Mutation("EARLYREPLAY", "INV-AS5", ["late-replayed-early"], [], ["async"]),
    Mutation("BOLDCLAIM", "INV-AS6", ["late-claims-too-much"], [], ["async"]),
    Mutation("NEWESTONLY", "INV-R6", ["late-not-written-back"], [], ["asyncbesideone"]),
]
# Of naming.pml.
NAMING_MUTATIONS = [
    Mutation("NOUNSEEN", "INV-D9", ["unseen-not-awaited"], [], ["naming", "namingpower"]),
]
# Of fresh.pml.
FRESH_MUTATIONS = [
    Mutation("NOWAIT", "INV-FM2", ["fresh-not-replayed"], [], ["fresh"]),
    Mutation("NOSCAN", "INV-FM2", ["fresh-misses-givers"], [], ["fresh"]),
    Mutation("MARKERFIRST", "INV-FM3", ["fresh-not-drained"], [], ["fresh"]),
    Mutation("LATECOPY", "INV-FM3", [], [], ["fresh"]),
]
# Of event.pml.
EVENT_MUTATIONS = [
    Mutation(
        "NORECHECK", "INV-EV1", ["event-no-recheck"], [], ["event", "eventone", "eventshared"]
    ),
    Mutation(
        "TICKETLATE", "INV-EV1", ["event-ticket-late"], [], ["event", "eventone", "eventshared"]
    ),
    Mutation(
        "WAKEFIRST", "INV-EV1", ["event-wakes-first"], [], ["event", "eventone", "eventshared"]
    ),
    Mutation("MARKFIRST", "INV-EV1", [], [], ["event", "eventone"]),
    Mutation("CALLFIRST", "INV-EV1", [], [], ["event"]),
    Mutation("ONECLEARS", "INV-EV1", [], [], ["eventone"]),
    Mutation("SAMECOUNT", "INV-EV1", [], [], ["eventlook"]),
    Mutation("LOOKEARLY", "INV-EV1", [], [], ["eventlook"]),
]
# Of claims.pml.
CLAIMS_MUTATIONS = [
    Mutation("SHIFT", "INV-CL2", ["shift-queue"], [], ["claims", "claimsfull"]),
    Mutation("BOTTOM", "INV-CL2", ["claim-from-the-bottom"], [], ["claims"]),
    Mutation("EMPTYFIRST", "INV-CL2", ["claim-leaves-first"], [], ["claims"]),
    Mutation("STORES", "INV-CL1", ["claim-stored"], [], ["claims"]),
    Mutation("UNMARKED", "INV-CL3", ["claim-not-marked"], [], ["claims", "claimsfull"]),
    Mutation("LOOKFIRST", "INV-CL3", ["claim-mark-missed"], [], ["claims", "claimsfull"]),
    Mutation("EARLYCLEAR", "INV-CL1", [], [], ["claimsdeathtwo"]),
    Mutation("CLEARONE", "INV-CL4", ["clear-one-slot"], [], ["claimsdeath"]),
    Mutation("CLEARQUIET", "INV-CL4", ["clear-wakes-few"], [], ["claimsdeath", "claimsdeathfull"]),
    Mutation("CLEARGAPS", "INV-CL4", [], [], ["claimsdeath", "claimsdeathfull"]),
]
# Of bulk.pml.
BULK_MUTATIONS = [
    Mutation("SILENT", "INV-BU1", ["no-marks"], [], ["bulk"]),
    Mutation("MARKLATE", "INV-BU1", ["mark-after-store"], [], ["bulk"]),
    Mutation("HARDBLIND", "INV-BU1", ["no-marks-in-hardware"], [], ["bulkhard", "bulkrot"]),
    Mutation("NOSETTLE", "INV-BU1", ["bulk-begins-at-once"], [], ["bulk", "bulkrot"]),
    Mutation("NOSYNC", "INV-BU2", ["bulk-no-sync", "each-no-sync"], [], ["bulk", "bulkhard"]),
    Mutation("MARKFIRST", "INV-BU2", ["bulk-mark-first"], [], ["bulk"]),
    Mutation(
        "NOREST",
        "INV-BU3",
        ["bulk-skips-the-rest", "each-skips-the-rest"],
        [],
        ["bulk", "bulkhard"],
    ),
    Mutation(
        "RESTFIRST",
        "INV-BU3",
        ["bulk-rest-before-turn", "each-rest-before-turn"],
        [],
        ["bulk", "bulkhard"],
    ),
    Mutation("HARDBESIDE", "INV-BU3", [], [], ["bulkhard", "bulkrot"]),
]
# Of bulkblock.pml.
BULK_BLOCK_MUTATIONS = [
    Mutation("EARLYTAKE", "INV-BU4", ["bulk-before-replay"], [], ["bulkblock"]),
    Mutation("EARLYMARK", "INV-BU4", ["bulk-not-drained"], [], ["bulkblock"]),
    Mutation("EARLYGIVE", "INV-BU4", ["bulk-frees-early"], [], ["bulkblock"]),
]
# Of bulkoperator.pml.
BULK_OPERATOR_MUTATIONS = [
    Mutation("COPYFREE", "INV-OP1", ["operate-copies-at-once"], [], ["bulkoperator"]),
    Mutation("STOREFREE", "INV-OP1", ["operate-stores-at-once"], [], ["bulkoperator"]),
    Mutation("CHECKFIRST", "INV-OP1", [], [], ["bulkoperator"]),
    Mutation("NOCHECK", "INV-OP1", ["operate-no-check"], [], ["bulkoperator"]),
    Mutation("GIVESEARLY", "INV-FM2", [], [], ["bulkoperator"]),
    Mutation("MARKSLATE", "INV-OP2", ["errand-before-marks"], [], ["bulkoperator"]),
    Mutation("NOREPLAY", "INV-OP2", ["errand-no-replay"], [], ["bulkoperator"]),
    Mutation("UNDRAWN", "INV-OP2", ["errand-settles-drawn"], [], ["bulkoperator"]),
    Mutation("WINDOWLATE", "INV-OP2", ["windows-settle-first"], [], ["bulkoperator"]),
    Mutation("WINDOWNOSYNC", "INV-OP2", [], [], ["bulkoperator"]),
    Mutation("SKIPSREST", "INV-BU3", ["each-takes-marked"], [], ["bulkoperator"]),
]
# Of ship.pml.
SHIP_MUTATIONS = [
    Mutation("NOLEASH", "INV-SH1", ["ship-no-leash"], [], ["ship"]),
    Mutation("LIMITFIRST", "INV-SH45", [], [], ["ship"]),
    Mutation("RECOVERFREE", "INV-SH45", [], [], ["shippower"]),
    Mutation("NOCLAIM", "INV-SH16", ["ship-no-claim"], [], ["shippower"]),
    Mutation("LOCALFIRST", "INV-SH44", [], [], ["shippower"]),
    Mutation("ANYPLACE", "INV-SH44", [], [], ["shiptwice"]),
    Mutation("VOIDFENCES", "INV-SH44", [], [], ["shiptakeoveranew"]),
    Mutation("NOGAP", "INV-SH17", ["ship-no-gap"], [], ["ship", "shiptakeover"]),
    Mutation("ANYANSWER", "INV-SH41", [], [], ["ship"]),
    Mutation("OVERHOLE", "INV-SH41", [], [], ["ship"]),
    Mutation("OWNCLAIMUNREAD", "INV-SH16", ["ship-own-claim-unread"], [], ["shiptakeover"]),
    Mutation("EQUALTERM", "INV-SH13", ["ship-equal-term"], [], ["shiptakeover"]),
    Mutation("FENCEDCLAIMS", "INV-SH42", [], [], ["shiptakeover"]),
    Mutation("READERUNACKED", "INV-SH3", ["ship-reader-blind"], [], ["shipreader"]),
    Mutation("FORGETLATE", "INV-SH43", ["ship-rejoin-keeps"], [], ["shiptakeover"]),
]
# Of shipapply.pml.
SHIP_APPLY_MUTATIONS = [
    Mutation("POSAPART", "INV-SH48", [], [], ["shipapply"]),
    Mutation("POSFIRST", "INV-SH48", [], [], ["shipapply"]),
    Mutation("SIDEUNREPLAYED", "INV-SH49", [], [], ["shipapply"]),
    Mutation("PARTKEPT", "INV-SH14", ["ship-part-kept"], [], ["shipapply"]),
    Mutation("PARTCOUNTED", "INV-SH50", [], [], ["shipapply", "shipapplyfirst"]),
]
# Of grouplocks.pml.
GROUP_LOCKS_MUTATIONS = [
    Mutation("LOOKEARLY", "INV-GU1", ["group-looks-early"], [], ["grouplockscross"]),
    Mutation("LOOKWRITTEN", "INV-GU1", ["group-looks-written"], [], ["grouplockscross"]),
    Mutation("HEAPBYHEAP", "INV-GU1", [], [], ["grouplocks", "grouplockscross"]),
    Mutation(
        "EXTENDALONE",
        "INV-GU2",
        ["group-extends-alone"],
        [],
        ["grouplocks", "grouplocksoptimistic"],
    ),
    Mutation("SNAPLATE", "INV-GU2", [], [], ["grouplocks"]),
    Mutation("UNORDERED", "INV-GU3", [], [], ["grouplocks", "grouplocksserial"]),
    Mutation("TURNSFIRST", "INV-GU3", [], [], ["grouplocks", "grouplocksserial"]),
    Mutation("READERWAITS", "INV-GU3", ["group-reader-waits"], [], ["grouplocks", "grouplocksone"]),
    Mutation("LEAVEWAITS", "INV-GU3", ["group-leave-waits"], [], ["grouplocksroom"]),
    Mutation("CLOCKSUNREAD", "INV-GU12", ["group-clocks-unread"], [], ["grouplocksempty"]),
    Mutation("BODYLEAVES", "INV-SW4", [], [], ["grouplockshard"]),
    Mutation("SERIALONE", "INV-SW6", [], [], ["grouplocksserial"]),
]
# Of groupwaits.pml.
GROUP_WAITS_MUTATIONS = [
    Mutation(
        "DRAWANY",
        "INV-GU4",
        ["group-draws-any"],
        [],
        ["groupwaitslate", "groupwaitsring", "groupwaitssame"],
    ),
    Mutation("DRAWONE", "INV-GU4", [], [], ["groupwaitslate", "groupwaitssame"]),
    Mutation("LOCKANY", "INV-GU4", [], [], ["groupwaitslate", "groupwaitssame"]),
    Mutation("BOUNDLATE", "INV-GU4", [], [], ["groupwaitsreads"]),
]
# Of groupdraws.pml.
GROUP_DRAWS_MUTATIONS = [
    Mutation(
        "BEGINBETWEEN",
        "INV-GU11",
        ["group-reader-between-draws", "group-body-between-draws"],
        [],
        ["groupdraws", "groupdrawsextends"],
    ),
    Mutation(
        "EXTENDBETWEEN", "INV-GU11", ["group-extends-between-draws"], [], ["groupdrawsextends"]
    ),
]
# Of groupheaps.pml.
GROUP_HEAPS_MUTATIONS = [
    Mutation("NOPEERS", "INV-GU5", ["group-no-names"], [], ["groupheaps"]),
    Mutation("PARTLEAVES", "INV-GU6", ["group-leaves-first"], [], ["groupheaps", "groupheapslate"]),
    Mutation("LEAVEEACH", "INV-GU6", ["group-leaves-each"], [], ["groupheaps"]),
    Mutation("READONLY", "INV-GU7", ["group-read-unsettled"], [], ["groupheapsonly"]),
    Mutation("NODECISION", "INV-GU8", ["group-no-decision"], [], ["groupheaps"]),
    Mutation("DECIDELATE", "INV-GU8", [], [], ["groupheaps"]),
    Mutation("ALONEFORGETS", "INV-GU8", [], [], ["groupheaps"]),
    Mutation("FLUSHPAST", "INV-GU9", ["group-flush-passes"], [], ["groupheapslate"]),
    Mutation("BESIDE", "INV-GU9", ["group-replays-unsettled"], [], ["groupheapsreplayer"]),
    Mutation("NONAME", "INV-D3", [], [], ["groupheaps", "groupheapslateread"]),
    Mutation("PARTNOTLATE", "INV-AS3", [], [], ["groupheapslateread"]),
]
# Of batches.pml.
BATCHES_MUTATIONS = [
    Mutation("CUTEARLY", "INV-GB1", ["batch-cuts-early"], [], ["batches"]),
    Mutation("RESTBEHIND", "INV-GB1", ["batch-rest-behind"], [], ["batches", "batchesone"]),
    Mutation("RESTLOST", "INV-GB2", [], [], ["batches", "batchesone"]),
    Mutation("BLAMEFIRST", "INV-GB2", ["batch-blames-first"], [], ["batches", "batchesone"]),
    Mutation("NOSHRINK", "INV-GB2", [], [], ["batches", "batchesone"]),
    Mutation("REFUSEDKEPT", "INV-GB3", ["batch-refused-kept"], [], ["batches", "batchesone"]),
]
# Of gate.pml.
GATE_MUTATIONS = [
    Mutation("LOOKUNFENCED", "INV-SH6", [], [], ["gate", "gatetso"]),
    Mutation("STATEFIRST", "INV-SH6", ["ship-gate-looked-early"], [], ["gate"]),
    Mutation("CLOSEUNFENCED", "INV-SH6", ["ship-gate-unfenced"], [], ["gate", "gatetso"]),
    Mutation("OTHERSUNFENCED", "INV-SH6", [], [], ["gatelent", "gatelenttso"]),
    Mutation("DRAINEDFIRST", "INV-SH6", ["ship-gate-drained-first"], [], ["gate"]),
    Mutation("ASKFIRST", "INV-SH6", ["ship-gate-undrained"], [], ["gate"]),
    Mutation("NEXTSLOT", "INV-SH6", ["ship-gate-next-slot"], [], ["gate"]),
    Mutation("ASKEDKEPT", "INV-SH6", [], [], ["gatekeep"]),
    Mutation("READEROPEN", "INV-SH6", ["ship-gate-reader-blind"], [], ["gatereads"]),
    Mutation("FENCEDFIRST", "INV-SH7", [], [], ["gate"]),
]
# Of tide.pml.
TIDE_MUTATIONS = [
    Mutation("NOVALIDATE", "INV-TD2", [], [], ["tide", "tidereads"]),
    Mutation("ROSKIP", "INV-TD2", [], [], ["tidereads"]),
    Mutation("HOLDSANY", "INV-TD2", [], [], ["tide"]),
    Mutation("TAKESNEW", "INV-TD2", [], [], ["tidesame"]),
    Mutation("EARLYTURN", "INV-TD2", [], [], ["tide"]),
    Mutation("CLOCKFIRST", "INV-TD3", [], [], ["tide"]),
    Mutation("FAILMOVES", "INV-TD4", [], [], ["tide"]),
    Mutation("PRINTED", "INV-TD4", [], [], ["tide", "tidereads"]),
]
# Of csn.pml.
CSN_MUTATIONS = [
    Mutation("PUBLISHED", "INV-CN2", [], [], ["csn", "csnatomic"]),
    Mutation("STRICT", "INV-CN1", [], [], ["csn"]),
    Mutation("UNORDERED", "INV-CN3", [], [], ["csn"]),
    Mutation("OWNUNSEEN", "INV-CN4", [], [], ["csn"]),
]
ALL_MUTATIONS = (
    MUTATIONS
    + SOFTWARE_MUTATIONS
    + PARALLEL_MUTATIONS
    + VERSIONS_MUTATIONS
    + SWEEP_MUTATIONS
    + SWITCH_MUTATIONS
    + SNAPSHOT_MUTATIONS
    + GROUP_MUTATIONS
    + ASYNC_MUTATIONS
    + NAMING_MUTATIONS
    + FRESH_MUTATIONS
    + EVENT_MUTATIONS
    + CLAIMS_MUTATIONS
    + BULK_MUTATIONS
    + BULK_BLOCK_MUTATIONS
    + BULK_OPERATOR_MUTATIONS
    + SHIP_MUTATIONS
    + SHIP_APPLY_MUTATIONS
    + GROUP_LOCKS_MUTATIONS
    + GROUP_WAITS_MUTATIONS
    + GROUP_DRAWS_MUTATIONS
    + GROUP_HEAPS_MUTATIONS
    + BATCHES_MUTATIONS
    + GATE_MUTATIONS
    + TIDE_MUTATIONS
    + CSN_MUTATIONS
)
# Steps that a model leaves out or swaps without harm, and the settings or machines.
SPARED = {
    "STOREFIRST": ["soft"],
    "NOHANDOVER": ["grouptwo"],
    "NOTURN": ["switch", "switchupdates", "switchback", "switchbackupdates"],
    "EXTENDSWEPT": ["parallelinplacewide"],
    "STORESUNFENCED": ["sweeptso"],
    "ENDUNFENCED": ["sweeptso"],
    "NOCLAIM": ["shipanew", "shiptakeover"],
    "PARTKEPT": ["shipapplyfirst"],
    "OPENEARLY": ["grouplocks"],
    "BEGINBLIND": ["gate", "gatekeep"],
    "PUBLISHLATE": ["tide", "tidereads", "tidesame"],
    "STRICT": ["csnatomic"],
}

# Of the cases without --long, those that take seconds, the longest first.  gcc optimises them, and
# they begin before the others.
SLOW = [
    "parallelinplacewide-SWEEPUNSEEN",
    "parallelinplacewide-SWEEPBLIND",
    "snapshotrevokedtwo",
    "naming",
    "parallelinplace",
    "parallelfreshserial",
    "parallelthree",
    "versionsboth",
    "parallelwide",
    "namingpower-NOUNSEEN",
    "sweep",
    "soft-nw3",
    "shippowertakeover",
    "gatereads",
    "shiptakeover",
    "shiptakeover-NOCLAIM",
    "shipanew-NOCLAIM",
    "shiptakeoveranew-VOIDFENCES",
    "async",
    "groupheapslate",
    "shipanew",
    "shipreader",
    "naming-NOUNSEEN",
]

# Mutations that the other order of a state's steps meets much earlier (compiler()).
FORWARD = [
    "snapshottight-FREEINUSE",
    "asyncreader-READERBLIND",
    "switchtwo-FROMSETTLING",
    "snapshotsets-SETSTALE",
    "asyncreader-LEAVEFIRST",
    "snapshotrevokedtwo-FREENONE",
    "parallelserial-SERIALBESIDE",
    "parallelcross-COMPAREFIRST",
    "snapshottwo-SAVEDONCE",
    "parallelinplace-SWEEPUNREAD",
    "parallelinplace-SWEEPMISSED",
    "tracked-EARLYD",
    "parallelinplace-PUBSWEPT",
    "parallelinplace-SWEEPNEWER",
    "tracked-LATECLAIM",
    "parallelblind-VALIDONCE",
    "switchupdates-WAITSFORREADERS",
    "parallelwide-EXTENDNEWER",
    "tsx-LATECLAIM",
    "parallelwide-EXTENDONCE",
]

MUTATION_LINE = re.compile(r"^ \*   ([A-Z]{4,})  .*\((INV-[A-Z]+\d+)\)$", re.MULTILINE)


class Case(NamedTuple):
    model: Path
    defines: list[str]
    must_hold: bool
    long: bool = False


class Result(NamedTuple):
    violations: int
    states: int
    seconds: float
    trail: str = ""  # the steps to the violation, if asked for


def cases(long: bool) -> dict[str, Case]:
    every = (
        fur_cases()
        | cases_of(SOFTWARE, SETTINGS | LONG_SETTINGS, SOFTWARE_MUTATIONS, LONG_SETTINGS)
        | cases_of(
            PARALLEL,
            PARALLEL_SETTINGS | LONG_PARALLEL_SETTINGS,
            PARALLEL_MUTATIONS,
            [*LONG_PARALLEL_SETTINGS, *LONG],
        )
        | cases_of(
            VERSIONS,
            VERSIONS_SETTINGS | LONG_VERSIONS_SETTINGS,
            VERSIONS_MUTATIONS,
            [*LONG_VERSIONS_SETTINGS, *LONG],
        )
        | cases_of(
            SWEEP, SWEEP_SETTINGS | LONG_SWEEP_SETTINGS, SWEEP_MUTATIONS, LONG_SWEEP_SETTINGS
        )
        | cases_of(
            SWITCH, SWITCH_SETTINGS | LONG_SWITCH_SETTINGS, SWITCH_MUTATIONS, LONG_SWITCH_SETTINGS
        )
        | cases_of(
            SNAPSHOT,
            SNAPSHOT_SETTINGS | LONG_SNAPSHOT_SETTINGS,
            SNAPSHOT_MUTATIONS,
            LONG_SNAPSHOT_SETTINGS,
        )
        | cases_of(GROUP, GROUP_SETTINGS, GROUP_MUTATIONS, LONG)
        | cases_of(ASYNC, ASYNC_SETTINGS, ASYNC_MUTATIONS, LONG)
        | cases_of(NAMING, NAMING_SETTINGS, NAMING_MUTATIONS, LONG)
        | cases_of_one(FRESH, "fresh", FRESH_MUTATIONS)
        | cases_of(EVENT, EVENT_SETTINGS, EVENT_MUTATIONS)
        | cases_of(
            CLAIMS, CLAIMS_SETTINGS | LONG_CLAIMS_SETTINGS, CLAIMS_MUTATIONS, LONG_CLAIMS_SETTINGS
        )
        | cases_of(BULK, BULK_SETTINGS, BULK_MUTATIONS)
        | cases_of_one(BULK_BLOCK, "bulkblock", BULK_BLOCK_MUTATIONS)
        | cases_of_one(BULK_OPERATOR, "bulkoperator", BULK_OPERATOR_MUTATIONS)
        | cases_of(SHIP, SHIP_SETTINGS | LONG_SHIP_SETTINGS, SHIP_MUTATIONS, LONG_SHIP_SETTINGS)
        | cases_of(SHIP_APPLY, SHIP_APPLY_SETTINGS, SHIP_APPLY_MUTATIONS)
        | group_update_cases()
        | cases_of(GROUP_DRAWS, GROUP_DRAWS_SETTINGS, GROUP_DRAWS_MUTATIONS)
        | cases_of(BATCHES, BATCHES_SETTINGS, BATCHES_MUTATIONS)
        | cases_of(GATE, GATE_SETTINGS, GATE_MUTATIONS)
        | cases_of(TIDE, TIDE_SETTINGS, TIDE_MUTATIONS)
        | cases_of(CSN, CSN_SETTINGS, CSN_MUTATIONS)
        | spared_cases()
    )
    return {name: case for name, case in every.items() if long or not case.long}


def fur_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for machine, defines in MACHINES.items():
        for workload in WORKLOADS + LONG_WORKLOADS:
            name = "-".join([machine] + [w.lower().replace("=", "") for w in workload])
            found[name] = Case(FUR, defines + workload, True, workload in LONG_WORKLOADS)
    for name, defines in (MIXED | LONG_MIXED).items():
        found[name] = Case(FUR, defines, True, name in LONG_MIXED)
    for m in MUTATIONS:
        for machine in m.machines:
            defines = MACHINES[machine] + m.workload + [m.name]
            found[f"{machine}-{m.name}"] = Case(FUR, defines, False)
    return found


def group_update_cases() -> dict[str, Case]:
    """Of updates over several heaps."""
    return (
        cases_of(
            GROUP_LOCKS,
            GROUP_LOCKS_SETTINGS | LONG_GROUP_LOCKS_SETTINGS,
            GROUP_LOCKS_MUTATIONS,
            LONG_GROUP_LOCKS_SETTINGS,
        )
        | cases_of(
            GROUP_WAITS,
            GROUP_WAITS_SETTINGS | LONG_GROUP_WAITS_SETTINGS,
            GROUP_WAITS_MUTATIONS,
            LONG_GROUP_WAITS_SETTINGS,
        )
        | cases_of(
            GROUP_HEAPS,
            GROUP_HEAPS_SETTINGS | LONG_GROUP_HEAPS_SETTINGS,
            GROUP_HEAPS_MUTATIONS,
            LONG_GROUP_HEAPS_SETTINGS,
        )
    )


def cases_of(
    model: Path,
    settings: dict[str, list[str]],
    mutations: list[Mutation],
    long: Collection[str] = (),
) -> dict[str, Case]:
    """Each setting, which holds, and each mutation in the settings that it names."""
    found = {name: Case(model, defines, True, name in long) for name, defines in settings.items()}
    for m in mutations:
        for name in m.machines:
            case = f"{name}-{m.name}"
            found[case] = Case(model, settings[name] + [m.name], False, case in LONG)
    return found


def cases_of_one(model: Path, name: str, mutations: list[Mutation]) -> dict[str, Case]:
    """The same of a model that has one setting."""
    found = {name: Case(model, [], True)}
    for m in mutations:
        found[f"{name}-{m.name}"] = Case(model, [m.name], False)
    return found


def spared_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for spared, names in SPARED.items():
        for name in names:
            for model, settings in (
                (FUR, MACHINES),
                (SOFTWARE, SETTINGS),
                (PARALLEL, PARALLEL_SETTINGS),
                (SWEEP, SWEEP_SETTINGS),
                (SWITCH, SWITCH_SETTINGS),
                (GROUP, GROUP_SETTINGS),
                (SHIP, SHIP_SETTINGS),
                (SHIP_APPLY, SHIP_APPLY_SETTINGS),
                (GROUP_LOCKS, GROUP_LOCKS_SETTINGS),
                (GATE, GATE_SETTINGS),
                (TIDE, TIDE_SETTINGS),
                (CSN, CSN_SETTINGS),
            ):
                if name in settings:
                    case = f"{name}-{spared}"
                    found[case] = Case(model, settings[name] + [spared], True, case in LONG)
    return found


def disagreements() -> list[str]:
    """Where the models and the planted bugs contradict the tables of mutations."""
    wrong = []
    for model, mutations in (
        (FUR, MUTATIONS),
        (SOFTWARE, SOFTWARE_MUTATIONS),
        (PARALLEL, PARALLEL_MUTATIONS),
        (VERSIONS, VERSIONS_MUTATIONS),
        (SWEEP, SWEEP_MUTATIONS),
        (SWITCH, SWITCH_MUTATIONS),
        (SNAPSHOT, SNAPSHOT_MUTATIONS),
        (GROUP, GROUP_MUTATIONS),
        (ASYNC, ASYNC_MUTATIONS),
        (FRESH, FRESH_MUTATIONS),
        (EVENT, EVENT_MUTATIONS),
        (CLAIMS, CLAIMS_MUTATIONS),
        (BULK, BULK_MUTATIONS),
        (BULK_BLOCK, BULK_BLOCK_MUTATIONS),
        (BULK_OPERATOR, BULK_OPERATOR_MUTATIONS),
        (SHIP, SHIP_MUTATIONS),
        (SHIP_APPLY, SHIP_APPLY_MUTATIONS),
        (GROUP_LOCKS, GROUP_LOCKS_MUTATIONS),
        (GROUP_WAITS, GROUP_WAITS_MUTATIONS),
        (GROUP_DRAWS, GROUP_DRAWS_MUTATIONS),
        (GROUP_HEAPS, GROUP_HEAPS_MUTATIONS),
        (BATCHES, BATCHES_MUTATIONS),
        (GATE, GATE_MUTATIONS),
        (TIDE, TIDE_MUTATIONS),
        (CSN, CSN_MUTATIONS),
    ):
        invariants = {m.name: m.invariant for m in mutations}
        listed = dict(MUTATION_LINE.findall(model.read_text().split("*/")[0]))
        for name in sorted(invariants.keys() | listed.keys()):
            here = invariants.get(name, "not in the table")
            there = listed.get(name, "not in the list")
            if here != there:
                wrong.append(f"{name}: models.py: {here}; {model.name}: {there}")
    table = {m.name: m for m in ALL_MUTATIONS}
    known = cases(long=True)
    named: dict[str, set[str]] = {name: set() for name in table}  # mutation -> planted bugs
    for patch in sorted(PLANTS.glob("*.patch")):
        heading = patch.read_text().split("--- a/")[0]
        broken = re.findall(r"^Invariant: (.*)$", heading, re.MULTILINE)
        for case in re.findall(r"^Model: (.*)$", heading, re.MULTILINE):
            name = case.split("-")[-1]
            if case not in known or name not in table:
                wrong.append(f"{patch.name}: '{case}' is no case of a mutation: see --table")
                continue
            named[name].add(patch.stem)
            if table[name].invariant not in broken:
                wrong.append(f"{patch.name}: {case} breaks {table[name].invariant}")
    for name, plants in named.items():
        if plants != set(table[name].plants):
            wrong.append(
                f"{name}: models.py: {', '.join(table[name].plants) or 'no planted bug'}; "
                f"lines 'Model:' of tests/plants: {', '.join(sorted(plants)) or 'none'}"
            )
    return wrong


def compiler(name: str, case: Case) -> list[str]:
    """The command that compiles the verifier.  gcc takes 0.6 s for one, even with -O0, and most
    searches take a tenth of that: tcc takes 0.02 s."""
    # The last process first: a search that ends with a violation then meets it among half as many
    # states, of all mutations together.
    order = [] if case.must_hold else ["-DT_REVERSE" if name in FORWARD else "-DREVERSE"]
    if case.long:
        return ["gcc", "-w", "-O1", "-DCOLLAPSE", "-DMEMLIM=8000", *order]  # in MiB
    if name in SLOW:
        return ["gcc", "-w", "-O1", *order]
    return [*(["tcc", "-w"] if shutil.which("tcc") else ["gcc", "-w", "-O0"]), *order]


def stops(case: Case) -> bool:
    """Do the processes stop where the power fails?  Then each state is one where they may end."""
    return case.model == GROUP_HEAPS and "NOFAIL" not in case.defines


class Known:
    """What each verifier has found before: violations, and states."""

    def __init__(self) -> None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.file = Path(home) / "libfur" / "models.json"
        self.found: dict[str, list[int]] = {}
        with contextlib.suppress(OSError, ValueError):
            self.found = json.loads(self.file.read_text())

    def save(self) -> None:
        """If there is a place for it."""
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            made = self.file.with_suffix(f".{os.getpid()}")
            made.write_text(json.dumps(self.found))
            made.rename(self.file)


def key_of(scratch: str, commands: list[list[str]]) -> str:
    """Of what Spin has generated, and of how it is compiled and started."""
    generated = hashlib.sha256(repr(commands).encode())
    for file in sorted(Path(scratch).glob("pan.*")):
        generated.update(file.read_bytes())
    return generated.hexdigest()


def run(name: str, case: Case, trace: bool, known: Optional[Known]) -> Result:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        flags = ["-D" + d for d in case.defines]
        # The path of the model would be in the verifier.
        model = shutil.copy(case.model, scratch)
        subprocess.run(
            ["spin", "-a", *flags, case.model.name],
            cwd=scratch,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        command = [*compiler(name, case), "-DSAFETY"]
        # A table of 2^20 entries, which grows: the default of 2^24 takes longer to clear than most
        # searches.  One with millions of states would grow for half of its time.
        search = ["./pan", "-m300000", "-w22" if name in SLOW or case.long else "-w20"]
        search += (["-E"] if stops(case) else []) + (["-i"] if trace else [])
        key = key_of(scratch, [command, search])
        if known and key in known.found:
            violations, states = known.found[key]
            return Result(violations, states, time.monotonic() - began)
        # In two steps: ccache keeps only the first one, for which gcc -O1 takes up to 4 s.
        ccache = ["ccache"] if command[0] == "gcc" and shutil.which("ccache") else []
        subprocess.run([*ccache, *command, "-c", "pan.c"], cwd=scratch, check=True)
        subprocess.run([command[0], "-o", "pan", "pan.o"], cwd=scratch, check=True)
        out = subprocess.run(
            search, cwd=scratch, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        # A search that ran out of depth or memory has shown nothing.
        if "max search depth too small" in out or "out of memory" in out:
            raise RuntimeError("the search is not complete:\n" + out)
        violations, states = number_of(r"errors: (\d+)", out), number_of(
            r"([\d.]+(?:e\+\d+)?) states, stored", out
        )
        trail = ""
        if trace and violations:
            os.rename(model + ".trail", os.path.join(scratch, "t.trail"))
            trail = subprocess.run(
                ["spin", "-p", "-g", "-k", "t.trail", *flags, case.model.name],
                cwd=scratch,
                check=False,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout
        if known:
            known.found[key] = [violations, states]
        return Result(violations, states, time.monotonic() - began, trail)


def number_of(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    if not match:
        raise RuntimeError(f"no '{pattern}' in the verifier's output:\n{text}")
    return int(float(match.group(1)))


def check_cases(
    table: dict[str, Case], names: list[str], trace: bool, known: Optional[Known]
) -> int:
    """Run them all; returns how many are not as expected."""
    passed = failed = 0
    names = sorted(names, key=lambda name: SLOW.index(name) if name in SLOW else len(SLOW))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda name: run(name, table[name], trace, known), names)
        for name, result in zip(names, results):
            holds = result.violations == 0
            good = holds == table[name].must_hold
            passed, failed = passed + good, failed + (not good)
            print(
                f"{'ok  ' if good else 'FAIL'} {name:24} "
                f"{'holds' if holds else 'violation found':16} {result.states:9} states "
                f"{result.seconds:6.1f} s",
                flush=True,
            )
            if result.trail:
                print(result.trail)
            if not good:
                print(f"     repeat with: {sys.argv[0]} {name}")
    print(f"{passed} passed, {failed} failed")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--table", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--long", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    table = cases(args.long or bool(args.names))
    if args.list:
        print("\n".join(table))
        return 0
    if args.table:
        for m in ALL_MUTATIONS:
            for machine in m.machines:
                print(f"{machine}-{m.name}\t{m.invariant}\t{','.join(m.plants)}")
        return 0
    unknown = [name for name in args.names if name not in table]
    if unknown:
        parser.error(f"no case '{unknown[0]}': see --list")
    wrong = disagreements()
    for line in wrong:
        print("FAIL " + line)
    known = None if args.names or args.long or args.trace else Known()
    failed = check_cases(table, args.names or list(table), args.trace, known)
    if known:
        known.save()
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())
