/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_map.h - maps from bytes to bytes in a heap, for C and for the bindings of other languages.
 *
 *     fur_map *users;
 *     if (fur_map_root(thread, "users", FUR_MAP_ORDERED, &users))
 *             return complain(fur_errormsg());
 *
 *     void add(fur_update *update, void *arg)        // a body of fur_update_run()
 *     {
 *             if (fur_map_put(update, users, "ada", 3, arg, strlen(arg)) < 0)
 *                     return;                        // the commit returns the reason
 *     }
 *
 * A map grows as it needs, and frees the nodes that its entries do not need any more.  An ordered
 * map (B+tree) keeps its keys in the order of memcmp(), a shorter one before those that it begins.
 * A hash map finds a key with fewer loads, and has no order; keys that a stranger has chosen do not
 * make it slow.  Keys and values have up to 4 GiB; a key or value of up to 12 bytes needs no block
 * of its own.  In memory they are a fur::ordered_map and a fur::hash_map from fur::string to
 * fur::string (docs/containers.md), behind a word that says which.
 *
 * Every function works in a transaction, except for those that begin their own: the functions on
 * roots, those whose names end in _in_parts, fur_map_put_one(), fur_map_remove_one() and
 * fur_map_get_one(), and those that read a snapshot, whose names end in _at.  Where the comment
 * says `tx`, it is a fur_ro *, a fur_reader * or a fur_update *: macros in C, overloads in C++.  A
 * binding calls the function that the macro chooses: its name ends in _ro, _reader or _update.
 *
 * Results: 1, 0, or a negative FUR_E* code.  Each function lists the meaning of 1 and 0.  All
 * return FUR_EINVAL for a pointer to something else than a map, and for NULL where they need an
 * address; FUR_ENOTX if the update or the fur_reader is not open.  If the heap is full in the
 * middle of a change, the update fails: this and all later calls in it return FUR_ENOSPC, and so
 * does fur_commit(), which rolls it back.  If it had failed before, they return that code.
 */
#ifndef FUR_MAP_H
#define FUR_MAP_H

#include <fur.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A map.  It lies in the heap; its address stays, as long as it exists. */
typedef struct fur_map fur_map;

enum fur_map_kind {
	FUR_MAP_HASH = 1,   /* fur::hash_map */
	FUR_MAP_ORDERED = 2 /* fur::ordered_map */
};

struct fur_map_iterator; /* below */

/* Bytes where they lie. */
struct fur_map_bytes {
	const void *at;
	size_t bytes;
};

/* fur_map_root - find the heap's map of that name; if there is none, make it.
 * Names are those of fur::root() (C++), and each carries the kind of its map.
 * Durable: the new map, before return.
 * Errors:  FUR_EINVAL if the name belongs to something else, or kind is no kind; FUR_ENOSPC;
 *          FUR_ENESTED inside a transaction; those of fur_update_run().  *map is NULL then. */
FUR_API FUR_MUST_USE int fur_map_root(
        fur_thread *thread, const char *name, enum fur_map_kind kind, fur_map **map);

/* fur_map_find_root - find the heap's map of that name.  It also works in heaps that are open
 * read-only.
 * Returns: 1, and *map; 0, and *map is NULL, if there is no such name.
 * Errors:  FUR_EINVAL if the name belongs to something else, or kind is no kind; FUR_ENESTED inside
 *          a transaction; those of fur_begin_ro() and fur_end_ro(). */
FUR_API FUR_MUST_USE int fur_map_find_root(
        fur_thread *thread, const char *name, enum fur_map_kind kind, fur_map **map);

/* fur_map_remove_root - forget the name.  The map stays: fur_map_destroy() frees it, afterwards, so
 * that no crash leaves the name of freed memory.
 * Returns: 1; 0 if there is no such name.
 * Errors:  FUR_EINVAL (NULL); FUR_ENESTED inside a transaction; those of fur_update_run(). */
FUR_API FUR_MUST_USE int fur_map_remove_root(fur_thread *thread, const char *name);

/* fur_map_create - make an empty map.
 * Crash:   the map is part of the update: neither an abort nor a crash leaks memory.
 * Returns: NULL if the heap is full, kind is no kind, or the update has failed before;
 *          fur_commit() then returns the reason. */
FUR_API fur_map *fur_map_create(fur_update *update, enum fur_map_kind kind);

/* fur_map_destroy - remove all entries, and free the map.  NULL is allowed.  See fur_map_clear().
 * Returns: 0.
 * Errors:  as fur_map_clear(). */
FUR_API FUR_MUST_USE int fur_map_destroy(fur_update *update, fur_map *map);

/* fur_map_clear - remove all entries.  The update frees a block for each few entries, and for each
 * key and value of more than 12 bytes.  If the log has no room for that, the update fails: then
 * call fur_map_clear_in_parts().
 * Returns: 0.
 * Errors:  FUR_ETOOBIG, and those of all functions. */
FUR_API FUR_MUST_USE int fur_map_clear(fur_update *update, fur_map *map);

/* fur_map_clear_in_parts - remove all entries in several updates, each of up to 1000 entries, or
 * fewer if the log is small.  So it empties a map of any size, with any log; it is not atomic.
 * Visible: other threads see the map shrink.  If they add entries, those are removed as well.
 * Crash:   the map has fewer entries, and can be used as any other.
 * Durable: before return.
 * Returns: 0.
 * Errors:  FUR_EINVAL; FUR_ENESTED inside a transaction; those of fur_update_run().  What is
 *          removed by then stays removed. */
FUR_API FUR_MUST_USE int fur_map_clear_in_parts(fur_thread *thread, fur_map *map);

/* fur_map_destroy_in_parts - the same, and free the map in the last of the updates.  NULL is
 * allowed.  For a map that no name or pointer in the heap leads to any more: a crash leaks what is
 * left of it.  For a map with a name, call fur_map_clear_in_parts(), fur_map_remove_root(), and
 * then fur_map_destroy(): a crash leaks 128 bytes at most.
 * Durable: before return.
 * Returns: 0.
 * Errors:  as fur_map_clear_in_parts(). */
FUR_API FUR_MUST_USE int fur_map_destroy_in_parts(fur_thread *thread, fur_map *map);

/* fur_map_put - give the key this value.
 * Visible, Durable: with fur_commit().
 * Returns: 1 if the key was added; 0 if its value was replaced.
 * Errors:  FUR_EINVAL if key or value have more than 4 GiB; those of all functions. */
FUR_API FUR_MUST_USE int fur_map_put(fur_update *update, fur_map *map, const void *key,
        size_t key_bytes, const void *value, size_t value_bytes);

/* fur_map_insert - add the key with this value, unless the key is there.
 * Visible, Durable: with fur_commit().
 * Returns: 1 if the key was added; 0 if it was there, and nothing changed.
 * Errors:  FUR_EINVAL if key or value have more than 4 GiB; those of all functions. */
FUR_API FUR_MUST_USE int fur_map_insert(fur_update *update, fur_map *map, const void *key,
        size_t key_bytes, const void *value, size_t value_bytes);

/* fur_map_remove - remove the key and its value.
 * Visible, Durable: with fur_commit().
 * Returns: 1; 0 if there is no such key. */
FUR_API FUR_MUST_USE int fur_map_remove(
        fur_update *update, fur_map *map, const void *key, size_t key_bytes);

/* Keys of an ordered map: from `first` on, and before `last`.  first = NULL: from the first key on;
 * last = NULL: to the end of the map. */
struct fur_map_range {
	const void *first;
	size_t first_bytes;
	const void *last;
	size_t last_bytes;
};

/* fur_map_remove_range - remove the entries of an ordered map whose keys are in the range.  The
 * update frees a block for each few entries, and for each key and value of more than 12 bytes.  If
 * the log has no room for that, it fails: then call fur_map_remove_range_in_parts().
 * Visible, Durable: with fur_commit().
 * Returns: 0; *removed is the number of entries removed.  `removed` may be NULL.
 * Errors:  FUR_EINVAL for a hash map, and if a key has more than 4 GiB; FUR_ETOOBIG, and those of
 *          all functions. */
FUR_API FUR_MUST_USE int fur_map_remove_range(
        fur_update *update, fur_map *map, const struct fur_map_range *range, uint64_t *removed);

/* fur_map_remove_range_in_parts - the same in several updates, each of up to 1000 entries, or fewer
 * if the log is small.  So it removes ranges of any size, with any log; it is not atomic.
 * Visible: other threads see the range shrink.  If they add entries, those may be removed as well.
 * Crash:   the map has fewer entries, and can be used as any other.
 * Durable: what is removed so far, with each update.
 * Returns: 0; *removed is the number of entries removed, also after an error.
 * Errors:  FUR_EINVAL as fur_map_remove_range(); FUR_ENESTED inside a transaction; those of
 *          fur_update_run(). */
FUR_API FUR_MUST_USE int fur_map_remove_range_in_parts(
        fur_thread *thread, fur_map *map, const struct fur_map_range *range, uint64_t *removed);

/* fur_map_remove_if - remove the entries for which which(entry, arg) returns 1, and keep those for
 * which it returns 0.  It looks at the entry by fur_map_key() and fur_map_value(), and may read
 * other maps; it must not change this one.  It is a part of the update's body: what that must not
 * do, it must not do either.  If it returns a negative number, the removal stops, and what it has
 * removed by then stays removed, unless you abort the update.
 * If the log has no room for the removal, the update fails: then call
 * fur_map_remove_if_in_parts().
 * Visible, Durable: with fur_commit().
 * Returns: 0, or the negative number of which(); *removed is the number of entries removed.
 *          `removed` may be NULL.
 * Errors:  FUR_EINVAL if `which` is NULL; FUR_ETOOBIG, and those of all functions. */
FUR_API FUR_MUST_USE int fur_map_remove_if(fur_update *update, fur_map *map,
        int (*which)(const struct fur_map_iterator *entry, void *arg), void *arg,
        uint64_t *removed);

/* fur_map_remove_if_in_parts - the same in several updates, each of which looks at about 1000
 * entries, or fewer if the log is small.  So it takes maps of any size, with any log; it is not
 * atomic.  The updates are those of fur_begin_update(): which() runs in one at a time, and libfur
 * never leaves it by longjmp().  It may be asked about an entry again that it has kept.  If it
 * returns a negative number, the last update is rolled back.
 * Visible: other threads see the map shrink.  An entry that they add may be removed or not.
 * Crash:   the map has fewer entries, and can be used as any other.
 * Durable: what is removed so far, with each update.
 * Returns: 0, or the negative number of which(); *removed is the number of entries removed, also
 *          after an error.
 * Errors:  FUR_EINVAL; FUR_ENOMEM (for the key to go on from); FUR_ENESTED inside a transaction;
 *          those of fur_begin_update() and fur_commit(). */
FUR_API FUR_MUST_USE int fur_map_remove_if_in_parts(fur_thread *thread, fur_map *map,
        int (*which)(const struct fur_map_iterator *entry, void *arg), void *arg,
        uint64_t *removed);

/* fur_map_size_ro, fur_map_size_reader, fur_map_size_update - fur_map_size(tx, map, uint64_t
 * *size): count the entries.  It reads words that insertions store to, so call it in updates and
 * optimistic readers only if you must.
 * Returns: 0. */
FUR_API FUR_MUST_USE int fur_map_size_ro(fur_ro *ro, const fur_map *map, uint64_t *size);
FUR_API FUR_MUST_USE int fur_map_size_reader(
        fur_reader *reader, const fur_map *map, uint64_t *size);
FUR_API FUR_MUST_USE int fur_map_size_update(
        fur_update *update, const fur_map *map, uint64_t *size);

/* fur_map_get_ro, fur_map_get_reader, fur_map_get_update - fur_map_get(tx, map, key, key_bytes,
 * void *value, size_t *bytes): copy the key's value.  Before the call *bytes is the room at
 * `value`; afterwards it is the size of the value.  If it has more bytes than there is room, the
 * first ones are copied.
 * Returns: 1; 0 if there is no such key: *bytes is 0. */
FUR_API FUR_MUST_USE int fur_map_get_ro(fur_ro *ro, const fur_map *map, const void *key,
        size_t key_bytes, void *value, size_t *bytes);
FUR_API FUR_MUST_USE int fur_map_get_reader(fur_reader *reader, const fur_map *map, const void *key,
        size_t key_bytes, void *value, size_t *bytes);
FUR_API FUR_MUST_USE int fur_map_get_update(fur_update *update, const fur_map *map, const void *key,
        size_t key_bytes, void *value, size_t *bytes);

/* A key to look up, and what was found. */
struct fur_map_lookup {
	const void *key;
	size_t key_bytes;
	void *value;  /* a copy of the value, as far as there is room */
	size_t room;  /* in bytes */
	size_t bytes; /* set: the size of the value, which may be more; 0 if there is no such key */
	int found;    /* set: 1, or 0 if there is no such key */
};

/* fur_map_get_many_ro, fur_map_get_many_reader, fur_map_get_many_update - fur_map_get_many(tx, map,
 * struct fur_map_lookup *lookups, size_t n): look for n keys at once.  In a map that is larger than
 * the processor's caches a search waits for memory at each level; here up to 16 wait together.
 * Returns: how many of the keys are there; a key that is given twice counts twice.
 * Errors:  FUR_EINVAL also if n is more than INT_MAX; then nothing is looked up. */
FUR_API FUR_MUST_USE int fur_map_get_many_ro(
        fur_ro *ro, const fur_map *map, struct fur_map_lookup *lookups, size_t n);
FUR_API FUR_MUST_USE int fur_map_get_many_reader(
        fur_reader *reader, const fur_map *map, struct fur_map_lookup *lookups, size_t n);
FUR_API FUR_MUST_USE int fur_map_get_many_update(
        fur_update *update, const fur_map *map, struct fur_map_lookup *lookups, size_t n);

/* An entry of a map, or the end behind the last one.  It is valid until its transaction ends or
 * changes the map.  Its contents are libfur's. */
struct fur_map_iterator {
	uint64_t opaque[128];
};

/* Where fur_map_seek() goes.  A hash map knows FUR_MAP_FIRST and FUR_MAP_AT. */
enum fur_map_place {
	FUR_MAP_FIRST,  /* the first entry; `key` is not looked at */
	FUR_MAP_LAST,   /* the last entry; likewise */
	FUR_MAP_AT,     /* the entry of the key */
	FUR_MAP_FROM,   /* the first entry whose key is not smaller */
	FUR_MAP_BEHIND, /* the first entry whose key is larger */
	FUR_MAP_FLOOR,  /* the last entry whose key is not larger */
	FUR_MAP_BEFORE  /* the last entry whose key is smaller */
};

/* fur_map_seek_ro, fur_map_seek_reader, fur_map_seek_update - fur_map_seek(tx, map, enum
 * fur_map_place where, key, key_bytes, struct fur_map_iterator *it): go to an entry.
 * A scan of many entries runs as an optimistic reader, or as several short transactions: keep the
 * last key, and go on with FUR_MAP_BEHIND.
 * Returns: 1; 0 if there is no such entry: the iterator is at the end.
 * Errors:  FUR_EINVAL if `where` is not known, or a hash map cannot go there; the iterator must not
 *          be used then. */
FUR_API FUR_MUST_USE int fur_map_seek_ro(fur_ro *ro, const fur_map *map, enum fur_map_place where,
        const void *key, size_t key_bytes, struct fur_map_iterator *it);
FUR_API FUR_MUST_USE int fur_map_seek_reader(fur_reader *reader, const fur_map *map,
        enum fur_map_place where, const void *key, size_t key_bytes, struct fur_map_iterator *it);
FUR_API FUR_MUST_USE int fur_map_seek_update(fur_update *update, const fur_map *map,
        enum fur_map_place where, const void *key, size_t key_bytes, struct fur_map_iterator *it);

/* fur_map_next - go to the next entry: of an ordered map, that of the next key.
 * Returns: 1; 0 if there is none: the iterator is at the end, and stays there. */
FUR_API FUR_MUST_USE int fur_map_next(struct fur_map_iterator *it);

/* fur_map_previous - go to the entry of the key before.  From the end it goes to the last one.
 * Returns: 1; 0 if there is none: the iterator is at the end.
 * Errors:  FUR_EINVAL for a hash map. */
FUR_API FUR_MUST_USE int fur_map_previous(struct fur_map_iterator *it);

/* fur_map_key, fur_map_value - copy the entry's key, or its value, to `to`, up to `room` bytes.
 * Returns: its size, which may be more; 0 at the end. */
FUR_API size_t fur_map_key(const struct fur_map_iterator *it, void *to, size_t room);
FUR_API size_t fur_map_value(const struct fur_map_iterator *it, void *to, size_t room);

/* fur_map_view - show the entry's key and value where they lie in the heap, without a copy.  The
 * addresses are valid until the read-only transaction ends.
 * Returns: 1; 0 at the end.
 * Errors:  FUR_EINVAL in an update, whose stores may not be in the heap yet, and in an optimistic
 *          reader, next to which others store there: use fur_map_key() and fur_map_value(). */
FUR_API FUR_MUST_USE int fur_map_view(
        const struct fur_map_iterator *it, struct fur_map_bytes *key, struct fur_map_bytes *value);

/* fur_map_scan_ro, fur_map_scan_reader, fur_map_scan_update - fur_map_scan(tx, map, uint64_t
 * *place, size_t most, void *entries, size_t *bytes): a walk through a hash map in parts, from one
 * transaction, or one process, to the next, as SCAN of Redis.  It copies entries from *place on,
 * and sets *place to where to go on.  A walk begins with *place = 0; any number is a place, and has
 * the same meaning in each process that opens the heap.
 * It copies whole groups of some entries, which lie together, until there are `most` entries, or no
 * room for the next group.  Before the call *bytes is the room at `entries`; afterwards it is the
 * size of what was copied, in the format of fur_map_copy_at().  If the room is too small for the
 * first group, nothing is copied, *place stays, and *bytes is the room that this one needs, which
 * is more.  A group has about 8 entries at most; only keys that were chosen for their hashes make a
 * larger one (docs/containers.md, "Keys that strangers choose").
 * An entry that is in the map from the first call to the last is copied once or more often: again
 * if the map shrinks between two calls.  One that is added or removed meanwhile may be copied or
 * not.
 * Returns: 1 if the walk is to go on; 0 if it is complete: *place is 0.
 * Errors:  FUR_EINVAL for an ordered map, in which the last key is such a place: see
 *          FUR_MAP_BEHIND.  *bytes is 0 then. */
FUR_API FUR_MUST_USE int fur_map_scan_ro(
        fur_ro *ro, const fur_map *map, uint64_t *place, size_t most, void *entries, size_t *bytes);
FUR_API FUR_MUST_USE int fur_map_scan_reader(fur_reader *reader, const fur_map *map,
        uint64_t *place, size_t most, void *entries, size_t *bytes);
FUR_API FUR_MUST_USE int fur_map_scan_update(fur_update *update, const fur_map *map,
        uint64_t *place, size_t most, void *entries, size_t *bytes);

/* One operation that is a whole transaction.  There is no begin and no end of its own, so an
 * exception of another language cannot come between them and leave the transaction open. */

/* fur_map_put_one - give the key this value, in an update of its own.
 * Visible: atomically, before return.   Durable: before return.
 * Returns: 1 if the key was added; 0 if its value was replaced.
 * Errors:  those of fur_map_put(); FUR_ENESTED inside a transaction; those of fur_update_run(). */
FUR_API FUR_MUST_USE int fur_map_put_one(fur_thread *thread, fur_map *map, const void *key,
        size_t key_bytes, const void *value, size_t value_bytes);

/* fur_map_remove_one - remove the key and its value, in an update of its own.
 * Visible: atomically, before return.   Durable: before return.
 * Returns: 1; 0 if there is no such key.
 * Errors:  those of fur_map_remove(); FUR_ENESTED inside a transaction; those of
 *          fur_update_run(). */
FUR_API FUR_MUST_USE int fur_map_remove_one(
        fur_thread *thread, fur_map *map, const void *key, size_t key_bytes);

/* fur_map_get_one - copy the key's value as fur_map_get() does, in a read-only transaction of its
 * own.  While updates run beside each other, it is an optimistic one, and then the whole room at
 * `value` may be written to.  If the value did not fit, it may have changed by the next call: look
 * at *bytes again.
 * Durable: what it has read, before return.
 * Returns: 1; 0 if there is no such key: *bytes is 0.
 * Errors:  those of fur_map_get(); FUR_ENESTED inside a transaction; those of fur_begin_ro() and
 *          fur_end_ro(). */
FUR_API FUR_MUST_USE int fur_map_get_one(fur_thread *thread, const fur_map *map, const void *key,
        size_t key_bytes, void *value, size_t *bytes);

/* fur_map_get_many_one - fur_map_get_many() in a read-only transaction of its own, as
 * fur_map_get_one().
 * Durable: what it has read, before return.
 * Returns: how many of the keys are there.
 * Errors:  those of fur_map_get_many(); FUR_ENESTED inside a transaction; those of fur_begin_ro()
 *          and fur_end_ro(). */
FUR_API FUR_MUST_USE int fur_map_get_many_one(
        fur_thread *thread, const fur_map *map, struct fur_map_lookup *lookups, size_t n);

/* fur_map_destroy_root - free the heap's map of that name, of either kind, with all its entries,
 * and forget the name, in one update.  fur_map_clear() says when that does not fit the log.
 * Visible: atomically, before return.   Durable: before return.
 * Returns: 1; 0 if there is no such name.
 * Errors:  FUR_EINVAL (NULL; the name belongs to something else); FUR_ENESTED inside a transaction;
 *          those of fur_map_clear() and fur_update_run(). */
FUR_API FUR_MUST_USE int fur_map_destroy_root(fur_thread *thread, const char *name);

/* One operation that is a whole run in a snapshot (fur_snapshot_run).  libfur may leave such a run
 * when it revokes the snapshot.  Here it leaves only libfur's own frames, and these functions
 * return FUR_ETOOOLD.  So they also serve languages whose frames must not be left by longjmp().  A
 * map's address means what lay there then: for a map that may have been made or freed since, ask
 * fur_map_find_root_at(). */

/* fur_map_find_root_at - find the map that had this name then.
 * Returns: 1, and *map; 0, and *map is NULL, if there was no such name.
 * Errors:  those of fur_map_find_root() and fur_snapshot_run(). */
FUR_API FUR_MUST_USE int fur_map_find_root_at(fur_thread *thread, fur_snapshot *snapshot,
        const char *name, enum fur_map_kind kind, fur_map **map);

/* fur_map_size_at - count the entries that the map had then.
 * Returns: 0.
 * Errors:  those of fur_map_size() and fur_snapshot_run(). */
FUR_API FUR_MUST_USE int fur_map_size_at(
        fur_thread *thread, fur_snapshot *snapshot, const fur_map *map, uint64_t *size);

/* fur_map_get_at - copy the value that the key had then, as fur_map_get() does.
 * Returns: 1; 0 if there was no such key: *bytes is 0.
 * Errors:  those of fur_map_get() and fur_snapshot_run(); after FUR_ETOOOLD the room at `value` may
 *          have been written to. */
FUR_API FUR_MUST_USE int fur_map_get_at(fur_thread *thread, fur_snapshot *snapshot,
        const fur_map *map, const void *key, size_t key_bytes, void *value, size_t *bytes);

/* fur_map_get_many_at - fur_map_get_many() of the values that the keys had then.
 * Returns: how many of the keys were there.
 * Errors:  those of fur_map_get_many() and fur_snapshot_run(); as fur_map_get_at(). */
FUR_API FUR_MUST_USE int fur_map_get_many_at(fur_thread *thread, fur_snapshot *snapshot,
        const fur_map *map, struct fur_map_lookup *lookups, size_t n);

/* fur_map_copy_at - copy as many entries as there is room for, from the place `where` on: towards
 * smaller keys from FUR_MAP_LAST, FUR_MAP_FLOOR and FUR_MAP_BEFORE, and towards larger ones from
 * the others.  To go on, call it again with the last key, and FUR_MAP_BEHIND or FUR_MAP_BEFORE.  A
 * hash map knows FUR_MAP_FIRST, FUR_MAP_AT and FUR_MAP_BEHIND, which is behind the key in its own
 * order. Each entry becomes the size of its key and the size of its value, as two uint32_t, then
 * the key and the value, without padding.  Before the call *bytes is the room at `entries`;
 * afterwards it is the size of what was copied.  If the room is too small for the first entry,
 * nothing is copied, and *bytes is the room that this one needs, which is more.
 * Returns: 1 if there are entries that were not copied; 0 if the last one was, or there is none.
 * Errors:  those of fur_map_seek() and fur_snapshot_run(); as fur_map_get_at(). */
FUR_API FUR_MUST_USE int fur_map_copy_at(fur_thread *thread, fur_snapshot *snapshot,
        const fur_map *map, enum fur_map_place where, const void *key, size_t key_bytes,
        void *entries, size_t *bytes);

/* fur_map_scan_at - fur_map_scan() of the entries that the map had then.
 * Returns: 1 if the walk is to go on; 0 if it is complete: *place is 0.
 * Errors:  those of fur_map_scan() and fur_snapshot_run(); as fur_map_get_at(). */
FUR_API FUR_MUST_USE int fur_map_scan_at(fur_thread *thread, fur_snapshot *snapshot,
        const fur_map *map, uint64_t *place, size_t most, void *entries, size_t *bytes);

#ifdef __cplusplus
} /* extern "C" */

inline int fur_map_size(fur_ro *tx, const fur_map *map, uint64_t *size)
{
	return fur_map_size_ro(tx, map, size);
}
inline int fur_map_size(fur_reader *tx, const fur_map *map, uint64_t *size)
{
	return fur_map_size_reader(tx, map, size);
}
inline int fur_map_size(fur_update *tx, const fur_map *map, uint64_t *size)
{
	return fur_map_size_update(tx, map, size);
}
inline int fur_map_get(fur_ro *tx, const fur_map *map, const void *key, size_t key_bytes,
        void *value, size_t *bytes)
{
	return fur_map_get_ro(tx, map, key, key_bytes, value, bytes);
}
inline int fur_map_get(fur_reader *tx, const fur_map *map, const void *key, size_t key_bytes,
        void *value, size_t *bytes)
{
	return fur_map_get_reader(tx, map, key, key_bytes, value, bytes);
}
inline int fur_map_get(fur_update *tx, const fur_map *map, const void *key, size_t key_bytes,
        void *value, size_t *bytes)
{
	return fur_map_get_update(tx, map, key, key_bytes, value, bytes);
}
inline int fur_map_get_many(fur_ro *tx, const fur_map *map, fur_map_lookup *lookups, size_t n)
{
	return fur_map_get_many_ro(tx, map, lookups, n);
}
inline int fur_map_get_many(fur_reader *tx, const fur_map *map, fur_map_lookup *lookups, size_t n)
{
	return fur_map_get_many_reader(tx, map, lookups, n);
}
inline int fur_map_get_many(fur_update *tx, const fur_map *map, fur_map_lookup *lookups, size_t n)
{
	return fur_map_get_many_update(tx, map, lookups, n);
}
inline int fur_map_seek(fur_ro *tx, const fur_map *map, fur_map_place where, const void *key,
        size_t key_bytes, fur_map_iterator *it)
{
	return fur_map_seek_ro(tx, map, where, key, key_bytes, it);
}
inline int fur_map_seek(fur_reader *tx, const fur_map *map, fur_map_place where, const void *key,
        size_t key_bytes, fur_map_iterator *it)
{
	return fur_map_seek_reader(tx, map, where, key, key_bytes, it);
}
inline int fur_map_seek(fur_update *tx, const fur_map *map, fur_map_place where, const void *key,
        size_t key_bytes, fur_map_iterator *it)
{
	return fur_map_seek_update(tx, map, where, key, key_bytes, it);
}
inline int fur_map_scan(
        fur_ro *tx, const fur_map *map, uint64_t *place, size_t most, void *entries, size_t *bytes)
{
	return fur_map_scan_ro(tx, map, place, most, entries, bytes);
}
inline int fur_map_scan(fur_reader *tx, const fur_map *map, uint64_t *place, size_t most,
        void *entries, size_t *bytes)
{
	return fur_map_scan_reader(tx, map, place, most, entries, bytes);
}
inline int fur_map_scan(fur_update *tx, const fur_map *map, uint64_t *place, size_t most,
        void *entries, size_t *bytes)
{
	return fur_map_scan_update(tx, map, place, most, entries, bytes);
}
#else
#define fur_map_size(tx, map, size)                                                                \
	FUR_CALL(tx, fur_map_size_ro, fur_map_size_reader, fur_map_size_update)(tx, map, size)
#define fur_map_get(tx, map, key, key_bytes, value, bytes)                                         \
	FUR_CALL(tx, fur_map_get_ro, fur_map_get_reader, fur_map_get_update)                       \
	(tx, map, key, key_bytes, value, bytes)
#define fur_map_get_many(tx, map, lookups, n)                                                      \
	FUR_CALL(tx, fur_map_get_many_ro, fur_map_get_many_reader, fur_map_get_many_update)        \
	(tx, map, lookups, n)
#define fur_map_seek(tx, map, where, key, key_bytes, it)                                           \
	FUR_CALL(tx, fur_map_seek_ro, fur_map_seek_reader, fur_map_seek_update)                    \
	(tx, map, where, key, key_bytes, it)
#define fur_map_scan(tx, map, place, most, entries, bytes)                                         \
	FUR_CALL(tx, fur_map_scan_ro, fur_map_scan_reader, fur_map_scan_update)                    \
	(tx, map, place, most, entries, bytes)
#endif

#endif /* FUR_MAP_H */
