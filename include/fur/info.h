/* SPDX-License-Identifier: BSD-3-Clause
 *
 * info.h - how an open heap runs, and its statistics: fur_get_info(), fur_get_stats().  Part of
 * fur.h, which includes it.
 */
#ifndef FUR_INFO_H
#define FUR_INFO_H

#ifndef FUR_H
#error "include fur.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What is running, and why. */
struct fur_info {
	size_t size; /* sizeof(struct fur_info), set by the caller: fur.h, "Structs that grow" */
	enum fur_htm htm;
	/* The isolation that transactions get, which may be stronger than the one asked for */
	enum fur_isolation isolation;
	enum fur_pm pm;
	char htm_reason[160]; /* why this back end */
	char pm_reason[160];  /* why this domain, and what it does not survive */
	uint64_t heap_bytes, log_bytes, ring_slots, address; /* heap_bytes: now */
	uint32_t max_threads;
	/* The work that fur_open() had to do. */
	bool recovered;            /* the heap had not been closed */
	uint64_t replayed_updates; /* updates replayed then */
	uint64_t replayed_entries; /* their redo-log entries */
	uint64_t replay_ns;
	uint64_t corrected_updates; /* of them, those in which libfur corrected a wrong byte */
	uint64_t max_bytes;         /* up to which the heap may grow; heap_bytes: it does not */
};

/* fur_get_info - which back end, isolation and persistence libfur has chosen, and what fur_open()
 * had to do.  Set info->size first.
 * Errors: FUR_EINVAL (NULL, or info->size); FUR_EFORK. */
FUR_API FUR_MUST_USE int fur_get_info(const fur_heap *heap, struct fur_info *info);

/* What a number names, for fur_name(). */
enum fur_name_of {
	FUR_NAME_HTM,       /* enum fur_htm: the word that FUR_HTM in the environment takes */
	FUR_NAME_PM,        /* enum fur_pm: the word that FUR_PM in the environment takes */
	FUR_NAME_ISOLATION, /* enum fur_isolation */
	FUR_NAME_LOG_LEVEL, /* enum fur_log_level */
	FUR_NAME_ABORT,     /* enum fur_abort_cause */
	FUR_NAME_PHASE      /* enum fur_phase */
};

/* fur_name - the name of a value of an enum, one word.
 * Returns: a constant string; "?" for a value that the library does not know. */
FUR_API const char *fur_name(enum fur_name_of of, int value);

enum fur_abort_cause {
	/* Another transaction accessed a line of this one.  Where hardware does not tell the two
	 * apart, also any other access */
	FUR_ABORT_CONFLICT,
	FUR_ABORT_PLAIN,    /* an access outside transactions, mostly a reader's (POWER) */
	FUR_ABORT_CAPACITY, /* more lines than the hardware tracks */
	FUR_ABORT_LOCK,     /* a software update was publishing, or one ran in place */
	FUR_ABORT_READER,   /* a reader took longer than the hardware transaction could wait */
	FUR_ABORT_FULL,     /* redo log or ring full: libfur made room and ran the update again */
	/* No cause given: an interrupt, a page fault, a forbidden instruction */
	FUR_ABORT_FAULT,
	FUR_ABORT_USER, /* fur_abort(), or an error that rolled the update back */
	/* Its thread had no memory left for a line that it had to save for a snapshot: it ran again
	 * in software, which takes some */
	FUR_ABORT_SNAPSHOT,
	FUR_ABORT_CAUSES
};

enum fur_phase {
	FUR_PHASE_BODY,       /* from begin to commit, attempts that aborted included */
	FUR_PHASE_ISOLATION,  /* waiting for readers: the isolation wait, or a publication's */
	FUR_PHASE_LOG,        /* preparing the redo log: copies, checksums, drawing the durTS */
	FUR_PHASE_FLUSH,      /* write-backs of log and marker, and the fence */
	FUR_PHASE_DURABILITY, /* durability wait of updates */
	FUR_PHASE_RO_BODY,    /* read-only transactions, begin to end */
	FUR_PHASE_RO_WAIT,    /* durability wait of read-only transactions */
	FUR_PHASE_LOCK,       /* waiting for the publication turn; in place, for readers too */
	FUR_PHASE_ROOM,       /* waiting for a slot of the ring, replay included */
	FUR_PHASES
};

struct fur_stats {
	size_t size; /* sizeof(struct fur_stats), set by the caller: fur.h, "Structs that grow" */
	uint64_t ro_commits;
	uint64_t update_commits; /* of them: */
	uint64_t lock_commits;   /*   that shut readers out: to publish, or in place */
	uint64_t empty_commits;  /*   that wrote nothing */
	uint64_t aborts[FUR_ABORT_CAUSES];
	uint64_t phase_ns[FUR_PHASES]; /* sums; with fur_options.phase_times */
	uint64_t replays;              /* how often replay made room */
	uint64_t replayed_updates;
	uint64_t long_readers;      /* readers that made an update wait for reader_report_ns */
	uint64_t longest_reader_ns; /* the longest such wait */
	uint64_t threads;           /* registered now */
	uint64_t log_entries;       /* redo-log entries of committed updates */
	/* With fur_options.dram_bytes: how often libfur handed private copies of pages back, and
	 * how many bytes in all */
	uint64_t times_handed_back;
	uint64_t bytes_handed_back;
	/* Of update_commits: concurrent updates in software, and serial ones */
	uint64_t software_commits;
	uint64_t serial_commits;
	/* How often a concurrent body had to run again, because another update had changed a word
	 * that it had loaded */
	uint64_t defeats;

	/* How full the heap is at this moment.  Ring and logs: with updates that are not replayed
	 * yet, counted in slots, and in bytes of the log that has the most; where one is full, an
	 * update replays, or waits for a replay.  Space: chunks of 64 KiB that serve one size of
	 * block, or are a part of a larger block; fur_alloc() serves any size from the others */
	uint64_t ring_used_slots, ring_slots;
	uint64_t fullest_log_bytes, log_bytes;
	uint64_t space_used_bytes, space_bytes;
	/* Read-only transactions that are active at this moment, and the age of the oldest.  A
	 * reader does not record when it begins.  fur_get_stats() remembers which readers it has
	 * found, and when, so the age is a lower bound: the time since the call that found this
	 * reader first, and 0 at that call.  Poll once a second, and the age is less than a second
	 * too small.  On POWER with FUR_SNAPSHOT, the body of an update in hardware counts too */
	uint64_t readers, oldest_reader_ns;
	/* Of update_commits: those that ended with a ticket */
	uint64_t async_commits;
	/* fur_bulk_run(): commits, one for each call with FUR_BULK_WHOLE and one for every few
	 * thousand records with FUR_BULK_EACH; the records that they have changed; and the records
	 * that they mapped once more because other updates had stored to them meanwhile */
	uint64_t bulk_commits, bulk_records, bulk_again;
	/* Snapshots that are open now, and their memory; lines that updates have saved for them;
	 * and how many snapshots libfur has revoked */
	uint64_t snapshots, snapshot_bytes, saved_lines, snapshots_revoked;
};

/* fur_get_stats - sums over all threads since the heap was opened, and some facts of this moment.
 * Approximate while transactions run.  Set stats->size first.
 * It takes no lock for which a transaction waits.  It looks at the slots of the ring that are in
 * use, and at each chunk of the heap: milliseconds for a million slots, or for a heap of 64 GiB.
 * Errors: FUR_EINVAL (NULL, or stats->size); FUR_EFORK. */
FUR_API FUR_MUST_USE int fur_get_stats(const fur_heap *heap, struct fur_stats *stats);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FUR_INFO_H */
