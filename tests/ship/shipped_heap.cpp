/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shipped_heap.cpp - programs for fur_ship_test.py, each with a heap that is shipped, or its log:
 *
 *     shipped-heap make HEAP                  a heap with a counter
 *     shipped-heap write HEAP local|impatient|patient|replicated N
 *                                             add 1 to it N times (0: without end), and print each
 *                                             value when its update has returned; impatient: fail
 *                                             soon with FUR_EBEHIND; patient: try again after it
 *     shipped-heap hold HEAP [BYTES]          the same once, in an update that ends with the input,
 *                                             and with a new block of this length, at root 1
 *     shipped-heap show HEAP                  print the counter, as it is for a reader
 *     shipped-heap old HEAP                   a heap of version 1
 *     shipped-heap standby HEAP               make a copy, whose role is the primary's, a standby
 *     shipped-heap log HEAP NAME              another name for the log, as this machine reaches it
 *     shipped-heap at HEAP                    the offset up to which a closed standby has its log
 *     shipped-heap compare HEAP HEAP          do two closed heaps differ in what is in use?
 *     shipped-heap follow HEAP LOG            let the standby follow the log to its end
 *     shipped-heap claim HEAP LOG NODE        claim the heap's stream, as that node
 *     shipped-heap heir HEAP LOG NODE         the same, when the log says that the node shall
 *     shipped-heap frames HEAP LOG            how many valid frames of each kind the log has
 */
#include "image.hpp"
#include "ship.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

namespace
{

enum { EXIT_FAILED = 3, WORDS = 17 };

fur_heap *open_heap; /* no transaction is open when an error is reported */

[[noreturn]] void fail(int error)
{
	printf("error %d: %s\n", error, fur_errormsg());
	if (open_heap && fur_close(open_heap))
		printf("not closed: %s\n", fur_errormsg());
	exit(EXIT_FAILED);
}

void must(int error)
{
	if (error < 0)
		fail(error);
}

fur_options options()
{
	fur_options o;
	fur_options_init(&o);
	o.heap_bytes = 4 << 20;
	o.log_bytes = 64 << 10;
	o.ring_slots = 1024;
	o.max_threads = 8;
	o.ack_patience_ms = 100000; /* long enough on a loaded machine */
	return o;
}

int make(const char *path, fur_pm pm = FUR_PM_AUTO)
{
	fur_options o = options();
	o.pm = pm;
	fur_heap *heap;
	fur_thread *self;
	fur_update *tx;
	must(fur_create(path, &o, &heap));
	must(fur_thread_register(heap, nullptr, &self));
	must(fur_begin_update(self, &tx));
	auto *words = static_cast<uint64_t *>(fur_alloc(tx, WORDS * sizeof(uint64_t)));
	for (int k = 0; k < WORDS; k++)
		fur_store_bits(tx, &words[k], 0, 8);
	fur_set_root(tx, 0, words);
	must(fur_commit(tx, nullptr));
	must(fur_close(heap));
	return 0;
}

uint64_t *counter_of(fur_thread *self, uint64_t *value)
{
	fur_ro *ro;
	must(fur_begin_ro(self, &ro));
	auto *words = static_cast<uint64_t *>(fur_root(ro, 0));
	*value = words[0];
	must(fur_end_ro(ro, nullptr));
	return words;
}

void add(fur_thread *self, uint64_t *words, uint64_t value, bool patient)
{
	fur_update *tx;
	int error;
	while ((error = fur_begin_update(self, &tx)) == FUR_EBEHIND && patient) {
		printf("behind: %s\n", fur_errormsg());
		fflush(stdout);
	}
	must(error);
	fur_store_bits(tx, &words[0], value, 8);
	fur_store_bits(tx, &words[1 + value % (WORDS - 1)], value, 8);
	must(fur_commit(tx, nullptr));
}

int write(const char *path, const std::string &level, uint64_t n)
{
	fur_options o = options();
	fur_heap *heap;
	fur_thread *self;
	uint64_t value;
	o.ack = level == "replicated" ? FUR_ACK_REPLICATED : FUR_ACK_LOCAL;
	if (level == "patient" || level == "impatient")
		o.ack_patience_ms = 500;
	must(fur_open(path, &o, &heap));
	open_heap = heap;
	must(fur_thread_register(heap, nullptr, &self));
	uint64_t *words = counter_of(self, &value);
	for (uint64_t k = 0; n == 0 || k < n; k++) {
		add(self, words, ++value, level == "patient");
		printf("%" PRIu64 "\n", value);
		fflush(stdout);
	}
	must(fur_close(heap));
	return 0;
}

int hold(const char *path, size_t bytes)
{
	const fur_options o = options();
	fur_heap *heap;
	fur_thread *self;
	fur_update *tx;
	uint64_t value;
	must(fur_open(path, &o, &heap));
	open_heap = heap;
	must(fur_thread_register(heap, nullptr, &self));
	uint64_t *words = counter_of(self, &value);
	must(fur_begin_update(self, &tx));
	fur_store_bits(tx, &words[0], value + 1, 8);
	if (bytes) {
		const std::string content(bytes, 'b');
		void *block = fur_alloc(tx, bytes);
		fur_write(tx, block, content.data(), bytes);
		fur_set_root(tx, 1, block);
	}
	printf("begun\n");
	fflush(stdout);
	(void)getchar();
	must(fur_commit(tx, nullptr));
	printf("%" PRIu64 "\n", value + 1);
	must(fur_close(heap));
	return 0;
}

int show(const char *path)
{
	fur_heap *heap;
	fur_thread *self;
	uint64_t value;
	must(fur_open_copy(path, nullptr, &heap));
	must(fur_thread_register(heap, nullptr, &self));
	const uint64_t *words = counter_of(self, &value);
	for (int k = 1; k < WORDS; k++)
		if (words[k] > value) {
			printf("word %d is %" PRIu64 " beside %" PRIu64 "\n", k, words[k], value);
			return 1;
		}
	printf("%" PRIu64 "\n", value);
	must(fur_close(heap));
	return 0;
}

int make_standby(const char *path)
{
	heap_file file;
	media_ship page;
	must(heap_open_file(path, HEAP_LOCK_WORKER, &file));
	must(heap_read_ship_page(&file.geometry, file.super, &page));
	page.role = MEDIA_STANDBY;
	page.node++;
	if (!page.durts && media_tail_decode(file.super->tail[0][0], &page.durts))
		return 1;
	must(heap_write_ship_page(&file, &page));
	printf("%016" PRIx64 "\n", page.node);
	heap_close_file(&file);
	return 0;
}

int name_log(const char *path, const std::string &name)
{
	heap_file file;
	media_ship page;
	must(heap_open_file(path, HEAP_LOCK_WORKER, &file));
	must(heap_read_ship_page(&file.geometry, file.super, &page));
	if (name.size() >= sizeof page.log)
		return 1;
	memset(page.log, 0, sizeof page.log);
	memcpy(page.log, name.data(), name.size());
	must(heap_write_ship_page(&file, &page));
	heap_close_file(&file);
	return 0;
}

int show_offset(const char *path)
{
	const ship_test::Image image(path);
	printf("%" PRIu64 "\n", image.head()->position.offset);
	return 0;
}

int compare(const char *one, const char *other)
{
	uint64_t first;
	const uint64_t n = ship_test::differences(one, other, &first);
	printf("%" PRIu64 " bytes differ, the first at %" PRIu64 "\n", n, first);
	return n ? 1 : 0;
}

int make_old(const char *path)
{
	heap_file file;
	make(path, FUR_PM_EMULATED); /* slots as they were then */
	must(heap_open_file(path, HEAP_LOCK_WORKER, &file));
	media_super *s = file.super;
	s->version = 1;
	s->file_bytes = s->heap_offset + s->heap_bytes;
	s->checksum = media_super_checksum(s);
	const int failed = ftruncate(file.fd, static_cast<off_t>(s->file_bytes));
	heap_close_file(&file);
	return failed ? 1 : 0;
}

int follow(const char *path, const char *log)
{
	const fur_options o = options();
	fur_heap *heap;
	stream_engine *engine;
	follower *f;
	int n;
	must(fur_open(path, &o, &heap));
	must(engine_file_open(log, &engine));
	must(follow_begin(engine, heap, &f));
	while ((n = follow_step(f, 64)) > 0)
		continue;
	must(n);
	must(follow_end(f));
	engine->ops->close(engine);
	must(fur_close(heap));
	return show(path);
}

/* ------------------------------------------------------------------ streams */

struct Log {
	Log(const char *path, const char *log) : room(FRAME_MOST_BYTES)
	{
		must(heap_open_file(path, HEAP_LOCK_NONE, &file));
		must(engine_file_open(log, &engine));
	}
	~Log()
	{
		engine->ops->close(engine);
		heap_close_file(&file);
	}
	Log(const Log &) = delete;
	heap_file file;
	stream_engine *engine = nullptr;
	std::vector<uint8_t> room;
};

void claim(Log &log, uint64_t node)
{
	writer w;
	writer_init(&w, log.file.geometry.uuid, node, nullptr);
	writer_start(&w, node * 31 + 7, WRITER_TAKES_OVER);
	while (w.phase != WRITER_SHIPS) {
		must(drive_turn(&w, log.engine, log.room.data(), 100));
		if (w.phase == WRITER_RESYNCS)
			writer_start(&w, node * 31 + 8, 0);
		else if (w.phase == WRITER_FENCED || w.phase == WRITER_FAILED)
			fail(FUR_EFENCED);
	}
	printf("claimed term %" PRIu64 "\n", w.stream.at.term);
}

/* Wait for the frame that names us. */
void await_handover(Log &log, uint64_t node)
{
	stream s;
	stream_init(&s, log.file.geometry.uuid, nullptr);
	for (;;) {
		frame f;
		stream_judgement j;
		const int n = drive_read(log.engine, &s, log.room.data(), &f, &j);
		must(n);
		frame_handover to;
		if (n == 0) {
			usleep(1000);
		} else if (j == STREAM_VALID && f.head.kind == FRAME_HANDOVER) {
			memcpy(&to, f.payload, sizeof to);
			if (to.node == node)
				return;
		}
	}
}

int frames(const char *path, const char *name)
{
	Log log(path, name);
	stream s;
	frame f;
	stream_judgement j;
	uint64_t kinds[FRAME_KINDS] = {}, voids = 0;
	stream_init(&s, log.file.geometry.uuid, nullptr);
	while (drive_read(log.engine, &s, log.room.data(), &f, &j) == 1) {
		if (stream_is_fatal(j)) {
			printf("fatal: %s\n", stream_text(j));
			return 1;
		}
		if (j == STREAM_VALID)
			kinds[f.head.kind]++;
		else
			voids++;
	}
	printf("claims %" PRIu64 " data %" PRIu64 " beats %" PRIu64 " handovers %" PRIu64
	       " void %" PRIu64 "\n",
	        kinds[FRAME_CLAIM], kinds[FRAME_DATA], kinds[FRAME_BEAT], kinds[FRAME_HANDOVER],
	        voids);
	return 0;
}

int run(int argc, char **argv)
{
	const std::string what = argc > 2 ? argv[1] : "";
	if (what == "make")
		return make(argv[2]);
	if (what == "write" && argc == 5)
		return write(argv[2], argv[3], strtoull(argv[4], nullptr, 10));
	if (what == "hold")
		return hold(argv[2], argc > 3 ? strtoull(argv[3], nullptr, 10) : 0);
	if (what == "show")
		return show(argv[2]);
	if (what == "old")
		return make_old(argv[2]);
	if (what == "standby")
		return make_standby(argv[2]);
	if (what == "log" && argc == 4)
		return name_log(argv[2], argv[3]);
	if (what == "at")
		return show_offset(argv[2]);
	if (what == "compare" && argc == 4)
		return compare(argv[2], argv[3]);
	if (what == "follow" && argc == 4)
		return follow(argv[2], argv[3]);
	if (what == "frames" && argc == 4)
		return frames(argv[2], argv[3]);
	if ((what == "claim" || what == "heir") && argc == 5) {
		Log log(argv[2], argv[3]);
		const uint64_t node = strtoull(argv[4], nullptr, 16);
		if (what == "heir")
			await_handover(log, node);
		claim(log, node);
		return 0;
	}
	return 2;
}

} // namespace

int main(int argc, char **argv)
{
	return run(argc, argv);
}
