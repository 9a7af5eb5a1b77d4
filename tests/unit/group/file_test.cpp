/* SPDX-License-Identifier: BSD-3-Clause
 *
 * file_test.cpp - the file of a group: read as it was written, and refused with what helps when it
 * is torn, damaged or hostile.
 */
#include "group_dir.hpp"
#include "internals.hpp"

#include <random>

namespace
{

/* What the library reads from a text. */
class Parsed
{
public:
	explicit Parsed(std::string_view text)
	{
		error = group_file_parse(&group, text.data(), text.size());
	}
	~Parsed()
	{
		group_file_free(&group);
	}
	Parsed(const Parsed &) = delete;
	Parsed &operator=(const Parsed &) = delete;

	std::string text() const
	{
		size_t bytes;
		char *at = group_file_text(&group, &bytes);
		std::string all(at, bytes);
		free(at);
		return all;
	}
	fur_group group = {};
	int error;
};

const char HEAD[] = "libfur group 1\nid 000102030405060708090a0b0c0d0e0f\nmost 4\n";
const char ONE[] = "member 0 00112233445566778899aabbccddeeff a heap\n";
const char TWO[] = "joining 2 10112233445566778899aabbccddeeff /x/%0ay\n";

/* With the check that belongs to it. */
std::string checked(const std::string &text)
{
	char sum[32];
	snprintf(sum, sizeof sum, "check %016llx\n",
	        static_cast<unsigned long long>(group_file_sum(text.data(), text.size())));
	return text + sum;
}

TEST(GroupFile, IsReadAsItWasWritten)
{
	const std::string text = checked(std::string(HEAD) + ONE + "removed 1\n" + TWO +
	                                 "leaving 3 20112233445566778899aabbccddeeff l\n");
	Parsed p(text);
	ASSERT_EQ(p.error, 0) << fur_errormsg();
	EXPECT_EQ(p.group.most, 4u);
	EXPECT_EQ(p.group.limit, 4u);
	EXPECT_EQ(p.group.id[15], 15);
	EXPECT_STREQ(p.group.members[0].path, "a heap");
	EXPECT_EQ(p.group.members[0].state, GROUP_MEMBER);
	EXPECT_EQ(p.group.members[1].state, GROUP_REMOVED);
	EXPECT_STREQ(p.group.members[2].path, "/x/\ny");
	EXPECT_EQ(p.group.members[2].state, GROUP_JOINING);
	EXPECT_EQ(p.group.members[2].uuid[0], 0x10);
	EXPECT_EQ(p.group.members[3].state, GROUP_LEAVING);
	EXPECT_EQ(p.text(), text);
}

TEST(GroupFile, TornAtEachByte_IsRefused)
{
	const std::string text = checked(std::string(HEAD) + ONE + TWO);
	for (size_t n = 0; n < text.size(); n++) {
		Parsed p(text.substr(0, n));
		EXPECT_EQ(p.error, FUR_ECORRUPT) << n;
		EXPECT_TRUE(message_has("fur-group rebuild")) << n << ": " << fur_errormsg();
	}
}

TEST(GroupFile, WithOneByteChanged_IsRefused)
{
	const std::string text = checked(std::string(HEAD) + ONE + TWO);
	for (size_t n = 0; n < text.size(); n++)
		for (char c : {'\0', '\n', '7', 'z'}) {
			std::string other = text;
			if (other[n] == c)
				continue;
			other[n] = c;
			Parsed p(other);
			const bool version = other.compare(0, 15, "libfur group 7\n") == 0;
			EXPECT_EQ(p.error, version ? FUR_EVERSION : FUR_ECORRUPT) << n << c;
			EXPECT_TRUE(message_has("fur-group rebuild")) << fur_errormsg();
		}
}

/* The check is right. */
TEST(GroupFile, ThatIsHostile_IsRefused)
{
	const std::string head = HEAD, uuid = " 00112233445566778899aabbccddeeff ";
	const std::string hostile[] = {
	        "libfur group 1\n",
	        "libfur group 1\nid 00\nmost 4\n",
	        "libfur group 1\nid 000102030405060708090a0b0c0d0e0f\n",
	        "libfur group 1\nid 000102030405060708090a0b0c0d0e0f\nmost 1\n",
	        "libfur group 1\nid 000102030405060708090a0b0c0d0e0f\nmost 257\n",
	        "libfur group 1\nid 000102030405060708090a0b0c0d0e0f\nmost 4294967300\n",
	        "libfur group 1\nid 000102030405060708090a0b0c0d0e0f\nmost 04\n",
	        head + "member 4" + uuid + "p\n",
	        head + "member 4294967296" + uuid + "p\n",
	        head + "member -1" + uuid + "p\n",
	        head + "member 0" + uuid + "\n",
	        head + "member 0" + uuid,
	        head + "member 0 0011 p\n",
	        head + "member 0" + uuid + "%\n",
	        head + "member 0" + uuid + "%4\n",
	        head + "member 0" + uuid + "%00\n",
	        head + "member 0" + uuid + "%41\n",
	        head + "member 0" + uuid + "a\tb\n",
	        head + "member 0" + uuid + std::string("a\0b\n", 4),
	        head + "removed 0 \n",
	        head + "removed\n",
	        head + "other 0" + uuid + "p\n",
	        head + ONE + "removed 0\n",
	        head + "removed 1\n" + ONE,
	        head + ONE + "member 1" + uuid + "other\n",
	        head + "\n",
	        head + "check 0123456789abcdef\n" + ONE,
	        head + ONE + "check 0123456789abcdef\n",
	};
	for (const std::string &text : hostile) {
		Parsed p(checked(text));
		EXPECT_EQ(p.error, FUR_ECORRUPT) << text;
		EXPECT_TRUE(message_has("fur-group rebuild")) << text << fur_errormsg();
	}
}

TEST(GroupFile, OfALaterVersion_IsRefused)
{
	Parsed p(checked("libfur group 2\nwhatever it has\n"));
	EXPECT_EQ(p.error, FUR_EVERSION);
	EXPECT_TRUE(message_has("use the libfur that made it")) << fur_errormsg();
}

/* ---------------------------------------------------------------- any text */

/* Texts that are almost a group's file, whose check fits: lines of good ones in any order, some
 * with bytes that were changed, taken out, put in, or taken from elsewhere. */
class AnyText
{
public:
	explicit AnyText(uint64_t seed) : random_(seed) {}
	std::string next()
	{
		std::string text = below(8) ? HEAD : "libfur group 1\n" + line_of_head();
		for (uint64_t n = below(6), k = 0; n; n--, k += below(3))
			text += below(8) ? member(k) : line_of_head();
		for (uint64_t n = below(4) ? 0 : 1 + below(6); n; n--)
			change(text);
		return below(8) ? checked(text) : text;
	}

private:
	uint64_t below(uint64_t n)
	{
		return random_() % n;
	}
	std::string line_of_head()
	{
		static const char *const lines[] = {"id 000102030405060708090a0b0c0d0e0f\n",
		        "most 4\n", "most 256\n", "most 257\n", "most 2\n", "check 00\n", "\n",
		        "check 0123456789abcdef\n", "most 00000000004\n", "id \n"};
		return lines[below(std::size(lines))];
	}
	std::string member(uint64_t k)
	{
		static const char *const states[] = {"member", "joining", "leaving", "removed"},
		                         *const paths[] = {"a heap", "/x/%0ay", "%25", "%7f%1f",
		                                 "%", "%4", "%41", "\377\200", "p\r", "%2a", " ",
		                                 ""};
		const char *state = states[below(4)];
		std::string line = state + (" " + std::to_string(k));
		if (state == states[3] && below(8))
			return line + "\n";
		std::string uuid;
		for (unsigned n = 0; n < 32; n++)
			uuid += "0123456789abcdef"[below(3) ? k % 16 : below(16)];
		line += " " + uuid + " " + paths[below(std::size(paths))];
		if (below(64) == 0)
			line.append(5000, 'p');
		return line + "\n";
	}
	void change(std::string &text)
	{
		static const char bytes[] = "\n %0149af\0\177\377-+xm";
		const size_t at = below(text.size()), from = below(text.size());
		switch (below(4)) {
		case 0: text[at] = bytes[below(sizeof bytes)]; break;
		case 1: text.insert(at, 1, bytes[below(sizeof bytes)]); break;
		case 2: text.erase(at, 1 + below(8)); break;
		default: text.insert(at, text.substr(from, below(40))); break;
		}
		if (text.empty())
			text = "\n";
	}
	std::mt19937_64 random_;
};

/* What is accepted is what the library would write; what is refused says what helps. */
TEST(GroupFile, AnyText_IsTheOneOfItsGroup_OrIsRefused)
{
	const uint64_t seed = seed_of_run();
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
	AnyText texts(seed);
	unsigned accepted = 0;
	for (unsigned n = 0; n < rounds(20000u) && !HasFailure(); n++) {
		const std::string text = texts.next();
		/* Of the size of the text, so that a sanitizer sees what lies beyond. */
		const std::vector<char> exact(text.begin(), text.end());
		Parsed p(std::string_view(exact.data(), exact.size()));
		if (p.error == 0) {
			accepted++;
			EXPECT_EQ(p.text(), text);
			continue;
		}
		EXPECT_TRUE(p.error == FUR_ECORRUPT || p.error == FUR_EVERSION) << text;
		EXPECT_TRUE(message_has("fur-group rebuild")) << text << fur_errormsg();
	}
	EXPECT_GT(accepted, rounds(20000u) / 50);
}

class TornGroup : public GroupDir
{
};

TEST_F(TornGroup, IsNamed_AndLeftAsItIs)
{
	create(1);
	close();
	const std::string text = text_of(group_path());
	for (const std::string &bad :
	        {std::string(), text.substr(0, text.size() - 1), std::string("no group\n")}) {
		put_text(group_path(), bad);
		EXPECT_EQ(try_open(), FUR_ECORRUPT);
		EXPECT_TRUE(message_has("bank.group") && message_has("fur-group rebuild"))
		        << fur_errormsg();
		EXPECT_EQ(text_of(group_path()), bad);
	}
	put_text(group_path(), text);
	open();
}

TEST_F(TornGroup, AHeapOrADirectoryIsNoGroup)
{
	create(1);
	close();
	fur_group *g;
	EXPECT_EQ(fur_group_open(heap_name(0).c_str(), nullptr, &g), FUR_ECORRUPT);
	EXPECT_EQ(fur_group_open(dir_.c_str(), nullptr, &g), FUR_ESYS);
}

} // namespace
