/* SPDX-License-Identifier: BSD-3-Clause
 *
 * table_test.cpp - the indexes of a fur::table have the entries of its rows and no others, whatever
 * happens: next to a model, with keys that are taken, exceptions, full heaps, threads and kills.
 */
#include "containers.hpp"

#include <fur/table.hpp>

#include <atomic>
#include <cmath>
#include <csignal>
#include <limits>
#include <thread>

using ShortText = std::array<char, 8>;

template <class Text>
struct TableRow {
	uint64_t id;
	Text name, mail;
	uint32_t group;
	double weight;
	FUR_MEMBERS(id, name, mail, group, weight)

	bool operator==(const TableRow &other) const
	{
		return id == other.id && name == other.name && mail == other.mail &&
		       group == other.group && weight == other.weight;
	}
	static uint64_t half(const TableRow &row)
	{
		return row.id / 2;
	}
};

namespace
{

using TextRow = TableRow<std::string>; /* a std::tuple in the heap */
using PlainRow = TableRow<ShortText>;  /* its bytes */
template <class Row>
using ByHash =
        fur::table<Row, fur::hash_unique<&Row::id>, fur::ordered_index<&Row::name, &Row::group>,
                fur::hash_unique<&Row::mail>, fur::hash_index<&Row::group>,
                fur::ordered_index<&Row::weight>, fur::ordered_index<&Row::half>>;
template <class Row>
using ByOrder =
        fur::table<Row, fur::ordered_unique<&Row::id>, fur::hash_index<&Row::name, &Row::group>,
                fur::ordered_unique<&Row::mail>, fur::ordered_index<&Row::group>,
                fur::ordered_index<&Row::weight>, fur::hash_index<&Row::half>>;

template <class Text>
Text text(uint64_t n)
{
	if constexpr (std::is_same_v<Text, std::string>) {
		return (n % 2 ? "short " : "a text of more than twelve ") + std::to_string(n);
	} else {
		Text all{};
		memcpy(all.data(), &n, sizeof n);
		return all;
	}
}
template <class Row>
Row row_of(uint64_t id, uint64_t name, uint64_t mail, uint32_t group)
{
	using Text = decltype(Row::name);
	return {id, text<Text>(name), text<Text>(mail), group, 0.5 * group};
}
/* Rows as they come, sorted by their id. */
template <class Range>
auto sorted(const Range &range)
{
	using Row = typename Range::iterator::value_type;
	std::map<uint64_t, Row> rows;
	for (const Row &row : range)
		EXPECT_TRUE(rows.emplace(row.id, row).second) << "a row comes twice";
	return rows;
}

template <class T>
class Table : public ContainerHeap
{
protected:
	using RowType = typename T::value_type;
	using Text = decltype(RowType::name);
	using Model = std::map<uint64_t, RowType>;
	enum : uint64_t { IDS = 60, NAMES = 4, MAILS = 50, GROUPS = 3 };
	static constexpr size_t MAIL = T::template number_of<&RowType::mail>();
	static constexpr size_t NONE = fur::table_result::NO_INDEX;

	Table() : rows_(fur::root<T>(self_, "rows")), others_(blocks_of(heap_))
	{
		RecordProperty("seed", std::to_string(seed_));
	}
	RowType any()
	{
		return row_of<RowType>(below(IDS), below(NAMES), below(MAILS),
		        static_cast<uint32_t>(below(GROUPS)));
	}
	/* The index in which another row has a key of this one, which is to replace that of `id`:
	 * or NONE. */
	size_t taken(const Model &model, const RowType &row, uint64_t id) const
	{
		if (row.id != id && model.count(row.id))
			return 0;
		for (const auto &[key, other] : model)
			if (key != id && key != row.id && other.mail == row.mail)
				return MAIL;
		return NONE;
	}
	void insert(fur_update *tx, Model &model);
	void assign(fur_update *tx, Model &model);
	void modify(fur_update *tx, Model &model);
	void erase(fur_update *tx, Model &model);
	void change(fur_update *tx, Model &model)
	{
		switch (below(4)) {
		case 0: return insert(tx, model);
		case 1: return assign(tx, model);
		case 2: return modify(tx, model);
		default: return erase(tx, model);
		}
	}
	template <class Tx>
	void expect_same(Tx *tx, const Model &model) const;
	/* Each index finds what the model has. */
	template <class Tx>
	void expect_found(Tx *tx, const Model &model, const RowType &key) const;
	template <class Tx>
	void expect_many(Tx *tx, const Model &model) const;
	void fill(uint64_t n)
	{
		for (uint64_t id = 0; id < n; id++)
			update([&](fur_update *tx) {
				EXPECT_TRUE(rows_->insert(
				        tx, row_of<RowType>(id, id % NAMES, id,
				                    static_cast<uint32_t>(id % GROUPS))));
			});
	}
	void expect_whole(uint64_t size) const
	{
		fur::read(self_, [&](fur_ro *tx) {
			const uint64_t blocks = expect_verified(tx, *rows_);
			EXPECT_EQ(rows_->size(tx), size);
			EXPECT_EQ(blocks_of(heap_), others_ + blocks);
		});
	}

	T *rows_;
	uint64_t others_; /* blocks that are not the table's */
};

template <class T>
void Table<T>::insert(fur_update *tx, Model &model)
{
	const RowType row = any();
	const size_t clash = taken(model, row, UINT64_MAX);
	const auto result = rows_->insert(tx, row);
	EXPECT_EQ(static_cast<bool>(result), clash == NONE);
	EXPECT_EQ(result.clash(), clash);
	EXPECT_FALSE(result.is_missing());
	if (clash == NONE)
		model[row.id] = row;
}

template <class T>
void Table<T>::assign(fur_update *tx, Model &model)
{
	const RowType row = any();
	const size_t clash = taken(model, row, row.id);
	const auto result = rows_->insert_or_assign(tx, row);
	EXPECT_EQ(static_cast<bool>(result), clash == NONE);
	EXPECT_EQ(result.clash(), clash);
	if (clash == NONE)
		model[row.id] = row;
}

template <class T>
void Table<T>::modify(fur_update *tx, Model &model)
{
	const uint64_t id = below(IDS);
	const auto at = model.find(id);
	RowType row = any();
	if (at != model.end() && below(4)) /* mostly not the primary key */
		row.id = id;
	if (at != model.end() && below(2))
		row.mail = at->second.mail;
	const auto result = rows_->modify(tx, id, [&](RowType &there) {
		EXPECT_TRUE(there == at->second);
		there = row;
	});
	const size_t clash = at == model.end() ? NONE : taken(model, row, id);
	EXPECT_EQ(result.is_missing(), at == model.end());
	EXPECT_EQ(result.clash(), clash);
	EXPECT_EQ(static_cast<bool>(result), at != model.end() && clash == NONE);
	if (!result)
		return;
	model.erase(id);
	model[row.id] = row;
}

template <class T>
void Table<T>::erase(fur_update *tx, Model &model)
{
	const RowType like = any();
	const auto remove = [&](auto which) {
		uint64_t n = 0;
		for (auto at = model.begin(); at != model.end();)
			if (which(at->second)) {
				at = model.erase(at);
				n++;
			} else {
				++at;
			}
		return n;
	};
	switch (below(8)) {
	case 0:
		EXPECT_EQ((rows_->template by<&RowType::name, &RowType::group>().erase(
		                  tx, {like.name, like.group})),
		        remove([&](const RowType &row) {
			        return row.name == like.name && row.group == like.group;
		        }));
		break;
	case 1:
		EXPECT_EQ((rows_->template by<&RowType::weight>().delete_range(tx, 0.5, 1.0)),
		        remove([](const RowType &row) { return row.weight == 0.5; }));
		break;
	case 2:
		EXPECT_EQ(rows_->erase_if(tx, [](const RowType &row) { return row.id % 5 == 0; }),
		        remove([](const RowType &row) { return row.id % 5 == 0; }));
		break;
	case 3:
		EXPECT_EQ(rows_->template by<&RowType::mail>().erase(tx, like.mail),
		        remove([&](const RowType &row) { return row.mail == like.mail; }));
		break;
	case 4:
		if (const auto at = rows_->find(tx, like.id); at != rows_->in(tx).end()) {
			rows_->erase(tx, at);
			EXPECT_EQ(model.erase(like.id), 1u);
		}
		break;
	default: EXPECT_EQ(rows_->erase(tx, like.id), model.erase(like.id));
	}
}

template <class T>
template <class Tx>
void Table<T>::expect_found(Tx *tx, const Model &model, const RowType &key) const
{
	const auto those = [&](auto which) {
		Model some;
		for (const auto &[id, row] : model)
			if (which(row))
				some.emplace(id, row);
		return some;
	};
	const auto by_id = rows_->get(tx, key.id);
	EXPECT_TRUE(by_id ? *by_id == model.at(key.id) : !model.count(key.id));
	EXPECT_EQ(rows_->contains(tx, key.id), by_id.has_value());
	const auto by_mail = rows_->template by<&RowType::mail>().get(tx, key.mail);
	const Model of_mail = those([&](const RowType &row) { return row.mail == key.mail; });
	EXPECT_TRUE(by_mail ? *by_mail == of_mail.begin()->second : of_mail.empty());
	const auto index = rows_->template by<&RowType::name, &RowType::group>();
	const Model named = those(
	        [&](const RowType &row) { return row.name == key.name && row.group == key.group; });
	EXPECT_TRUE(sorted(index.equal_range(tx, {key.name, key.group})) == named);
	EXPECT_EQ(index.count(tx, {key.name, key.group}), named.size());
	EXPECT_EQ(index.contains(tx, {key.name, key.group}), !named.empty());
	EXPECT_TRUE(sorted(rows_->template by<&RowType::group>().equal_range(tx, key.group)) ==
	            those([&](const RowType &row) { return row.group == key.group; }));
	EXPECT_TRUE(sorted(rows_->template by<&RowType::half>().equal_range(tx, key.id / 2)) ==
	            those([&](const RowType &row) { return row.id / 2 == key.id / 2; }));
	const auto weights = rows_->template by<&RowType::weight>();
	EXPECT_TRUE(sorted(weights.range(tx, key.weight, 1.0)) == those([&](const RowType &row) {
		return row.weight >= key.weight && row.weight < 1.0;
	}));
	EXPECT_TRUE(sorted(weights.from(tx, 0.5)) ==
	            those([](const RowType &row) { return row.weight >= 0.5; }));
	EXPECT_TRUE(sorted(weights.up_to(tx, 0.5)) ==
	            those([](const RowType &row) { return row.weight < 0.5; }));
}

template <class T>
template <class Tx>
void Table<T>::expect_many(Tx *tx, const Model &model) const
{
	std::vector<uint64_t> ids;
	std::vector<Text> mails;
	for (uint64_t n = 0; n < IDS + 5; n++) {
		ids.push_back(n);
		mails.push_back(text<Text>(n));
	}
	std::vector<std::optional<RowType>> by_id(ids.size()), by_mail(ids.size());
	size_t calls = 0;
	EXPECT_EQ(rows_->get_many(tx, ids.data(), ids.size(), by_id.data()), model.size());
	const auto index = rows_->template by<&RowType::mail>();
	EXPECT_EQ(index.get_many(tx, mails.data(), mails.size(), by_mail.data()), model.size());
	EXPECT_EQ(index.get_many(tx, mails.data(), mails.size(),
	                  [&](size_t i, const RowType &row) {
		                  EXPECT_TRUE(by_mail.at(i) && *by_mail[i] == row);
		                  calls++;
	                  }),
	        model.size());
	EXPECT_EQ(calls, model.size());
	for (size_t n = 0; n < ids.size(); n++) {
		EXPECT_TRUE(by_id[n] ? *by_id[n] == model.at(n) : !model.count(n));
		EXPECT_TRUE(!by_mail[n] || by_mail[n]->mail == mails[n]);
	}
}

template <class T>
template <class Tx>
void Table<T>::expect_same(Tx *tx, const Model &model) const
{
	EXPECT_STREQ(rows_->check(tx), nullptr);
	EXPECT_EQ(rows_->size(tx), model.size());
	EXPECT_TRUE(sorted(rows_->in(tx)) == model);
	std::vector<double> weights, backwards;
	const auto all = rows_->template by<&RowType::weight>().in(tx);
	for (const RowType &row : all)
		weights.push_back(row.weight);
	for (auto at = all.rbegin(); at != all.rend(); ++at)
		backwards.push_back(at->weight);
	auto next = all.begin();
	all.for_each([&](const RowType &row) { EXPECT_TRUE(row == *next++); });
	EXPECT_TRUE(next == all.end());
	Model again;
	rows_->in(tx).for_each([&](const RowType &row) { again.emplace(row.id, row); });
	EXPECT_TRUE(again == model);
	EXPECT_TRUE(std::is_sorted(weights.begin(), weights.end()));
	EXPECT_TRUE(
	        std::equal(weights.begin(), weights.end(), backwards.rbegin(), backwards.rend()));
	expect_many(tx, model);
}

using Tables = TypesHere<::testing::Types<ByHash<TextRow>>, ::testing::Types<ByOrder<PlainRow>>>;
TYPED_TEST_SUITE(Table, Tables);

TYPED_TEST(Table, AgreesWithItsModel)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	typename TestFixture::Model model;
	for (int round = 0; round < rounds(150); round++) {
		const bool aborts = this->below(10) == 0;
		auto changed = model;
		const auto body = [&](fur_update *tx) {
			for (int k = 0; k < 8; k++)
				this->change(tx, changed);
			this->expect_found(tx, changed, this->any());
			if (aborts)
				throw std::runtime_error("an exception of the program");
		};
		if (aborts) {
			EXPECT_THROW(fur::update(this->self_, body), std::runtime_error);
		} else {
			fur::update(this->self_, body);
			model = changed;
		}
		const auto key = this->any();
		this->read([&](fur_ro *tx) { this->expect_found(tx, model, key); });
		fur::read(this->self_, fur::rerun,
		        [&](fur_reader *tx) { this->expect_found(tx, model, key); });
		if (round % 10 == 0)
			this->read([&](fur_ro *tx) { this->expect_same(tx, model); });
	}
	this->expect_whole(model.size());
	this->reopen();
	this->rows_ = fur::find_root<TypeParam>(this->self_, "rows");
	fur::read(this->self_, fur::rerun, [&](fur_reader *tx) { this->expect_same(tx, model); });
}

TYPED_TEST(Table, InASnapshot_ShowsOneState)
{
	if (this->heap_.info().htm == FUR_HTM_POWER)
		GTEST_SKIP() << "snapshots need opacity there";
	this->fill(40);
	typename TestFixture::Model model;
	this->read([&](fur_ro *tx) { model = sorted(this->rows_->in(tx)); });
	const fur::Snapshot snapshot(this->self_);
	this->update([&](fur_update *tx) {
		EXPECT_GT(
		        this->rows_->erase_if(tx, [](const auto &row) { return row.id % 3; }), 0u);
		EXPECT_TRUE(this->rows_->modify(tx, 3, [](auto &row) { row.id = 100; }));
	});
	snapshot.read(this->self_, [&](fur_reader *tx) {
		this->expect_same(tx, model);
		this->expect_found(tx, model, model.at(3));
	});
	this->expect_whole(14);
}

/* Also what the update has done before, and what it does after. */
TYPED_TEST(Table, KeyThatIsTaken_ChangesNothing)
{
	using Row = typename TestFixture::RowType;
	this->fill(20);
	typename TestFixture::Model model;
	this->read([&](fur_ro *tx) { model = sorted(this->rows_->in(tx)); });
	this->update([&](fur_update *tx) {
		auto &rows = *this->rows_;
		EXPECT_EQ(rows.insert(tx, row_of<Row>(3, 1, 99, 1)).clash(), 0u);
		EXPECT_EQ(rows.insert(tx, row_of<Row>(99, 1, 3, 1)).clash(), this->MAIL);
		EXPECT_EQ(rows.insert_or_assign(tx, row_of<Row>(4, 9, 3, 2)).clash(), this->MAIL);
		EXPECT_EQ(rows.insert_or_assign(tx, row_of<Row>(98, 9, 3, 2)).clash(), this->MAIL);
		EXPECT_EQ(rows.modify(tx, 5, [](Row &row) { row.id = 6; }).clash(), 0u);
		EXPECT_EQ(
		        rows.modify(tx, 5, [](Row &row) { row = row_of<Row>(5, 7, 3, 8); }).clash(),
		        this->MAIL);
		EXPECT_EQ(rows.modify(tx, 5, [](Row &row) { row = row_of<Row>(97, 7, 3, 8); })
		                  .clash(),
		        this->MAIL);
		const auto mails = rows.template by<&Row::mail>();
		const Row five = model.at(5);
		EXPECT_EQ(mails.modify(tx, five.mail, [](Row &row) { row.id = 7; }).clash(), 0u);
		EXPECT_TRUE(
		        mails.modify(tx, row_of<Row>(0, 0, 77, 0).mail, [](Row &) {}).is_missing());
		this->expect_same(tx, model);
		EXPECT_TRUE(rows.insert(tx, row_of<Row>(50, 1, 51, 1)));
	});
	this->expect_whole(21);
}

/* A program may catch it in the body, and go on. */
TYPED_TEST(Table, NoNumberAsAKey_ChangesNothing)
{
	using Row = typename TestFixture::RowType;
	this->fill(10);
	this->update([&](fur_update *tx) {
		Row row = row_of<Row>(50, 1, 50, 1);
		row.weight = std::numeric_limits<double>::quiet_NaN();
		EXPECT_THROW(this->rows_->insert(tx, row), std::invalid_argument);
		EXPECT_THROW(this->rows_->insert_or_assign(tx, row), std::invalid_argument);
		/* Also if an index before that of the number has another key. */
		row = row_of<Row>(5, 3, 51, 2);
		row.weight = NAN;
		EXPECT_THROW(this->rows_->modify(tx, 5, [&](Row &r) { r = row; }),
		        std::invalid_argument);
		EXPECT_THROW(this->rows_->modify(tx, 5,
		                     [](Row &r) {
			                     r.weight = 9;
			                     throw std::runtime_error("of the program");
		                     }),
		        std::runtime_error);
	});
	this->expect_whole(10);
	this->read([&](fur_ro *tx) { EXPECT_EQ(this->rows_->at(tx, 5).weight, 1.0); });
}

TYPED_TEST(Table, FullHeap_ChangesNothing)
{
	using Row = typename TestFixture::RowType;
	uint64_t id = 0;
	const auto insert = [&](fur_update *tx) {
		for (uint64_t k = id; k < id + 8; k++)
			EXPECT_TRUE(this->rows_->insert(
			        tx, row_of<Row>(k, k % 7, k, static_cast<uint32_t>(k))));
	};
	/* Large blocks take all of the room but one of them. */
	this->update([&](fur_update *tx) {
		void *last = nullptr;
		while (void *block = fur_alloc(tx, 1 << 18)) {
			last = block;
			this->others_++;
		}
		fur_free(tx, last);
		this->others_--;
	});
	EXPECT_THROW(for (;; id += 8) fur::update(this->self_, insert), fur::heap_full);
	EXPECT_GT(id, 0u);
	this->expect_whole(id);
	this->update([&](fur_update *tx) { EXPECT_EQ(this->rows_->erase(tx, 0), 1u); });
	this->expect_whole(id - 1);
}

TYPED_TEST(Table, InParts_WithTheSmallestLog)
{
	using Row = typename TestFixture::RowType;
	this->heap_.close();
	unlink(this->path_.c_str());
	auto options = small_options();
	options.heap_bytes = 16 << 20;
	this->heap_ = this->create(options);
	this->self_ = fur::Thread(this->heap_);
	this->rows_ = fur::root<TypeParam>(this->self_, "rows");
	this->others_ = blocks_of(this->heap_);
	std::vector<Row> rows;
	for (uint64_t id = 0; id < 1000; id++)
		rows.push_back(row_of<Row>(id, id % 5, id, static_cast<uint32_t>(id % 7)));
	fur::fill(this->self_, *this->rows_, rows.begin(), rows.end(), 1);
	this->expect_whole(1000);
	rows = {row_of<Row>(2000, 1, 5, 1)};
	EXPECT_THROW(fur::fill(this->self_, *this->rows_, rows.begin(), rows.end()),
	        std::invalid_argument);
	EXPECT_EQ(fur::erase_if(this->self_, *this->rows_,
	                  [](const Row &row) { return row.id % 2 == 0; }),
	        500u);
	this->expect_whole(500);
	uint64_t seen = 0;
	fur::scan(this->self_, *this->rows_, [&](const Row &row) { seen += row.id % 2; });
	EXPECT_EQ(seen, 500u);
	EXPECT_EQ(fur::erase(this->self_, *this->rows_, 1), 1u);
	EXPECT_TRUE(fur::update(
	        this->self_, [&](fur_update *tx) { return this->rows_->clear_some(tx, 10); }));
	this->read([&](fur_ro *tx) {
		EXPECT_STREQ(this->rows_->check(tx), nullptr);
		EXPECT_LT(this->rows_->size(tx), 499u);
	});
	fur::clear(this->self_, *this->rows_);
	this->expect_whole(0);
	EXPECT_EQ(blocks_of(this->heap_), this->others_);
}

TYPED_TEST(Table, IteratorOfErase_GoesOn)
{
	this->fill(60);
	this->update([&](fur_update *tx) {
		std::set<uint64_t> seen;
		for (auto at = this->rows_->in(tx).begin(); at != this->rows_->in(tx).end();) {
			EXPECT_TRUE(seen.insert(at->id).second);
			if (at->id % 3)
				at = this->rows_->erase(tx, at);
			else
				++at;
		}
		EXPECT_EQ(seen.size(), 60u);
	});
	this->expect_whole(20);
	this->update([&](fur_update *tx) { this->rows_->clear(tx); });
	this->expect_whole(0);
}

TYPED_TEST(Table, EmptyAndBackwardRanges_AreEmpty)
{
	using Row = typename TestFixture::RowType;
	const auto expect_none = [&] {
		this->read([&](fur_ro *tx) {
			const auto weights = this->rows_->template by<&Row::weight>();
			EXPECT_TRUE(weights.range(tx, 2.0, 1.0).empty());
			EXPECT_TRUE(weights.range(tx, 0.5, 0.5).empty());
			EXPECT_TRUE(weights.from(tx, 100.0).empty());
			EXPECT_TRUE(weights.up_to(tx, -1.0).empty());
			EXPECT_TRUE(weights.range(tx, NAN, NAN).empty());
			EXPECT_EQ(this->rows_->template by<&Row::group>().count(tx, 77), 0u);
			EXPECT_TRUE(
			        this->rows_->template by<&Row::half>().equal_range(tx, 77).empty());
		});
	};
	expect_none();
	this->fill(30);
	expect_none();
	this->update([&](fur_update *tx) {
		EXPECT_EQ(
		        (this->rows_->template by<&Row::weight>().delete_range(tx, 2.0, 1.0)), 0u);
	});
}

/* Entries that are added and removed behind the table's back. */
TYPED_TEST(Table, Check_FindsWhatDisagrees)
{
	using Row = typename TestFixture::RowType;
	using Mails = std::conditional_t<std::is_same_v<TypeParam, ByHash<TextRow>>,
	        fur::hash_map<fur::string, uint64_t>, fur::ordered_map<ShortText, uint64_t>>;
	using Weights = fur::ordered_multimap<double, uint64_t>;
	this->fill(20);
	/* Each container has two words. */
	auto *mails =
	        reinterpret_cast<Mails *>(reinterpret_cast<char *>(this->rows_) + 16 * this->MAIL);
	auto *weights =
	        reinterpret_cast<Weights *>(reinterpret_cast<char *>(this->rows_) +
	                                    16 * TypeParam::template number_of<&Row::weight>());
	const auto text_of = [](uint64_t n) { return text<typename TestFixture::Text>(n); };
	const auto expect_wrong = [&](const char *says, auto damage) {
		const auto body = [&](fur_update *tx) {
			damage(tx);
			EXPECT_STREQ(this->rows_->check(tx), says);
			throw std::runtime_error("undo it");
		};
		EXPECT_THROW(fur::update(this->self_, body), std::runtime_error);
		this->expect_whole(20);
	};
	const char *count = "an index has not as many entries as there are rows",
	           *entry = "an index has not the entry of a row";
	expect_wrong(count, [&](fur_update *tx) { mails->erase(tx, text_of(7)); });
	expect_wrong(count, [&](fur_update *tx) { mails->insert(tx, text_of(99), 7); });
	expect_wrong(count, [&](fur_update *tx) { weights->insert(tx, 7.0, 7); });
	if constexpr (std::is_same_v<TypeParam, ByHash<TextRow>>) {
		using Groups = fur::hash_map<uint32_t, fur::ordered_set<uint64_t>>;
		auto *groups = reinterpret_cast<Groups *>(
		        reinterpret_cast<char *>(this->rows_) +
		        16 * TypeParam::template number_of<&Row::group>());
		/* A set without rows. */
		expect_wrong(count, [&](fur_update *tx) { groups->try_emplace(tx, 77); });
	}
	expect_wrong(entry, [&](fur_update *tx) { mails->insert_or_assign(tx, text_of(7), 8); });
	expect_wrong(entry, [&](fur_update *tx) {
		mails->erase(tx, text_of(7));
		mails->insert(tx, text_of(99), 7);
	});
	expect_wrong(entry, [&](fur_update *tx) {
		EXPECT_EQ(weights->erase(tx, 0.5, 7), 1u);
		weights->insert(tx, 1.0, 7);
	});
}

/* ------------------------------------------------------------------------------------ roots */

TEST_F(ContainerHeap, TableOfOtherIndexes_IsAnotherType)
{
	using Row = TextRow;
	using One = fur::table<Row, fur::hash_unique<&Row::id>, fur::ordered_index<&Row::name>>;
	fur::root<One>(self_, "rows");
	EXPECT_NE(fur::find_root<One>(self_, "rows"), nullptr);
	const auto expect_other = [&](auto *other) {
		using Other = std::remove_pointer_t<decltype(other)>;
		EXPECT_THROW(fur::find_root<Other>(self_, "rows"), fur::type_mismatch);
	};
	using fur::hash_index, fur::hash_unique, fur::ordered_index, fur::ordered_unique,
	        fur::table;
	using Id = hash_unique<&Row::id>;
	expect_other(static_cast<table<Row, Id> *>(nullptr));
	expect_other(static_cast<table<Row, Id, ordered_index<&Row::mail>> *>(nullptr));
	expect_other(static_cast<table<Row, Id, hash_index<&Row::name>> *>(nullptr));
	expect_other(static_cast<table<Row, Id, ordered_unique<&Row::name>> *>(nullptr));
	expect_other(static_cast<table<Row, ordered_unique<&Row::id>, ordered_index<&Row::name>> *>(
	        nullptr));
	expect_other(
	        static_cast<table<Row, Id, ordered_index<&Row::name>, ordered_index<&Row::mail>> *>(
	                nullptr));
	expect_other(static_cast<
	        table<PlainRow, hash_unique<&PlainRow::id>, ordered_index<&PlainRow::name>> *>(
	        nullptr));
}

/* ---------------------------------------------------------------------------------- threads */

/* Threads that insert, modify and erase, and move weight between two rows of one group; and readers
 * to whom all indexes show the same rows. */
template <class T>
class TableCrowd
{
public:
	using Row = typename T::value_type;
	enum : uint64_t { THREADS = 3, IDS = 30 };

	TableCrowd(fur::Heap &heap, T *rows, bool rerun, uint64_t seed)
	    : heap_(heap), rows_(rows), rerun_(rerun), seed_(seed)
	{
	}
	void run(uint64_t n)
	{
		std::vector<std::thread> threads;
		std::atomic<bool> stop{false};
		for (uint64_t t = 0; t < THREADS; t++)
			threads.emplace_back([&, t] { write(t, n); });
		std::thread reader([&] {
			fur::Thread me(heap_);
			while (!stop) {
				fur::read(me, fur::rerun, [&](fur_reader *tx) { look(tx); });
				fur::read(me, [&](fur_ro *tx) { look(tx); });
			}
		});
		for (std::thread &t : threads)
			t.join();
		stop = true;
		reader.join();
	}
	uint64_t size() const
	{
		return size_;
	}

private:
	void write(uint64_t t, uint64_t n)
	{
		fur::Thread me(heap_);
		std::mt19937_64 random(seed_ + t);
		for (uint64_t i = 0; i < n; i++) {
			const uint64_t r = random();
			const auto body = [&](fur_update *tx) { return change(tx, r); };
			size_ += rerun_ ? fur::update(me, fur::rerun, body) : fur::update(me, body);
		}
	}
	/* Returns: by how many rows the table grows. */
	uint64_t change(fur_update *tx, uint64_t r)
	{
		const uint64_t id = r / 8 % IDS, other = r / 512 % IDS;
		const auto group = static_cast<uint32_t>(r / 4096 % 3);
		switch (r % 8) {
		case 0:
		case 1:
		case 2: return bool(rows_->insert(tx, row_of<Row>(id, other % 3, id, group)));
		case 3:
			(void)rows_->modify(tx, id, [&](Row &row) {
				row.group = group;
				row.weight = 0.5 * group;
			});
			return 0;
		case 4: (void)rows_->modify(tx, id, [&](Row &row) { row.id = other; }); return 0;
		case 5: {
			const auto mails = rows_->template by<&Row::mail>();
			return 0 - mails.erase(tx, row_of<Row>(0, 0, other, 0).mail);
		}
		default: return 0 - rows_->erase(tx, id);
		}
	}
	template <class Tx>
	void look(Tx *tx) const
	{
		const auto all = sorted(rows_->in(tx));
		EXPECT_TRUE(sorted(rows_->template by<&Row::weight>().in(tx)) == all);
		size_t n = 0;
		for (uint32_t group = 0; group < 3; group++)
			for (const Row &row :
			        rows_->template by<&Row::group>().equal_range(tx, group)) {
				EXPECT_TRUE(all.at(row.id) == row && row.group == group);
				n++;
			}
		EXPECT_EQ(n, all.size());
	}

	fur::Heap &heap_;
	T *rows_;
	const bool rerun_;
	const uint64_t seed_;
	std::atomic<uint64_t> size_{0};
};

class CrowdedTable : public HeapFile, public ::testing::WithParamInterface<Crowd>
{
protected:
	template <class T>
	void run()
	{
		const uint64_t seed = seed_of_run();
		SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
		fur::Heap heap = create(container_options(GetParam().isolation));
		fur::Thread self(heap);
		auto *rows = fur::root<T>(self, "rows");
		const uint64_t others = blocks_of(heap);
		TableCrowd<T> crowd(heap, rows, GetParam().rerun, seed);
		crowd.run(rounds(1500));
		fur::read(self, [&](fur_ro *tx) {
			EXPECT_EQ(blocks_of(heap), others + expect_verified(tx, *rows));
			EXPECT_EQ(rows->size(tx), crowd.size());
		});
		fur::clear(self, *rows);
		EXPECT_EQ(blocks_of(heap), others);
	}
};
INSTANTIATE_TEST_SUITE_P(Modes, CrowdedTable, ::testing::ValuesIn(CROWDS), crowd_name);

TEST_P(CrowdedTable, ByHash_KeepsItsIndexes)
{
	run<ByHash<TextRow>>();
}
TEST_P(CrowdedTable, ByOrder_KeepsItsIndexes)
{
	run<ByOrder<PlainRow>>();
}

/* ------------------------------------------------------------------------------------ kills */

[[noreturn]] void change_until_killed(fur::Heap heap, uint64_t seed)
{
	using Row = TextRow;
	fur::Thread self(heap);
	auto *rows = fur::root<ByHash<Row>>(self, "rows");
	std::mt19937_64 random(seed);
	for (;;) {
		const uint64_t id = random() % 50, other = random() % 50;
		if (random() % 200 == 0)
			fur::clear(self, *rows, 5);
		else if (random() % 100 == 0)
			fur::erase_if(self, *rows, [=](const Row &row) { return row.id % 4 == 1; });
		else
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				(void)rows->insert(
				        tx, row_of<Row>(id, other % 3, other, other % 5));
				(void)rows->modify(tx, other, [=](Row &row) {
					row.id = id + 25;
					row.group++;
				});
				(void)rows->erase(tx, id / 3);
			});
	}
}

TEST_F(ContainerHeap, TableAfterAKill_IsWhole_AndNothingLeaks)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
	fur::root<ByHash<TextRow>>(self_, "rows");
	const uint64_t others = blocks_of(heap_);
	heap_.close();
	for (int round = 0; round < rounds(30); round++) {
		const pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0)
			change_until_killed(open(container_options()), seed_ + round);
		usleep(static_cast<useconds_t>(10000 + below(20000)));
		kill(child, SIGKILL);
		int status;
		waitpid(child, &status, 0);
		ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
		heap_ = open(container_options());
		self_ = fur::Thread(heap_);
		auto *rows = fur::find_root<ByHash<TextRow>>(self_, "rows");
		ASSERT_NE(rows, nullptr);
		read([&](fur_ro *tx) {
			EXPECT_EQ(blocks_of(heap_), others + expect_verified(tx, *rows));
		});
		heap_.close();
	}
	heap_ = open(container_options());
	self_ = fur::Thread(heap_);
}

} // namespace
