/* SPDX-License-Identifier: BSD-3-Clause
 *
 * standby_test.cpp - fur_ship.h: a process reads at a standby while another one writes at the
 * primary, waits for its own writes, and takes over (INV-SH81 to INV-SH84).  The log is a file.
 *
 * A heap and its copies have the same addresses, so each is open in a process of its own.
 */
#include "../unit/fixture.hpp"
#include "attached.hpp"
#include "internals.hpp"

#define _Static_assert static_assert /* NOLINT */
extern "C" {
#include "ship/batch.h"
#include "ship/engine_file.h"
#include "ship/recover.h"
}
#undef _Static_assert

#include <atomic>
#include <csignal>
#include <fur/ship.hpp>
#include <optional>
#include <sys/mman.h>
#include <thread>

/* Not 0: the process ends before or after a write to the heap's file or to the log, as if it were
 * killed: each write counts twice. */
enum { KILLED = 9 };
static uint64_t writes_to_live;
static void count_write()
{
	if (writes_to_live && --writes_to_live == 0)
		_exit(KILLED);
}
extern "C" {
void __real_pm_flush(struct pm *pm, const void *start, size_t bytes);
void __wrap_pm_flush(struct pm *pm, const void *start, size_t bytes);
int __real_system_write(int fd, const void *from, size_t bytes, uint64_t offset);
int __wrap_system_write(int fd, const void *from, size_t bytes, uint64_t offset);
}
void __wrap_pm_flush(struct pm *pm, const void *start, size_t bytes)
{
	count_write();
	__real_pm_flush(pm, start, bytes);
	count_write();
}
int __wrap_system_write(int fd, const void *from, size_t bytes, uint64_t offset)
{
	count_write();
	const int error = __real_system_write(fd, from, bytes, offset);
	count_write();
	return error;
}

namespace
{

using ship_test::Attached;

enum : uint32_t { LONG_MS = 60000 };
enum : uint64_t { WORDS = 40, PRIMARY_NODE = 17 };

struct Root {
	uint64_t n;           /* updates */
	uint64_t cell[WORDS]; /* cell[k]: the newest number of the form i * WORDS + k, or 0 */
};

fur::Options options_of_test()
{
	fur::Options o = small_options();
	o.log_bytes = 16 << 10;
	o.ring_slots = 256;
	o.max_threads = 8;
	return o;
}

Root *root_of(fur_thread *self)
{
	return fur::read(self, [](fur_ro *tx) { return static_cast<Root *>(fur_root(tx, 0)); });
}

void add(fur_thread *self, Root *root)
{
	fur::update(self, [&](fur_update *tx) {
		const uint64_t n = fur_load(tx, &root->n) + 1;
		fur_store(tx, &root->n, n);
		fur_store(tx, &root->cell[n % WORDS], n);
	});
}

/* How many updates the heap has: exactly the first n. */
uint64_t count_updates(fur_thread *self)
{
	const Root *root = root_of(self);
	return fur::read(self, [&](fur_ro *tx) {
		const uint64_t n = fur_load(tx, &root->n);
		for (uint64_t k = 0; k < WORDS; k++) {
			const uint64_t newest = n < k ? 0 : n - (n - k) % WORDS;
			EXPECT_EQ(fur_load(tx, &root->cell[k]), newest) << k << " of " << n;
		}
		return n;
	});
}

/* A thread that ships. */
class Ships
{
public:
	Ships(const std::string &heap, const std::string &log)
	    : attached_(heap, log), thread_([this] { result = shipper_run(&attached_.shipper); })
	{
	}
	~Ships()
	{
		end();
	}
	void end()
	{
		if (!thread_.joinable())
			return;
		attached_.stop();
		thread_.join();
	}
	Ships(const Ships &) = delete;
	int result = 0;

private:
	Attached attached_;
	std::thread thread_;
};

/* A follower. */
class Follows
{
public:
	explicit Follows(fur::Heap &heap, uint32_t patience_ms = LONG_MS)
	    : options_({sizeof options_, nullptr, take_report, this, patience_ms}),
	      f_(heap, &options_)
	{
	}
	/* How many reports there were of this level. */
	int reports(fur_log_level level) const
	{
		return reports_[level];
	}
	/* Was it so when it had promoted the heap that it followed no longer? */
	bool ended() const
	{
		return ended_;
	}
	operator fur_follower *() const
	{
		return f_.get();
	}
	fur_follow_state state() const
	{
		return f_.state();
	}
	/* Wait for it. */
	template <class Condition>
	void until(Condition &&condition) const
	{
		while (!condition(state()))
			usleep(1000);
	}

private:
	/* The follower's thread calls it, before fur_take_over() returns. */
	static void take_report(fur_log_level level, const char *message, void *self)
	{
		auto *const f = static_cast<Follows *>(self);
		f->reports_[level]++;
		if (strstr(message, "a primary now"))
			f->ended_ = !f->state().follows;
	}
	std::atomic<int> reports_[3] = {};
	std::atomic<bool> ended_ = false;
	fur_follow_options options_;
	fur::Follower f_;
};

/* What processes of a test tell each other. */
struct Shared {
	uint64_t returned; /* updates of the primary that have returned */
	uint64_t stop;
	fur_token token; /* of `returned`, or a later one */
	uint64_t won, lost;
};

class SharedMemory
{
public:
	SharedMemory()
	    : at_(static_cast<Shared *>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0)))
	{
	}
	~SharedMemory()
	{
		munmap(at_, sizeof(Shared));
	}
	SharedMemory(const SharedMemory &) = delete;
	Shared *operator->() const
	{
		return at_;
	}

private:
	Shared *at_;
};

class Standby : public HeapFile
{
protected:
	Standby() : log_(path_ + "-log")
	{
		make();
	}
	~Standby() override
	{
		for (const std::string &path : {log_, standby(0), standby(1)})
			unlink(path.c_str());
	}
	std::string standby(int k = 0) const
	{
		return path_ + "-standby" + std::to_string(k);
	}
	/* A primary, and two standbys that are copies of it. */
	void make()
	{
		{
			fur::Heap heap = create(options_of_test());
			fur::Thread self(heap);
			fur::update(self, [&](fur_update *tx) {
				void *root = fur_alloc(tx, sizeof(Root));
				const Root zero = {};
				fur_write(tx, root, &zero, sizeof zero);
				fur_set_root(tx, 0, root);
			});
		}
		for (int k = 0; k < 2; k++)
			std::ofstream(standby(k), std::ios::binary) << bytes();
		give_role(path_, MEDIA_PRIMARY, PRIMARY_NODE);
		give_role(standby(0), MEDIA_STANDBY, PRIMARY_NODE + 1);
		give_role(standby(1), MEDIA_STANDBY, PRIMARY_NODE + 2);
		stream_engine *engine;
		ASSERT_EQ(engine_file_open(log_.c_str(), &engine), 0) << fur_errormsg();
		engine->ops->close(engine);
	}
	void give_role(const std::string &path, media_role role, uint64_t node) const
	{
		heap_file file;
		media_ship ship = {};
		ship.role = role;
		ship.node = node;
		ship.offset = STREAM_NO_OFFSET;
		snprintf(ship.log, sizeof ship.log, "file:%s", log_.c_str());
		ASSERT_EQ(heap_open_file(path.c_str(), HEAP_LOCK_WORKER, &file), 0);
		if (role == MEDIA_STANDBY) {
			ASSERT_EQ(media_tail_decode(file.super->tail[0][0], &ship.durts), 0);
		}
		ASSERT_EQ(heap_write_ship_page(&file, &ship), 0) << fur_errormsg();
		heap_close_file(&file);
	}
	static uint32_t role_of(const std::string &path)
	{
		heap_file file;
		media_ship ship;
		if (heap_open_file(path.c_str(), HEAP_LOCK_NONE, &file) ||
		        heap_read_ship_page(&file.geometry, file.super, &ship))
			throw fur::Error(FUR_EINVAL, fur_errormsg());
		heap_close_file(&file);
		return ship.role;
	}
	static bool is_closed(const std::string &path)
	{
		heap_file file;
		if (heap_open_file(path.c_str(), HEAP_LOCK_NONE, &file))
			throw fur::Error(FUR_EINVAL, fur_errormsg());
		const bool closed = file.super->state == MEDIA_CLOSED;
		heap_close_file(&file);
		return closed;
	}
	/* Run work(heap, self) with the heap open, and shipped. */
	template <class Work>
	void at_primary(const std::string &path, Work &&work) const
	{
		fur::Heap heap = fur::Heap::open(path, options_of_test());
		Ships ships(path, log_);
		{
			fur::Thread self(heap);
			work(heap, self);
		}
		heap.close();
		ships.end();
		EXPECT_EQ(ships.result, 0) << fur_errormsg();
	}
	template <class Work>
	static pid_t in_child(Work &&work)
	{
		const pid_t child = fork();
		if (child)
			return child;
		alarm(240);
		try {
			work();
		} catch (const std::exception &e) {
			fprintf(stderr, "child: %s\n", e.what());
			_exit(1);
		}
		_exit(::testing::Test::HasFailure() ? 2 : 0);
	}
	static void expect_ended(pid_t child)
	{
		int status;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
	}
	static void kill_it(pid_t child)
	{
		int status;
		kill(child, SIGKILL);
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFSIGNALED(status)) << status;
	}
	/* Update the primary in a child, until it is told to stop, or killed. */
	pid_t write_in_child(const SharedMemory &shared, uint64_t most = UINT64_MAX) const
	{
		return in_child([&, most] {
			at_primary(path_, [&](fur::Heap &, fur::Thread &self) {
				Root *root = root_of(self);
				for (uint64_t k = 0; k < most && !arch_load_acquire(&shared->stop);
				        k++) {
					add(self, root);
					fur_token token;
					fur::check(fur_get_token(self, &token));
					/* A reader takes `returned` first. */
					arch_store(&shared->token.durts, token.durts);
					arch_store(&shared->token.lineage, token.lineage);
					arch_store_release(&shared->returned, k + 1);
				}
			});
		});
	}

	static std::string contents(const std::string &path)
	{
		std::ifstream in(path, std::ios::binary);
		return std::string(std::istreambuf_iterator<char>(in), {});
	}
	static void put(const std::string &path, const std::string &all)
	{
		std::ofstream(path, std::ios::binary | std::ios::trunc) << all;
	}
	/* Let a child follow, and take over, and close the heap; it ends at write `live`, if that
	 * is not 0.  Returns: it was not ended. */
	bool promote_in_child(uint64_t live) const
	{
		const pid_t child = in_child([&] {
			fur::Heap heap = fur::Heap::open(standby(), options_of_test());
			writes_to_live = live;
			{
				const Follows follows(heap);
				ASSERT_EQ(fur_take_over(follows, 0), 0) << fur_errormsg();
			}
			heap.close();
		});
		int status;
		EXPECT_EQ(waitpid(child, &status, 0), child);
		EXPECT_TRUE(WIFEXITED(status) &&
		            (WEXITSTATUS(status) == 0 || (live && WEXITSTATUS(status) == KILLED)))
		        << status;
		return WEXITSTATUS(status) == 0;
	}
	/* The other standby follows from the beginning. */
	void expect_other_follows(const std::string &beginning, uint64_t n) const
	{
		put(standby(1), beginning);
		const pid_t child = in_child([&] {
			fur::Heap heap = fur::Heap::open(standby(1), options_of_test());
			{
				const Follows follows(heap);
				fur::Thread self(heap);
				follows.until([](const auto &s) { return s.silent_ns || s.error; });
				EXPECT_EQ(count_updates(self), n);
				EXPECT_EQ(follows.state().error, 0) << follows.state().message;
			}
			heap.close();
		});
		expect_ended(child);
	}

	std::string log_;
};

/* ------------------------------------------------------------------ reading */

TEST_F(Standby, TokenOfTheWriter_IsThereAfterTheWait)
{
	const SharedMemory shared;
	const pid_t child = write_in_child(shared, rounds(uint64_t(2000)));
	fur::Heap heap = fur::Heap::open(standby(), options_of_test());
	{
		const Follows follows(heap);
		fur::Thread self(heap);
		for (uint64_t seen = 0; seen < rounds(uint64_t(2000));) {
			const uint64_t returned = arch_load_acquire(&shared->returned);
			const fur_token token = {0, arch_load(&shared->token.durts)};
			ASSERT_EQ(fur_wait_token(heap.get(), &token, LONG_MS), 0) << fur_errormsg();
			seen = count_updates(self);
			ASSERT_GE(seen, returned);
			/* What is read here has a token as well. */
			fur_token here;
			ASSERT_EQ(fur_get_token(self, &here), 0) << fur_errormsg();
			ASSERT_GE(here.durts, token.durts);
			ASSERT_EQ(fur_wait_token(heap.get(), &here, 0), 0);
		}
		const auto s = follows.state();
		EXPECT_TRUE(s.follows);
		EXPECT_EQ(s.error, 0) << s.message;
		EXPECT_EQ(s.node, +PRIMARY_NODE);
		EXPECT_EQ(s.own_node, PRIMARY_NODE + 1);
		follows.until([](const auto &now) { return now.unread == 0 && now.silent_ns; });
		EXPECT_GE(follows.state().caught_up_ns, s.heard_ns);
		const fur_token later = {0, s.durts + 1000000}, next = {1, 1};
		EXPECT_EQ(fur_wait_token(heap.get(), &later, 20), FUR_EBEHIND);
		EXPECT_EQ(fur_wait_token(heap.get(), &next, 0), FUR_EBEHIND);
		EXPECT_EQ(fur_close(heap.get()), FUR_EBUSY);
	}
	heap.close();
	expect_ended(child);
}

TEST_F(Standby, KilledStandbys_ApplyEachUpdateOnce)
{
	const SharedMemory shared;
	const pid_t writer = write_in_child(shared);
	for (uint64_t k = 1; k <= rounds(uint64_t(20)); k++) {
		const pid_t reader = in_child([&] {
			fur::Heap heap = fur::Heap::open(standby(), options_of_test());
			const Follows follows(heap);
			fur::Thread self(heap);
			writes_to_live = 30 * k;
			for (;;)
				count_updates(self);
		});
		int status;
		ASSERT_EQ(waitpid(reader, &status, 0), reader);
		ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == KILLED) << status;
	}
	arch_store_release(&shared->stop, 1);
	expect_ended(writer);
	fur::Heap heap = fur::Heap::open(standby(), options_of_test());
	{
		const Follows follows(heap);
		fur::Thread self(heap);
		const fur_token token = shared->token;
		EXPECT_EQ(fur_wait_token(heap.get(), &token, LONG_MS), 0) << fur_errormsg();
		EXPECT_EQ(count_updates(self), shared->returned);
	}
	heap.close();
}

TEST_F(Standby, TokenAtThePrimary_WaitsForTheLog)
{
	fur::Heap heap = open(options_of_test());
	std::optional<fur::Thread> self(heap);
	fur_token token;
	EXPECT_EQ(fur_get_token(*self, &token), FUR_EBEHIND) << "nothing ships";
	std::optional<Ships> ships(std::in_place, path_, log_);
	Root *root = root_of(*self);
	for (uint64_t k = 0; k < 100; k++) {
		add(*self, root);
		ASSERT_EQ(fur_get_token(*self, &token), 0) << fur_errormsg();
		ASSERT_EQ(fur_wait_token(heap.get(), &token, LONG_MS), 0) << fur_errormsg();
		ASSERT_GT(ship_acked(&heap.get()->durability), token.durts);
	}
	/* Also if nothing has been stored since. */
	fur_token again;
	ASSERT_EQ(fur_get_token(*self, &again), 0);
	EXPECT_EQ(again.durts, token.durts);
	EXPECT_EQ(fur_wait_token(heap.get(), &again, 0), 0);
	ships->end();
	add(*self, root);
	ASSERT_EQ(fur_get_token(*self, &token), 0);
	EXPECT_GT(token.durts, again.durts);
	EXPECT_EQ(fur_wait_token(heap.get(), &token, 20), FUR_EBEHIND);
	ships.reset();
	ships.emplace(path_, log_);
	EXPECT_EQ(fur_wait_token(heap.get(), &token, LONG_MS), 0) << fur_errormsg();
	self.reset();
	heap.close();
}

TEST_F(Standby, LogThatCannotBeReached_IsTriedAgain)
{
	const std::string away = log_ + "-away";
	ASSERT_EQ(rename(log_.c_str(), away.c_str()), 0);
	fur::Heap heap = fur::Heap::open(standby(), options_of_test());
	{
		const Follows follows(heap, 50);
		follows.until([](const auto &s) { return s.error != 0; });
		EXPECT_EQ(follows.state().error, FUR_ENOENT);
		EXPECT_EQ(follows.state().silent_ns, 0u);
		EXPECT_TRUE(follows.state().follows);
		EXPECT_EQ(fur_take_over(follows, 0), FUR_EBEHIND);
		ASSERT_EQ(rename(away.c_str(), log_.c_str()), 0);
		follows.until([](const auto &s) { return s.error == 0 && s.caught_up_ns; });
		while (follows.reports(FUR_LOG_INFO) == 0)
			usleep(1000);
		EXPECT_EQ(follows.reports(FUR_LOG_WARNING), 1) << "once, however often it tried";
		EXPECT_EQ(follows.reports(FUR_LOG_INFO), 1);
	}
	heap.close();
	EXPECT_EQ(role_of(standby()), +MEDIA_STANDBY);
}

TEST_F(Standby, Misuse)
{
	fur_follower *f;
	fur_token token = {0, 1};
	{
		fur::Heap heap = open(options_of_test());
		EXPECT_EQ(fur_follow(heap.get(), nullptr, &f), FUR_EINVAL);
		EXPECT_EQ(f, nullptr);
		EXPECT_EQ(fur_follow(heap.get(), nullptr, nullptr), FUR_EINVAL);
		EXPECT_EQ(fur_follow(nullptr, nullptr, &f), FUR_EINVAL);
		EXPECT_EQ(fur_wait_token(heap.get(), nullptr, 0), FUR_EINVAL);
		EXPECT_EQ(fur_wait_token(nullptr, &token, 0), FUR_EINVAL);
		EXPECT_EQ(fur_get_token(nullptr, &token), FUR_EINVAL);
		heap.close();
	}
	fur::Heap heap = fur::Heap::open(standby(), options_of_test());
	EXPECT_EQ(fur_wait_token(heap.get(), &token, 0), FUR_EINVAL) << "it does not follow";
	fur_follow_options o = {};
	EXPECT_EQ(fur_follow(heap.get(), &o, &f), FUR_EINVAL) << "no size";
	const char *const settings[] = {"acks=all", nullptr};
	o.size = sizeof o;
	o.settings = settings;
	ASSERT_EQ(fur_follow(heap.get(), &o, &f), 0) << fur_errormsg();
	fur_follower *second;
	EXPECT_EQ(fur_follow(heap.get(), nullptr, &second), FUR_EINVAL);
	fur_follow_state s = {};
	EXPECT_EQ(fur_get_follow_state(f, &s), FUR_EINVAL) << "no size";
	s.size = sizeof s;
	do
		ASSERT_EQ(fur_get_follow_state(f, &s), 0);
	while (s.follows);
	EXPECT_EQ(s.error, FUR_EINVAL) << "a file has no settings";
	EXPECT_NE(std::string(s.message).find("acks=all"), std::string::npos) << s.message;
	EXPECT_EQ(fur_take_over(f, 0), FUR_EINVAL);
	{
		fur::Thread self(heap);
		fur_ro *ro;
		ASSERT_EQ(fur_begin_ro(self, &ro), 0);
		EXPECT_EQ(fur_wait_token(heap.get(), &token, 0), FUR_ENESTED);
		EXPECT_EQ(fur_get_token(self, &token), FUR_ENESTED);
		EXPECT_EQ(fur_take_over(f, 0), FUR_ENESTED);
		ASSERT_EQ(fur_end_ro(ro, nullptr), 0);
	}
	EXPECT_EQ(fur_unfollow(f), 0);
	EXPECT_EQ(fur_unfollow(nullptr), FUR_EINVAL);
	heap.close();
}

/* ---------------------------------------------------------------- promotion */

/* The primary is killed, as its machine; the standby takes over, and ships to the other one. */
TEST_F(Standby, TakesOver_WithAllThatWasAcknowledged)
{
	const SharedMemory shared;
	const pid_t writer = write_in_child(shared);
	fur_token acked = {}, newest = {};
	uint64_t n = 0;
	fur::Heap heap = fur::Heap::open(standby(), options_of_test());
	{
		const Follows follows(heap);
		fur::Thread self(heap);
		while (arch_load_acquire(&shared->returned) < 200)
			usleep(1000);
		acked = {0, arch_load(&shared->token.durts)};
		ASSERT_EQ(fur_wait_token(heap.get(), &acked, LONG_MS), 0) << fur_errormsg();
		kill_it(writer);
		ASSERT_EQ(fur_take_over(follows, 0), 0) << fur_errormsg();
		const fur_follow_state after = follows.state();
		EXPECT_TRUE(after.promoted);
		EXPECT_TRUE(!after.follows && follows.ended());
		EXPECT_EQ(fur_take_over(follows, 0), FUR_EINVAL);
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(self, &tx), FUR_EREADONLY);
		EXPECT_NE(strstr(fur_errormsg(), "close it, and open it again"), nullptr)
		        << fur_errormsg();
		n = count_updates(self);
		EXPECT_GE(n, 200u);
		EXPECT_EQ(follows.state().lineage, 1u);
		/* Tokens of the lineage that has ended. */
		EXPECT_EQ(fur_wait_token(heap.get(), &acked, 0), 0) << fur_errormsg();
		newest = {0, shared->token.durts + 1000};
		EXPECT_EQ(fur_wait_token(heap.get(), &newest, 0), FUR_ELOST);
		EXPECT_EQ(role_of(standby()), +MEDIA_PRIMARY);
	}
	const fur_token later = {5, 1};
	EXPECT_EQ(fur_wait_token(heap.get(), &later, 0), FUR_EINVAL);
	EXPECT_NE(strstr(fur_errormsg(), "close it, and open it again"), nullptr) << fur_errormsg();
	heap.close();
	at_primary(standby(), [&](fur::Heap &primary, fur::Thread &self) {
		EXPECT_EQ(count_updates(self), n);
		for (int k = 0; k < 50; k++)
			add(self, root_of(self));
		fur_token token;
		ASSERT_EQ(fur_get_token(self, &token), 0) << fur_errormsg();
		EXPECT_EQ(token.lineage, 1u);
		EXPECT_EQ(fur_wait_token(primary.get(), &token, LONG_MS), 0) << fur_errormsg();
		EXPECT_EQ(fur_wait_token(primary.get(), &acked, 0), 0) << fur_errormsg();
		EXPECT_EQ(fur_wait_token(primary.get(), &newest, 0), FUR_ELOST);
		shared->token = token;
	});
	fur::Heap other = fur::Heap::open(standby(1), options_of_test());
	{
		const Follows follows(other);
		fur::Thread self(other);
		EXPECT_EQ(fur_wait_token(other.get(), &shared->token, LONG_MS), 0);
		EXPECT_EQ(count_updates(self), n + 50);
		EXPECT_EQ(fur_wait_token(other.get(), &acked, 0), 0) << fur_errormsg();
		EXPECT_EQ(fur_wait_token(other.get(), &newest, 0), FUR_ELOST);
	}
	other.close();
}

/* The primary works on, and does not know it yet. */
TEST_F(Standby, TakesOver_FencesAPrimaryThatWrites)
{
	const SharedMemory shared;
	const pid_t writer = in_child([&] {
		fur::Options o = options_of_test();
		o.ack = FUR_ACK_REPLICATED;
		fur::Heap heap = open(o);
		Ships ships(path_, log_);
		fur::Thread self(heap);
		Root *root = root_of(self);
		try {
			for (uint64_t k = 1;; k++) {
				add(self, root);
				arch_store_release(&shared->returned, k);
			}
		} catch (const fur::Error &e) {
			EXPECT_EQ(e.code(), FUR_EFENCED) << e.what();
		}
		fur_token token = {0, 1000000};
		const auto expect_remedy = [] {
			const std::string said = fur_errormsg();
			EXPECT_NE(said.find("with fur-standby"), said.npos) << said;
			EXPECT_EQ(said.find("open it again"), said.npos) << said;
		};
		EXPECT_EQ(fur_get_token(self, &token), FUR_EFENCED);
		expect_remedy();
		token = {0, 1000000};
		EXPECT_EQ(fur_wait_token(heap.get(), &token, 0), FUR_ELOST);
		expect_remedy();
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(self, &tx), FUR_EFENCED);
		expect_remedy();
	});
	fur::Heap heap = fur::Heap::open(standby(), options_of_test());
	{
		const Follows follows(heap);
		fur::Thread self(heap);
		while (arch_load_acquire(&shared->returned) < 100)
			usleep(1000);
		ASSERT_EQ(fur_take_over(follows, 0), 0) << fur_errormsg();
	}
	heap.close();
	at_primary(standby(), [&](fur::Heap &, fur::Thread &self) {
		/* The old primary finds the claim when it ships next. */
		add(self, root_of(self));
	});
	expect_ended(writer);
	fur::Heap again = fur::Heap::open(standby(), options_of_test());
	{
		fur::Thread self(again);
		EXPECT_GE(count_updates(self), shared->returned + 1);
	}
	Ships ships(standby(), log_);
	again.close();
}

/* A program that has decided before another standby took over, and asks after it. */
TEST_F(Standby, TakesOver_OnlyInTheTermItWasAskedFor)
{
	const SharedMemory shared;
	expect_ended(write_in_child(shared, 50));
	const pid_t winner = in_child([&] { /* both heaps belong at one address */
		while (!arch_load_acquire(&shared->stop))
			usleep(100);
		EXPECT_TRUE(promote_in_child(0));
	});
	fur::Heap heap = fur::Heap::open(standby(1), options_of_test());
	{
		const Follows follows(heap);
		follows.until([](const auto &now) { return now.silent_ns; });
		const uint64_t term = follows.state().term;
		arch_store_release(&shared->stop, 1);
		expect_ended(winner);
		follows.until([&](const auto &now) { return now.term > term; });
		EXPECT_EQ(fur_take_over(follows, term), FUR_EFENCED);
		EXPECT_TRUE(follows.state().follows) << follows.state().message;
	}
	heap.close();
	EXPECT_EQ(role_of(standby(0)), +MEDIA_PRIMARY);
	EXPECT_EQ(role_of(standby(1)), +MEDIA_STANDBY);
}

TEST_F(Standby, OfTwo_OneTakesOver)
{
	const SharedMemory shared;
	const pid_t writer = write_in_child(shared);
	while (arch_load_acquire(&shared->returned) < 50)
		usleep(1000);
	kill_it(writer);
	arch_store(&shared->stop, 0);
	pid_t both[2];
	for (int s = 0; s < 2; s++)
		both[s] = in_child([&, s] {
			fur::Heap heap = fur::Heap::open(standby(s), options_of_test());
			{
				const Follows follows(heap);
				follows.until([](const auto &now) { return now.silent_ns; });
				const uint64_t term = follows.state().term;
				arch_fetch_add(&shared->stop, 1);
				while (arch_load_acquire(&shared->stop) < 2)
					usleep(100);
				const int error = fur_take_over(follows, term);
				EXPECT_TRUE(error == 0 || error == FUR_EFENCED) << fur_errormsg();
				arch_fetch_add(error ? &shared->lost : &shared->won, 1);
				/* The loser follows on, and does not replace the winner. */
				if (error) {
					follows.until([&](const auto &now) {
						return now.term > term && now.lineage >= 1;
					});
					EXPECT_EQ(fur_take_over(follows, term), FUR_EFENCED);
				}
			}
			heap.close();
		});
	for (pid_t one : both)
		expect_ended(one);
	EXPECT_EQ(shared->won, 1u);
	EXPECT_EQ(shared->lost, 1u);
	EXPECT_NE(role_of(standby(0)), role_of(standby(1)));
}

/* The process ends before and after each write in turn, to the heap's file and to the log, and the
 * next one does the same again, until one gets through. */
TEST_F(Standby, KilledPromotions_AreDoneAgain)
{
	const SharedMemory shared;
	const pid_t writer = write_in_child(shared, 100);
	expect_ended(writer);
	const std::string before = contents(standby()), log = contents(log_);
	uint64_t died = 0, recovered = 0;
	bool done = false;
	for (uint64_t k = 1; !done && !HasFailure(); k++) {
		put(standby(), before);
		put(log_, log);
		done = promote_in_child(k);
		died += !done;
		if (role_of(standby()) != MEDIA_PRIMARY) {
			ASSERT_TRUE(promote_in_child(0));
		}
		if (!is_closed(standby())) {
			recovered++;
			replay_result result;
			Attached attached(standby(), log_, HEAP_LOCK_WORKER);
			ASSERT_EQ(ship_recover(&attached.shipper, &result), 0) << fur_errormsg();
			EXPECT_EQ(result.updates, 0u) << "they came from the old primary";
		}
		at_primary(standby(), [&](fur::Heap &, fur::Thread &self) {
			EXPECT_EQ(count_updates(self), 100u);
			add(self, root_of(self));
		});
		expect_other_follows(before, 101);
	}
	EXPECT_GT(died, 10u);
	EXPECT_GT(recovered, 0u);
}

} // namespace
