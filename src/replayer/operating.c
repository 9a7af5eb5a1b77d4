/* SPDX-License-Identifier: BSD-3-Clause
 *
 * operating.c - the thread that carries out errands: it sleeps until a program asks.
 */
#include "replayer/operating.h"
#include "base/error.h"
#include "base/remedy.h"
#include "base/system.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void turns_take(struct turns *t)
{
	pthread_mutex_lock(&t->mutex);
	const uint64_t mine = t->taken++;
	while (t->served != mine)
		pthread_cond_wait(&t->changed, &t->mutex);
	pthread_mutex_unlock(&t->mutex);
}

void turns_give(struct turns *t)
{
	pthread_mutex_lock(&t->mutex);
	t->served++;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->mutex);
}

static bool stops(const struct operating *o)
{
	return arch_load32_acquire(&o->stopping) != 0;
}

static void give_right(struct operating *o)
{
	if (control_give_back(o->d)) {
		arch_store32_release(o->lock_error, (uint32_t)errno);
		control_call(o->d->control);
	}
	turns_give(o->turns);
}

/* Take the right to replay for an errand (INV-S5).  Not control_take_unless(), which only a signal
 * interrupts: while another process has the right, this thread looks again and again.  False: the
 * errand is over, or the right cannot be had. */
static bool take_right(struct operating *o)
{
	enum { AT_MOST_NS = 10000000 };
	uint32_t *moved = &o->d->control->moved;
	int error = FUR_EBUSY;
	while (error == FUR_EBUSY && !stops(o) && operate_is_wanted(&o->errand)) {
		const uint32_t before = arch_load32_acquire(moved);
		turns_take(o->turns);
		error = control_try_take(o->d);
		if (error)
			turns_give(o->turns);
		if (error == FUR_EBUSY)
			arch_futex_wait_shared(moved, before, AT_MOST_NS);
	}
	return error == 0;
}

static void carry_out(struct operating *o)
{
	bool more = true;
	while (more && take_right(o)) {
		more = operate_exchange(&o->errand);
		give_right(o);
		more = more && operate_map(&o->errand);
	}
	if (more) /* it stops, or cannot have the right */
		operate_drop(&o->errand);
	else
		operate_end(&o->errand);
}

static void work(struct operating *o)
{
	struct control_errand *e = &o->d->control->errand;
	while (!stops(o)) {
		/* Before the look: if a program asks in between, the wait returns at once. */
		const uint32_t asked = arch_load32_acquire(&e->asked);
		if (operate_accept(&o->errand))
			carry_out(o);
		else if (!stops(o))
			arch_futex_wait_shared(&e->asked, asked, 0);
	}
}

/* An operator has called pthread_exit().  Only this thread answers the program, so the process ends
 * as with abort(): the program sees that the replayer has died, and maps the records. */
static void thread_left(void *unused)
{
	static const char text[] = "fur-replayer: an operator has ended its thread: take the "
	                           "pthread_exit() out of the operator\n";
	(void)unused;
	system_print(STDERR_FILENO, text);
	_exit(EXIT_FAILURE);
}

static void *operating_main(void *argument)
{
	struct operating *o = argument;
	if (operators_on_this_thread(o->operators)) {
		operate_start(o->d, 0);
		return NULL;
	}
	pthread_cleanup_push(thread_left, NULL);
	work(o);
	pthread_cleanup_pop(0);
	return NULL;
}

int operating_start(struct operating *o)
{
	operate_start(o->d, o->operators ? (uint64_t)getpid() : 0);
	if (!o->operators)
		return 0;
	o->calls = operators_calls(o->operators);
	o->errand = (struct operate){.d = o->d, .calls = &o->calls};
	const int failed = thread_start(&o->thread, operating_main, o);
	o->runs = !failed;
	return failed ? fail_system(FUR_ESYS, CALL_THREAD, failed, NULL, "cannot start a thread")
	              : 0;
}

bool operating_stop(struct operating *o)
{
	enum { PATIENCE_S = 2 };
	struct control_errand *e = &o->d->control->errand;
	struct timespec until;
	if (o->runs) {
		arch_store32_release(&o->stopping, 1);
		arch_fetch_add32(&e->asked, 1);
		arch_futex_wake_all_shared(&e->asked);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += PATIENCE_S;
		o->runs = pthread_timedjoin_np(o->thread, NULL, &until) != 0;
	}
	/* Take back what it has not answered: INV-OP1. */
	operate_start(o->d, 0);
	return !o->runs;
}
