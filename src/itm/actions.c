/* SPDX-License-Identifier: BSD-3-Clause
 *
 * actions.c - calls that wait for the commit, and calls that make up for a run that does not count.
 */
#include "itm.h"

#include <stdlib.h>

void itm_action_add(struct itm_thread *t, struct itm_action action)
{
	struct itm_action *added = itm_bytes_add(&t->actions, sizeof *added);
	*added = action;
}

static struct itm_action *action_at(const struct itm_thread *t, size_t place)
{
	return (struct itm_action *)(void *)(t->actions.at + place);
}

void itm_actions_in_commit(struct itm_thread *t)
{
	for (size_t at = 0; at < t->actions.used; at += sizeof(struct itm_action))
		if (action_at(t, at)->when == ITM_HEAP_FREE)
			fur_free(t->update, action_at(t, at)->arg);
}

/* An action may begin a transaction of its own, which uses this log anew. */
void itm_actions_committed(struct itm_thread *t)
{
	struct itm_bytes log = t->actions;
	if (log.used == 0)
		return;
	t->actions = (struct itm_bytes){0};
	for (size_t at = 0; at < log.used; at += sizeof(struct itm_action)) {
		const struct itm_action *action = (struct itm_action *)(void *)(log.at + at);
		if (action->when == ITM_AT_COMMIT)
			action->call(action->arg);
	}
	if (t->actions.at) {
		free(log.at);
		return;
	}
	log.used = 0;
	t->actions = log;
}

void itm_actions_undone(struct itm_thread *t, size_t from, bool inner)
{
	while (t->actions.used > from) {
		t->actions.used -= sizeof(struct itm_action);
		struct itm_action action = *action_at(t, t->actions.used);
		if (action.when == ITM_AT_ROLLBACK)
			action.call(action.arg);
		else if (action.when == ITM_HEAP_ALLOCATED && inner)
			fur_free(t->update, action.arg);
		else if (action.when == ITM_HEAP_ROOT && inner)
			fur_set_root(t->update, action.root, action.arg);
	}
}

/* ------------------------------------------------------------ actions of the user */

FUR_API void _ITM_addUserCommitAction(void (*call)(void *), uint64_t id, void *arg);
FUR_API void _ITM_addUserUndoAction(void (*call)(void *), void *arg);

/* `id` names a transaction after which the action shall run; 1 names none, and the outermost
 * one is the only one whose commit others see. */
void _ITM_addUserCommitAction(void (*call)(void *), uint64_t id, void *arg)
{
	(void)id;
	itm_action_add(
	        itm_self, (struct itm_action){.when = ITM_AT_COMMIT, .call = call, .arg = arg});
}

void _ITM_addUserUndoAction(void (*call)(void *), void *arg)
{
	itm_action_add(
	        itm_self, (struct itm_action){.when = ITM_AT_ROLLBACK, .call = call, .arg = arg});
}
