# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of kvserver have in common: a server in a process of its own, and a client."""
import re
import signal
import socket
import subprocess


class RedisError(Exception):
    """The reply is an error."""


class Client:
    """A connection.  A server that is gone raises ConnectionError."""

    def __init__(self, port, timeout=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb")

    def close(self):
        self.input.close()
        self.socket.close()

    def send_raw(self, data):
        self.socket.sendall(data)

    def send(self, *args):
        self.send_raw(request(*args))

    def line(self):
        line = self.input.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server is gone")
        return line[:-2]

    def receive(self):
        """A reply: str for a status, int, bytes, None, a list, or a RedisError as a value."""
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self.bulk(int(rest))
        assert kind == b"*", line
        return None if int(rest) < 0 else [self.receive() for _ in range(int(rest))]

    def bulk(self, size):
        if size < 0:
            return None
        data = self.input.read(size + 2)
        if len(data) < size + 2:
            raise ConnectionError("the server is gone")
        assert data.endswith(b"\r\n"), data
        return data[:-2]

    def call(self, *args):
        self.send(*args)
        return self.receive()

    def at_end(self):
        """Has the server closed the connection?"""
        try:
            return not self.input.read(1)
        except ConnectionError:
            return True


def request(*args):
    data = b"*%d\r\n" % len(args)
    for arg in args:
        text = arg if isinstance(arg, bytes) else str(arg).encode()
        data += b"$%d\r\n%s\r\n" % (len(text), text)
    return data


class Server:
    """A kvserver with a heap, on a port that it chooses."""

    def __init__(self, program, heap, *options):
        self.process = subprocess.Popen(
            [program, "--port", "0", *options, heap], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        told = re.fullmatch(r"port (\d+)\n", self.process.stdout.readline())
        assert told, f"kvserver ends with {self.process.wait()}"
        self.port = int(told[1])

    def client(self):
        return Client(self.port)

    def kill(self):
        self.process.kill()
        assert self.end() == -signal.SIGKILL

    def stop(self):
        """End it as an operator does."""
        self.process.terminate()
        assert self.end() == 0

    def end(self):
        assert self.process.stdout
        self.process.stdout.close()
        return self.process.wait()
