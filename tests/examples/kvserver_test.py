#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kvserver answers as Redis does: values, deadlines, transactions, scans, errors of the protocol.
Garbage ends its connection at most, never the server.

    kvserver_test.py [--seed N] [--frames N] KVSERVER DIRECTORY

If redis-server is there, the same commands go to it too, and the replies must be equal.
"""
import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time

from kv_client import Client, RedisError, Server, request

OK = "OK"
NOT_A_NUMBER = "ERR value is not an integer or out of range"
SYNTAX = "ERR syntax error"
OVERFLOW = "ERR increment or decrement would overflow"
# Commands and their replies, in this order; an error is a RedisError.
CALLS = [
    ("PING", "PONG"),
    ("ping hello", b"hello"),
    ("PING a b", RedisError("ERR wrong number of arguments for 'ping' command")),
    ("ECHO text", b"text"),
    ("GET a", None),
    ("SET a 1", OK),
    ("SET long a-text-of-more-than-eight-characters", OK),
    ("GET long", b"a-text-of-more-than-eight-characters"),
    ("SET long short", OK),
    ("GET long", b"short"),
    ("INCR a", 2),
    ("DECR a", 1),
    ("INCRBY a -11", -10),
    ("INCR new", 1),
    ("INCR long", RedisError(NOT_A_NUMBER)),
    ("INCRBY a 1.5", RedisError(NOT_A_NUMBER)),
    ("SET big 9223372036854775807", OK),
    ("INCR big", RedisError(OVERFLOW)),
    ("GET big", b"9223372036854775807"),
    ("SET a 2 NX", None),
    ("SET b 2 XX", None),
    ("SET b 2 NX", OK),
    ("SET b 3 XX GET", b"2"),
    ("SET b 4 NX GET", b"3"),
    ("SET c 1 GET", None),
    ("SET b 5 NX XX", RedisError(SYNTAX)),
    ("SET b 5 EX", RedisError(SYNTAX)),
    ("SET b 5 EX 1 PX 1", RedisError(SYNTAX)),
    ("SET b 5 EX none", RedisError(NOT_A_NUMBER)),
    ("SET b 5 EX 0", RedisError("ERR invalid expire time in 'set' command")),
    ("MGET a b none", [b"-10", b"3", None]),
    ("MSET a 1 b 2 a 3", OK),
    ("MSET a 1 b", RedisError("ERR wrong number of arguments for 'mset' command")),
    ("MGET a b", [b"3", b"2"]),
    ("EXISTS a b a none", 3),
    ("DEL a b none", 2),
    ("EXISTS a b", 0),
    ("TTL none", -2),
    ("TTL c", -1),
    ("SET d 1 EX 100", OK),
    ("TTL d", 100),
    ("INCR d", 2),
    ("TTL d", 100),
    ("SET d 5 KEEPTTL", OK),
    ("TTL d", 100),
    ("PERSIST d", 1),
    ("PERSIST d", 0),
    ("TTL d", -1),
    ("EXPIRE d 200", 1),
    ("EXPIRE none 200", 0),
    ("TTL d", 200),
    ("SET d 6", OK),
    ("TTL d", -1),
    ("EXPIRE d -1", 1),
    ("EXISTS d", 0),
    ("EXPIRE c x", RedisError(NOT_A_NUMBER)),
    ("DBSIZE", 4),
    ("GET", RedisError("ERR wrong number of arguments for 'get' command")),
    ("NOSUCH a b", RedisError("ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' ")),
    ("EXEC", RedisError("ERR EXEC without MULTI")),
    ("DISCARD", RedisError("ERR DISCARD without MULTI")),
    ("MULTI", OK),
    ("MULTI", RedisError("ERR MULTI calls can not be nested")),
    ("INCR e", "QUEUED"),
    ("GET e", "QUEUED"),
    ("INCR long", "QUEUED"),
    ("EXEC", [1, b"1", RedisError(NOT_A_NUMBER)]),
    ("MULTI", OK),
    ("INCR e", "QUEUED"),
    ("DISCARD", OK),
    ("GET e", b"1"),
    ("MULTI", OK),
    ("SET e", RedisError("ERR wrong number of arguments for 'set' command")),
    ("EXEC", RedisError("EXECABORT Transaction discarded because of previous errors.")),
    ("MULTI", OK),
    ("EXEC", []),
    ("CONFIG GET save", [b"save", b""]),
    ("SCAN x", RedisError("ERR invalid cursor")),
    ("SCAN 0 COUNT 0", RedisError(SYNTAX)),
    ("FLUSHALL", OK),
    ("DBSIZE", 0),
    ("SCAN 0", [b"0", []]),
]

# What breaks the protocol, and the reply, after which the connection is closed.
BROKEN = [
    (b"*x\r\n", "invalid multibulk length"),
    (b"*99999999999\r\n", "invalid multibulk length"),
    (b"*1\r\nGET\r\n", "expected '$', got 'G'"),
    (b"*1\r\n$x\r\n", "invalid bulk length"),
    (b"*1\r\n$-1\r\n", "invalid bulk length"),
    (b"*1\r\n$99999999999\r\n", "invalid bulk length"),
    (b"x" * 70000, "too big inline request"),
    (b"*" + b"1" * 70000, "too big mbulk count string"),
    (b"*1\r\n$" + b"1" * 70000, "too big bulk count string"),
    (b"GET 'a\r\n", "unbalanced quotes in request"),
    (b'GET "a"b\r\n', "unbalanced quotes in request"),
]


def same(reply, wanted):
    if isinstance(reply, list) and isinstance(wanted, list):
        return len(reply) == len(wanted) and all(map(same, reply, wanted))
    if isinstance(wanted, RedisError):
        return isinstance(reply, RedisError) and str(reply) == str(wanted)
    return reply == wanted


def check_calls(client):
    for text, wanted in CALLS:
        reply = client.call(*text.split())
        assert same(reply, wanted), f"{text}: {reply!r}, not {wanted!r}"


def check_broken(port):
    for data, wanted in BROKEN:
        client = Client(port)
        client.send_raw(data)
        reply = client.receive()
        assert str(reply) == f"ERR Protocol error: {wanted}", f"{data[:30]!r}: {reply}"
        assert client.at_end(), data[:30]
        client.close()


def check_inline(client):
    for data, wanted in [
        (b"\r\n  \r\nping\r\n", "PONG"),
        (b"*0\r\n*-1\r\nPING\r\n", "PONG"),
        (b'SET \'a b\' "\\x41\\n\\""\r\n', OK),
        (b'get "a b"\n', b'A\n"'),
        (b"DEL 'a b'\r\n", 1),
    ]:
        client.send_raw(data)
        reply = client.receive()
        assert same(reply, wanted), f"{data!r}: {reply!r}, not {wanted!r}"


def check_pieces(client):
    """A request that arrives byte by byte, and many that arrive at once."""
    for byte in request("SET", "pieces", b"\r\n\0$*" * 5):
        client.send_raw(bytes([byte]))
    assert client.receive() == OK
    count = 20000
    client.send_raw(request("INCR", "many") * count + request("GET", "pieces"))
    assert [client.receive() for _ in range(count)] == list(range(1, count + 1))
    assert client.receive() == b"\r\n\0$*" * 5
    large = bytes(range(256)) * 4000
    assert client.call("SET", "large", large) == OK
    client.send_raw(request("GET", "large") * 20)  # more than the socket takes at once
    assert all(client.receive() == large for _ in range(20))
    assert client.call("DEL", "pieces", "many", "large") == 3


def check_deadlines(client):
    assert client.call("SET", "soon", "1", "PX", "50") == OK
    assert client.call("SET", "later", "1", "PX", "100000") == OK
    assert 0 < client.call("PTTL", "later") <= 100000
    assert client.call("PEXPIRE", "later", "50") == 1
    for n in range(300):
        assert client.call("SET", f"swept{n}", "x" * 20, "PX", "1") == OK
    time.sleep(0.1)
    assert client.call("GET", "soon") is None
    assert client.call("SET", "later", "1", "XX") is None
    end = time.monotonic() + 20
    while client.call("DBSIZE"):  # the sweep erases those that no command meets
        assert time.monotonic() < end, "the sweep leaves keys"
        time.sleep(0.05)


def check_scan(client):
    names = {f"key:{n}".encode() for n in range(1000)}
    for name in names:
        client.send("SET", name, "1")
    assert all(client.receive() == OK for _ in names)
    found, cursor, calls = [], b"0", 0
    while cursor != b"0" or not calls:
        cursor, keys = client.call("SCAN", cursor, "COUNT", "50")
        found += keys
        calls += 1
    assert set(found) == names and len(found) == len(names), len(found)
    assert 5 < calls < 100, calls
    cursor, keys = client.call("SCAN", "0", "MATCH", "key:1?[0-4]", "COUNT", "100000")
    assert set(keys) == {n for n in names if len(n) == 7 and n[4:5] == b"1" and n[6:] < b"5"}
    assert cursor == b"0"
    assert client.call("FLUSHALL") == OK


def garbage(rng):
    """A request that is wrong in some way."""
    good = request(*rng.choice([("GET", "a"), ("SET", "a", "b"), ("MULTI",), ("SCAN", "0")]))
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 300))
    if kind == 1:
        return good[: rng.randrange(len(good))]
    data = bytearray(good * rng.randrange(1, 4))
    if kind == 2:
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(b"*$\r\n-0919\0\xff\"' x")
    elif kind == 3:
        at = rng.randrange(len(data))
        data[at : at + rng.randrange(5)] = rng.randbytes(rng.randrange(5))
    else:
        data += rng.choice([b"*3\r\n$3\r\nSET\r\n", b"$5\r\n", b"*-5\r\n", b"'", b"*1000\r\n"])
    return bytes(data)


def check_garbage(server, rng, frames):
    other = server.client()
    assert other.call("SET", "kept", "1") == OK
    for _ in range(frames):
        client = server.client()
        for _ in range(rng.randrange(1, 4)):
            try:
                client.send_raw(garbage(rng))
            except OSError:
                break  # the server has hung up
        client.close()
        if rng.randrange(20) == 0:
            assert other.call("GET", "kept") == b"1"
    assert other.call("GET", "kept") == b"1"
    assert server.process.poll() is None


def check_full(program, place):
    """A heap that is full refuses what needs room, and serves the rest."""
    server = Server(program, f"{place}/full.fur", "--most-mb", "64", "--log-mb", "1")
    client = server.client()
    value = "x" * 200000
    refused = stored = 0
    for n in range(600):
        reply = client.call("SET", f"full:{n}", value)
        stored += reply == OK
        refused += isinstance(reply, RedisError) and str(reply).startswith("OOM")
    assert stored and refused and stored + refused == 600, (stored, refused)
    # In one round: what fits is done, in its order, and an EXEC is refused as a whole.
    data = request("SET", "small", "1") + request("SET", "large", "x" * 900000)
    data += request("MULTI") + request("INCR", "small") + request("SET", "large", "x" * 900000)
    client.send_raw(data + request("EXEC") + request("INCR", "small"))
    replies = [client.receive() for _ in range(7)]
    assert [str(r)[:3] for r in replies] == ["OK", "OOM", "OK", "QUE", "QUE", "OOM", "2"], replies
    assert client.call("DBSIZE") == stored + 1
    assert client.call("FLUSHALL") == OK
    end = time.monotonic() + 20
    while client.call("SET", "again", value) != OK:
        assert time.monotonic() < end, "FLUSHALL gives no room back"
        time.sleep(0.05)
    client.close()
    server.stop()


def check_log(program, place):
    """Commands that do not fit the log together go in several updates."""
    server = Server(program, f"{place}/log.fur", "--log-mb", "1")
    client = server.client()
    count = 400
    client.send_raw(b"".join(request("SET", f"k{n}", "x" * 10000) for n in range(count)))
    assert all(client.receive() == OK for _ in range(count))
    client.send_raw(request("MULTI"))
    many = [request("SET", f"k{n}", "y" * 10000) for n in range(count)]
    client.send_raw(b"".join(many) + request("EXEC"))
    replies = [client.receive() for _ in range(count + 2)]
    assert str(replies[-1]) == "ERR the commands are too large for the log", replies[-1]
    assert client.call("GET", "k0") == b"x" * 10000
    client.close()
    server.stop()


def check_restart(program, heap):
    """Values, deadlines and the number of keys are there after the next start."""
    server = Server(program, heap)
    client = server.client()
    assert client.call("GET", "kept") == b"1"
    assert client.call("SET", "late", "2", "EX", "100") == OK
    client.close()
    server.stop()
    server = Server(program, heap, "--fsync", "everysec")
    client = server.client()
    assert client.call("MGET", "kept", "late") == [b"1", b"2"]
    assert 90 < client.call("TTL", "late") <= 100
    assert client.call("CONFIG", "GET", "appendfsync") == [b"appendfsync", b"everysec"]
    assert b"expires=1" in client.call("INFO")
    assert client.call("QUIT") == OK and client.at_end()
    client.close()
    server.stop()


def check_scan_goes_on(program, heap):
    """A scan sees what stays, though the server is killed and other keys come and go."""
    stay = {f"stay:{n}".encode() for n in range(300)}
    found, cursor = set(), b"0"
    for life in range(100):
        server = Server(program, heap)
        client = server.client()
        others = [f"other:{n}".encode() for n in range(1000)]
        names = [*stay, *others] if life == 0 else others
        for name in names:
            client.send(*(("SET", name, "1") if life % 2 == 0 else ("DEL", name)))
        for _ in names:
            client.receive()
        cursor, keys = client.call("SCAN", cursor, "COUNT", "100")
        found.update(keys)
        client.close()
        server.kill()
        if cursor == b"0":
            break
    assert cursor == b"0" and life > 2, (cursor, life)
    assert stay <= found, stay - found


def check_usage(program):
    for arguments, says in [
        ("", "usage:"),
        ("--port x heap", "no number"),
        ("--fsync never heap", "usage:"),
        ("/nowhere/heap", "/nowhere/heap"),
    ]:
        command = [program, *arguments.split()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (1, 2) and says in done.stderr, (arguments, done)


def compare_with_redis():
    """Redis itself gives the replies that are written here."""
    if not shutil.which("redis-server"):
        print("not compared: redis-server is not installed")
        return
    with tempfile.TemporaryDirectory() as place:
        port = 20000 + random.randrange(10000)
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        with subprocess.Popen([*command, "--dir", place], stdout=subprocess.DEVNULL) as redis:
            try:
                client = connect(port, redis)
                check_calls(client)
                check_inline(client)
                check_broken(port)
            finally:
                redis.kill()


def connect(port, process):
    for _ in range(200):
        assert process.poll() is None, "redis-server has ended"
        try:
            return Client(port)
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise AssertionError("redis-server does not answer")


def main():
    parser = argparse.ArgumentParser(description="Does kvserver answer as Redis does?")
    parser.add_argument("kvserver")
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--frames", type=int, default=1500)
    options = parser.parse_args()
    print(f"--seed {options.seed}", flush=True)
    check_usage(options.kvserver)
    with tempfile.TemporaryDirectory(dir=options.directory) as place:
        heap = f"{place}/heap.fur"
        server = Server(options.kvserver, heap)
        client = server.client()
        check_calls(client)
        check_inline(client)
        check_broken(server.port)
        check_pieces(client)
        check_deadlines(client)
        check_scan(client)
        check_garbage(server, random.Random(options.seed), options.frames)
        client.close()
        server.stop()
        check_restart(options.kvserver, heap)
        check_scan_goes_on(options.kvserver, f"{place}/scan.fur")
        check_full(options.kvserver, place)
        check_log(options.kvserver, place)
    compare_with_redis()


sys.exit(main())
