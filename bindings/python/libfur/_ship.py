# SPDX-License-Identifier: BSD-3-Clause
"""fur_ship.h: its structures, and what Python makes of them."""
from __future__ import annotations

import ctypes
import dataclasses
import math
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

NEVER_LOOKED = (1 << 64) - 1  # fur_follow_state.unread: UINT64_MAX
MOST_MS = (1 << 32) - 1


class CFollowOptions(ctypes.Structure):
    """struct fur_follow_options."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("settings", ctypes.POINTER(ctypes.c_char_p)),
        ("log", ctypes.c_void_p),
        ("log_arg", ctypes.c_void_p),
        ("patience_ms", ctypes.c_uint32),
    ]


class CFollowState(ctypes.Structure):
    """struct fur_follow_state."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("lineage", ctypes.c_uint64),
        ("durts", ctypes.c_uint64),
        ("term", ctypes.c_uint64),
        ("frame", ctypes.c_uint64),
        ("node", ctypes.c_uint64),
        ("own_node", ctypes.c_uint64),
        ("unread", ctypes.c_uint64),
        ("caught_up_ns", ctypes.c_uint64),
        ("heard_ns", ctypes.c_uint64),
        ("silent_ns", ctypes.c_uint64),
        ("heir", ctypes.c_uint64),
        ("follows", ctypes.c_bool),
        ("promoted", ctypes.c_bool),
        ("error", ctypes.c_int),
        ("message", ctypes.c_char * 256),
    ]


class CToken(ctypes.Structure):
    """struct fur_token."""

    _fields_ = [("lineage", ctypes.c_uint64), ("durts", ctypes.c_uint64)]


def declare(lib: ctypes.CDLL) -> None:
    """The types of the functions."""
    handle, out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    token = ctypes.POINTER(CToken)
    for name, arguments in {
        "fur_follow": [handle, ctypes.POINTER(CFollowOptions), out],
        "fur_unfollow": [handle],
        "fur_get_follow_state": [handle, ctypes.POINTER(CFollowState)],
        "fur_take_over": [handle, ctypes.c_uint64],
        "fur_get_token": [handle, token],
        "fur_wait_token": [handle, token, ctypes.c_uint32],
    }.items():
        getattr(lib, name).argtypes, getattr(lib, name).restype = arguments, ctypes.c_int


class _Numbers(NamedTuple):
    lineage: int
    durts: int


class Token(_Numbers):
    """All updates up to one, as Heap.get_token() returns it; for Heap.wait_token(), also in another
    process or on another machine.  It is two numbers, below 2**64, and can be pickled; a program
    that gets the numbers makes the token again: Token(lineage, durts).  Token(0, 0) is the state
    before any update.  Tokens have no order."""

    __slots__ = ()

    def __lt__(self, _: object) -> NoReturn:
        raise TypeError("tokens have no order: compare them for equality only")

    __le__ = __gt__ = __ge__ = __lt__


@dataclasses.dataclass(frozen=True)
class FollowState:
    """How far a Follower is.  The times are those of time.monotonic_ns(); 0: not yet.  A standby is
    as fresh as caught_up_ns says, and no fresher: the log may have had more a moment later."""

    lineage: int  # with durts: the newest update that readers find, as its primary counts them
    durts: int
    term: int  # with frame: of the stream, as far as it has been read
    frame: int
    node: int  # the node that wrote it; 0: none has claimed the log
    own_node: int  # this heap's own
    unread: int | None  # messages in the log that it had not read; None: it could not look
    caught_up_ns: int  # when it last had read everything that the log had
    heard_ns: int  # when it last read a message of the stream's writer
    silent_ns: int  # since when the log answers and has none of it; 0: it has, or does not answer
    heir: int  # the node that the writer has asked to take over, or 0
    follows: bool  # it goes on
    promoted: bool  # take_over() has succeeded
    error: int  # a Code: why it has ended, or what it tries again after; 0: nothing
    message: str  # the same in words


def options_of(settings: Iterable[str], patience_ms: int) -> CFollowOptions:
    if isinstance(settings, (str, bytes)):
        raise TypeError(f"settings must be a list of 'KEY=VALUE' texts, not one: {settings!r}")
    texts = []
    for setting in settings:
        if not isinstance(setting, str) or "=" not in setting or "\0" in setting:
            raise ValueError(f"a setting must be a text KEY=VALUE, not {setting!r}")
        texts.append(setting.encode())
    options = CFollowOptions(size=ctypes.sizeof(CFollowOptions), patience_ms=patience_ms)
    options.settings = (ctypes.c_char_p * (len(texts) + 1))(*texts, None)
    return options


def milliseconds(seconds: float) -> int:
    """Not fewer than that, as far as C can express it."""
    if not seconds >= 0:
        raise ValueError(f"a timeout must be a number of seconds, at least 0, not {seconds!r}")
    return min(math.ceil(min(seconds * 1000, MOST_MS)), MOST_MS)
