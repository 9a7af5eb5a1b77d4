#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plant bugs in libfur's sources, for explore --plant: each must be found by the oracle.

    variants.py --table                name, source file and how it is found (options of explore), a line a bug, between tabs
    variants.py --header               a C++ table of them
    variants.py --plant BUG SRC        that file, below SRC, with the bug in it, to standard output

A bug is a piece of source that must be there exactly once, and what replaces it: when the source changes under it, the build says so.
"""
import argparse
import os
import sys

# name: (file, what is wrong, [(piece, replacement)], how it is found)
BUGS = {
    "no-fence-power": (
        "htm/power.c", "POWER: active[] is scanned before the stores are performed (INV-H2)",
        [("	arch_fence();\n	uint64_t end", "	uint64_t end"),
         ("	w->slot = arch_fetch_add(&d->next_durts, 1);\n	deactivate", "	w->slot = __atomic_fetch_add(&d->next_durts, 1, __ATOMIC_RELAXED);\n	deactivate")],
        "--tm fur-snapshot --workload bank --machine power9 --threads 6 --operations 100"),
    "no-fence-tsx": (
        "htm/tsx.c", "TSX: active[] is scanned before the stores are performed (INV-H2)",
        [("	arch_fence();\n	if (!htm_isolation_wait", "	if (!htm_isolation_wait")],
        "--workload bank --machine tsx"),
    "no-isolation-wait": (
        "htm/isolation.c", "updates do not wait for readers (INV-H2)",
        [("		uint64_t seq = arch_load(&h->active[i].seq);\n		if (__builtin", "		uint64_t seq = 0;\n		if (__builtin")],
        "--workload bank"),
    "no-reader-fence": (
        "htm/reader.c", "a reader's first loads may come before it is seen to be active (INV-H1)",
        [("arch_store_fence(&mine->seq, t->seq += 2);", "arch_store(&mine->seq, t->seq += 2);")],
        "--workload bank"),
    "reader-no-wait": (
        "htm/reader.c", "a read-only transaction returns without waiting for D (INV-D2)",
        [("		durability_wait(t->durability, set); /* INV-D2 */\n", "")],
        "--workload bank --crash"),
    "update-no-wait": (
        "durability/commit.c", "an update returns without waiting for D (INV-D2)",
        [("	durability_wait(d, set);\n	if (!error && arch_load(&d->failed))", "	if (!error && arch_load(&d->failed))")],
        "--workload bank --crash"),
    "early-d": (
        "htm/reader.c", "D is collected before the last access (INV-D1)",
        [("	become_active(t);\n	this", "	become_active(t);\n	durability_collect(t->durability, t->slot, &t->window.dset);\n	this"),
         ("	durability_collect(t->durability, t->slot, set);\n	/* Loads", "	/* Loads")],
        "--workload bank --crash"),
    "no-dependencies": (
        "durability/commit.c", "markers do not name D (INV-D3)",
        [("			marker->deps[back / 64] |= UINT64_C(1) << back % 64;", "			;")],
        "--workload bank --crash --operations 100"),
    "unknown-slots": (
        "durability/commit.c", "POWER: the slots of D are not looked up before they are named (INV-D3)",
        [("	else\n		durability_wait_slots(d, set); /* ours", "	else\n		; /* ours")],
        "--workload bank --crash --machine power9 --threads 6"),
    "no-slot-wait": (
        "durability/durability.c", "a slot is drawn before the members of D have drawn theirs (INV-D4)",
        [("	durability_wait_slots(d, set);\n", "")],
        "--workload bank --crash --machine tsx"),
    "marker-without-log": (
        "replayer/inspect.c", "recovery keeps a marker whose log did not get out (INV-M3)",
        [("inspect_plausible(f->super, m) &&\n	       m->checksum == media_marker_checksum(f->super, m, inspect_log(f, m->thread));", "inspect_plausible(f->super, m);")],
        "--workload bank --crash"),
    "claims-too-much": (
        "durability/commit.c", "a record claims slots that were drawn after D was collected (INV-M4): recovery takes a crash for damage",
        [(".settled = set->below, .clear = set->below};", ".settled = set->below ? slot : 0, .clear = 0};")],
        "--workload bank --crash --machine tsx"),
    "no-abort-marker": (
        "durability/commit.c", "an aborted update leaves no abort marker (INV-D5)",
        [("		put_marker(d, &marker, slot);\n		pm_flush(&d->pm, durability_marker(d, slot), sizeof marker);\n		/* INV-D5",
          "		put_marker(d, &marker, slot);\n		memset(durability_marker(d, slot), 0, sizeof marker);\n		arch_store_release(&durability_marker(d, slot)->durts, slot);\n		/* INV-D5")],
        "--workload bank --crash --machine power9"),
    "abort-marker-not-durable": (
        "durability/commit.c", "an aborted update leaves nondurable[] before its abort marker is durable (INV-D5)",
        [("		pm_flush(&d->pm, durability_marker(d, slot), sizeof marker);\n		/* INV-D5", "		/* INV-D5")],
        "--workload bank --crash --machine power9"),
    "tail-first": (
        "replayer/replay.c", "the tail moves before the heap is durable (INV-R1)",
        [("	int error = pm_drain(&d->pm);\n	for (int k", "	int error = 0;\n	for (int k"),
         ("		error = pm_drain(&d->pm);\n	}\n	return error;", "	}\n	return error;")],
        "--workload bank --crash --operations 100"),
    "no-write-back": (
        "replayer/apply.c", "what is replayed is not written back (INV-R5)",
        [("		if (w->dirty[k])\n			pm_flush", "		if (0)\n			pm_flush")],
        "--workload bank --crash --operations 100"),
    "handed-back-unsettled": (
        "fur_pages.c", "private pages are handed back before what was stored to them is in the file (INV-P2)",
        [("	if (settle(t->durability) == 0 && madvise(", "	if (madvise(")],
        "--workload bank --dram"),
    "slot-after-leaving": (
        "htm/power.c", "a rollback-only update leaves active[] before it has its slot, and pages go that it has stored to (INV-P2)",
        [("	w->slot = arch_fetch_add(&d->next_durts, 1);\n	deactivate(t);", "	deactivate(t);\n	for (int k = 0; k < 200; k++)\n		arch_pause();\n	w->slot = arch_fetch_add(&d->next_durts, 1);")],
        "--tm fur-snapshot --machine power9 --workload bank --dram"),
    "written-back-too-early": (
        "replayer/apply.c", "a line is written back when it is first stored to, and not again when it is stored to again (INV-R5)",
        [("		if (*place)\n			pm_flush(&w->d->pm, (void *)*place, line_bytes);", "		pm_flush(&w->d->pm, (void *)line, line_bytes);"),
         ("		if (w->dirty[k])\n			pm_flush", "		if (0)\n			pm_flush")],
        "--workload bank --crash --operations 100"),
    "helper-no-drain": (
        "replayer/apply.c", "the tail moves before what the helpers wrote is durable (INV-R5)",
        [("	if (n > 0 && pm_drains_own(&a->d->pm))", "	if (0)")],
        "--workload bank --crash --operations 100"),
    "baskets-out-of-order": (
        "replayer/apply.c", "a writer takes the later slots' entries first (INV-R4)",
        [("		empty_basket(&w, &a->baskets[k * threads + n]);", "		empty_basket(&w, &a->baskets[(threads - 1 - k) * threads + n]);")],
        "--workload bank --operations 100"),
    "early-lap": (
        "durability/durability.c", "a slot of the ring is used again before it is replayed",
        [("	while (durts >= arch_load_acquire(&d->tail) + d->super->ring_slots) {",
          "	while (durts >= arch_load_acquire(&d->tail) + 2 * d->super->ring_slots) {")],
        "--workload bank --crash --operations 100"),
    "no-lock-fence": (
        "htm/lock.c", "the lock's holder may scan active[] before the lock is seen to be held (INV-H3)",
        [("	arch_store_fence(&l->held, 1);", "	arch_store(&l->held, 1);")],
        "--workload bank"),
    "no-drain": (
        "htm/lock.c", "the lock's holder does not wait for those who are active (INV-H3)",
        [("	htm_wait_active(h, me);\n", "")],
        "--workload bank"),
    "no-look": (
        "htm/reader.c", "a reader does not look at the lock (INV-H3)",
        [("		if (__builtin_expect(!lock_held(h), 1))\n			break;", "		break;")],
        "--workload bank"),
    "no-subscription": (
        "htm/power.c", "a hardware update does not subscribe to the lock (INV-H3)",
        [("	if (lock_held(h)) /* a tracked load", "	if (0) /* a tracked load")],
        "--workload bank --machine power9"),
    "unlock-first": (
        "htm/update.c", "an update under the lock is visible before it has announced itself (INV-D1)",
        [("	arch_fence_light();\n	durability_collect_settled(t->durability, t->slot, &w->dset);\n	if (t->update.log->entries) {",
          "	arch_fence_light();\n	lock_release(t->htm);\n	durability_collect_settled(t->durability, t->slot, &w->dset);\n	if (t->update.log->entries) {"),
         ("		w->slot = durability_draw(t->durability, t->slot, &w->dset);\n	}\n	lock_release(t->htm);", "		w->slot = durability_draw(t->durability, t->slot, &w->dset);\n	}")],
        "--workload bank --crash"),
    "no-promotion": (
        "htm/update.c", "fur_promote does nothing",
        [("	__atomic_store_n(byte, __atomic_load_n(byte, __ATOMIC_RELAXED), __ATOMIC_RELAXED);\n", "	(void)byte;\n")],
        "--tm fur-snapshot --workload intset --machine power9"),
    "no-undo": (
        "durability/redo.c", "fur_abort leaves the oldest store of the update in the heap",
        [("	while (log->undo_last != UNDO_NONE) {", "	while (log->undo_last != UNDO_NONE && log->undo_last != log->start + d->head_bytes) {")],
        "--workload bank"),
}


def planted(name, src):
    path, _, pieces, _ = BUGS[name]
    text = open(os.path.join(src, path)).read()
    for piece, replacement in pieces:
        if text.count(piece) != 1:
            sys.exit(f"variants.py: {name}: this must be in src/{path} once, and is {text.count(piece)} times; "
                     f"bring the bug up to date with the source:\n{piece}")
        text = text.replace(piece, replacement)
    return text


def command(bugs, columns, usage):
    """What a list of other bugs does on its command line: --table with those columns of each, or --plant BUG SRC."""
    if sys.argv[1:] == ["--table"]:
        print("\n".join("\t".join([name] + [bug[k] for k in columns]) for name, bug in bugs.items()))
    elif len(sys.argv) == 4 and sys.argv[1] == "--plant" and sys.argv[2] in bugs:
        BUGS.update(bugs)
        sys.stdout.write(planted(sys.argv[2], sys.argv[3]))
    else:
        sys.exit(usage)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--header", action="store_true")
    parser.add_argument("--plant", nargs=2, metavar=("BUG", "SRC"))
    args = parser.parse_args()
    if args.table:
        print("\n".join(f"{name}\t{bug[0]}\t{bug[3]}" for name, bug in BUGS.items()))
    if args.header:
        rows = "".join(f'        {{"{name}", "{bug[1]}"}},\n' for name, bug in BUGS.items())
        print("/* Made by variants.py. */\n"
              "static const struct {\n        const char *name, *what;\n} planted_bugs[] = {\n" + rows + "};")
    if args.plant:
        name, src = args.plant
        if name not in BUGS:
            parser.error(f"no bug '{name}': see --table")
        sys.stdout.write(planted(name, src))
    return 0


if __name__ == "__main__":
    sys.exit(main())
