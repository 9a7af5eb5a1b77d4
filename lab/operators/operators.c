/* SPDX-License-Identifier: BSD-3-Clause
 *
 * operators.c - operators: load them from shared objects, and call them with guarded copies.
 */
#include "operators.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/remedy.h"
#include "base/system.h"
#include <fur_operator.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CANARY = 0xa5, CANARY_BYTES = 64, STACK_BYTES = 64 * 1024 };

struct operators {
	struct loaded {
		void *object;
		const struct fur_operators *table;
		const char *file;
		int fd;
	} * all;
	size_t n;
	const struct fur_operator *chosen;
	uint8_t arg[ERRAND_ARG_BYTES] __attribute__((aligned(16)));
	/* The pages of the copy, with a page without access on each side; or NULL */
	uint8_t *pages;
	size_t page_bytes, bytes; /* of a page; of the pages between the two */
	void *stack;              /* for the handler of signals: an operator may use up its own */
};

/* The call of an operator that this thread is in. */
struct call {
	sigjmp_buf back;
	int signal;
	uintptr_t code, address;
};
static _Thread_local struct call *volatile calling;

/* ------------------------------------------------------------------ load */

/* INV-OP4 */
static int check_file(const char *file, int fd)
{
	struct stat st;
	if (fstat(fd, &st))
		return fail_system(
		        FUR_ESYS, CALL_STAT, errno, NULL, "--operators %s: cannot stat it", file);
	if (!S_ISREG(st.st_mode))
		return fur_fail(FUR_EINVAL,
		        "--operators %s: it is not a regular file: name a shared object", file);
	/* What the process's user cannot have changed, and others can, would let them run code as
	 * that user, no matter which user owns the heap. */
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return fur_fail(FUR_EINVAL,
		        "--operators %s: it belongs to user %u, and fur-operators runs as user %u: "
		        "give the file to that user, or to root",
		        file, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return fur_fail(FUR_EINVAL,
		        "--operators %s: others than its owner may write it (mode %04o): take that "
		        "away with chmod go-w",
		        file, (unsigned)st.st_mode & 07777);
	return 0;
}

static const struct fur_operator *find(const struct operators *o, const char *name, size_t below)
{
	for (size_t k = 0; k < below; k++)
		for (size_t i = 0; i < o->all[k].table->n; i++)
			if (!strcmp(o->all[k].table->operators[i].name, name))
				return &o->all[k].table->operators[i];
	return NULL;
}

static int check_names(const struct operators *o, size_t at)
{
	const struct loaded *l = &o->all[at];
	for (size_t i = 0; i < l->table->n; i++) {
		const struct fur_operator *now = &l->table->operators[i];
		const size_t bytes = now->name ? strnlen(now->name, ERRAND_NAME_BYTES) : 0;
		if (bytes == 0 || bytes == ERRAND_NAME_BYTES || !now->map)
			return fur_fail(FUR_EINVAL,
			        "--operators %s: its operator %zu has no function, or a name that "
			        "is not 1 to %d bytes long: mend it in the source",
			        l->file, i, ERRAND_NAME_BYTES - 1);
		const struct fur_operator *first = find(o, now->name, at + 1);
		if (first != now)
			return fur_fail(FUR_EINVAL,
			        "--operators %s: there is another operator '%s' already: rename "
			        "one of them",
			        l->file, now->name);
	}
	return 0;
}

/* dlopen() has failed.  A message about the file itself begins with the name that it was loaded by;
 * another one is about a library that the file needs. */
static int fail_load(const char *file, const char *name)
{
	const char *why = dlerror();
	const size_t bytes = strlen(name);
	if (!strncmp(why, name, bytes))
		return fur_fail(FUR_EINVAL,
		        "--operators %s: it cannot be loaded%s: build it for this machine, with "
		        "-shared -fPIC, and link all that it uses",
		        file, why + bytes);
	return fur_fail(FUR_EINVAL,
	        "--operators %s: a library that it needs cannot be loaded: %s: install that "
	        "library "
	        "where the loader looks (ldconfig, or an absolute -rpath; $ORIGIN does not work), "
	        "or link it into the file",
	        file, why);
}

static int load_object(struct operators *o, size_t at)
{
	char name[64];
	struct loaded *l = &o->all[at];
	const char *file = l->file;
	/* The open file and not its name, which may lead to another file by now. */
	snprintf(name, sizeof name, "/proc/self/fd/%d", l->fd);
	l->object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!l->object)
		return fail_load(file, name);
	l->table = dlsym(l->object, "fur_operators");
	if (!l->table)
		return fur_fail(FUR_EINVAL,
		        "--operators %s: it has no table of operators: end it with FUR_OPERATORS() "
		        "of fur_operator.h",
		        file);
	if (l->table->size < sizeof *l->table || l->table->bytes != sizeof(struct fur_operator))
		return fur_fail(FUR_EINVAL,
		        "--operators %s: it was built for another libfur: build it with this one's "
		        "fur_operator.h",
		        file);
	return check_names(o, at);
}

static int load_file(struct operators *o, const char *file)
{
	const int fd = system_open(file, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fail_system(errno == ENOENT ? FUR_ENOENT : FUR_ESYS, CALL_OPEN, errno,
		        "fur-operators opens it with the rights of the heap's owner",
		        "--operators %s: cannot open it", file);
	/* Open until the end: dlopen() takes two files that had the same name for one. */
	o->all[o->n++] = (struct loaded){.file = file, .fd = fd};
	int error = check_file(file, fd);
	return error ? error : load_object(o, o->n - 1);
}

int operators_load(const char *const *files, size_t n, struct operators **out)
{
	struct operators *o = calloc(1, sizeof *o);
	*out = o;
	if (o)
		o->all = calloc(n ? n : 1, sizeof *o->all);
	if (!o || !o->all)
		return fur_fail(FUR_ENOMEM, "no memory for the operators: free some memory");
	o->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	int error = 0;
	for (size_t k = 0; k < n && !error; k++)
		error = load_file(o, files[k]);
	return error;
}

static void unmap(struct operators *o)
{
	if (o->pages)
		munmap(o->pages - o->page_bytes, o->bytes + 2 * o->page_bytes);
	o->pages = NULL;
}

void operators_unload(struct operators *o)
{
	if (!o)
		return;
	for (size_t k = 0; k < o->n; k++) {
		if (o->all[k].object)
			dlclose(o->all[k].object);
		close(o->all[k].fd);
	}
	unmap(o);
	free(o->stack);
	free(o->all);
	free(o);
}

/* ----------------------------------------------------------------- signals */

int operators_on_this_thread(struct operators *o)
{
	sigset_t crashes;
	stack_t stack = {.ss_size = STACK_BYTES};
	o->stack = stack.ss_sp = malloc(STACK_BYTES);
	if (!o->stack)
		return fur_fail(FUR_ENOMEM, "no memory for a stack: free some memory");
	sigemptyset(&crashes);
	for (const int *s = (const int[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, 0}; *s; s++)
		sigaddset(&crashes, *s);
	if (sigaltstack(&stack, NULL) || pthread_sigmask(SIG_UNBLOCK, &crashes, NULL))
		return fur_fail(FUR_ESYS,
		        "cannot set up the handling of signals: %s: a bug of "
		        "libfur, report it",
		        strerror(errno));
	return 0;
}

void operators_crashed(int signal, const siginfo_t *info, const void *context)
{
	struct call *call = calling;
	if (!call || info->si_code <= 0) /* sent by a process */
		return;
	call->signal = signal;
	call->code = fault_code(context);
	call->address = (uintptr_t)info->si_addr;
	siglongjmp(call->back, 1);
}

/* ------------------------------------------------------------------ a batch */

static int find_operator(void *self, const char *name, const void *arg, size_t arg_bytes)
{
	struct operators *o = self;
	o->chosen = find(o, name, o->n);
	if (!o->chosen)
		return fur_fail(FUR_ENOENT,
		        "fur-operators has no operator '%s': start it with the file that has it, "
		        "--operators FILE",
		        name);
	memset(o->arg, 0, sizeof o->arg);
	memcpy(o->arg, arg, arg_bytes);
	return 0;
}

/* Pages with room for a record of `bytes` bytes and the bytes before it that are watched. */
static bool make_pages(struct operators *o, size_t bytes)
{
	const size_t page = o->page_bytes, need = round_up(bytes, 8) + CANARY_BYTES,
	             all = round_up(need, page);
	if (o->pages && o->bytes >= all)
		return true;
	unmap(o);
	uint8_t *at = mmap(NULL, all + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return false;
	o->pages = at + page;
	o->bytes = all;
	if (mprotect(o->pages, all, PROT_READ | PROT_WRITE) == 0)
		return true;
	unmap(o);
	return false;
}

static int fail_left(const struct operators *o, uint64_t number)
{
	return fur_fail(FUR_EABORTED,
	        "operator '%s' accessed memory beyond its record, number %llu, in fur-operators: "
	        "mend the operator",
	        o->chosen->name, (unsigned long long)number);
}

static int fail_crashed(const struct operators *o, const struct call *call, uint64_t number)
{
	char place[256] = "";
	const uintptr_t from = (uintptr_t)o->pages - o->page_bytes,
	                end = (uintptr_t)o->pages + o->bytes + o->page_bytes;
	if (call->signal == SIGSEGV && call->address >= from && call->address < end)
		return fail_left(o, number);
	fault_describe(call->code, place, sizeof place);
	return fur_fail(FUR_EABORTED,
	        "operator '%s' crashed in fur-operators (%s) at record %llu, in %s: mend the "
	        "operator",
	        o->chosen->name, strsignal(call->signal), (unsigned long long)number, place);
}

static bool is_canary(const uint8_t *from, size_t bytes)
{
	for (size_t k = 0; k < bytes; k++)
		if (from[k] != CANARY)
			return false;
	return true;
}

/* Map the batch's record `i`, in a copy that ends at the page without access, or up to 7 bytes
 * before it so that the copy is aligned.  False: the operator has left the copy. */
static bool map_one(struct operators *o, struct errand_serve_batch *b, uint64_t i)
{
	const size_t gap = round_up(b->bytes, 8) - b->bytes;
	uint8_t *copy = o->pages + o->bytes - gap - b->bytes, *end = copy + b->bytes,
	        *record = b->records + i * b->bytes;
	memset(copy - CANARY_BYTES, CANARY, CANARY_BYTES);
	memset(end, CANARY, gap);
	memcpy(copy, record, b->bytes);
	b->changed[i] = o->chosen->map(copy, b->bytes, b->numbers[i], o->arg);
	memcpy(record, copy, b->bytes);
	return is_canary(copy - CANARY_BYTES, CANARY_BYTES) && is_canary(end, gap);
}

static int map_batch(void *self, struct errand_serve_batch *b)
{
	struct operators *o = self;
	struct call call = {.signal = 0};
	volatile uint64_t at = 0;
	if (!make_pages(o, b->bytes))
		return fur_fail(FUR_ENOMEM,
		        "fur-operators has no memory for a record of %zu bytes: free some memory",
		        (size_t)b->bytes);
	if (sigsetjmp(call.back, 1)) {
		calling = NULL;
		return fail_crashed(o, &call, b->numbers[at]);
	}
	calling = &call;
	while (at < b->n && map_one(o, b, at)) {
		at = at + 1;
		arch_store(b->done, b->before + at);
	}
	calling = NULL;
	return at < b->n ? fail_left(o, b->numbers[at]) : 0;
}

struct errand_serve_calls operators_calls(struct operators *o)
{
	return (struct errand_serve_calls){find_operator, map_batch, o};
}
