/* SPDX-License-Identifier: BSD-3-Clause
 *
 * windows.hpp - threads that are measured in alternate windows, each window in one of several
 * modes; the times of their operations.
 *
 * The same threads run in all windows of a run, so whatever else the machine does meets all modes
 * alike.  Between two windows every thread waits at a barrier, so no operation runs in two modes.
 */
#ifndef BENCH_PAUSES_WINDOWS_HPP
#define BENCH_PAUSES_WINDOWS_HPP

#include "../common/histogram.hpp"
#include "../common/round_trip.hpp"
#include "../common/tm.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <fcntl.h>
#include <functional>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace pauses
{

using bench::Histogram;
using bench::json;

inline uint64_t now_ns()
{
	return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
	        std::chrono::steady_clock::now().time_since_epoch())
	                                     .count());
}

/* The operations of one thread in one window. */
struct alignas(128) Samples {
	uint64_t done = 0;  /* ended in the measured part */
	Histogram times_ns; /* ran in the measured part, or at its begin or end */
	Histogram waits_ns; /* the same, without the time in the scheduler's queue */
};

enum Phase { WARM_UP, MEASURE, END };

struct Window {
	unsigned mode = 0;
	std::atomic<int> phase{WARM_UP};
};

/* The time for which the calling thread was ready to run, and the scheduler ran others. */
class SchedulerQueue
{
public:
	SchedulerQueue() : fd_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
	~SchedulerQueue()
	{
		if (fd_ >= 0)
			close(fd_);
	}
	SchedulerQueue(const SchedulerQueue &) = delete;
	/* Since the last call; takes a few microseconds.  0 where the kernel does not tell. */
	uint64_t waited_ns()
	{
		char text[96];
		ssize_t n = fd_ < 0 ? -1 : pread(fd_, text, sizeof text - 1, 0);
		unsigned long long ran, queued;
		if (n <= 0)
			return 0;
		text[n] = 0;
		if (sscanf(text, "%llu %llu", &ran, &queued) != 2)
			return 0;
		return queued - std::exchange(seen_, queued);
	}

private:
	int fd_;
	unsigned long long seen_ = 0;
};

inline std::vector<int> cores()
{
	std::vector<int> found;
	cpu_set_t all;
	if (sched_getaffinity(0, sizeof all, &all) == 0)
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &all))
				found.push_back(cpu);
	return found;
}

/* The threads, and the windows that they run in. */
class Crew
{
public:
	/* A thread's view of the windows. */
	class View
	{
	public:
		View(Crew &crew, Samples &samples) : samples_(samples), crew_(crew)
		{
			if (crew.see_queue_)
				queue_.emplace();
		}
		/* Waits for the next window; returns null after the last one. */
		const Window *next()
		{
			if (inside_)
				crew_.end_->arrive_and_wait();
			inside_ = true;
			crew_.start_->arrive_and_wait();
			if (queue_)
				queue_->waited_ns();
			return crew_.over_ ? nullptr : &crew_.window_;
		}
		/* Repeat an operation until the window ends, at least once, even if the scheduler
		 * runs the thread only after that.  An operation's time is that from the end of the
		 * one before, so that no pause of the thread is left out. */
		template <class Operation>
		void repeat(const Window &window, Operation &&operation)
		{
			uint64_t began = now_ns();
			int before = window.phase.load(std::memory_order_relaxed), after;
			do {
				operation();
				uint64_t ended = now_ns();
				after = window.phase.load(std::memory_order_relaxed);
				if (after == MEASURE)
					samples_.done++;
				began = count(
				        before != END && after != WARM_UP, ended - began, ended);
				before = after;
			} while (after != END);
		}

	private:
		/* Returns the time at which the next operation begins. */
		uint64_t count(bool measured, uint64_t took, uint64_t now)
		{
			enum { LONG_NS = 50000 }; /* shorter: not worth a look at the queue */
			uint64_t queued = 0;
			if (queue_ && took > LONG_NS) {
				queued = queue_->waited_ns();
				now = now_ns();
			}
			if (measured) {
				samples_.times_ns.add(took);
				samples_.waits_ns.add(took - std::min(took, queued));
			}
			return now;
		}

		Samples &samples_;
		Crew &crew_;
		std::optional<SchedulerQueue> queue_;
		bool inside_ = false;
	};
	using Body = std::function<void(View &)>;

	/* With see_queue, each thread keeps a file open, from which it reads its time in the
	 * scheduler's queue. */
	explicit Crew(bool see_queue) : see_queue_(see_queue) {}

	/* Threads are told apart by their roles, small numbers. */
	void add(unsigned role, Body body)
	{
		members_.emplace_back(role, std::move(body));
	}
	/* Threads are pinned if each has a core of its own. */
	bool pinned() const
	{
		return members_.size() <= cores().size();
	}

	/* Run `rounds` times one window of each mode; the order changes from round to round.  After
	 * each, call seen(mode, seconds) while the threads wait.  Throws what a thread has
	 * thrown. */
	void run(unsigned modes, unsigned rounds, double warm_up, double seconds,
	        const std::function<void(unsigned, double)> &seen)
	{
		auto all = static_cast<std::ptrdiff_t>(members_.size()) + 1;
		std::barrier<> start(all), end(all);
		start_ = &start, end_ = &end;
		std::vector<std::thread> threads;
		for (size_t k = 0; k < members_.size(); k++)
			threads.emplace_back([this, k] { live(k); });
		for (unsigned n = 0; n < rounds * modes && !failed_; n++) {
			trips_.take();
			unsigned round = n / modes, at = n % modes;
			show(n, rounds * modes);
			double took = one_window(round % 2 ? modes - 1 - at : at, warm_up, seconds);
			if (!failed_)
				seen(window_.mode, took);
		}
		show(0, 0);
		over_ = true;
		start.arrive_and_wait();
		for (std::thread &t : threads)
			t.join();
		if (failure_)
			std::rethrow_exception(failure_);
	}

	/* One before each window. */
	const bench::RoundTrips &round_trips() const
	{
		return trips_;
	}

	/* The last window's samples of each thread in a role. */
	void each(unsigned role, const std::function<void(const Samples &)> &f) const
	{
		for (const Member &m : members_)
			if (m.role == role)
				f(m.samples);
	}

private:
	struct Member {
		Member(unsigned r, Body b) : role(r), body(std::move(b)) {}
		unsigned role;
		Body body;
		Samples samples;
	};

	void live(size_t k)
	{
		std::vector<int> allowed = cores();
		if (pinned()) {
			cpu_set_t one;
			CPU_ZERO(&one);
			CPU_SET(allowed[k], &one);
			pthread_setaffinity_np(pthread_self(), sizeof one, &one);
		}
		View view(*this, members_[k].samples);
		try {
			members_[k].body(view);
		} catch (...) {
			std::lock_guard guard(failing_);
			failure_ = std::current_exception();
			failed_ = true;
			window_.phase = END;
		}
		/* After an exception the barriers still count this thread. */
		while (failed_ && !over_ && view.next())
			;
	}

	double one_window(unsigned mode, double warm_up, double seconds)
	{
		using Seconds = std::chrono::duration<double>;
		for (Member &m : members_)
			m.samples = {};
		window_.mode = mode;
		window_.phase = WARM_UP;
		start_->arrive_and_wait();
		std::this_thread::sleep_for(Seconds(warm_up));
		uint64_t began = now_ns();
		window_.phase = MEASURE;
		std::this_thread::sleep_for(Seconds(seconds));
		uint64_t ended = now_ns();
		window_.phase = END;
		end_->arrive_and_wait();
		return static_cast<double>(ended - began) / 1e9;
	}

	static void show(unsigned done, unsigned windows)
	{
		if (isatty(2) && windows)
			fprintf(stderr, "\rwindow %u of %u ", done + 1, windows);
		else if (isatty(2))
			fprintf(stderr, "\r%40s\r", "");
	}

	const bool see_queue_;
	std::deque<Member> members_;
	bench::RoundTrips trips_;
	std::barrier<> *start_ = nullptr, *end_ = nullptr;
	Window window_;
	std::atomic<bool> over_{false}, failed_{false};
	std::mutex failing_;
	std::exception_ptr failure_;
};

/* ------------------------------------------------------------------ results */

/* To six digits. */
inline double rounded(double value)
{
	char text[32];
	snprintf(text, sizeof text, "%.6g", value);
	return strtod(text, nullptr);
}
template <class Number>
Number least(const std::vector<Number> &values)
{
	return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}
template <class Number>
Number greatest(const std::vector<Number> &values)
{
	return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}
template <class Number>
double median(std::vector<Number> values)
{
	std::sort(values.begin(), values.end());
	size_t n = values.size();
	return n == 0 ? 0 : static_cast<double>(values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* The operations of the threads in one role, in the windows of one mode: an element per window. */
struct Measured {
	std::vector<double> per_second, p999_us, longest_us, p999_wait_us, longest_wait_us;
	std::vector<uint64_t> fewest, idle;

	void add(const Crew &crew, unsigned role, double seconds)
	{
		Histogram times, waits;
		uint64_t done = 0, least_done = UINT64_MAX, without = 0;
		crew.each(role, [&](const Samples &s) {
			times.add(s.times_ns);
			waits.add(s.waits_ns);
			done += s.done;
			least_done = std::min(least_done, s.done);
			without += s.done == 0;
		});
		per_second.push_back(static_cast<double>(done) / seconds);
		p999_us.push_back(static_cast<double>(times.quantile(0.999)) / 1e3);
		longest_us.push_back(static_cast<double>(times.most()) / 1e3);
		p999_wait_us.push_back(static_cast<double>(waits.quantile(0.999)) / 1e3);
		longest_wait_us.push_back(static_cast<double>(waits.most()) / 1e3);
		fewest.push_back(least_done);
		idle.push_back(without);
	}
	json result() const
	{
		json j;
		j["per_second"] = rounded(median(per_second));
		j["p999_us"] = rounded(median(p999_us));
		j["longest_us"] = rounded(greatest(longest_us));
		j["longest_us_median"] = rounded(median(longest_us));
		return j;
	}
	/* With the times that the threads did not spend in the scheduler's queue. */
	json result_with_waits() const
	{
		json j = result();
		j["p999_wait_us"] = rounded(median(p999_wait_us));
		j["longest_wait_us"] = rounded(greatest(longest_wait_us));
		j["longest_wait_us_median"] = rounded(median(longest_wait_us));
		return j;
	}
};

/* The ratios of two modes, round by round: median, least, greatest. */
inline json ratio(const std::vector<double> &over, const std::vector<double> &under)
{
	std::vector<double> ratios;
	for (size_t k = 0; k < std::min(over.size(), under.size()); k++)
		if (under[k] > 0)
			ratios.push_back(over[k] / under[k]);
	json j;
	j["median"] = rounded(median(ratios));
	j["min"] = rounded(least(ratios));
	j["max"] = rounded(greatest(ratios));
	return j;
}

} // namespace pauses

#endif /* BENCH_PAUSES_WINDOWS_HPP */
