# SPDX-License-Identifier: BSD-3-Clause
"""A relay between clients and one port of this machine, which behaves as a bad network does."""
from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time


class Relay:
    """Relays connections to `target`, as `mode` says:

    pass     everything
    cut      nothing: connections are reset, and new ones as well
    swallow  nothing: connections stay, and new ones are accepted
    delay    everything, each piece `seconds` late
    tear     everything; but once half of a client's piece, and then the connection is reset
    """

    target = 0

    def __init__(self) -> None:
        self.mode, self.seconds = "pass", 0.0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.server.getsockname()[1])
        self.lock = threading.Lock()
        self.pairs: set[Pair] = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def set(self, mode: str, seconds: float = 0) -> None:
        with self.lock:
            before, self.mode, self.seconds = self.mode, mode, seconds
            # What a connection has swallowed is missing from it.
            pairs = list(self.pairs) if mode == "cut" or before == "swallow" else []
        for pair in pairs:
            pair.reset()

    def close(self) -> None:
        self.set("cut")
        # accept() would not notice close() alone.
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self.server.accept()[0]
                if self.mode == "cut":
                    reset(client)
                else:
                    threading.Thread(target=self.connect, args=(client,), daemon=True).start()

    def connect(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            reset(client)
            return
        pair = Pair(client, broker)
        with self.lock:
            self.pairs.add(pair)
        back = threading.Thread(target=self.pump, args=(pair, broker, client), daemon=True)
        back.start()
        self.pump(pair, client, broker)
        back.join()
        with self.lock:
            self.pairs.discard(pair)

    def pump(self, pair: Pair, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while self.mode != "cut" and (piece := source.recv(1 << 16)):
                if self.mode == "delay":
                    time.sleep(self.seconds)
                if self.mode == "tear" and source is pair.client:
                    to.sendall(piece[: len(piece) // 2])
                    self.mode = "pass"
                    break
                if self.mode not in ("swallow", "cut"):
                    to.sendall(piece)
        pair.reset()


class Pair:
    def __init__(self, client: socket.socket, broker: socket.socket):
        self.client, self.broker = client, broker

    def reset(self) -> None:
        reset(self.client)
        reset(self.broker)


def reset(s: socket.socket) -> None:
    """End the connection with RST, also for threads that read from it."""
    with contextlib.suppress(OSError):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.shutdown(socket.SHUT_RD)  # and no FIN
    s.close()
