#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The public headers, as a user's compiler sees them: each compiles alone and without a warning, in
each standard that it supports; a store in a read-only transaction does not compile, and misuse of a
container does not either, with a message that says what to do.

    compile_test.py INCLUDE_DIRECTORY COMPILER LANGUAGE   (LANGUAGE: c or c++)
"""
import os
import re
import subprocess
import sys
import tempfile

include, compiler, language = sys.argv[1], sys.argv[2].split(), sys.argv[3]
standards = {"c": ["c11", "c17", "c2x"], "c++": ["c++11", "c++14", "c++17", "c++20", "c++2b"]}[
    language
]
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Wcast-align", "-Wcast-qual", "-Werror"]
WARNINGS += ["-Wconversion", "-Wsign-conversion"]
WARNINGS += {
    "c": ["-Wstrict-prototypes", "-Wmissing-prototypes"],
    "c++": ["-Wold-style-cast"],
}[language]
flags = ["-x", language, *WARNINGS, "-fsyntax-only", "-I", "include"]
# ccache keeps what compiles, and costs time for what does not.
uncached = [word for word in compiler if os.path.basename(word) != "ccache"]
place = tempfile.TemporaryDirectory()
os.symlink(os.path.abspath(include), os.path.join(place.name, "include"))


def compiles(text, standard, more=(), expected=False):
    """ccache knows a text and its headers again by their names from its own directory."""
    with open(os.path.join(place.name, "case"), "w") as file:
        file.write(text)
    done = subprocess.run(
        [*(compiler if expected else uncached), "-std=" + standard, *more, *flags, "-c", "case"],
        cwd=place.name,
        text=True,
        stderr=subprocess.PIPE,
    )
    return done.returncode == 0, done.stderr


USE = """#include <fur.h>
void use(%s *tx, long *p, char *c, void **v);
void use(%s *tx, long *p, char *c, void **v)
{
    %s
}
"""
READ_MAP = """#include <fur_map.h>
#define USE(tx_type, name)                                                                       \\
    int use_##name(tx_type *tx, const fur_map *map, char *to, struct fur_map_iterator *it);      \\
    int use_##name(tx_type *tx, const fur_map *map, char *to, struct fur_map_iterator *it)       \\
    {                                                                                            \\
        size_t bytes = 8;                                                                        \\
        uint64_t size;                                                                           \\
        return fur_map_size(tx, map, &size) + fur_map_get(tx, map, "k", 1, to, &bytes) +         \\
            fur_map_seek(tx, map, FUR_MAP_FIRST, NULL, 0, it);                                   \\
    }
USE(%s, one)
USE(%s, %s)
"""
cases = [
    ("the header alone", "#include <fur.h>\n", True),
    ("the header of groups alone", "#include <fur_group.h>\n", True),
    ("the header of shipped heaps alone", "#include <fur_ship.h>\n", True),
    ("the header of libfur-itm alone", "#include <fur_itm.h>\n", True),
    (
        "loads in a read-only transaction",
        USE
        % (
            "fur_ro",
            "fur_ro",
            "(void)fur_load(tx, p); (void)fur_load(tx, c); fur_read(tx, v, p, 8);",
        ),
        True,
    ),
    (
        "loads of an optimistic reader",
        USE
        % (
            "fur_reader",
            "fur_reader",
            "(void)fur_load(tx, p); (void)fur_root(tx, 0); fur_read(tx, v, c, 8);",
        ),
        True,
    ),
    (
        "stores in an update",
        USE
        % (
            "fur_update",
            "fur_update",
            "fur_store(tx, p, 1); fur_store(tx, c, 'x'); fur_store(tx, v, p); "
            "(void)fur_load(tx, v);",
        ),
        True,
    ),
    (
        "a load inside a load inside a store",
        USE
        % (
            "fur_update",
            "fur_update",
            "fur_store(tx, p, fur_load(tx, &p[fur_load(tx, p + 1)]) + 1); (void)c; (void)v;",
        ),
        True,
    ),
    (
        "a store in a read-only transaction",
        USE % ("fur_ro", "fur_ro", "fur_store(tx, p, 1); (void)c; (void)v;"),
        False,
    ),
    (
        "a write in a read-only transaction",
        USE % ("fur_ro", "fur_ro", "fur_write(tx, p, c, 1); (void)v;"),
        False,
    ),
    (
        "a load with something that is no transaction",
        USE % ("fur_heap", "fur_heap", "(void)fur_load(tx, p); (void)c; (void)v;"),
        False,
    ),
    (
        "a store of a large struct",
        "#include <fur.h>\n"
        "struct s { char a[24]; };\n"
        "void f(fur_update *tx, struct s *p, struct s v);\n"
        "void f(fur_update *tx, struct s *p, struct s v) { fur_store(tx, p, v); }\n",
        False,
    ),
    ("the bulk updates' header alone", "#include <fur_bulk.h>\n", True),
    ("the maps' header alone", "#include <fur_map.h>\n", True),
    ("reading a map in both transactions", READ_MAP % ("fur_ro", "fur_update", "at"), True),
    ("reading a map as an optimistic reader", READ_MAP % ("fur_ro", "fur_reader", "at"), True),
    ("reading a map without a transaction", READ_MAP % ("fur_heap", "fur_update", "at"), False),
    (
        "a change of a map in a read-only transaction",
        READ_MAP % ("fur_ro", "fur_update", "at") + "int put(fur_ro *tx, fur_map *map);\n"
        'int put(fur_ro *tx, fur_map *map) { return fur_map_put(tx, map, "k", 1, "v", 1); }\n',
        False,
    ),
]
# fur_load() takes a const T *: no cast at the call, and a T as the result.
CONST = """#include <fur.h>
struct bytes { char a[8]; };
struct halves { uint32_t a, b; };
#define USE(T, name)                                                      \\
    T ro_##name(fur_ro *tx, const T *p);                                  \\
    T ro_##name(fur_ro *tx, const T *p) { return fur_load(tx, p); }       \\
    T up_##name(fur_update *tx, const T *p);                              \\
    T up_##name(fur_update *tx, const T *p)                               \\
    {                                                                     \\
        T value = fur_load(tx, p);                                        \\
        value = fur_load(tx, p);                                          \\
        return value;                                                     \\
    }
USE(int8_t, i8)
USE(uint8_t, u8)
USE(bool, flag)
USE(int16_t, i16)
USE(uint32_t, u32)
USE(float, real)
USE(uint64_t, u64)
USE(double, wide)
USE(struct bytes, bytes)
USE(struct halves, halves)
typedef const long *const_long;
USE(const_long, pointer)
"""
cases.append(("loads through pointers to const", CONST, True))
HPP = """#include <fur.hpp>
long f(fur_thread *t, const long *p);
long f(fur_thread *t, const long *p)
{
    fur::update(t, [&](fur_update *tx) { fur_set_root(tx, 0, fur::make<long>(tx)); });
    return fur::read(t, [&](fur_ro *tx) { return fur_load(tx, p); });
}
"""
ALIGNED = """#include <fur.hpp>
struct alignas(%s) Record { char bytes[40]; };
void f(fur_thread *t);
void f(fur_thread *t)
{
    fur::update(t, [&](fur_update *tx) { fur_set_root(tx, 0, fur::make<Record>(tx)); });
}
"""
INTERLEAVE = """#include <fur/interleave.hpp>
#include <fur/root.hpp>
template <class Tx>
void search(Tx *tx, long n, const long *from, long *to)
{
    fur::interleave(static_cast<size_t>(n), [&](size_t i) -> fur::task {
        %s;
        to[i] = fur_load(tx, from + i);
    });
}
void f(fur_thread *t, long n, const long *from, long *to);
void f(fur_thread *t, long n, const long *from, long *to)
{
    fur::read(t, [&](fur_ro *tx) { search(tx, n, from, to); });
    fur::read(t, fur::rerun, [&](fur_reader *tx) { search(tx, n, from, to); });
    fur::update(t, [&](fur_update *tx) { search(tx, n, from, to); });
}
"""
# The body of a search, and what the compiler says of it.
SEARCHES = [
    ("a search", "co_await fur::prefetch(tx, from + i, sizeof(long))", ""),
    ("prefetch() alone", "co_return; fur::prefetch(tx, from + i, 8)", "co_await it: others go on"),
    ("co_await of something else", "co_await std::suspend_always{}", "suspend_always"),
    ("a search with a value", "co_return 1", "return_value"),
]
NO_TASK = """#include <fur/interleave.hpp>
void f(long *to);
void f(long *to)
{
    fur::interleave(10, [&](size_t i) { to[i] = 0; });
}
"""
# What a program does with containers: calls that instantiate nearly all of them.
CONTAINERS = """#include <fur/root.hpp>
struct Point { uint32_t x, y; bool operator==(const Point &p) const { return x == p.x && y == p.y; }
               bool operator<(const Point &p) const { return x < p.x; } };
__extension__ typedef __int128 Wide;
enum class Kind : uint8_t { A };
struct Part { fur::string text; int32_t n[2]; FUR_MEMBERS(text, n) };
struct User {
    fur::string name; fur::vector<Part> parts; uint64_t born = 7; Part part[2];
    std::array<Part, 2> more; fur::ptr<User> friends;
    FUR_MEMBERS(name, parts, born, part, more, friends)
};
template <class C>
void use_owner(fur_thread *self, fur_update *tx, C &c)
{
    c.clear(tx);
    (void)c.clear_some(tx, 1);
    uint64_t blocks;
    (void)c.verify(tx, blocks);
    fur::clear(self, c);
    fur::destroy(self, &c);
}
struct Shop {
    fur::hash_map<fur::string, uint8_t> names;
    fur::hash_map<Point, Point> points;
    fur::ordered_map<int64_t, fur::string> texts;
    fur::ordered_map<fur::string, double, 3> prices;
    fur::ordered_map<int64_t, fur::string, 15, std::greater<>> newest;
    fur::hash_set<fur::string> tags;
    fur::ordered_set<Point, 4> places;
    fur::ordered_multimap<fur::string, uint64_t> index;
    fur::ordered_multimap<double, fur::string, 3> by_price;
    fur::vector<fur::string> list;
    fur::vector<uint16_t> numbers;
    fur::queue<Point> jobs;
    fur::queue<fur::string> lines;
    fur::string name;
    fur::ptr<Shop> next;
    fur::hash_map<std::pair<fur::string, uint64_t>, std::tuple<fur::string, Point>> pairs;
    fur::ordered_map<std::variant<fur::string, int64_t>, std::array<fur::string, 2>> eithers;
    fur::ordered_map<std::optional<fur::string>, Kind> kinds;
    fur::hash_map<Wide, std::optional<fur::string>> wide;
    fur::hash_map<fur::string, User> users;
    fur::vector<User> ranks;
    fur::queue<fur::hash_map<uint64_t, fur::string>> maps;
    fur::hash_set<std::pair<fur::string, int32_t>> pair_tags;
    fur::ordered_multimap<std::pair<fur::string, Kind>, std::array<fur::string, 2>> pair_index;
    fur::ordered_map<std::tuple<fur::string, Wide>, User, 7, std::greater<>> last;
    fur::hash_map<Wide, fur::ordered_set<fur::string>> sets;
    FUR_MEMBERS(names, points, texts, prices, newest, tags, places, index, by_price, list, numbers,
                jobs, lines, name, next, pairs, eithers, kinds, wide, users, ranks, maps, pair_tags,
                pair_index, last, sets)
};
template <class Map, class K, class V>
void use_map(fur_update *tx, Map &map, const K &key, const V &value)
{
    map.insert(tx, key, value);
    map.insert_or_assign(tx, key, value);
    (void)map.get_or_insert(tx, key, value);
    map.erase(tx, map.find(tx, key));
    (void)fur::erase_if(tx, map, [](const auto &) { return false; });
    map.modify(tx, key, [](auto &) {});
    (void)map.at(tx, key); (void)map.get(tx, key); (void)map.contains(tx, key);
    (void)map.count(tx, key); (void)map.empty(tx); (void)map.size(tx);
    (void)(map.find(tx, key) == map.in(tx).end());
    for (auto entry : map.in(tx))
        (void)entry;
    map.erase(tx, key);
    map.clear(tx);
}
template <class Set, class K>
void use_set(fur_thread *self, Set &set, const K &key)
{
    fur::update(self, fur::rerun, [&](fur_update *tx) {
        set.insert(tx, key);
        (void)(set.contains(tx, key) || set.count(tx, key) || set.empty(tx));
        (void)set.contains_many(tx, &key, 1, [](size_t) {});
        set.prefetch_many(tx, &key, 1);
        if (auto at = set.find(tx, key); at != set.in(tx).end())
            at = set.erase(tx, at);
        set.erase(tx, key);
        set.erase_if(tx, [](const auto &) { return true; });
        set.clear(tx);
        for (auto at = set.in(tx).begin(); at != set.in(tx).end(); at++)
            (void)*at;
    });
    fur::scan(self, set, [](const auto &) {});
    (void)fur::erase_if(self, set, [](const auto &) { return true; });
    fur::clear(self, set);
}
template <class Map, class K, class V>
void use_index(fur_thread *self, Map &map, const K &key, const V &value)
{
    fur::update(self, fur::rerun, [&](fur_update *tx) {
        map.insert(tx, key, value);
        (void)(map.contains(tx, key, value) && map.count(tx, key) == 1);
        for (auto [k, v] : map.equal_range(tx, key))
            (void)k, (void)v;
        if (auto at = map.find(tx, key, value); at != map.in(tx).end())
            at = map.erase(tx, at);
        map.erase(tx, key, value);
        map.erase(tx, key);
        (void)(map.lower_bound(tx, key) == map.upper_bound(tx, key));
        (void)map.floor(tx, key);
        map.delete_range(tx, key, key);
    });
    fur::scan(self, map, [](const auto &, const auto &) {});
    (void)fur::erase_if(self, map, [](const auto &entry) { return entry.first == entry.first; });
    (void)fur::delete_range(self, map, key, key);
    (void)fur::erase(self, map, key);
}
template <class Map>
void look_at_map(fur_thread *self, const Map &map)
{
    fur::scan(self, map, [](const auto &, const auto &) {});
    fur::read(self, [&](fur_ro *tx) {
        for (auto at = map.in(tx).begin(); at != map.in(tx).end(); at++)
            (void)at->second;
        return map.size(tx);
    });
}
void use(fur_thread *self);
void use(fur_thread *self)
{
    Shop *s = fur::root<Shop>(self, "shop");
    fur::update(self, fur::rerun, [&](fur_update *tx) {
        use_map(tx, s->names, "a", uint8_t(1));
        use_map(tx, s->points, Point{1, 2}, Point{3, 4});
        use_map(tx, s->texts, int64_t(1), "b");
        use_map(tx, s->prices, "c", 1.5);
        use_map(tx, s->newest, int64_t(2), "new");
        if (auto [at, added] = s->newest.try_emplace(tx, 2, "new"); added)
            at->assign(tx, "newer");
        if (auto [at, added] = s->points.try_emplace(tx, {1, 2}, 3u, 4u); at && !added)
            fur_store(tx, &at->x, 5u);
        s->newest.delete_range(tx, 9, 3);
        (void)s->names.lookup(tx, "a");
        (void)s->texts.lookup(tx, 1);
        use_map(tx, s->pairs, std::pair("a", 1u), std::tuple("b", Point{1, 2}));
        s->pairs.insert(tx, {"a", 1u}, {"b", Point{1, 2}});
        use_map(tx, s->eithers, std::string_view("a"), std::array{"b", "c"});
        s->eithers.insert(tx, int64_t(1), {"b", "c"});
        use_map(tx, s->kinds, std::optional<std::string>(), Kind::A);
        use_map(tx, s->wide, Wide(1), "a");
        s->users.insert(tx, "a", {});
        s->users.insert_or_assign(tx, "a", {});
        s->users.try_emplace(tx, "b").first->name.assign(tx, "b");
        s->users.try_emplace(tx, "c", User());
        (void)s->users.get_or_insert(tx, "b", {})->name.str(tx);
        s->users.erase(tx, s->users.find(tx, "b"));
        s->users.erase_if(tx, [&](const auto &e) { return e.second->parts.empty(tx); });
        s->last.try_emplace(tx, {"a", 7}).first->parts.push_back(tx, {});
        s->last.delete_range(tx, {"b", 7}, {"a", 7});
        (void)s->last.delete_some(tx, {"b", 7}, {"a", 7}, 3).second;
        s->sets.try_emplace(tx, 7).first->insert(tx, "a");
        s->users.lookup(tx, "a")->parts.push_back(tx, {})->text.assign(tx, "b");
        (void)s->users.at(tx, "a")->name.str(tx);
        for (auto [name, user] : s->users.in(tx))
            (void)user->parts.get(tx, 0)->text.str(tx);
        s->ranks.push_back(tx, {})->name.assign(tx, "c");
        s->ranks.set(tx, 0, {});
        s->maps.push(tx, {})->insert(tx, 1, "d");
        (void)s->maps.pop(tx);
        use_owner(self, tx, s->users);
        use_owner(self, tx, s->ranks);
        use_owner(self, tx, s->maps);
        use_owner(self, tx, s->last);
        use_owner(self, tx, s->sets);
        fur::erase(self, s->users, "a");
        fur::erase(self, s->names, "a");
        fur::erase(self, s->pairs, {"a", 1u});
        fur::delete_range(self, s->last, {"b", 7}, {"a", 7});
        fur::erase_if(self, s->users, [](const auto &entry) { return entry.first == "a"; });
        fur::erase_if(self, s->users,
                      [](auto *in, const auto &entry) { return entry.second->name.empty(in); });
        fur::scan(self, s->users, [](fur_ro *, const std::string &, const User *) {});
        (void)s->texts.lower_bound(tx, 1);
        (void)s->texts.upper_bound(tx, 1);
        s->list.push_back(tx, "d");
        s->list.set(tx, 0, "e");
        s->list.pop_back(tx);
        s->list.clear(tx);
        s->numbers.push_back(tx, 7);
        (void)(s->numbers.front(tx) + s->numbers.back(tx) + s->numbers.in(tx)[0]);
        s->jobs.push(tx, {1, 2});
        (void)s->jobs.pop(tx);
        s->jobs.clear(tx);
        s->lines.push(tx, "f");
        (void)s->lines.front(tx);
        s->lines.clear(tx);
        s->name.assign(tx, "g");
        s->next.set(tx, fur::make<Shop>(tx));
        fur::destroy(tx, s->next.get(tx));
    });
    use_set(self, s->tags, "tag");
    use_set(self, s->places, Point{5, 6});
    use_index(self, s->index, "tag", uint64_t(7));
    use_index(self, s->by_price, 1.5, "nuts");
    use_set(self, s->pair_tags, std::pair("tag", 7));
    use_index(self, s->pair_index, std::pair("tag", Kind::A), std::array{"a", "b"});
    fur::read(self, [&](fur_ro *tx) {
        const auto next = s->tags.scan(tx, 0, 10, [](const std::string &) {});
        return s->names.scan(tx, next, 10, [](const std::string &, uint8_t) {});
    });
    look_at_map(self, s->names);
    look_at_map(self, s->points);
    look_at_map(self, s->texts);
    look_at_map(self, s->prices);
    fur::read(self, [&](fur_ro *tx) {
        auto all = s->prices.in(tx);
        for (auto at = all.rbegin(); at != all.rend(); ++at)
            (void)(*at).second;
        for (const std::string &text : s->list.in(tx))
            (void)text;
        (void)(s->name.str(tx) == s->name.view(tx) && s->name.equals(tx, "h"));
        return s->name.compare(tx, "i");
    });
    fur::remove_root(self, "shop");
}
"""
# Tables of rows of both kinds, and of each kind of index.
TABLES = """#include <fur/table.hpp>
struct Row { uint64_t id; std::string name; std::optional<std::string> mail; int64_t n;
             FUR_MEMBERS(id, name, mail, n) };
struct Plain { uint32_t id; char padding; std::array<char, 8> name; double n; };
inline std::string first_of(const Row &row) { return row.name.substr(0, 1); }
inline int64_t half(const Plain &row) { return row.id / 2; }
using Rows = fur::table<Row, fur::hash_unique<&Row::id, &Row::name>, fur::ordered_index<first_of>,
        fur::hash_index<&Row::n>, fur::ordered_unique<&Row::mail>>;
using Plains = fur::table<Plain, fur::ordered_unique<&Plain::id>,
        fur::hash_unique<&Plain::name, half>, fur::ordered_index<&Plain::n>>;
struct Shop { Rows rows; Plains plains; fur::string name; FUR_MEMBERS(rows, plains, name) };
template <class T, class Row, class Key>
void use_table(fur_thread *self, T &table, const Row &row, const Key &key)
{
    fur::update(self, fur::rerun, [&](fur_update *tx) {
        (void)(table.insert(tx, row) && table.insert_or_assign(tx, row));
        if (const auto done = table.modify(tx, key, [](Row &r) { r.n++; }); !done)
            (void)(done.is_missing() || done.clash() == 0);
        if (auto at = table.find(tx, key); at != table.in(tx).end())
            at = table.erase(tx, at);
        (void)(table.erase(tx, key) + table.erase_if(tx, [](const Row &) { return true; }));
        table.clear(tx);
    });
    fur::read(self, fur::rerun, [&](fur_reader *tx) {
        (void)(table.get(tx, key) && table.contains(tx, key) && table.at(tx, key).n > 0);
        std::optional<Row> out[1];
        (void)(table.get_many(tx, &key, 1, out) + table.size(tx));
        for (const Row &each : table.in(tx))
            (void)each;
        (void)table.check(tx);
    });
    fur::scan(self, table, [](const Row &) {});
    fur::fill(self, table, &row, &row + 1);
    (void)fur::erase_if(self, table, [](const Row &) { return true; });
    fur::clear(self, table);
}
void use(fur_thread *self);
void use(fur_thread *self)
{
    auto *shop = fur::root<Shop>(self, "shop");
    use_table(self, shop->rows, Row{1, "a", {}, 2}, std::pair(uint64_t(1), "a"));
    use_table(self, shop->plains, Plain{1, 0, {}, 2}, 1u);
    fur::read(self, [&](fur_ro *tx) {
        const auto index = shop->rows.by<first_of>();
        const auto all = index.range(tx, "a", "b");
        for (auto at = all.rbegin(); at != all.rend(); ++at)
            (void)at->name;
        (void)(index.count(tx, "a") + index.equal_range(tx, "a").empty());
        (void)(index.in(tx).empty() || index.from(tx, "a").empty() || index.up_to(tx, "a").empty());
        all.for_each([](const Row &) {});
        shop->rows.by<&Row::n>().equal_range(tx, 7).for_each([](const Row &) {});
        (void)shop->rows.by<&Row::id, &Row::name>().get(tx, {1, "a"});
        (void)shop->plains.by<&Plain::id>().range(tx, 1, 2).empty();
        (void)shop->plains.by<&Plain::name, half>().get(tx, {std::array<char, 8>(), 1});
        return fur_load(tx, &shop->plains.lookup(tx, 1)->n);
    });
    fur::update(self, [&](fur_update *tx) {
        (void)shop->rows.by<&Row::mail>().modify(tx, "b", [](Row &row) { row.mail.reset(); });
        (void)shop->rows.by<&Row::n>().erase(tx, 7);
        (void)shop->rows.by<first_of>().delete_range(tx, "a", "b");
        fur::destroy(tx, shop);
    });
}
"""
CONTAINER_HEADERS = [
    "members",
    "stored",
    "string",
    "composite",
    "owned",
    "sizes",
    "map",
    "hash_map",
    "iterator",
    "ordered_map",
    "set",
    "multimap",
    "vector",
    "queue",
    "ptr",
    "root",
    "table",
    "bulk",
]
MISUSE = """struct Padded
{ char c; long n; bool operator==(const Padded &) const { return true; } };
struct Virtual { virtual void f() {} long n = 0; };
struct Place { long shelf; };
struct Session { std::vector<long> pages; };
struct Nested { std::pair<long, long> both; };
struct Picky { explicit Picky(long) {} };
struct alignas(64) Aligned { long n; };
struct Owner { fur::string name; FUR_MEMBERS(name) };
struct Forgetful { fur::string name; long n; FUR_MEMBERS(name) };
struct Hidden { fur::string name; int n; char padding; FUR_MEMBERS(name, n) };
struct Holder { fur::string name; std::string_view text; FUR_MEMBERS(name, text) };
struct Titled { const char *title; long n; FUR_MEMBERS(title, n) };
struct Short { long n, m; FUR_MEMBERS(n) };
struct Wrapped { fur::string name; std::pair<long, long> both; FUR_MEMBERS(name, both) };
struct Line { long id, n; int field[2]; };
struct Named { long id; std::string name; };
struct Book { long id; fur::vector<long> pages; FUR_MEMBERS(id, pages) };
using Lines = fur::table<Line, fur::hash_unique<&Line::id>, fur::hash_index<&Line::n>>;
void use(fur_ro *ro, fur_update *tx, fur::hash_map<long, long> &map,
         fur::ordered_map<long, long> &ordered, fur::vector<long> &vector, fur::ptr<long> &ptr,
         fur::queue<long> &queue, fur::string &string);
void use(fur_ro *ro, fur_update *tx, fur::hash_map<long, long> &map,
         fur::ordered_map<long, long> &ordered, fur::vector<long> &vector, fur::ptr<long> &ptr,
         fur::queue<long> &queue, fur::string &string)
{
    (void)ro; (void)tx; (void)map; (void)ordered; (void)vector; (void)ptr; (void)queue;
    (void)string;
    %s
}
"""
KINDS = {
    "value": ("fur::hash_map<long, %s>", "size(ro)"),
    "key": ("fur::ordered_map<%s, long>", "size(ro)"),
    "element": ("fur::vector<%s>", "size(ro)"),
}
# A word of each compiler's message: the text of a static_assert, or the name of what it is about.
misuses = [
    ("nothing wrong", "map.insert(tx, 1, 2);", ""),
    ("hash_map[]", "map[1];", "no operator[]"),
    ("ordered_map[]", "ordered[1];", "no operator[]"),
    ("vector[]", "vector[1];", "no operator[]"),
    ("vector.data()", "vector.data();", "no data()"),
    ("ptr->", "(void)ptr.operator->();", "use get(tx)"),
    (
        "a std::string as value",
        'static fur::hash_map<long, std::string> m; m.insert(tx, 1, "");',
        "use fur::string",
    ),
    (
        "a std::string as element",
        'static fur::vector<std::string> v; v.push_back(tx, "");',
        "use fur::string",
    ),
    (
        "a key with padding",
        "static fur::hash_map<Padded, long> m; m.insert(tx, Padded{}, 1);",
        "specialise fur::hash",
    ),
    (
        "a floating-point key",
        "static fur::hash_map<double, long> m; m.insert(tx, 1.5, 1);",
        "specialise fur::hash",
    ),
    (
        "insert in a read-only transaction",
        "map.insert(ro, 1, 2);",
        "this call changes the container",
    ),
    (
        "ordered insert in a read-only one",
        "ordered.insert(ro, 1, 2);",
        "this call changes the container",
    ),
    ("push_back in a read-only one", "vector.push_back(ro, 1);", "this call changes the container"),
    ("push in a read-only one", "queue.push(ro, 1);", "this call changes the container"),
    ("assign in a read-only one", 'string.assign(ro, "");', "fur_update"),
    ("a set of a ptr in a read-only one", "ptr.set(ro, nullptr);", "fur_update"),
    (
        "a value with a fur::string inside",
        "struct Named { fur::string name; }; "
        "static fur::hash_map<long, Named> m; m.contains(ro, 1);",
        "write FUR_MEMBERS(a, b, ...)",
    ),
    (
        "a value with a container inside",
        "struct Book { fur::ordered_map<long, long> orders; }; "
        "static fur::ordered_map<long, Book> m; m.contains(ro, 1);",
        "write FUR_MEMBERS(a, b, ...)",
    ),
    *[
        (f"{type_name} as {what}", f"static {container % type_name} c; (void)c.{call};", says)
        for what, (container, call) in KINDS.items()
        for type_name, says in [
            ("std::string", "use fur::string"),
            ("std::string_view", "use fur::string"),
            ("const char *", "use fur::string"),
            ("std::vector<long>", "use fur::vector or fur::queue"),
            ("std::list<std::string>", "use fur::vector or fur::queue"),
            ("std::map<long, long>", "fur::hash_map, fur::ordered_set"),
            ("std::set<long>", "fur::hash_map, fur::ordered_set"),
            ("std::unique_ptr<long>", "or a fur::ptr to one that fur::make() has made"),
            ("std::shared_ptr<long>", "or a fur::ptr to one that fur::make() has made"),
            ("long &", "hold no references"),
            ("const long", "leave out the const"),
            ("decltype(&printf)", "use an enum, and choose by it"),
            ("decltype(&Place::shelf)", "use an enum, and choose by it"),
            ("Virtual", "a struct with an enum that tells the kind"),
            ("std::function<void()>", "types with a destructor"),
            ("Session", "types with a destructor"),
            ("Nested", "not trivially copyable"),
            ("Picky", "give the type a default constructor"),
            ("Aligned", "leave out the alignas"),
            ("std::tuple<>", "no empty std::tuple"),
            ("std::pair<long, std::string>", "use fur::string"),
            ("std::optional<std::vector<long>>", "use fur::vector or fur::queue"),
            ("std::pair<long, fur::vector<long>>", "cannot be a part of a std::pair"),
            ("std::variant<long, Owner>", "cannot be a part of a std::pair"),
            ("Forgetful", "FUR_MEMBERS must name all members"),
            ("Hidden", "FUR_MEMBERS must name all members"),
            ("Holder", "use fur::string"),
            ("Wrapped", "not trivially copyable"),
            ("Titled", "use fur::string"),
            ("Short", "FUR_MEMBERS must name all members"),
        ]
    ],
    ("a struct that owns memory as key", "static fur::hash_map<Owner, long> m;", "cannot be a key"),
    (
        "a container as key",
        "static fur::ordered_map<fur::vector<long>, long> m;",
        "use a std::pair or std::tuple",
    ),
    (
        "modify of a value that owns memory",
        "static fur::hash_map<long, Owner> m; m.modify(tx, 1, [](auto &) {});",
        "use lookup(tx, key)",
    ),
    (
        "lookup of a std::pair",
        "static fur::hash_map<long, std::pair<long, long>> m; m.lookup(ro, 1);",
        "use get(tx, key) and modify",
    ),
    (
        "lookup of an element",
        "static fur::vector<std::pair<long, long>> v; v.lookup(ro, 1);",
        "use get(tx, i) and set",
    ),
    (
        "make of a struct that forgets a member, then destroy",
        "fur::destroy(tx, fur::make<Forgetful>(tx));",
        "FUR_MEMBERS must name all members",
    ),
    ("a copy of a hash_map", "auto copy = map; (void)copy;", "deleted"),
    ("a copy of an ordered_map", "ordered = ordered;", "deleted"),
    ("a copy of a vector", "auto copy = vector; (void)copy;", "deleted"),
    ("a copy of a queue", "queue = queue;", "deleted"),
    ("a copy of a string", "auto copy = string; (void)copy;", "deleted"),
    ("make of a virtual class", "fur::make<Virtual>(tx);", "does not survive a restart"),
    ("make of a std::string", "fur::make<std::string>(tx);", "does not survive a restart"),
    (
        "a bulk update whose map() may throw",
        "fur::bulk(nullptr, static_cast<long *>(nullptr), 1, [](long &, uint64_t) {});",
        "must be noexcept",
    ),
    (
        "a bulk update of objects",
        "fur::bulk(nullptr, static_cast<std::string *>(nullptr), 1,"
        " [](std::string &, uint64_t) noexcept {});",
        "trivially",
    ),
    (
        "an order with members",
        "struct Scaled { long by; bool operator()(long a, long b) const { return a < b * by; } };"
        " static fur::ordered_map<int, int, 15, Scaled> m; m.clear(tx);",
        "has no members",
    ),
    (
        "a set that is changed in a read-only transaction",
        "static fur::hash_set<long> s; s.insert(ro, 1);",
        "inside fur::update()",
    ),
    (
        "try_emplace of a pair",
        "static fur::hash_map<int, std::pair<fur::string, int>> m; m.try_emplace(tx, 1);",
        "use get_or_insert(tx, key, value)",
    ),
    (
        "a multimap of structs that own memory",
        "static fur::ordered_multimap<int, fur::vector<int>> m; m.clear(tx);",
        "so a multimap cannot hold it",
    ),
    (
        "a set of containers",
        "static fur::ordered_set<fur::vector<int>> s; s.clear(tx);",
        "cannot be a key",
    ),
    (
        "a predicate for one kind of transaction",
        "static fur::hash_map<int, fur::string> m;"
        " fur::erase_if(nullptr, m, [](fur_ro *, const auto &) { return true; });",
        "a transaction of any kind",
    ),
    ("clear of a plain struct", "static Place p; fur::clear(nullptr, p);", "is for containers"),
    *[
        (f"a table: {name}", f"static fur::table<{of}> t; (void)t.size(ro);", says)
        for name, of, says in [
            ("no primary key", "Line, fur::ordered_index<&Line::id>", "is the primary key"),
            ("no index", "Line, fur::hash_unique<>", "at least one part"),
            ("another's member", "Line, fur::hash_unique<&Place::shelf>", "a member of the row"),
            ("an array as key", "Line, fur::hash_unique<&Line::field>", "use a std::array"),
            ("no kind", "Line, fur::hash_unique<&Line::id>, long", "fur::hash_unique<...>, fur"),
            ("text without names", "Named, fur::hash_unique<&Named::id>", "write FUR_MEMBERS"),
            ("a container inside", "Book, fur::hash_unique<&Book::id>", "use a std::string"),
            ("a fur::string", "Owner, fur::hash_unique<&Owner::name>", "use a std::string"),
        ]
    ],
    *[
        (f"a table: {name}", f"static Lines t; {call};", says)
        for name, call, says in [
            ("parts of no index", "t.by<&Line::n, &Line::id>()", "no index of the table has"),
            ("get of many", "t.by<&Line::n>().get(ro, 1)", "equal_range(tx, key)"),
            ("many of one", "t.by<&Line::id>().equal_range(ro, 1)", "get(tx, key)"),
            ("a range of a hash index", "t.by<&Line::n>().range(ro, 1, 2)", "has no order"),
            ("a change in a read", "t.insert(ro, Line{})", "inside fur::update()"),
            ("a change of a row where it lies", "fur_store(tx, &t.lookup(tx, 1)->n, 1)", "const"),
            (
                "a change of a const one",
                "static_cast<const Lines &>(t).by<&Line::n>().erase(tx, 1)",
                "which is const here",
            ),
        ]
    ],
    ("nodes of two entries", "static fur::ordered_map<int, int, 2> m; m.clear(tx);", "3 to 15"),
]
bad = 0


def check(name, text, standard, expected, says="", more=()):
    global bad
    result, errors = compiles(text, standard, more, expected)
    good = result == expected and says in errors
    bad += not good
    print(
        f"{'ok  ' if good else 'FAIL'} {standard}: {name}"
        + ("" if good else f": {'compiles' if result else 'does not compile'}\n{errors}")
    )


def errors_by_case(names, text, standard, more):
    """What the compiler says of each case; the text names the case as the file of its lines."""
    more = [*more, "-ferror-limit=0"] if any("clang" in word for word in compiler) else more
    _, errors = compiles(text, standard, more)
    blocks, has_error = [""], False
    for line in errors.splitlines(keepends=True):
        # GCC tells the context of an error before it, clang behind it.
        is_error = " error: " in line
        if has_error and (is_error or re.match(r"[^ ]+: (In|At) |In file included", line)):
            blocks.append("")
            has_error = False
        blocks[-1] += line
        has_error = has_error or is_error
    return {name: "".join(b for b in blocks if name + ":" in b) for name in names}


def tell_together(cases_of_kind, standard, more):
    """Compile these cases together, then those again of which nothing was said, while that tells of
    some: a static_assert of a type speaks once in a compilation.  Returns those that are left."""
    left = list(cases_of_kind)
    while True:
        told = errors_by_case(
            [f"case-{n}" for n in range(len(left))],
            "".join(
                f'namespace case{n}\n{{\n# 1 "case-{n}"\n{MISUSE % text}}}\n'
                for n, (_, text, _) in enumerate(left)
            ),
            standard,
            more,
        )
        silent = [case for n, case in enumerate(left) if case[2] not in told[f"case-{n}"]]
        for name, _, _ in (case for case in left if case not in silent):
            print(f"ok   {standard}: {name}")
        if len(silent) <= 1 or len(silent) == len(left):
            return silent
        left = silent


def precompiled(names, title, standard):
    """Compile these headers once; return the options that use them."""
    header = title + ".hpp"
    with open(os.path.join(place.name, header), "w") as file:
        file.write("".join(f"#include <{name}>\n" for name in names))
    subprocess.run(
        [*compiler, "-std=" + standard, "-I", "include", *WARNINGS]
        + ["-x", "c++-header", "-c", header, "-o", header + ".gch"],
        cwd=place.name,
        check=True,
    )
    return ["-include", header]


def check_misuses(standard):
    """With the headers compiled once, and the cases of a kind together.  A case of which nothing is
    said there is compiled alone."""
    names = ["fur/bulk.hpp", "fur/table.hpp"]
    more = precompiled(
        [*names, "functional", "list", "map", "memory", "set", "vector"], "containers", standard
    )
    kinds: dict[str, list[tuple[str, str, str]]] = {}
    for name, text, says in misuses:
        if says:
            kind = name.rpartition(" as ")[2]
            kinds.setdefault(kind if kind in KINDS else "", []).append((name, text, says))
        else:
            check(name, MISUSE % text, standard, True, "", more)
    for cases_of_kind in kinds.values():
        for name, text, says in tell_together(cases_of_kind, standard, more):
            check(name, MISUSE % text, standard, False, says, more)


def check_interleave(standard):
    """fur/interleave.hpp, which needs coroutines."""
    if standard < "c++20":
        text = "#include <fur/interleave.hpp>\n"
        check("interleave.hpp is refused", text, standard, False, "compile with -std=c++20")
        return
    check("interleave.hpp alone", "#include <fur/interleave.hpp>\n", standard, True)
    check("ship.hpp alone", "#include <fur/ship.hpp>\n", standard, True)
    more = precompiled(["fur/interleave.hpp", "fur/root.hpp"], "interleave", standard)
    for name, body, says in SEARCHES if standard == "c++20" else SEARCHES[:1]:
        check(name, INTERLEAVE % body, standard, not says, says, more)
    check("a search that is none", NO_TASK, standard, False, "a lambda says so by", more)


for standard in standards:
    for name, text, expected in cases:
        check(name, text, standard, expected)
    if language == "c++" and standard < "c++17":
        check("fur.hpp is refused", HPP, standard, False, "fur.hpp needs C++17")
    elif language == "c++":
        check("fur.hpp", HPP, standard, True)
        check("make at the largest alignment", ALIGNED % "FUR_MOST_ALIGNMENT", standard, True)
        check(
            "make at twice that",
            ALIGNED % "2 * FUR_MOST_ALIGNMENT",
            standard,
            False,
            "the alignment is larger than FUR_MOST_ALIGNMENT",
        )
        for header in CONTAINER_HEADERS if standard != "c++20" else []:
            text = f"#include <fur/{header}.hpp>\n"
            check(f"{header}.hpp alone", text, standard, True)
        check("use of containers", CONTAINERS, standard, True)
        check("use of tables", TABLES, standard, True)
        if standard == "c++17":
            check_misuses(standard)
    if language == "c++":
        check_interleave(standard)
place.cleanup()
sys.exit(1 if bad else 0)
