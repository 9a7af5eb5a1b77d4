/* SPDX-License-Identifier: BSD-3-Clause
 *
 * support_test.cpp - the command line and the JSON values of tools, benchmarks and tests
 * (tools/common).
 */
#include "../../../tools/common/command_line.hpp"
#include "../../../tools/common/json.hpp"

#include <climits>
#include <cmath>
#include <gtest/gtest.h>

namespace
{

using tools::CommandLine;
using tools::Json;

/* A program with an option of each kind. */
struct Program {
	std::string heap, mode = "fast";
	unsigned threads = 2;
	int64_t offset = -1;
	uint64_t seed = 1;
	double seconds = 0.5;
	bool quiet = false, loud = false;
	std::optional<uint64_t> from;
	std::vector<std::string> files;
	CommandLine line{"program", "Does what a program does."};

	Program()
	{
		line.argument("PATH", heap, "the heap").required();
		line.option("--mode", mode, "how").one_of({"fast", "slow"});
		line.option("--threads", threads, "how many").range(1, 64);
		line.option("--offset", offset, "from the start");
		line.option("--seed", seed);
		line.option("--seconds", seconds);
		line.option("--from", from);
		line.option("--file", files);
		line.flag("--quiet", quiet, "print nothing");
		line.flag("--loud", loud).excludes("--quiet");
		line.footer = "Exit status: none.";
	}
	bool parse(std::initializer_list<const char *> words)
	{
		std::vector<char *> argv{const_cast<char *>("program")};
		for (const char *w : words)
			argv.push_back(const_cast<char *>(w));
		return line.parse(static_cast<int>(argv.size()), argv.data());
	}
	/* The error; empty if there is none. */
	std::string refused(std::initializer_list<const char *> words)
	{
		try {
			return parse(words) ? "" : "help";
		} catch (const tools::WrongUsage &e) {
			return e.what();
		}
	}
};

TEST(CommandLine, EveryKind_IsSet)
{
	Program p;
	ASSERT_TRUE(p.parse({"--threads", "8", "heap", "--mode=slow", "--offset", "-5",
	        "--seed=18446744073709551615", "--seconds", "1e-3", "--from", "0", "--file", "a",
	        "--file=b=c", "--quiet"}));
	EXPECT_EQ(p.heap, "heap");
	EXPECT_EQ(p.mode, "slow");
	EXPECT_EQ(p.threads, 8u);
	EXPECT_EQ(p.offset, -5);
	EXPECT_EQ(p.seed, UINT64_MAX);
	EXPECT_EQ(p.seconds, 1e-3);
	EXPECT_EQ(p.from, std::optional<uint64_t>(0));
	EXPECT_EQ(p.files, (std::vector<std::string>{"a", "b=c"}));
	EXPECT_TRUE(p.quiet);
	EXPECT_FALSE(p.loud);
}

TEST(CommandLine, NothingGiven_KeepsTheDefaults)
{
	Program p;
	ASSERT_TRUE(p.parse({"--", "--heap"}));
	EXPECT_EQ(p.heap, "--heap") << "after -- all words are arguments";
	EXPECT_EQ(p.threads, 2u);
	EXPECT_EQ(p.offset, -1);
	EXPECT_FALSE(p.from);
}

TEST(CommandLine, WrongUsage_NamesOptionValueAndRemedy)
{
	EXPECT_EQ(Program().refused({"heap", "--bogus"}), "unknown option --bogus");
	EXPECT_EQ(Program().refused({"heap", "--bogus=1"}), "unknown option --bogus");
	EXPECT_EQ(Program().refused({"heap", "--thread", "1"}), "unknown option --thread")
	        << "no abbreviations";
	EXPECT_EQ(Program().refused({"heap", "-x"}), "unknown option -x");
	EXPECT_EQ(Program().refused({"heap", "-xy"}), "unknown option -xy") << "one name";
	EXPECT_EQ(Program().refused({"heap", "--hel"}), "unknown option --hel");
	EXPECT_EQ(Program().refused({"heap", "other"}), "unexpected argument 'other'");
	EXPECT_EQ(Program().refused({}), "PATH is missing");
	EXPECT_EQ(Program().refused({"--bogus"}), "unknown option --bogus")
	        << "rather than what is missing";
	EXPECT_EQ(Program().refused({"heap", "--threads"}), "--threads: its value is missing");
	EXPECT_EQ(Program().refused({"heap", "--threads", "--quiet"}),
	        "--threads: its value is missing");
	EXPECT_EQ(Program().refused({"heap", "--threads", "65"}), "--threads 65: use 1 to 64");
	EXPECT_EQ(Program().refused({"heap", "--threads", "0"}), "--threads 0: use 1 to 64");
	for (const char *value : {"", "x", "1x", "1.5", "0x10", " 1", "1e3", "+1", "--1", "-"})
		EXPECT_EQ(Program().refused({"heap", (std::string("--threads=") + value).c_str()}),
		        "--threads " + std::string(value) + ": use a whole number, in digits");
	EXPECT_EQ(Program().refused({"heap", "--seed", "-1"}),
	        "--seed -1: use 0 to 18446744073709551615");
	EXPECT_EQ(Program().refused({"heap", "--seed", "18446744073709551616"}),
	        "--seed 18446744073709551616: use 0 to 18446744073709551615");
	EXPECT_EQ(Program().refused({"heap", "--offset", "9223372036854775808"}),
	        "--offset 9223372036854775808: use -9223372036854775808 to 9223372036854775807");
	for (const char *value : {"", "x", "nan", "inf", " 1", "1s"})
		EXPECT_EQ(Program().refused({"heap", (std::string("--seconds=") + value).c_str()}),
		        "--seconds " + std::string(value) + ": use a number");
	EXPECT_EQ(Program().refused({"heap", "--mode", "other"}), "--mode other: use fast or slow");
	EXPECT_EQ(Program().refused({"heap", "--quiet=1"}), "--quiet=1: --quiet takes no value");
	EXPECT_EQ(Program().refused({"heap", "--quiet", "--loud"}),
	        "--loud and --quiet: one at a time");
}

TEST(CommandLine, Help_NamesEverything_InLinesOfAHundredColumns)
{
	Program p;
	p.line.at("--seed").describe("of the random numbers, which a very long text explains over "
	                             "more than a single line of it, and more");
	std::string help = p.line.help();
	for (const char *part : {"Usage: program [OPTION...] PATH\n", "Does what a program does.\n",
	             "PATH", "the heap", "--mode=TEXT", "fast or slow", "[fast]", "--threads=N",
	             "how many [2]", "--quiet", "--help", "--version", "Exit status: none.\n"})
		EXPECT_NE(help.find(part), std::string::npos) << part << " in:\n" << help;
	EXPECT_EQ(help.find("[-1]"), std::string::npos);
	for (size_t at = 0, end; (end = help.find('\n', at)) != std::string::npos; at = end + 1)
		EXPECT_LE(end - at, 100u) << help;
	p.line.remove("--mode");
	EXPECT_EQ(p.line.help().find("--mode"), std::string::npos);
	EXPECT_EQ(p.refused({"heap", "--mode", "fast"}), "unknown option --mode");
}

TEST(Json, Values_PrintAsJson)
{
	Json j;
	EXPECT_EQ(j.dump(), "null");
	j["b"] = true;
	j["a"]["x"] = 18446744073709551615u;
	j["a"]["y"] = -3;
	j["real"] = 0.1;
	j["whole"] = 2.0;
	j["big"] = 1e300;
	j["none"] = NAN;
	j["text"] = "a \"b\"\\\n\t\x01\xc3\xa4";
	j["list"] = std::vector<int>{1, 2};
	j["empty"] = Json::array();
	j["nothing"] = Json::object();
	EXPECT_EQ(j.dump(),
	        "{\"b\":true,\"a\":{\"x\":18446744073709551615,\"y\":-3},\"real\":0.1,\"whole\":2."
	        "0,\"big\":1e+300,\"none\":null,"
	        "\"text\":\"a "
	        "\\\"b\\\"\\\\\\n\\t\\u0001\xc3\xa4\",\"list\":[1,2],\"empty\":[],\"nothing\":{}}");
	EXPECT_EQ(Json(nullptr).dump(), "null");
	EXPECT_EQ((Json{{"a", 1}, {"b", {1, 2}}}).dump(2),
	        "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ]\n}");
}

TEST(Json, TextThatIsNotUtf8_IsPrintedAsSuch)
{
	const char *replaced = "\"a\xef\xbf\xbd"
	                       "b\"";
	EXPECT_EQ(Json("a\xff"
	               "b")
	                  .dump(),
	        replaced);
	EXPECT_EQ(Json("a\xc3"
	               "b")
	                  .dump(),
	        replaced)
	        << "cut off";
	EXPECT_EQ(Json("a\xc3").dump(), "\"a\xef\xbf\xbd\"");
	EXPECT_EQ(Json("\xc0\xaf").dump(), "\"\xef\xbf\xbd\xef\xbf\xbd\"") << "overlong";
	EXPECT_EQ(Json("\xe2\x82\xac\xf0\x9f\x98\x80").dump(), "\"\xe2\x82\xac\xf0\x9f\x98\x80\"");
	EXPECT_EQ(Json(std::string("a\0b", 3)).dump(), "\"a\\u0000b\"");
}

TEST(Json, WhatWasPutIn_ComesBack)
{
	const Json j = {{"n", 7}, {"t", "text"}, {"f", false}, {"l", {1.5, 2, -1}}, {"z", Json()}};
	EXPECT_EQ(j["n"].get<uint64_t>(), 7u);
	EXPECT_EQ(j["t"].get<std::string>(), "text");
	EXPECT_FALSE(j["f"].get<bool>());
	EXPECT_EQ(j["l"][0].get<double>(), 1.5);
	EXPECT_EQ(j["l"].size(), 3u);
	EXPECT_TRUE(j["z"].is_null() && j["z"].size() == 0);
	EXPECT_TRUE(j["n"] == 7 && j["t"] == "text" && j["f"] == false && j["n"] != 8 &&
	            j["n"] > 6 && j["l"][2] < 0);
	EXPECT_THROW((void)j["missing"], std::exception);
	EXPECT_THROW((void)j["t"].get<uint64_t>(), std::exception);
	EXPECT_THROW((void)j["l"][3], std::exception);
	std::string names;
	for (const auto &[name, value] : j.items())
		names += name;
	EXPECT_EQ(names, "ntflz") << "in the order they were added";
	Json more = j;
	more.update({{"n", 8}, {"m", 1}});
	EXPECT_EQ(more["n"], 8);
	EXPECT_EQ(more.items().back().first, "m");
}

} // namespace
