# SPDX-License-Identifier: BSD-3-Clause
"""How the scripts that measure begin and end: a wrong use, a failure and a stop are one line each
on standard error, and an exit status of their own."""
from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn


class Refused(Exception):
    """What was asked for cannot be: one line, exit status 2."""


class Failed(Exception):
    """A run went wrong: one line, exit status 1."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}; see --help")


def parser_of(name: str, description: str | None) -> Parser:
    return Parser(
        prog=name,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def say(name: str, text: str) -> None:
    print(f"{name}: {text}", file=sys.stderr, flush=True)


def interrupt(*_: int | FrameType | None) -> None:
    raise KeyboardInterrupt


def run_script(name: str, run: Callable[[list[str]], int]) -> int:
    """run(arguments), and the exit status: its own, 1, 2, or 130 after SIGINT or SIGTERM."""
    signal.signal(signal.SIGTERM, interrupt)
    try:
        return run(sys.argv[1:])
    except Refused as refused:
        say(name, str(refused))
        return 2
    except (Failed, OSError) as failure:
        say(name, str(failure))
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        say(name, "stopped")
        return 130
