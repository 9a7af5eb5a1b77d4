/* SPDX-License-Identifier: BSD-3-Clause
 *
 * operators_disk_test.cpp - FUR_BULK_EACH when half way the disk fails, or is full: without an
 * operator, and with one.
 */
#include "census.hpp"
#include "operators.hpp"

#include <cerrno>
#include <sys/syscall.h>

/* The test's own fdatasync() and fallocate(): a disk that fails, or is full. */
static std::atomic<bool> sync_fails, disk_full;
extern "C" int fdatasync(int fd)
{
	if (sync_fails) {
		errno = EIO;
		return -1;
	}
	return static_cast<int>(syscall(SYS_fdatasync, fd));
}
extern "C" int fallocate(int fd, int mode, off_t from, off_t bytes)
{
	if (disk_full && mode == 0) {
		errno = ENOSPC;
		return -1;
	}
	return static_cast<int>(syscall(SYS_fallocate, fd, mode, from, bytes));
}

namespace
{

constexpr uint64_t COUNT = 12000, BYTES = 64;

/* The parameter: by an operator? */
class EachOnADisk : public HeapFile, public ::testing::WithParamInterface<bool>
{
protected:
	~EachOnADisk() override
	{
		sync_fails = disk_full = false;
	}
	void begin(fur::Options o)
	{
		heap_.emplace(create(o));
		self_.emplace(*heap_);
		records_ = fur::update(*self_, [&](fur_update *tx) {
			auto *at = static_cast<uint8_t *>(fur_alloc(tx, COUNT * BYTES));
			fur_set_root(tx, 0, at);
			return at;
		});
		const std::vector<uint8_t> three(BYTES, 3);
		for (uint64_t k = 0; k < COUNT; k++)
			fur::update(*self_, [&](fur_update *tx) {
				fur_write(tx, records_ + k * BYTES, three.data(), BYTES);
			});
		if (GetParam()) {
			replayer_.emplace(path_);
			mapper_.emplace(path_, std::vector<const char *>{OPERATORS_OBJECT});
			ASSERT_EQ(mapper_->error(), 0) << mapper_->message();
		}
	}
	Job job() const
	{
		Job j("add", BYTES, {{records_, BYTES, COUNT}});
		j.atomic = FUR_BULK_EACH;
		j.by_program = !GetParam();
		return j;
	}
	/* How many records are changed; they must be the first ones. */
	static uint64_t changed(const uint8_t *at)
	{
		uint64_t n = 0;
		while (n < COUNT && at[n * BYTES] == 4 + n % 7)
			n++;
		for (uint64_t k = 0; k < COUNT * BYTES; k++)
			if (at[k] != (k / BYTES < n ? 4 + k / BYTES % 7 : 3)) {
				ADD_FAILURE() << "record " << k / BYTES << " of " << n;
				break;
			}
		return n;
	}

	std::optional<fur::Heap> heap_;
	std::optional<fur::Thread> self_;
	std::optional<Replayer> replayer_;
	std::optional<Mapper> mapper_;
	uint8_t *records_ = nullptr;
};

TEST_P(EachOnADisk, ThatFailsHalfWay_OneClearError_AndWhatWasCommittedStays)
{
	fur::Options o = software_options();
	o.heap_bytes = 8 * MIB;
	o.pm = FUR_PM_SYNC;
	begin(o);
	Job each = job();
	each.on_progress([&](uint64_t done) {
		sync_fails = done >= 3000;
		return true;
	});
	EXPECT_EQ(each.run(*self_), FUR_EIO) << fur_errormsg();
	EXPECT_NE(std::string(fur_errormsg()).find(": "), std::string::npos) << fur_errormsg();
	const uint64_t committed = each.result.records;
	EXPECT_GE(committed, 3000u);
	EXPECT_LT(committed, COUNT);
	EXPECT_EQ(each.result.by_operator, GetParam() ? committed : 0u);
	if (replayer_) {
		replayer_->expect_result(FUR_EIO);
		mapper_->expect_result(FUR_EIO);
	}
	mapper_.reset();
	replayer_.reset();
	self_.reset();
	heap_.reset();
	sync_fails = false;
	/* The update that met the failure may have become durable. */
	heap_.emplace(open(o));
	self_.emplace(*heap_);
	const auto *at = static_cast<const uint8_t *>(root_at_rest(heap_->get(), 0));
	const uint64_t there = changed(at);
	EXPECT_GE(there, committed);
	EXPECT_LE(there, committed + 1000) << "more than an update";
	const alloc_census census = census_of(*heap_);
	EXPECT_EQ(census.blocks, 1u) << "the results' block";
}

/* EACH grows no heap, except for an operator's results; other updates do, and get the error. */
TEST_P(EachOnADisk, ThatIsFullHalfWay_OtherUpdatesGetTheError)
{
	fur::Options o = software_options();
	o.max_bytes = 64 * MIB;
	begin(o);
	Helper other(heap_->get());
	other.run([](fur_thread *) {}); /* its log also needs room */
	Job each = job();
	uint64_t errors = 0;
	auto take_all = [&](fur_thread *t) {
		for (int error = 0; !error; errors += error == FUR_ENOSPC) {
			fur_update *tx;
			ASSERT_EQ(fur_begin_update(t, &tx), 0) << fur_errormsg();
			void *at = fur_alloc(tx, MIB);
			error = fur_commit(tx, nullptr);
			ASSERT_EQ(at == nullptr, error != 0);
			if (error) {
				EXPECT_NE(std::string(fur_errormsg()).find(": "), std::string::npos)
				        << fur_errormsg();
			}
		}
	};
	each.on_progress([&](uint64_t done) {
		disk_full = done >= 3000;
		if (disk_full && !errors)
			other.run(take_all);
		return true;
	});
	EXPECT_EQ(each.run(*self_), 0) << fur_errormsg();
	EXPECT_EQ(errors, 1u);
	EXPECT_EQ(each.result.records, COUNT);
	EXPECT_EQ(each.result.by_operator, GetParam() ? COUNT : 0u);
	EXPECT_EQ(changed(records_), COUNT);
}

/* The results of an operator need room that the heap does not have, and the disk neither. */
TEST_P(EachOnADisk, ThatIsFullBefore_OnlyAnOperatorIsRefused_AndNothingChanges)
{
	fur::Options o = software_options();
	o.max_bytes = 64 * MIB;
	begin(o);
	disk_full = true;
	for (int error = 0; !error;) { /* what the heap has */
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(*self_, &tx), 0);
		fur_alloc(tx, 60000);
		error = fur_commit(tx, nullptr);
	}
	Job each = job();
	const int error = each.run(*self_);
	if (!GetParam()) {
		EXPECT_EQ(error, 0) << fur_errormsg();
		EXPECT_EQ(changed(records_), COUNT);
		return;
	}
	EXPECT_EQ(error, FUR_ENOSPC);
	EXPECT_NE(std::string(fur_errormsg()).find(": "), std::string::npos) << fur_errormsg();
	EXPECT_EQ(each.result.records, 0u);
	EXPECT_EQ(changed(records_), 0u);
	EXPECT_EQ(header(heap_base(*heap_))->bulk, 0u);
	disk_full = false;
	EXPECT_EQ(each.run(*self_), 0) << fur_errormsg();
	EXPECT_EQ(each.result.by_operator, COUNT);
	EXPECT_EQ(changed(records_), COUNT);
}

INSTANTIATE_TEST_SUITE_P(By, EachOnADisk, ::testing::Bool(),
        [](const ::testing::TestParamInfo<bool> &of) { return of.param ? "Operator" : "Program"; });

} // namespace
