/* SPDX-License-Identifier: BSD-3-Clause
 *
 * probe.h - static probes (USDT) of the provider `fur`, for bpftrace, perf and SystemTap.
 * docs/tools.md lists them; tests/unit/library/probes_test.py compares the list with the library.
 *
 * A probe is a nop, and a note in the library that tells where it is and where its arguments are.
 * A tool that enables it puts a trap in place of the nop, and a trap aborts a hardware transaction.
 * So no probe lies inside one, and none on the path of a read-only transaction that does not wait.
 *
 * On the emulated machine a probe is a point: a test can ask for an order in which threads reach
 * points (explore --order).  FUR_POINT(name) is a point there, and nothing elsewhere; it may also
 * lie where no probe may.
 */
#ifndef FUR_PROBE_H
#define FUR_PROBE_H

#ifdef FUR_EMULATED
#include "base/arch.h"
#define FUR_POINT(name) EMU_POINT(name)
#else
#define FUR_POINT(name) ((void)0)
#endif

#if defined(FUR_USDT) && !defined(FUR_EMULATED)
#include <sys/sdt.h>
#define FUR_PROBE1(name, a)          DTRACE_PROBE1(fur, name, a)
#define FUR_PROBE2(name, a, b)       DTRACE_PROBE2(fur, name, a, b)
#define FUR_PROBE3(name, a, b, c)    DTRACE_PROBE3(fur, name, a, b, c)
#define FUR_PROBE4(name, a, b, c, d) DTRACE_PROBE4(fur, name, a, b, c, d)
#else
/* The arguments are not evaluated. */
#define FUR_PROBE1(name, a)       FUR_NO_PROBE(name, sizeof(a))
#define FUR_PROBE2(name, a, b)    FUR_NO_PROBE(name, sizeof(a) + sizeof(b))
#define FUR_PROBE3(name, a, b, c) FUR_NO_PROBE(name, sizeof(a) + sizeof(b) + sizeof(c))
#define FUR_PROBE4(name, a, b, c, d)                                                               \
	FUR_NO_PROBE(name, sizeof(a) + sizeof(b) + sizeof(c) + sizeof(d))
#define FUR_NO_PROBE(name, bytes)                                                                  \
	do {                                                                                       \
		(void)(bytes);                                                                     \
		FUR_POINT(name);                                                                   \
	} while (0)
#endif

#endif /* FUR_PROBE_H */
