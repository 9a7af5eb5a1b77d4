/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship.pml - shipping updates to a replicated log, and the fencing of writers: two nodes, the log,
 * the requests on their way to it, and faults.  Node A is the primary.  It makes updates 1 and 2,
 * in that order of their durTSs, and update 3 after a recovery.  Node B is its standby.  It may
 * take over at any time, and then makes update 4.
 *
 * The log only appends.  Every reader goes through it with the same state: the term, and the
 * updates of all valid frames, which a frame's chain stands for.
 *   CLAIM(t)   valid if t is above the term; the term is then t
 *   a frame    valid if its term is the term, and its chain is that of all valid frames before it
 *   the rest   is void, and changes nothing
 * So append() finds here, once for all readers, which records are valid.
 *
 * A request lands at any time after it is sent, in any order, also when its sender is dead; a
 * writer that waits for an answer that has been lost is a writer that starts anew.  To start, it
 * reads to the end, sends CLAIM(term + 1), and reads up to that.  Up to two frames are on their
 * way, and one has one update.
 *
 * An update is visible when it has drawn its durTS.  Then it puts its marker, and then that is
 * durable.  A marker that is put may survive a power failure.  What a node does between two steps
 * of the log is one step here: a recovery's, and that of a standby that applies an update with its
 * position (shipapply.pml has those).
 *
 * Settings:
 *   -DPOWER        A's power fails at any instant, also in its recovery, and A recovers
 *   -DNF=n         how often that happens, 1 by default
 *   -DTAKEOVER     B may take over; A is fenced when it learns of it, and follows B then
 *   -DBACK         A may take over again when it follows B; it then makes update 3
 *   -DREADER       a read-only transaction at level replicated on A
 *   -DTWICE        a request may land twice
 *   -DNA=n         claims of A, 1 by default; a shipper whose claims are used up does not die
 *   -DNB=n         claims of B, 1 by default
 *   -DWINDOW=n     frames on their way, 2 by default
 *
 * Checked:
 *   INV-SH41  An update returns at level replicated only when it is in the stream: in a valid frame,
 *            which every later primary has read before it begins.
 *   INV-SH42  Of two writers at most one gets a position acknowledged, and a frame is valid only if
 *            its writer had every update of the stream before it.
 *   INV-SH43  What a standby has applied is the stream up to its position, each update once and in
 *            order.
 *   INV-SH44  The stream has each update of a primary at most once, in the order of their durTSs,
 *            and none that the primary's recovery has dropped.
 *   INV-SH45  The image of a primary is a prefix of the stream: no update enters it before the log
 *            has acknowledged the update.
 *   INV-SH46  A read-only transaction at level replicated returns only what is in the stream.
 *   INV-SH47  When no more faults occur, each update of the writer is acknowledged and replayed, and
 *            each standby has the whole stream.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   NOLEASH      the replay does not stop at the newest acknowledged update (INV-SH1)
 *   LIMITFIRST   the replay's limit moves when a frame is sent (INV-SH45)
 *   RECOVERFREE  recovery applies updates that have not been shipped (INV-SH45)
 *   NOCLAIM      a shipper that starts anew ships in the old term, without a CLAIM (INV-SH16)
 *   LOCALFIRST   recovery keeps what is durable locally, whatever the stream has (INV-SH44)
 *   ANYPLACE     a frame of the term is valid, whatever it follows (INV-SH44)
 *   VOIDFENCES   a fenced primary drops what it has shipped since another's void CLAIM (INV-SH44)
 *   NOGAP        an answer counts, whatever its offset is (INV-SH17)
 *   ANYANSWER    the answers to frames count in any order (INV-SH41)
 *   OVERHOLE     a shipper goes on past an update that has not put its marker (INV-SH41)
 *   OWNCLAIMUNREAD  a writer takes its CLAIM for valid, and begins where it read last (INV-SH16)
 *   EQUALTERM    a CLAIM of the same term is valid (INV-SH13)
 *   READERUNACKED  a reader does not wait until what it has read is acknowledged (INV-SH3)
 *   FENCEDCLAIMS  a primary claims again although the newest CLAIM is another's (INV-SH42)
 *   FORGETLATE   a fenced primary that rejoins keeps the first update not acknowledged (INV-SH43)
 *
 * A step that only a recovery needs.  Without power failures everything still holds with
 *   -DNOCLAIM    for a dead shipper of A has sent what the next one sends
 */
#ifndef NA
#define NA 1
#endif
#ifndef NB
#define NB 1
#endif
#ifndef WINDOW
#define WINDOW 2
#endif
#ifndef NF
#define NF 1
#endif
#define A 0
#define B 1
#define NL 14 /* records, and requests: assertions tell that these are enough */
#define NQ 6
#define CLAIM 5 /* what: an update, or CLAIM + its node */

#define BIT(u)    (1 << (u))
#define IN(set, u) (((set) >> (u)) & 1)
#define OF(n)     ((n) == A -> BIT(1) | BIT(2) | BIT(3) : BIT(4))
#define FIRST(n)  ((n) == A -> 1 : 4)
#define MOST(n)   ((n) == B -> 4 : (again -> 3 : 2))
/* Updates in their order, three bits each. */
#define LEN(s)    ((s) == 0 -> 0 : ((s) < 8 -> 1 : ((s) < 64 -> 2 : ((s) < 512 -> 3 : 4))))
#define AT(s, k)  (((s) >> (3 * (k))) & 7)
#define SET(s)    ((BIT(AT(s, 0)) | BIT(AT(s, 1)) | BIT(AT(s, 2)) | BIT(AT(s, 3))) & ~1)
#define PLUS(s, u) ((s) | ((u) << (3 * LEN(s))))
#define PREFIX(a, s) (((s) & (BIT(3 * LEN(a)) - 1)) == (a))

/* -------------------------------------------------------------------- the log */
byte record[NL] = 0; /* an update, or CLAIM + node, or 0 if it is void */
byte length = 1;
byte term = 1;       /* the state of a reader at the end */
short stream;
byte claimer = A;    /* of the newest valid CLAIM */

/* Requests that have not landed, or whose sender has not seen the answer. */
bool used[NQ];
byte what[NQ];
byte in_term[NQ];
short chain[NQ];
bool awaited[NQ];    /* its sender lives */
byte answer[NQ];     /* 1 + the offset */
byte buried;         /* requests of dead writers that are void wherever they land */

/* ---------------------------------------------------------- of each node */
#define STANDBY 0
#define START   1 /* becomes the writer */
#define CLAIMS  2
#define WRITER  3
#define GIVEN   4 /* has used its claims up */
byte role[2];
#define DOWN       0
#define RECOVERING 1 /* has a term, and ships what the recovery keeps */
#define UP         2
byte program[2];
bool primary[2];
byte claims[2];       /* left */
byte mine[2];         /* its term */
short sent[2];        /* the chain of its next frame */
byte next[2];         /* the update to ship */
byte counted[2];      /* the offset that was acknowledged last */
byte acked[2];        /* all updates below are */
byte limit[2];        /* of the replay */
byte tail[2];
byte drawn[2];        /* the newest durTS */
short image[2];
byte position[2];     /* of a standby: an offset */
byte first[2];        /* 1 + requests on their way, in the order of their sending */
byte second[2];

/* Bits: updates of both nodes. */
byte put, durable, holes;
bool names; /* update 2 depends on 1 */
bool again; /* A has recovered */

/* ------------------------------------------------------------ ghost variables */
byte acknowledged[2]; /* bits: positions in the stream */
byte returned;        /* bits: the updates that the reader has read */

/* An update may return if it is durable and acknowledged. */
#define SHIPPED_OK(n) ((durable & OF(n) & (BIT(acked[n]) - 1) & ~SET(stream)) == 0)
#define SH1 (SHIPPED_OK(A) && SHIPPED_OK(B))
#define SH3(n) (primary[n] || PREFIX(image[n], stream))
#define SH5(n) (!primary[n] || PREFIX(image[n], stream))
#define SH6 ((returned & ~SET(stream)) == 0)

active proctype monitor()
{
end:	if
	:: !SH1 -> assert(SH1)
	:: !SH3(A) -> assert(SH3(A))
	:: !SH3(B) -> assert(SH3(B))
	:: !SH5(A) -> assert(SH5(A))
	:: !SH5(B) -> assert(SH5(B))
	:: !SH6 -> assert(SH6)
	fi
}

#ifdef EQUALTERM
#define NEWER(t) ((t) >= term)
#else
#define NEWER(t) ((t) > term)
#endif

inline forget(q)
{
	used[q] = false;
	what[q] = 0;
	in_term[q] = 0;
	chain[q] = 0;
	awaited[q] = false;
	answer[q] = 0
}

inline find_unused()
{
	q = 0;
	do
	:: q < NQ && used[q] -> q++
	:: else -> break
	od;
	assert(q < NQ)
}

/* A dead writer's request that is void wherever it lands is only counted: it takes an offset. */
#define VOID(q) (what[q] >= CLAIM -> !NEWER(in_term[q]) : in_term[q] < term)

inline bury(q)
{
	if
	:: used[q] && !awaited[q] && VOID(q) -> forget(q); buried++
	:: else
	fi
}

inline bury_all()
{
	bury(0); bury(1); bury(2); bury(3); bury(4); bury(5)
}

#ifdef ANYPLACE
#define IN_PLACE(q) true
#else
#define IN_PLACE(q) (chain[q] == stream)
#endif

/* Request q lands. */
inline append(q)
{
	assert(length < NL);
	record[length] = 0;
	if
	:: what[q] >= CLAIM ->
		if
		:: NEWER(in_term[q]) ->
			record[length] = what[q];
			term = in_term[q];
			claimer = what[q] - CLAIM;
			bury_all()
#ifdef VOIDFENCES
		:: else -> record[length] = what[q] + 2
#else
		:: else
#endif
		fi
	:: what[q] < CLAIM && in_term[q] == term && IN_PLACE(q) ->
		record[length] = what[q];
		/* INV-SH42 */
		assert(what[q] == 4 || (SET(stream) & ~(SET(image[A]) | OF(A))) == 0);
		assert(what[q] != 4 || (SET(stream) & ~(SET(image[B]) | OF(B))) == 0);
		/* INV-SH44 */
		assert(!IN(SET(stream) | holes, what[q]));
		assert(what[q] == 4 || (SET(stream) & OF(A)) < BIT(what[q]));
		stream = PLUS(stream, what[q])
	:: else
	fi;
	length++;
	if
	:: awaited[q] -> answer[q] = length
	:: else -> forget(q)
	fi
}

#define WAITS(q) (used[q] && !answer[q])
active proctype wire()
{
#ifdef TWICE
	bool twice;
#endif
	byte q;
end:	do
	:: d_step { WAITS(0) -> append(0) }
	:: d_step { WAITS(1) -> append(1) }
	:: d_step { WAITS(2) -> append(2) }
	:: d_step { WAITS(3) -> append(3) }
	:: d_step { WAITS(4) -> append(4) }
	:: d_step { WAITS(5) -> append(5) }
	:: d_step { buried > 0 -> buried--; assert(length < NL); length++ }
#ifdef TWICE
/* A copy that nobody waits for. */
#define COPY(o) d_step { !twice && WAITS(o) -> twice = true; find_unused(); used[q] = true; \
	what[q] = what[o]; in_term[q] = in_term[o]; chain[q] = chain[o]; q = 0 }
	:: COPY(0)
	:: COPY(1)
	:: COPY(2)
#endif
	od
}

inline send(n, which, its_term, its_chain)
{
	find_unused();
	used[q] = true;
	what[q] = which;
	in_term[q] = its_term;
	chain[q] = its_chain;
	awaited[q] = true;
	if
	:: first[n] == 0 -> first[n] = q + 1
	:: else -> second[n] = q + 1
	fi;
	q = 0
}

inline abandon(slot)
{
	if
	:: slot != 0 && answer[slot - 1] -> forget(slot - 1)
	:: slot != 0 && !answer[slot - 1] -> awaited[slot - 1] = false; bury(slot - 1)
	:: else
	fi;
	slot = 0
}

/* The shipper ends, and its requests are still on their way. */
inline start_anew(n)
{
	abandon(first[n]);
	abandon(second[n]);
	mine[n] = 0;
	sent[n] = 0;
	next[n] = 0;
	counted[n] = 0;
	role[n] = START
}

/* The stream below an offset, and the newest of it that the node has shipped. */
inline read_up_to(n, offset)
{
	below = 0;
	newest = FIRST(n) - 1;
	i = 0;
	do
	:: i < offset ->
		if
		:: record[i] > 0 && record[i] < CLAIM ->
			below = PLUS(below, record[i]);
			if
			:: IN(OF(n), record[i]) && record[i] > newest -> newest = record[i]
			:: else
			fi
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

inline apply(n, u)
{
	image[n] = PLUS(image[n], u)
}

/* The node's updates of the stream, from the tail on, are applied as the stream has them. */
inline take_streams_word(n)
{
	i = 0;
	do
	:: i < LEN(below) ->
		if
		:: IN(OF(n), AT(below, i)) && AT(below, i) >= tail[n] -> apply(n, AT(below, i))
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0;
	if
	:: tail[n] <= newest -> tail[n] = newest + 1
	:: else
	fi
}

inline drop(u)
{
	/* INV-SH44 */
	assert(!IN(SET(stream), u));
	holes = holes | BIT(u);
	put = put & ~BIT(u);
	durable = durable & ~BIT(u)
}

#define NAMED_KEPT (!names || IN(durable, 1) || newest >= 1)

/* Which updates above `newest` the local log keeps. */
inline decide()
{
	if
	:: newest < 1 && !IN(durable, 1) -> drop(1)
	:: else
	fi;
	if
	:: newest < 2 && !(IN(durable, 2) && NAMED_KEPT) -> drop(2)
	:: else
	fi;
	drawn[A] = 2
}

inline apply_local()
{
	do
	:: tail[A] <= 2 ->
		if
		:: IN(durable, tail[A]) -> apply(A, tail[A])
		:: else
		fi;
		tail[A]++
	:: else -> break
	od
}

inline recover()
{
#ifdef LOCALFIRST
	i = newest;
	newest = 0;
	decide();
	newest = i;
	i = 0;
#else
	take_streams_word(A);
	decide();
#endif
	program[A] = RECOVERING
}

/* The shipper has a term, with a CLAIM at `claim`. */
inline begin(n, claim)
{
	if
	:: !primary[n] -> /* it takes over */
		image[n] = below;
		position[n] = 0;
		primary[n] = true;
		program[n] = UP
	:: primary[n] && program[n] == DOWN -> recover()
	:: else
	fi;
	role[n] = WRITER;
	mine[n] = in_term_now;
	sent[n] = below;
	counted[n] = claim;
	acked[n] = (acked[n] > newest + 1 -> acked[n] : newest + 1);
	count_holes(n);
	next[n] = acked[n];
	below = 0;
	newest = 0;
	in_term_now = 0
}

inline count_holes(n)
{
	do
	:: IN(holes & OF(n), acked[n]) -> acked[n]++
	:: else -> break
	od;
	limit[n] = acked[n]
}

#ifdef VOIDFENCES
#define FENCES(n, r) ((r) == CLAIM + 1 - n || (r) == CLAIM + 3 - n)
#else
#define FENCES(n, r) ((r) == CLAIM + 1 - n)
#endif

/* The node's own updates that the stream lacks are lost, and it follows. */
inline rejoin(n)
{
	i = length - 1;
	do
	:: record[i] == CLAIM + n -> break
	:: else -> i--
	od;
	do
	:: FENCES(n, record[i]) -> break
	:: else -> i++
	od;
	position[n] = i;
	read_up_to(n, position[n]);
	take_streams_word(n);
#ifdef FORGETLATE
	if
	:: IN(durable, newest + 1) -> apply(n, newest + 1)
	:: else
	fi;
#endif
	i = FIRST(n);
	do
	:: i <= MOST(n) && i > newest && !IN(holes, i) -> drop(i); i++
	:: i <= MOST(n) && (i <= newest || IN(holes, i)) -> i++
	:: else -> break
	od;
	i = 0;
	put = put & ~OF(n);
	durable = durable & ~OF(n);
	acked[n] = 0;
	limit[n] = 0;
	drawn[n] = MOST(n);
	tail[n] = MOST(n) + 1;
	again = again || n == A;
	program[n] = DOWN;
	primary[n] = false;
	role[n] = STANDBY;
	below = 0;
	newest = 0
}

#ifdef FENCEDCLAIMS
#define FENCED(n) false
#else
#define FENCED(n) (primary[n] && claimer != n)
#endif
#define MAY_CLAIM(n) (claims[n] > 0 && !FENCED(n))
#ifdef OVERHOLE
#define SKIPPED(n) (IN(holes, next[n]) || (!IN(put, next[n]) && IN(put, next[n] + 1)))
#else
#define SKIPPED(n) IN(holes, next[n])
#endif
/* The oldest frame on its way is acknowledged. */
inline count(n)
{
	q = first[n] - 1;
	counted[n] = answer[q] - 1;
	/* INV-SH42 */
	assert(!IN(acknowledged[1 - n], LEN(chain[q])));
	acknowledged[n] = acknowledged[n] | BIT(LEN(chain[q]));
	acked[n] = (acked[n] > what[q] -> acked[n] : what[q] + 1);
	count_holes(n);
	forget(q);
	first[n] = second[n];
	second[n] = 0
}

#ifdef NOGAP
#define COUNTS(n) true
#else
#define COUNTS(n) (answer[first[n] - 1] == counted[n] + 2)
#endif
#ifdef ANYANSWER
#define SECOND_COUNTS(n) (second[n] != 0 && answer[second[n] - 1] == counted[n] + 2)
#else
#define SECOND_COUNTS(n) false
#endif

#ifdef BACK
#define TAKES_OVER(n) true
#else
#define TAKES_OVER(n) (n == B)
#endif

proctype shipper(byte n)
{
	byte q, i, newest, in_term_now;
	short below;
end:	do
	/* To start: read to the end, and claim. */
	:: d_step { role[n] == START && MAY_CLAIM(n) ->
		claims[n]--;
#ifdef NOCLAIM
		if
		:: primary[n] ->
			read_up_to(n, length);
			in_term_now = term;
			begin(n, length - 1)
		:: else ->
#endif
		role[n] = CLAIMS;
#ifdef OWNCLAIMUNREAD
		sent[n] = stream;
#endif
		mine[n] = term + 1;
		send(n, CLAIM + n, term + 1, 0)
#ifdef NOCLAIM
		fi
#endif
	   }
	:: d_step { role[n] == START && FENCED(n) -> rejoin(n) }
	:: d_step { role[n] == START && claims[n] == 0 && !FENCED(n) ->
		role[n] = (primary[n] -> GIVEN : STANDBY)
	   }
	/* Read up to the claim. */
	:: d_step { role[n] == CLAIMS && answer[first[n] - 1] ->
		i = answer[first[n] - 1] - 1;
		forget(first[n] - 1);
		first[n] = 0;
		in_term_now = mine[n];
#ifdef OWNCLAIMUNREAD
		below = sent[n];
		newest = FIRST(n) - 1;
		q = 0;
		do
		:: q < LEN(below) ->
			newest = (IN(OF(n), AT(below, q)) -> AT(below, q) : newest);
			q++
		:: else -> break
		od;
		q = i;
		begin(n, q);
		q = 0;
		i = 0
#else
		if
		:: record[i] == CLAIM + n ->
			q = i;
			read_up_to(n, q);
			begin(n, q);
			q = 0
		:: else -> role[n] = START; in_term_now = 0; i = 0
		fi
#endif
	   }
	/* It dies, or an answer is lost. */
	:: d_step { (role[n] == CLAIMS || role[n] == WRITER) && claims[n] > 0 -> start_anew(n) }
	:: d_step { role[n] == WRITER && next[n] <= drawn[n] && SKIPPED(n) -> next[n]++ }
	:: d_step { role[n] == WRITER && next[n] <= drawn[n] && IN(put, next[n]) &&
	            (WINDOW == 1 -> first[n] : second[n]) == 0 ->
		send(n, next[n], mine[n], sent[n]);
		sent[n] = PLUS(sent[n], next[n]);
		next[n]++;
#ifdef LIMITFIRST
		limit[n] = next[n]
#endif
	   }
	:: d_step { role[n] == WRITER && SECOND_COUNTS(n) ->
		q = first[n];
		first[n] = second[n];
		second[n] = q;
		count(n);
		q = 0
	   }
	:: d_step { role[n] == WRITER && first[n] != 0 && answer[first[n] - 1] ->
		if
		:: COUNTS(n) -> count(n)
		:: else -> start_anew(n)
		fi;
		q = 0
	   }
	/* A standby. */
	:: d_step { role[n] == STANDBY && position[n] < length ->
		if
		:: record[position[n]] > 0 && record[position[n]] < CLAIM ->
			apply(n, record[position[n]])
		:: else
		fi;
		position[n]++
	   }
#ifdef TAKEOVER
	:: d_step { role[n] == STANDBY && claims[n] > 0 && TAKES_OVER(n) -> role[n] = START }
#endif
	od
}

#ifdef NOLEASH
#define LEASHED(n) false
#else
#define LEASHED(n) (tail[n] >= limit[n])
#endif

#define UNPUT(u) (program[A] == UP && drawn[A] >= (u) && !IN(put | holes, u))
#define UNDRAINED(u) (program[A] == UP && IN(put & ~durable, u))

active proctype updates()
{
end:	do
	:: atomic { program[A] == UP && drawn[A] < MOST(A) ->
		drawn[A]++;
#ifdef POWER
		if
		:: drawn[A] == 2 -> names = true
		:: true
		fi
#endif
	   }
	:: d_step { UNPUT(1) -> put = put | BIT(1) }
	:: d_step { UNPUT(2) -> put = put | BIT(2) }
	:: d_step { UNPUT(3) -> put = put | BIT(3) }
	:: d_step { UNDRAINED(1) -> durable = durable | BIT(1) }
	:: d_step { UNDRAINED(2) -> durable = durable | BIT(2) }
	:: d_step { UNDRAINED(3) -> durable = durable | BIT(3) }
	/* B's only update needs no more than one step. */
	:: d_step { program[B] == UP && drawn[B] < 4 ->
		drawn[B] = 4;
		put = put | BIT(4);
		durable = durable | BIT(4)
	   }
	/* The recovery is over when all that it keeps is replayed. */
	:: d_step { program[A] == RECOVERING && tail[A] > drawn[A] ->
		again = true;
		names = false;
		program[A] = UP
	   }
	od
}

#define REPLAYED(n) d_step { program[n] != DOWN && tail[n] <= drawn[n] && IN(holes, tail[n]) -> \
	tail[n]++ }
#define REPLAY(n) d_step { program[n] != DOWN && tail[n] <= drawn[n] && IN(durable, tail[n]) && \
	!LEASHED(n) -> apply(n, tail[n]); tail[n]++ }

active proctype replay()
{
end:	do
	:: REPLAYED(A)
	:: REPLAY(A)
	:: REPLAY(B)
	od
}

#ifdef POWER
#define UNSURE(u) IN(put & ~durable, u)
active proctype power()
{
	byte newest, failures = NF;
end:	do
	:: atomic { program[A] != DOWN && !again && failures > 0 ->
		failures--;
		program[A] = DOWN;
		if
		:: UNSURE(1) -> durable = durable | BIT(1)
		:: true
		fi;
		if
		:: UNSURE(2) -> durable = durable | BIT(2)
		:: true
		fi;
		put = put & (durable | ~OF(A));
		start_anew(A);
		acked[A] = 0;
		limit[A] = 0;
#ifdef RECOVERFREE
		decide();
		apply_local();
		holes = BIT(1) | BIT(2);
		durable = durable & ~holes;
		put = put & ~holes
#endif
	   }
	od
}
#endif

#ifdef READER
#define ALIVE (program[A] == UP && !again)
#define ALL_BELOW(d) ((BIT(d) - 1) & ~1)
active proctype reader()
{
	byte seen, lies_below;
end:	atomic { ALIVE -> seen = drawn[A] };
end1:	ALIVE && (ALL_BELOW(seen + 1) & ~durable) == 0;
end2:	atomic { ALIVE -> lies_below = drawn[A] + 1 };
	/* INV-SH46 */
#ifndef READERUNACKED
end3:	ALIVE && acked[A] >= lies_below;
#endif
	returned = ALL_BELOW(seen + 1)
}
#endif

#define DONE(n) (program[n] == UP && tail[n] == MOST(n) + 1 && acked[n] == MOST(n) + 1)
#define SH7(n) ((role[n] == WRITER && DONE(n)) || role[n] == GIVEN || \
	(role[n] == STANDBY && image[n] == stream))
/* INV-SH47 */
active proctype quiet()
{
	timeout;
	assert(SH7(A) && SH7(B))
}

init {
	atomic {
		record[0] = CLAIM + A;
		role[A] = WRITER;
		program[A] = UP;
		primary[A] = true;
		mine[A] = 1;
		claims[A] = NA;
		claims[B] = NB;
		next[A] = 1;
		acked[A] = 1;
		limit[A] = 1;
		tail[A] = 1;
		drawn[B] = 3;
		tail[B] = 4;
		run shipper(A);
		run shipper(B)
	}
}
