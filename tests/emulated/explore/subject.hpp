/* SPDX-License-Identifier: BSD-3-Clause
 *
 * subject.hpp - the interface of a system under exploration, and its run.  Simulated threads open
 * the heap and run transactions on it; afterwards check_recovered() opens it again, not simulated,
 * to check the recovered state.
 */
#ifndef EXPLORE_SUBJECT_HPP
#define EXPLORE_SUBJECT_HPP

#include "copies.hpp"
#include "seed.hpp"
#include "shipping.hpp"
#include "worker.hpp"

#include <atomic>
#include <concepts>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

namespace explore
{

/* A heap of one system, open: its constructor opens the file, and throws if recovery refuses.  Its
 * Thread is that of bench/common/tm.hpp, with read() and update_or_abort().  There is also
 *     static oracle::Becomes becomes(const Tx *);   how this update becomes visible
 * and a Thread may have
 *     choose(random);            the random bits decide how its next update runs
 *     join(f);                   inside an update: f(tx) in a read-only transaction that joins it
 *     fur_ticket read_later(f);  f(tx) in a read-only transaction that ends with a ticket
 *     wait(ticket);              for such a ticket, of any thread
 */
template <class S>
concept Subject = std::constructible_from<S, const Options &, const char *, fur_htm, uint32_t> &&
        std::constructible_from<typename S::Thread, S &> && requires(S &subject, const S &still,
                const Options &o, const std::string &path, std::string &wrong, unsigned n)
{
	S::make(o, path); /* makes a new, empty heap in this file */
	S::unmap(o);      /* drops the mappings that a power failure left behind */
	subject.replay_with(n, n, true, n); /* threads, preload, batch-wise, unload_lines */
	static_cast<void *>(subject.root());
	static_cast<char *>(still.base());
	static_cast<uint64_t>(still.bytes());
	/* Blocks allocated; `wrong` gets a message if the allocator's data is damaged */
	static_cast<uint64_t>(still.blocks(wrong));
};

/* Worker threads with a high number run on the machine's agent, if it has one. */
inline void place_worker(unsigned number)
{
	if (unseen([=] { return number >= run.first_on_agent; }))
		emu_move(EMU_AGENT);
}

template <class S>
struct WorkerOf {
	using type = Worker<S>;
};

/* Simulated: thread 0. */
template <class S>
void simulate(void *)
{
	S subject(*run.o, run.path, run.htm, run.retries);
	subject.replay_with(run.replay_threads, run.preload, run.batch, run.unload_lines);
	oracle::start(subject.base(), subject.bytes());
	if constexpr (requires { subject.clocks(); })
		oracle::several(subject.clocks());
	std::vector<std::thread> threads;
	for (unsigned i = 0; i < run.threads; i++)
		threads.emplace_back([i, &subject] {
			place_worker(i);
			typename WorkerOf<S>::type(subject, i).work();
			if (unseen([] { return run.o->handover; }))
				run.ended++;
		});
	std::atomic<bool> over{false};
	std::thread replayer;
	if constexpr (requires { subject.act_as_replayer(over); })
		if (run.o->replayer)
			replayer = std::thread([&] {
				emu_move(EMU_AGENT);
				subject.act_as_replayer(over);
			});
	std::thread shipper;
	if constexpr (requires { subject.act_as_shipper(over); })
		if (run.o->ships)
			shipper = std::thread([&] { subject.act_as_shipper(over); });
	for (auto &t : threads)
		t.join();
	over = true;
	if (replayer.joinable())
		replayer.join();
	if constexpr (requires { subject.end_shipper(); })
		if (shipper.joinable()) {
			subject.end_shipper();
			shipper.join();
		}
}

/* Not simulated: opens the file, which replays it, and checks the heap.  Nothing, or what is
 * wrong.  `follows`: it has what the shipping log has. */
template <Subject S>
std::string check_heap(const Options &o, const std::string &path, bool crashed, bool follows)
{
	std::optional<S> subject;
	try {
		subject.emplace(o, path.c_str(), FUR_HTM_NONE, 0);
	} catch (const std::exception &e) {
		return std::string("recovery failed: ") + e.what();
	}
	auto *data = static_cast<const Data *>(subject->root());
	uint64_t newest[MOST_THREADS];
	for (unsigned t = 0; t < MOST_THREADS; t++)
		newest[t] = data->newest[t].value;
	std::string wrong =
	        crashed ? oracle::check_durable(o.asked, subject->base(), newest, MOST_THREADS)
	                : oracle::check_final(subject->base());
	if (wrong.empty() && follows)
		wrong = oracle::check_fenced(newest, MOST_THREADS);
	return wrong.empty() ? check_structure(*subject, data) : wrong;
}

template <Subject S>
std::string check_recovered(const Options &o, const std::string &path, bool crashed)
{
	return check_heap<S>(o, path, crashed, false);
}

template <Subject S>
void make_primary(const std::string &path)
{
	if constexpr (requires { S::make_primary(path); })
		S::make_primary(path);
}

/* Checks what a fail-over would use, and drops the role of the failed heap.  Nothing, or what is
 * wrong. */
template <Subject S>
std::string check_shipped(const Options &o, const std::string &initial, const std::string &failed)
{
	std::string wrong;
	if constexpr (requires { S::make_primary(failed); }) {
		const std::string path = failed + ".shipped";
		shipping_log.make_standby(initial, path);
		wrong = check_heap<S>(o, path, true, true);
		if (!wrong.empty())
			wrong = "on the standby: " + wrong;
		if (wrong.empty()) {
			shipping_log.make_old_heap(initial, failed, path);
			wrong = check_heap<S>(o, path, true, true);
			if (!wrong.empty())
				wrong = "on the old heap, which follows: " + wrong;
		}
		remove_copy(path);
		S::drop_role(failed);
	}
	return wrong;
}

template <Subject S>
constexpr System system_of = {
        make_heap<S>, simulate<S>, S::unmap, check_recovered<S>, make_primary<S>, check_shipped<S>};

} // namespace explore

#endif /* EXPLORE_SUBJECT_HPP */
