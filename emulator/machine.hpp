/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine.hpp - the state of a run, and the functions that this folder's files share.  The
 * invariants INV-E1 to INV-E5 that they keep are stated in emulated.h.
 *
 * While a simulation runs, no code here may use templates of the standard library.  The linker may
 * merge their code with the simulated program's copy, which is instrumented and would call the
 * machine from within itself.
 */
#ifndef FUR_EMULATED_MACHINE_HPP
#define FUR_EMULATED_MACHINE_HPP

#include "../tools/common/random.hpp"
#include "description.hpp"

#include <boost/context/detail/fcontext.hpp>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace emu
{

using boost::context::detail::fcontext_t;
using tools::Random;

constexpr size_t STACK_BYTES = 256 << 10;
constexpr Time NEVER = ~Time(0);
constexpr unsigned MAX_LINE = 256, MAX_STORES = 256, MAX_LOCALS = 64;

/* ------------------------------------------------------------- containers
 *
 * The machine itself allocates from the C library, simulated threads from allocator.cpp. */

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);
}

template <class T>
struct Array {
	T *data = nullptr;
	size_t n = 0, room = 0;

	void push(const T &value)
	{
		if (n == room) {
			room = room ? 2 * room : 32;
			data = static_cast<T *>(
			        __libc_realloc(static_cast<void *>(data), room * sizeof(T)));
			if (!data)
				abort();
		}
		data[n++] = value;
	}
	T &operator[](size_t i)
	{
		return data[i];
	}
	T *begin()
	{
		return data;
	}
	T *end()
	{
		return data + n;
	}
	void remove(size_t i)
	{
		memmove(static_cast<void *>(data + i), static_cast<const void *>(data + i + 1),
		        (--n - i) * sizeof(T));
	}
};

/* From a key, which is not 0, to a value.  Nothing is ever removed. */
template <class V>
struct Table {
	struct Entry {
		uint64_t key;
		V *value;
	};
	Entry *entries = nullptr;
	size_t mask = 0, n = 0;

	static size_t hash(uint64_t key)
	{
		key *= 0x9e3779b97f4a7c15u;
		return static_cast<size_t>(key ^ key >> 32);
	}
	V *find(uint64_t key) const
	{
		if (!entries)
			return nullptr;
		for (size_t i = hash(key) & mask; entries[i].key; i = (i + 1) & mask)
			if (entries[i].key == key)
				return entries[i].value;
		return nullptr;
	}
	/* Add a key; returns its value, all zero. */
	V *add(uint64_t key)
	{
		if (2 * n >= mask)
			grow();
		V *value = static_cast<V *>(__libc_calloc(1, sizeof(V)));
		if (!value)
			abort();
		place(key, value);
		n++;
		return value;
	}

private:
	void place(uint64_t key, V *value)
	{
		size_t i = hash(key) & mask;
		while (entries[i].key)
			i = (i + 1) & mask;
		entries[i] = {key, value};
	}
	void grow()
	{
		size_t old_mask = mask;
		Entry *old = entries;
		mask = mask ? 2 * mask + 1 : 4095;
		entries = static_cast<Entry *>(__libc_calloc(mask + 1, sizeof(Entry)));
		if (!entries)
			abort();
		for (size_t i = 0; old && i <= old_mask; i++)
			if (old[i].key)
				place(old[i].key, old[i].value);
		__libc_free(old);
	}
};

/* ------------------------------------------------------------------ memory */

struct Region { /* of persistent memory */
	uint8_t *base;
	size_t bytes;
};

struct Core;

/* A line of memory: the cores that have it in a cache, the transactions that hold it. */
struct Line {
	uint64_t address;
	uint64_t sharers;      /* cores with a copy */
	uint64_t readers[2];   /* bits: threads whose transaction has read it */
	Time busy;             /* until then it travels from core to core */
	uint64_t persisted;    /* number of the newest write-back that reached the medium */
	uint64_t early_number; /* with `early`: the stores below this number are the earlier ones */
	Region *region;
	uint8_t *durable; /* what the medium has; NULL: the same as memory (persistence.cpp) */
	/* The core that has requested it last, and in order to store to it; NULL: a core has
	 * requested it to load it since, or none ever has */
	const Core *requester;
	/* The core that has accessed it alone, or alone since another core prepared it; NULL:
	 * several have */
	const Core *user;
	/* Lines are numbered in the order of first touch.  The number, not the address, selects the
	 * line's place in a cache, so that addresses do not influence a run. */
	uint32_t id;
	int16_t owner;  /* core that has it alone and has written it, or -1 */
	int16_t writer; /* thread whose transaction has written it, or -1 */
	/* Thread that has performed a plain store to it before earlier stores of its own, or -1
	 * (INV-E4) */
	int16_t early;
	uint16_t sockets; /* bits: sockets that have had it since another one wrote it */
	/* An atomic operation of the side that requests is on its way to this line's home, or has
	 * been performed there, since the home's cores last had the line. */
	bool claimed;
	bool handed_over; /* it has had a user before */
	uint32_t aborts;  /* transactions that were aborted because of it */
};

/* Tags of a set-associative cache, the most recent of each set first.  Those of all caches are one
 * mapping (map_tags), because mapped memory is zero without being touched: the caches of a machine
 * have megabytes of tags, and a short run touches few. */
struct Cache {
	uint32_t *tags; /* 1 + line id */
	unsigned sets, ways;

	void make(unsigned lines, unsigned ways_)
	{
		ways = ways_;
		sets = lines / ways;
	}
	size_t entries() const
	{
		return size_t(sets) * ways;
	}
	bool has(uint32_t id) const
	{
		const uint32_t *set = tags + static_cast<size_t>(id % sets) * ways;
		for (unsigned k = 0; k < ways; k++)
			if (set[k] == id + 1)
				return true;
		return false;
	}
	/* Was the line in the cache?  Now it is. */
	bool touch(uint32_t id)
	{
		uint32_t *set = tags + static_cast<size_t>(id % sets) * ways, tag = id + 1;
		if (set[0] == tag)
			return true;
		unsigned k = 1;
		while (k < ways && set[k] != tag)
			k++;
		bool there = k < ways;
		memmove(set + 1, set, (there ? k : ways - 1) * sizeof *set);
		set[0] = tag;
		return there;
	}
};

/* Where the transactions of some neighbouring cores keep the lines that they read. */
struct ReadDirectory {
	unsigned owners, lines; /* transactions that keep theirs here, and these lines */
};

struct Core {
	Cache l1, l2;
	unsigned busy;            /* threads that run on it now */
	uint32_t slowdown;        /* of each of them, in 1024ths */
	unsigned write_lines;     /* that its transactions hold, with reads not in the directory */
	ReadDirectory *directory; /* which it may share with other cores */
	unsigned socket;
	bool agent;    /* one of the agent's, not of the host's */
	bool requests; /* of a machine with an agent: the home is on the other side */
};

/* A store that the thread has made and that is not performed yet (INV-E4). */
struct Store {
	uint8_t *at;
	uint64_t value;
	Line *line;
	Time ready, soonest; /* without lingering */
	Time arrives;        /* its line, at the core */
	uint64_t number;     /* counts the thread's buffered stores */
	uint32_t epoch;      /* all stores of an earlier epoch are performed before it */
	uint8_t bytes;
	bool transactional;
};

struct WriteBack {
	Time done;
	uint64_t number;
	Line *line;
	uint8_t content[MAX_LINE];
};

/* ----------------------------------------------------------------- threads */

struct Undo {
	uint8_t *at;
	uint64_t old;
	uint64_t bytes;
};

struct Transaction {
	bool active, rollback_only, suspended, loads_suspended, doomed;
	bool owns_directory;  /* its reads lie in the core's directory */
	unsigned write_lines; /* of its core's, those that it holds */
	uint8_t code, last_code;
	int cause;
	Array<Line *> reads, writes;
	Array<Undo> undo;
	fcontext_t context; /* at the begin; and the stack from there upwards */
	uint8_t *stack;
	size_t stack_bytes, stack_room;
	void *exceptions[2];
};

enum class State { FREE, READY, BLOCKED, DONE };

/* A line that was requested, and when it arrives. */
struct Asked {
	Line *line;
	Time at;
};

constexpr unsigned MAX_ASKED = 64, LINE_CACHE = 512, STORED_LATELY = 16;

struct Thread {
	int id;
	State state;
	Core *core;
	fcontext_t context;
	uint8_t *stack; /* its lower end */
	Time clock;
	uint32_t tie;

	uint32_t stores, epoch;
	uint64_t pushed;
	Store store[MAX_STORES];
	uint32_t asks; /* lines requested and not used since; some may have arrived */
	Asked asked[MAX_ASKED];
	const Line *recent[MAX_RECENT]; /* accessed last, the latest first */
	bool overlaps;                  /* its loads overlap (emu_overlap_begin) */
	Time to_issue;      /* time of the overlap's next load until the thread goes on */
	Time overlap_until; /* when the last line of the overlap arrives */
	Transaction tx;
	Array<WriteBack> write_backs;
	Time next_write_back;
	uint32_t until_stall;

	void *(*start)(void *);
	void *argument, *result;
	bool detached;
	bool killed;         /* ends before its next access (emu_kill) */
	bool idle;           /* leaves its core to its siblings (set_idle) */
	int joiner;          /* thread that joins this one, or -1 */
	void *exceptions[2]; /* the C++ runtime's record of exceptions in flight */
	void *local[MAX_LOCALS];
	void *specific[MAX_LOCALS];
	struct {
		uint64_t address;
		Line *line;
	} lines[LINE_CACHE]; /* found lately */
};

struct Ready {
	Time clock;
	uint32_t tie;
	int id;
};

struct Machine {
	const emu_machine *described = nullptr;
	const Description *d = nullptr;
	emu_options options = {};
	/* The thread that runs; nullptr outside a run, and while the machine looks away */
	Thread *self = nullptr;
	Time next = NEVER; /* clock of the first ready thread, or the limit */
	Time limit = NEVER;
	Ready ready[EMU_MAX_THREADS];
	int waiting = 0; /* entries of `ready` */
	Thread *threads[EMU_MAX_THREADS] = {};
	int thread_count = 0;
	/* When the first of each thread's buffered stores is ready, and when the first of all is;
	 * these may lie too early, but not too late. */
	Time store_ready[EMU_MAX_THREADS] = {}, any_store_ready = NEVER;
	uint32_t *tags = nullptr; /* of all caches */
	size_t tags_bytes = 0;
	Core cores[EMU_MAX_CORES + 1] = {};
	uint64_t socket_cores[MAX_SOCKETS] = {}; /* bits: cores */
	Cache l3[MAX_SOCKETS] = {};
	ReadDirectory directories[EMU_MAX_CORES + 1] = {};
	Table<Line> lines;
	uint64_t line_mask = 0;
	uint32_t next_line = 0;
	Array<Region *> regions;
	Random random = {0};
	emu_counters counters = {};
	uint64_t write_backs = 0;
	Time observed = 0; /* clock of the step that the observer is told of */
	/* The thread that emu_unseen() hides, and the ticks that it was shown meanwhile.  From then
	 * on all ticks are ahead of the clocks by these, so that no thread sees its ticks go
	 * back. */
	const Thread *unseen = nullptr;
	Time unseen_ticks = 0;
	Line *stored_lately[STORED_LATELY] = {};
	uint64_t crash_at = 0;
	fcontext_t outside = nullptr, helper = nullptr;
	uint8_t *stacks = nullptr, *helper_stack = nullptr;
	emu_end end = EMU_DONE;
	void (*on_event)(emu_event, int, int, void *) = nullptr;
	void *on_event_arg = nullptr;
	uint8_t *errno_page = nullptr;
};
extern Machine g;

/* The machine looks away while this object lives. */
struct Away {
	Thread *thread = g.self;
	Away()
	{
		g.self = nullptr;
	}
	~Away()
	{
		g.self = thread;
	}
};

/* ------------------------------------------------------- scheduler (scheduler.cpp) */

/* INV-E1.  Let the threads with smaller clocks run.  Does not return if `t` was rewound
 * meanwhile. */
void give_way(Thread &t);
/* Move `t`'s clock to `then`; the other threads run until then. */
void wait_until(Thread &t, Time then);
/* Wait for wake_thread().  All stores of `t` are performed first, for it enters the system. */
void block_thread(Thread &t);
void wake_thread(Thread &t, Time at);
/* Move the clock of a thread that waits in wait_until() back to `then`. */
void hasten(Thread &t, Time then);
Thread *new_thread(void *(*start)(void *), void *argument);
[[noreturn]] void finish_thread(Thread &t);
[[noreturn]] void end_run(emu_end how);
/* `t` leaves its core to the core's other threads, or returns to it. */
void set_idle(Thread &t, bool is);

/* ----------------------------------------------------------- memory (memory.cpp) */

Line *find_line(Thread &t, uint64_t address);
/* `exclusive`: the load of a read-modify-write, which waits until the core has the line alone. */
void touch_read(Thread &t, const void *p, size_t bytes, bool exclusive = false);
/* `at_home`: the store of a read-modify-write that request_at_home() has begun. */
void touch_write(Thread &t, void *p, size_t bytes, bool at_home = false);
/* Does a store in the thread's buffer overlap these bytes? */
bool buffer_overlaps(const Thread &t, const void *p, size_t bytes);
/* Perform all stores of the calling thread (INV-E4) and, with `write_backs`, complete its
 * write-backs (INV-E5). */
void full_fence(bool write_backs);
/* Make a store that goes through the store buffer. */
void buffer_store(Thread &t, void *p, uint64_t value, unsigned bytes);
/* Make a load whose value the machine supplies. */
uint64_t load_value(Thread &t, const void *p, unsigned bytes);
/* The overlap of `t`, if there is one, ends: its lines have arrived. */
void end_overlap(Thread &t);
/* Perform the stores of all threads whose time has come at `t`'s clock.  `t` calls. */
void perform_ready_of_all(Thread &t);
/* Wait until all stores of `t` are performed. */
void perform_all(Thread &t);
/* Perform the stores of `t` to the line, and all its stores before those, now: a write-back takes
 * them along. */
void perform_early(Thread &t, const Line &line);
void stall_thread(Thread &t);
bool in_l3(unsigned socket, const Line &line);

/* --------------------------------------------------------------- the agent (agent.cpp) */

/* On a machine with an agent: the time that it takes to bring the line to the core over the link
 * between host and agent, or to an agent's core from its own side.  0: the line comes from the
 * host's own side.  `others`: the other cores with a copy. */
Time time_over_link(const Core &core, const Line &line, bool write, uint64_t others);
/* The time of an access by a core that had the line once, to a line that no cache has any more. */
Time time_of_evicted(const Core &core, const Line &line, Time from_memory);
/* Does the thread's next read-modify-write go to the home?  Then request_at_home() takes the place
 * of touch_read(), and touch_write() is told. */
bool goes_home(const Thread &t);
void request_at_home(Thread &t, void *p, unsigned bytes);

/* The time that the core's other busy threads make of it. */
inline Time slowed(const Thread &t, Time cost)
{
	return cost * t.core->slowdown >> 10;
}

inline void charge(Thread &t, Time cost)
{
	t.clock += slowed(t, cost);
}

/* The time of a step that waits for no line, and that takes `on_host` there: on the agent, which
 * executes in order, a cycle. */
inline Time step_time(const Thread &t, Time on_host)
{
	return t.core->agent ? g.d->agent.cycle : on_host;
}

inline bool own_stack(const Thread &t, const void *p)
{
	return static_cast<size_t>(static_cast<const uint8_t *>(p) - t.stack) < STACK_BYTES;
}

/* INV-E1: called before every access.  Here a thread gives way, not between the access and its
 * conflicts. */
inline void begin_access(Thread &t)
{
	if (__builtin_expect(t.until_stall != 0, 0) && --t.until_stall == 0)
		stall_thread(t);
	if (t.clock > g.next)
		give_way(t);
	if (__builtin_expect(g.any_store_ready <= t.clock, 0))
		perform_ready_of_all(t);
	if (++g.counters.accesses == g.crash_at)
		end_run(EMU_CRASHED);
}

/* ----------------------------------------------- transactions (transactions.cpp) */

/* Undo the transaction and release its lines (INV-E3).  If it is the calling thread's own and not
 * suspended, the caller must then call rewind(). */
void doom(Thread &t, int cause);
[[noreturn]] void rewind(Thread &t);
void abort_self(Thread &t, int cause);
/* `t` is about to perform a store to the line, transactional or not: abort the transactions that
 * hold it (INV-E2). */
void claim_write(Thread &t, Line &line, bool transactional);
void claim_read(Thread &t, Line &line);
/* Keep the content of [at, at + bytes), for an abort to restore it (INV-E3). */
void remember_old(Thread &t, uint8_t *at, size_t bytes);
void start_helper();

inline bool tracking(const Thread &t)
{
	return t.tx.active && !t.tx.suspended;
}

/* --------------------------------------------------- persistent memory (persistence.cpp) */

Region *region_of(uint64_t address);
/* The run is about to store to this line of persistent memory, for the first time. */
void keep_durable(Line &line);
void forget_durable(Line &line);
/* The line was stored to: perhaps some line is evicted. */
void maybe_evict(Line &stored);
/* Wait until all write-backs of `t` have reached the medium. */
void complete_write_backs(Thread &t);
/* The power has failed: decide about every line that was not durable. */
void make_images();

void use_system();                        /* system.cpp */
void reset_order(const emu_order *order); /* order.cpp */
void reset_allocator();                   /* allocator.cpp */

} // namespace emu

#endif /* FUR_EMULATED_MACHINE_HPP */
