#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A store of login sessions: a server of asyncio, whose answers are durable.

    sessions.py HEAP SOCKET [SECONDS]     serve; a session ends after SECONDS, by default a day

A client sends lines to the Unix socket, and gets a line for each:

    login TOKEN USER      ok
    who TOKEN             the user, or - if there is no such session
    logout TOKEN          ok, or - if there is no such session
    count                 how many sessions there are
"""
import asyncio
import itertools
import signal
import sys
import time

import libfur

AT_A_TIME = 100  # sessions that one update ends, so that it is short


class Sessions:
    """Two maps that change together: token -> "END USER", and the ends in order."""

    def __init__(self, heap: libfur.Heap, seconds: int) -> None:
        self.heap, self.seconds = heap, seconds
        self.sessions = heap.hash_map("sessions", text=True)
        self.ends = heap.ordered_map("ends", text=True)  # "END TOKEN" -> ""

    def _remove(self, token: str) -> bool:
        """A part of the caller's update."""
        session = self.sessions.pop(token, None)
        if session is None:
            return False
        del self.ends[f"{session.split()[0]} {token}"]
        return True

    async def login(self, token: str, user: str) -> str:
        end = f"{int(time.time()) + self.seconds:012}"
        async with self.heap.update():
            self._remove(token)
            self.sessions[token] = f"{end} {user}"
            self.ends[f"{end} {token}"] = ""
        return "ok"

    async def who(self, token: str) -> str:
        async with self.heap.read():
            session = self.sessions.get(token)
        return session.split()[1] if session else "-"

    async def logout(self, token: str) -> str:
        async with self.heap.update():
            found = self._remove(token)
        return "ok" if found else "-"

    async def count(self) -> str:
        async with self.heap.read():
            sessions, ends = len(self.sessions), len(self.ends)
        if sessions != ends:
            raise RuntimeError(f"{sessions} sessions have {ends} ends")
        return str(sessions)

    async def end_old_ones(self) -> None:
        """For ever."""
        while True:
            async with self.heap.update():
                ended = 0
                old = self.ends.scan(stop=f"{int(time.time()):012}")
                for end, _ in list(itertools.islice(old, AT_A_TIME)):
                    ended += self._remove(end.split()[1])
            if ended < AT_A_TIME:
                await asyncio.sleep(1)


async def serve(sessions: Sessions, socket: str) -> None:
    commands = {"login": 2, "who": 1, "logout": 1, "count": 0}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            command, *words = line.decode().split() or [""]
            if commands.get(command) != len(words):
                answer = "error: " + ", ".join(commands)
            else:
                try:
                    answer = await getattr(sessions, command)(*words)
                except libfur.Error as error:
                    answer = f"error: {error}"
            writer.write(answer.encode() + b"\n")  # durable by now
            await writer.drain()
        writer.close()

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    janitor = asyncio.create_task(sessions.end_old_ones())
    server = await asyncio.start_unix_server(talk, socket)
    await asyncio.wait(
        [janitor, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED
    )
    server.close()
    janitor.cancel()


def main() -> int:
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    path, socket, *seconds = sys.argv[1:]
    try:
        with libfur.Heap.open_or_create(path, max_bytes=1 << 30) as heap:
            asyncio.run(serve(Sessions(heap, int(seconds[0]) if seconds else 86400), socket))
    except libfur.Error as error:
        print(f"sessions: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
