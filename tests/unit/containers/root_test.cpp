/* SPDX-License-Identifier: BSD-3-Clause
 *
 * root_test.cpp - roots by name, fur::string, fur::ptr, and the objects that make() makes.
 */
#include "containers.hpp"

#include <atomic>
#include <thread>

struct RootShop {
	fur::hash_map<fur::string, uint64_t> stock;
	fur::string name;
	uint64_t number = 7;

	void clear(fur_update *tx)
	{
		stock.clear(tx);
		name.clear(tx);
	}
};
struct RootOther {
	uint64_t word[8];
};
struct RootVersioned {
	uint64_t word;
};
static uint64_t version_of_type = 1;
template <>
struct fur::type_hash<RootVersioned> {
	static uint64_t of()
	{
		return version_of_type;
	}
};
template <class A, class B>
struct RootBox {
	uint64_t word;
};
/* Versions of a struct, of the same size. */
namespace first
{
struct Price {
	uint32_t net, gross;
	FUR_MEMBERS(net, gross)
};
struct Shop {
	fur::ordered_map<uint64_t, Price> prices;
	fur::string name;
	FUR_MEMBERS(prices, name)
};
} // namespace first
namespace exchanged
{
struct Price {
	uint32_t gross, net;
	FUR_MEMBERS(gross, net)
};
} // namespace exchanged
namespace retyped
{
struct Price {
	uint32_t net;
	float gross;
	FUR_MEMBERS(net, gross)
};
struct Shop {
	fur::ordered_map<uint64_t, Price> prices;
	fur::string name;
	FUR_MEMBERS(prices, name)
};
} // namespace retyped
namespace deeper
{
struct Shop {
	fur::ordered_map<uint64_t, std::array<std::optional<first::Price>, 1>> prices;
};
} // namespace deeper

namespace
{

class Roots : public ContainerHeap
{
protected:
	template <class T>
	T *root(std::string_view name)
	{
		return fur::root<T>(self_, name);
	}
	template <class T>
	T *find(std::string_view name)
	{
		return fur::find_root<T>(self_, name);
	}
	template <class T>
	std::string mismatch(std::string_view name)
	{
		try {
			find<T>(name);
			return "";
		} catch (const fur::type_mismatch &e) {
			return e.what();
		}
	}
};

TEST_F(Roots, OfAnotherVersion_AreRefused)
{
	auto *first = fur::root<RootShop>(self_, "shop", 1);
	EXPECT_EQ(fur::root<RootShop>(self_, "shop", 1), first);
	for (uint64_t version : {0, 2}) {
		EXPECT_THROW(fur::root<RootShop>(self_, "shop", version), fur::type_mismatch);
		EXPECT_THROW(fur::find_root<RootShop>(self_, "shop", version), fur::type_mismatch);
	}
	/* Without a version it is the hash of the type alone. */
	auto *plain = root<RootShop>("plain");
	EXPECT_EQ(fur::find_root<RootShop>(self_, "plain", 0), plain);
}

TEST_F(Roots, AreMadeOnce_AndFoundAfterAnOpen)
{
	EXPECT_EQ(find<RootShop>("shop"), nullptr);
	auto *shop = root<RootShop>("shop");
	ASSERT_NE(shop, nullptr);
	EXPECT_EQ(root<RootShop>("shop"), shop);
	EXPECT_EQ(find<RootShop>("shop"), shop);
	const std::string odd("a\0 name of more than twelve characters", 38);
	auto *other = root<uint64_t>(odd);
	auto *empty = root<uint64_t>("");
	EXPECT_NE(other, empty);
	update([&](fur_update *tx) {
		shop->stock.insert(tx, "nuts", 9);
		shop->name.assign(tx, "a shop with a long name");
	});
	reopen();
	EXPECT_EQ(root<RootShop>("shop"), shop);
	EXPECT_EQ(find<uint64_t>(odd), other);
	EXPECT_EQ(find<uint64_t>(""), empty);
	EXPECT_EQ(find<uint64_t>("a"), nullptr);
	read([&](fur_ro *tx) {
		EXPECT_EQ(shop->stock.at(tx, "nuts"), 9u);
		EXPECT_EQ(shop->name.str(tx), "a shop with a long name");
		EXPECT_EQ(fur_load(tx, &shop->number), 7u);
	});
}

TEST_F(Roots, ByManyThreadsAtATime_AreMadeOnce)
{
	constexpr unsigned THREADS = 6, NAMES = 20;
	std::vector<uint64_t *> seen[THREADS];
	std::atomic<unsigned> ready{0};
	std::vector<std::thread> threads;
	for (unsigned t = 0; t < THREADS; t++)
		threads.emplace_back([&, t] {
			fur::Thread me(heap_);
			ready++;
			while (ready < THREADS)
				std::this_thread::yield();
			for (unsigned n = 0; n < NAMES; n++)
				seen[t].push_back(
				        fur::root<uint64_t>(me, "number " + std::to_string(n)));
		});
	for (auto &t : threads)
		t.join();
	for (unsigned t = 1; t < THREADS; t++)
		EXPECT_EQ(seen[t], seen[0]);
	EXPECT_EQ(std::set<uint64_t *>(seen[0].begin(), seen[0].end()).size(), +NAMES);
	for (unsigned n = 0; n < NAMES; n++)
		EXPECT_TRUE(fur::remove_root(self_, "number " + std::to_string(n)));
	/* The objects, the map of names, the parts of its size. */
	EXPECT_EQ(blocks_of(heap_), NAMES + 2);
}

TEST_F(Roots, OfAnotherType_AreRefusedByName)
{
	root<RootShop>("shop");
	const std::string message = mismatch<RootOther>("shop");
	for (const char *part : {"'shop'", "RootOther", "as this program knows it", "another name"})
		EXPECT_NE(message.find(part), std::string::npos) << message;
	EXPECT_THROW(root<uint64_t>("shop"), fur::type_mismatch);
	EXPECT_EQ(mismatch<RootShop>("shop"), "");
	root<fur::ordered_map<uint64_t, uint64_t>>("map");
	EXPECT_EQ((mismatch<fur::ordered_map<uint64_t, uint64_t>>("map")), "");
	EXPECT_NE((mismatch<fur::ordered_map<uint64_t, int64_t>>("map")), "");
	EXPECT_NE((mismatch<fur::ordered_map<uint64_t, uint64_t, 14>>("map")), "");
	EXPECT_NE((mismatch<fur::hash_map<uint64_t, uint64_t>>("map")), "");
}

TEST_F(Roots, WhoseTypeHasANumberOfItsOwn)
{
	version_of_type = 1;
	root<RootVersioned>("v");
	EXPECT_EQ(mismatch<RootVersioned>("v"), "");
	version_of_type = 2;
	EXPECT_NE(mismatch<RootVersioned>("v"), "");
}

TEST_F(Roots, WhoseMembersChange_AreRefused)
{
	/* Inside a container. */
	root<fur::hash_map<uint64_t, first::Price>>("map");
	EXPECT_EQ((mismatch<fur::hash_map<uint64_t, first::Price>>("map")), "");
	EXPECT_NE((mismatch<fur::hash_map<uint64_t, exchanged::Price>>("map")), "");
	EXPECT_NE((mismatch<fur::hash_map<uint64_t, retyped::Price>>("map")), "");
	/* Inside a container that is a member. */
	root<first::Shop>("shop");
	EXPECT_EQ(mismatch<first::Shop>("shop"), "");
	EXPECT_NE(mismatch<retyped::Shop>("shop"), "");
	/* Inside types of the standard library, and arrays. */
	using fur::type_hash;
	using Some = std::optional<first::Price>;
	EXPECT_NE(type_hash<Some>::of(), type_hash<std::optional<exchanged::Price>>::of());
	EXPECT_NE((type_hash<std::array<Some, 2>>::of()),
	        (type_hash<std::array<std::optional<exchanged::Price>, 2>>::of()));
	EXPECT_NE((type_hash<std::variant<int, first::Price>>::of()),
	        (type_hash<std::variant<int, retyped::Price>>::of()));
	EXPECT_NE((type_hash<std::pair<int, first::Price>>::of()),
	        (type_hash<std::pair<int, retyped::Price>>::of()));
	EXPECT_NE(type_hash<first::Price[2]>::of(), type_hash<retyped::Price[2]>::of());
	EXPECT_NE((type_hash<std::array<fur::string, 2>>::of()),
	        (type_hash<std::array<fur::string, 3>>::of()));
	/* A struct that does not name its members is looked at from outside. */
	EXPECT_EQ(type_hash<deeper::Shop>::of(), fur::detail::hash_of_name<deeper::Shop>());
}

TEST_F(Roots, TheNameOfAType_IsAllOfIt)
{
	using One = RootBox<int[3], char>;
	using Two = RootBox<int[3], float>;
	EXPECT_NE(fur::type_hash<One>::of(), fur::type_hash<Two>::of());
	EXPECT_EQ(fur::detail::name_of_type<RootShop>(), "RootShop");
	EXPECT_EQ(fur::detail::name_of_type<One>().back(), '>');
}

TEST_F(Roots, Removed_AreForgotten_AndMadeAnew)
{
	EXPECT_FALSE(fur::remove_root(self_, "shop"));
	auto *shop = root<RootShop>("shop");
	const uint64_t before = blocks_of(heap_);
	update([&](fur_update *tx) {
		for (uint64_t n = 0; n < 100; n++)
			shop->stock.insert(tx, "a name that is long " + std::to_string(n), n);
		shop->name.assign(tx, "another name that is long");
		fur::destroy(tx, shop);
	});
	EXPECT_TRUE(fur::remove_root(self_, "shop"));
	EXPECT_FALSE(fur::remove_root(self_, "shop"));
	EXPECT_EQ(find<RootShop>("shop"), nullptr);
	/* Without the shop, and without the node of its name. */
	EXPECT_EQ(blocks_of(heap_), before - 2);
	EXPECT_NE(root<RootOther>("shop"), nullptr);
}

TEST_F(Roots, InAFullHeap_ThrowHeapFull)
{
	for (size_t bytes : {1 << 16, 1 << 13, 1 << 10, 128, 16}) {
		bool full = false;
		while (!full)
			update([&](fur_update *tx) { full = !fur_alloc(tx, bytes); });
	}
	EXPECT_THROW(root<RootShop>("shop"), fur::heap_full);
	EXPECT_EQ(find<RootShop>("shop"), nullptr);
}

/* ------------------------------------------------------------------------------------- string */

struct RootText {
	fur::string text, other;
};

TEST_F(Roots, Strings_OfEveryLength)
{
	auto *root_text = root<RootText>("text");
	const uint64_t blocks = blocks_of(heap_);
	for (size_t length : {0, 1, 4, 5, 11, 12, 13, 16, 17, 63, 64, 65, 128, 129, 5000}) {
		std::string text(length, 'q');
		for (size_t k = 0; k < length; k++)
			text[k] = static_cast<char>(k * 37);
		update([&](fur_update *tx) { root_text->text.assign(tx, text); });
		update([&](fur_update *tx) {
			EXPECT_EQ(root_text->text.str(tx), text);
			EXPECT_TRUE(root_text->text.equals(tx, text));
		});
		read([&](fur_ro *tx) {
			const fur::string &s = root_text->text;
			EXPECT_EQ(s.str(tx), text);
			EXPECT_EQ(s.view(tx), text);
			EXPECT_EQ(s.size(tx), length);
			EXPECT_EQ(s.empty(tx), length == 0);
			EXPECT_TRUE(s.equals(tx, text));
			EXPECT_FALSE(s.equals(tx, text + "x"));
			EXPECT_EQ(s.compare(tx, text), 0);
			EXPECT_LT(s.compare(tx, text + std::string(1, '\0')), 0);
			for (size_t k = 0; k < std::min(length, size_t(130)); k++) {
				std::string changed = text;
				changed[k] = static_cast<char>(changed[k] ^ 0x80);
				EXPECT_FALSE(s.equals(tx, changed)) << k;
				EXPECT_EQ(s.compare(tx, changed) < 0, text.compare(changed) < 0);
				EXPECT_GT(s.compare(tx, text.substr(0, k)), 0);
			}
		});
		EXPECT_EQ(blocks_of(heap_), blocks + (length > 12));
	}
	update([&](fur_update *tx) {
		root_text->other.assign(tx, root_text->text.str(tx));
		root_text->text.clear(tx);
	});
	reopen();
	read([&](fur_ro *tx) {
		EXPECT_TRUE(root_text->text.empty(tx));
		EXPECT_EQ(root_text->text.view(tx), "");
		EXPECT_EQ(root_text->other.size(tx), 5000u);
	});
}

TEST_F(Roots, AStringOfMoreThan4GiB_IsRefused)
{
	auto *text = root<RootText>("text");
	char c = 'x';
	const std::string_view huge(&c, (size_t(1) << 32)); /* no code looks at it */
	EXPECT_THROW(
	        update([&](fur_update *tx) { text->text.assign(tx, huge); }), std::length_error);
	EXPECT_THROW(
	        update([&](fur_update *tx) { text->text.assign(tx, std::string(40 << 20, 'x')); }),
	        fur::heap_full);
	read([&](fur_ro *tx) { EXPECT_TRUE(text->text.empty(tx)); });
}

/* ------------------------------------------------------------------------------- ptr and make */

struct RootNode {
	uint64_t key;
	fur::ptr<RootNode> next;
};

TEST_F(Roots, Pointers_HoldAList)
{
	auto *first = root<fur::ptr<RootNode>>("list");
	EXPECT_EQ(read([&](fur_ro *tx) { return first->get(tx); }), nullptr);
	for (uint64_t n = 0; n < 50; n++)
		update([&](fur_update *tx) {
			first->set(
			        tx, fur::make<RootNode>(tx, n, fur::ptr<RootNode>(first->get(tx))));
		});
	reopen();
	read([&](fur_ro *tx) {
		uint64_t n = 50;
		for (RootNode *at = first->get(tx); at; at = at->next.get(tx))
			EXPECT_EQ(fur_load(tx, &at->key), --n);
		EXPECT_EQ(n, 0u);
	});
}

/* A constructor that says nothing of the containers. */
struct RootMade {
	explicit RootMade(uint64_t n) : number(n) {}
	fur::string name;
	fur::vector<uint64_t> vector;
	fur::queue<uint64_t> queue;
	fur::hash_map<uint64_t, uint64_t> hashed;
	fur::ordered_map<uint64_t, uint64_t> ordered;
	fur::ptr<uint64_t> pointer;
	uint64_t number;
};

__attribute__((noinline)) void leave_on_stack()
{
	volatile uint64_t words[512];
	for (auto &word : words)
		word = 0xfefefefefefefefe;
}

TEST_F(Roots, Make_WithAConstructor_LeavesContainersEmpty)
{
	leave_traces(self_, 4);
	auto *made = update([&](fur_update *tx) {
		leave_on_stack();
		return fur::make<RootMade>(tx, uint64_t(5));
	});
	update([&](fur_update *tx) {
		EXPECT_EQ(fur_load(tx, &made->number), 5u);
		EXPECT_EQ(made->pointer.get(tx), nullptr);
		ASSERT_TRUE(made->name.empty(tx));
		ASSERT_TRUE(made->vector.empty(tx));
		uint64_t words[8];
		fur_read(tx, words, &made->queue, 8);
		ASSERT_EQ(words[0], 0u);
		fur_read(tx, words, &made->hashed, 16);
		ASSERT_EQ(words[0] | words[1], 0u);
		fur_read(tx, words, &made->ordered, 16);
		ASSERT_EQ(words[0] | words[1], 0u);
		made->ordered.insert(tx, 1, 2);
		made->hashed.insert(tx, 1, 2);
		made->queue.push(tx, 3);
	});
}

TEST_F(Roots, MakeArray_MakesAll_AndDestroyFrees)
{
	leave_traces(self_, 4);
	const uint64_t before = blocks_of(heap_);
	auto *shops = update([](fur_update *tx) { return fur::make_array<RootShop>(tx, 10); });
	for (int k = 0; k < 10; k++)
		update([&](fur_update *tx) {
			EXPECT_EQ(fur_load(tx, &shops[k].number), 7u);
			EXPECT_TRUE(shops[k].stock.empty(tx));
			EXPECT_TRUE(shops[k].name.empty(tx));
			shops[k].name.assign(tx, "a name of more than twelve characters");
			shops[k].name.clear(tx);
		});
	update([&](fur_update *tx) { fur_free(tx, shops); });
	EXPECT_EQ(blocks_of(heap_), before);
	EXPECT_THROW(update([](fur_update *tx) {
		EXPECT_EQ(fur::make_array<RootShop>(tx, SIZE_MAX / 8), nullptr);
		throw std::runtime_error("");
	}),
	        std::runtime_error);
	update([](fur_update *tx) { fur::destroy<RootShop>(tx, nullptr); });
	auto *map = update([](fur_update *tx) {
		auto *made = fur::make<fur::ordered_map<fur::string, fur::string>>(tx);
		made->insert(tx, "a key that needs a block", "a value that needs a block");
		return made;
	});
	EXPECT_EQ(blocks_of(heap_), before + 4);
	update([&](fur_update *tx) { fur::destroy(tx, map); });
	EXPECT_EQ(blocks_of(heap_), before);
}

} // namespace
