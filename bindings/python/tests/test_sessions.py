# SPDX-License-Identifier: BSD-3-Clause
"""The session store of examples/sessions.py under load, killed again and again: what it has
acknowledged is there, what it has not is there as a whole or not at all.

KILLS in the environment: how often; 8 by default.
"""
import asyncio
import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Optional

PROGRAM = pathlib.Path(__file__).parents[1] / "examples" / "sessions.py"
KILLS = int(os.environ.get("KILLS", "8"))
CLIENTS, TOKENS = 8, 25


class Client:
    """One connection, with tokens that only it uses."""

    def __init__(self, name: int) -> None:
        self.name = name
        self.acknowledged: dict[str, Optional[str]] = {}
        self.asked: dict[str, Optional[str]] = {}  # of a request without an answer
        self.answers = 0

    async def work(self, path: str, chance: random.Random) -> None:
        """Until the server is killed."""
        reader, writer = await asyncio.open_unix_connection(path)
        with contextlib.suppress(ConnectionError):
            while True:
                token = f"{self.name}.{chance.randrange(TOKENS)}"
                user = f"user{chance.randrange(1 << 30)}" if chance.randrange(3) else None
                self.asked = {token: user}
                writer.write(
                    f"login {token} {user}\n".encode() if user else f"logout {token}\n".encode()
                )
                answer = await reader.readline()
                if not answer.endswith(b"\n"):
                    break
                known = self.acknowledged.get(token)
                if answer.decode().strip() != ("ok" if user or known else "-"):
                    raise AssertionError(f"{answer!r}, after {known}, for {user}")
                self.acknowledged[token] = user
                self.asked = {}
                self.answers += 1
        writer.close()


class Sessions(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.heap, self.socket = (os.path.join(folder.name, name) for name in ("heap", "socket"))
        self.clients = [Client(n) for n in range(CLIENTS)]

    def start(self, *seconds: str) -> subprocess.Popen[bytes]:
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.socket)
        # sync: a kill loses what the program did not wait for, as a power failure would.
        server = subprocess.Popen(
            [sys.executable, str(PROGRAM), self.heap, self.socket, *seconds],
            env={**os.environ, "FUR_PM": "sync"},
        )
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        end = time.monotonic() + 60
        while not self.listens():
            self.assertIsNone(server.poll())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return server

    def listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                probe.connect(self.socket)
                return True
        return False

    async def ask(self, *requests: str) -> list[str]:
        reader, writer = await asyncio.open_unix_connection(self.socket)
        writer.write("".join(request + "\n" for request in requests).encode())
        answers = [(await reader.readline()).decode().rstrip("\n") for _ in requests]
        writer.close()
        return answers

    async def check(self) -> None:
        """What is there; from now on that is what is known."""
        sessions = 0
        for client in self.clients:
            tokens = list({**client.acknowledged, **client.asked})
            answers = await self.ask(*(f"who {token}" for token in tokens))
            for token, answer in zip(tokens, answers):
                user = None if answer == "-" else answer
                may_be = [client.acknowledged.get(token)]
                if token in client.asked:
                    may_be.append(client.asked[token])
                self.assertIn(user, may_be, token)
                client.acknowledged[token] = user
                sessions += user is not None
            client.asked = {}
        self.assertEqual(await self.ask("count"), [str(sessions)])

    async def load(self, server: subprocess.Popen[bytes], chance: random.Random) -> None:
        clients = [
            asyncio.create_task(client.work(self.socket, random.Random(chance.random())))
            for client in self.clients
        ]
        await asyncio.sleep(chance.uniform(0.05, 0.4))
        server.kill()
        await asyncio.gather(*clients)

    def test_kills_under_load(self) -> None:
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        with self.subTest(seed=seed):
            for _ in range(KILLS):
                server = self.start()
                asyncio.run(self.check())
                asyncio.run(self.load(server, chance))
                self.assertEqual(server.wait(), -signal.SIGKILL)
            self.start()
            asyncio.run(self.check())
        self.assertGreater(min(client.answers for client in self.clients), KILLS)

    def test_sessions_end(self) -> None:
        server = self.start("0")
        answers = asyncio.run(
            self.ask("login t ada", "logout t", "logout t", "nonsense", "login u e")
        )
        self.assertEqual(answers[:3], ["ok", "ok", "-"])
        self.assertIn("error", answers[3])
        end = time.monotonic() + 60
        while asyncio.run(self.ask("count")) != ["0"]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        server.terminate()
        self.assertEqual(server.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
