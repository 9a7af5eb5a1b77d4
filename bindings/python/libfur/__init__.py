# SPDX-License-Identifier: BSD-3-Clause
"""Durable transactions and maps in a memory-mapped heap: libfur for Python.

    import libfur

    with libfur.Heap.open_or_create("/tmp/shop.fur") as heap:
        stock = heap.ordered_map("stock", text=True)
        stock["nuts"] = "12"                    # an update of its own, durable from here
        with heap.update():                     # both or neither
            stock["nuts"] = "11"
            stock["sold"] = "1"
        with heap.read():                       # one state for all reads
            left = stock["nuts"], stock.get("sold")
        print(left)

A map is a MutableMapping, from bytes to bytes or, with text=True, from str to str.  Outside a
`with`, each operation is a transaction of its own.  An exception that leaves `with heap.update()`
rolls the update back.  An assignment has survived a power failure when it returns; within
`with heap.update()`, when the block has ended; `async with heap.update()` waits for that without
stopping the event loop.

Several threads may use a heap and its maps.  Blocks `with heap.update()` run one at a time, because
the interpreter fits no hardware transaction; reads run beside them.  A block belongs to the thread,
the asyncio task, the greenlet or the generator that has entered it: no other one joins it.  "Rules
in Python" in docs/bindings.md has the rest.

A report that takes long reads a snapshot, for which no update waits:

    with heap.snapshot() as then:
        for name, number in then[stock].items():
            ...

This module calls libfur.so and needs nothing else.  It loads the library by its name, or from the
path in the environment's LIBFUR_LIBRARY.
"""
from __future__ import annotations

import copy
import ctypes
import enum
import functools
import math
import os
import re
import struct
import sys
import threading
import time
import warnings
import weakref
from collections.abc import (
    Callable,
    Generator,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    ValuesView,
)
from types import FrameType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NoReturn,
    Optional,
    TypeVar,
    Union,
    overload,
)

from . import _ship
from ._sets import OrderedSet, Set, SnapshotOrderedSet, SnapshotSet
from ._ship import FollowState, Token

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

__all__ = ["Code", "Error", "Heap", "Map", "OrderedMap", "OrderedSet", "Set", "version"]
__all__ += ["Snapshot", "SnapshotMap", "SnapshotOrderedMap", "SnapshotOrderedSet", "SnapshotSet"]
__all__ += ["Follower", "FollowState", "Token"]

T = TypeVar("T")  # bytes or str

_SONAME = "libfur.so.0"
_BATCH = 1000  # entries that one transaction of a scan reads
_ROOM = 256  # bytes of a value that are copied without asking for its size
_PART = 1 << 16  # bytes of entries that one call copies from a snapshot
_SIZES_OF_ENTRY = struct.Struct("=II")  # before an entry that is copied
_LOOKUP = struct.Struct("PNPNNi0P")  # struct fur_map_lookup
_IDLE = 1.0  # seconds after which the thread that waits for tasks ends
_PART_MS = 100  # that a wait for a token lasts without looking for signals

_OPEN_OR_CREATE = 1
_HTM_NONE = 1
_HASH, _ORDERED = 1, 2
_FIRST, _LAST, _AT, _FROM, _BEHIND, _FLOOR, _BEFORE = range(7)
_BACKWARD = (_LAST, _FLOOR, _BEFORE)


class _Options(ctypes.Structure):
    """struct fur_options."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("heap_bytes", ctypes.c_uint64),
        ("log_bytes", ctypes.c_uint64),
        ("ring_slots", ctypes.c_uint64),
        ("max_threads", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
        ("isolation", ctypes.c_int),
        ("htm", ctypes.c_int),
        ("pm", ctypes.c_int),
        ("open", ctypes.c_int),
        ("phase_times", ctypes.c_bool),
        ("reader_report_ns", ctypes.c_uint64),
        ("reader_report", ctypes.c_void_p),
        ("reader_report_arg", ctypes.c_void_p),
        ("dram_bytes", ctypes.c_uint64),
        ("file_mode", ctypes.c_uint32),
        ("log", ctypes.c_void_p),
        ("log_arg", ctypes.c_void_p),
        ("async_ms", ctypes.c_uint32),
        ("max_bytes", ctypes.c_uint64),
        ("debug", ctypes.c_uint64),
        ("snapshot_bytes", ctypes.c_uint64),
        ("ack", ctypes.c_int),
        ("ack_patience_ms", ctypes.c_uint32),
    ]
    called: Any = None  # what `log` points to: who has a heap open with it must keep it

    def keep_log(self, log: Any) -> None:
        self.called = _called(log)
        self.log = ctypes.cast(self.called, ctypes.c_void_p)


# The options that make sense from Python; fur.h describes them.
_SIZES = ("heap_bytes", "log_bytes", "ring_slots", "max_threads", "dram_bytes", "max_bytes")
_OTHERS = ("file_mode", "snapshot_bytes", "address", "async_ms", "reader_report_ns", "debug")
_SETTABLE = (*_SIZES, *_OTHERS, "ack_patience_ms")
_NAMED = {  # options whose values have names
    "pm": {"auto": 0, "pmem": 1, "eadr": 2, "emulated": 3, "sync": 4},
    "ack": {"local": 0, "replicated": 1},
}
_LEVELS = (20, 30, 40)  # of FUR_LOG_INFO, FUR_LOG_WARNING and FUR_LOG_ERROR in logging
_Log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
# What the library may call, by its id: of heaps that are open, even if nothing refers to them.
_logs: dict[int, Any] = {}


def _called(log: Any) -> Any:
    """What the library calls for this function of Python."""
    if not callable(log):
        raise TypeError(f"log must be a function of a level and a message, not {log!r}")

    def report(level: int, message: bytes, _: Optional[int]) -> None:
        log(_LEVELS[level], _in_python(message.decode(errors="replace")))

    return _Log(report)


class _Info(ctypes.Structure):
    """The beginning of struct fur_info: its `size` tells the library how long it is."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("htm", ctypes.c_int),
        ("isolation", ctypes.c_int),
        ("pm", ctypes.c_int),
        ("htm_reason", ctypes.c_char * 160),
        ("pm_reason", ctypes.c_char * 160),
        ("heap_bytes", ctypes.c_uint64),
        ("log_bytes", ctypes.c_uint64),
        ("ring_slots", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("max_threads", ctypes.c_uint32),
        ("recovered", ctypes.c_bool),
        ("replayed_updates", ctypes.c_uint64),
        ("replayed_entries", ctypes.c_uint64),
        ("replay_ns", ctypes.c_uint64),
    ]


class _Ticket(ctypes.Structure):
    """struct fur_ticket."""

    _fields_ = [("source", ctypes.c_uint64), ("number", ctypes.c_uint64)]


class _Range(ctypes.Structure):
    """struct fur_map_range."""

    _fields_ = [
        ("first", ctypes.c_char_p),
        ("first_bytes", ctypes.c_size_t),
        ("last", ctypes.c_char_p),
        ("last_bytes", ctypes.c_size_t),
    ]


class _Iterator(ctypes.Structure):
    """struct fur_map_iterator."""

    _fields_ = [("opaque", ctypes.c_uint64 * 128)]


def _load() -> ctypes.CDLL:
    path = os.environ.get("LIBFUR_LIBRARY", _SONAME)
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"libfur: cannot load {path} ({error}): install libfur (and run ldconfig), or set "
            "LIBFUR_LIBRARY to its path"
        ) from None
    try:
        _declare(lib)
        _ship.declare(lib)
    except AttributeError as error:
        raise ImportError(
            f"libfur: {path} is older than this module ({error}): install the libfur that the "
            "module came with"
        ) from None
    return lib


_ADDS = ("fur_map_put", "fur_map_insert", "fur_map_put_one")
_RANGES = ("fur_map_remove_range", "fur_map_remove_range_in_parts")


def _declare(lib: ctypes.CDLL) -> None:
    """The types of the functions."""
    handle, size, text, data = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_char_p
    out, it = ctypes.POINTER(handle), ctypes.POINTER(_Iterator)
    options, count = ctypes.POINTER(_Options), ctypes.POINTER(ctypes.c_uint64)
    for name, arguments in {
        "fur_create": [text, options, out],
        "fur_open": [text, options, out],
        "fur_open_copy": [text, options, out],
        "fur_close": [handle],
        "fur_backup": [handle, text],
        "fur_get_info": [handle, ctypes.POINTER(_Info)],
        "fur_grow": [handle, ctypes.c_uint64],
        "fur_sync": [handle],
        "fur_thread_register": [handle, ctypes.c_char_p, out],
        "fur_thread_abandon": [handle],
        "fur_begin_ro": [handle, out],
        "fur_end_ro": [handle, handle],
        "fur_begin_update": [handle, out],
        "fur_commit": [handle, handle],
        "fur_map_root": [handle, text, ctypes.c_int, out],
        "fur_map_find_root": [handle, text, ctypes.c_int, out],
        "fur_map_remove_root": [handle, text],
        "fur_map_destroy_root": [handle, text],
        "fur_map_clear": [handle, handle],
        "fur_map_clear_in_parts": [handle, handle],
        **dict.fromkeys(_RANGES, [handle, handle, ctypes.POINTER(_Range), count]),
        **dict.fromkeys(_ADDS, [handle, handle, data, size, data, size]),
        "fur_map_remove": [handle, handle, data, size],
        "fur_map_remove_one": [handle, handle, data, size],
        "fur_map_get_one": [handle, handle, data, size, data, ctypes.POINTER(size)],
        "fur_map_get_many_one": [handle, handle, data, size],
        "fur_snapshot_begin": [handle, out],
        "fur_snapshot_end": [handle],
        "fur_map_find_root_at": [handle, handle, text, ctypes.c_int, out],
        "fur_map_size_at": [handle, handle, handle, count],
        "fur_map_get_at": [handle, handle, handle, data, size, data, ctypes.POINTER(size)],
        "fur_map_get_many_at": [handle, handle, handle, data, size],
        "fur_map_scan_at": [*[handle] * 3, count, size, data, ctypes.POINTER(size)],
        "fur_map_copy_at": [*[handle] * 3, ctypes.c_int, data, size, data, ctypes.POINTER(size)],
        **dict.fromkeys(("fur_map_next", "fur_map_previous"), [it]),
    }.items():
        getattr(lib, name).argtypes = arguments
        getattr(lib, name).restype = ctypes.c_int
    for kind in ("ro", "update"):
        for name, arguments in {
            "size": [handle, handle, ctypes.POINTER(ctypes.c_uint64)],
            "get": [handle, handle, data, size, ctypes.c_char_p, ctypes.POINTER(size)],
            "get_many": [handle, handle, data, size],
            "seek": [handle, handle, ctypes.c_int, data, size, it],
            "scan": [handle, handle, count, size, data, ctypes.POINTER(size)],
        }.items():
            function = getattr(lib, f"fur_map_{name}_{kind}")
            function.argtypes, function.restype = arguments, ctypes.c_int
    for name in ("fur_map_key", "fur_map_value"):
        getattr(lib, name).argtypes = [it, ctypes.c_char_p, size]
        getattr(lib, name).restype = size
    lib.fur_strerror.argtypes, lib.fur_strerror.restype = [ctypes.c_int], text
    lib.fur_errormsg.argtypes, lib.fur_errormsg.restype = [], text
    lib.fur_version.argtypes, lib.fur_version.restype = [], text


_lib = _load()


# What the library's messages call the functions and options of this module.
_NAMES = {
    "fur_create": "Heap.create",
    "fur_open": "Heap.open",
    "fur_open_copy": "Heap.open_copy",
    "fur_close": "Heap.close",
    "fur_backup": "Heap.backup",
    "fur_grow": "Heap.grow",
    "fur_map_root": "Heap.hash_map",
    "fur_map_clear": "Map.clear",
    "fur_sync": "Heap.sync",
    "fur_snapshot_begin": "Heap.snapshot",
    "fur_snapshot_end": "Snapshot.close",
    "fur_snapshot_run": "a read of a snapshot",
    "fur_follow": "Heap.follow",
    "fur_unfollow": "Follower.stop",
    "fur_get_follow_state": "Follower.state",
    "fur_take_over": "Follower.take_over",
    "fur_get_token": "Heap.get_token",
    "fur_wait_token": "Heap.wait_token",
    "fur_begin_ro": "a read",
    "fur_begin_update": "an update",
    "fur_update_run": "an update",
}
# Not in a path.
_NAME = re.compile(r"(?<![\w./-])(fur_options\.|fur_\w+(?!\.\w))(?![/-])")


# Advice that this module follows by itself.
_ADVICE = re.compile(r"; fur_thread_abandon\(\) ends [^;]*|, or join it with fur_join_\w+\(\)")


def _in_python(message: str) -> str:
    """The message, with this module's names in it."""
    message = _ADVICE.sub("", message).replace("unregister one, or let", "end one, or let")
    return _NAME.sub(
        lambda m: "" if m[1] == "fur_options." else _NAMES.get(m[1], m[1]),
        message,
    )


class Code(enum.IntEnum):
    """Error.code: the FUR_E* codes of fur.h and fur_group.h."""

    EINVAL = -1  # an argument or option is not acceptable
    ESYS = -2  # a system call failed
    ENOENT = -3  # no such heap file
    EEXIST = -4  # the file exists
    ENOTHEAP = -5  # the file is no heap
    EVERSION = -6  # the heap is of a version or machine that the library cannot read
    ECORRUPT = -7  # the file is damaged
    EBUSY = -8  # open elsewhere, or still in use
    EADDRESS = -9  # the heap's addresses are taken in this process
    ENOSPC = -10  # no room in the heap, or on the disk
    ETHREADS = -11  # more threads than the heap was made for
    ENESTED = -12  # what is open in this thread forbids it
    ENOTX = -13  # no such transaction is open in this thread
    ERANGE = -14  # the update stored outside the heap
    ETOOBIG = -15  # the update does not fit its log
    EABORTED = -16  # the update was rolled back
    EIO = -17  # the medium failed
    ENOMEM = -18  # out of memory
    EFREE = -19  # what was freed is no block
    EFORK = -20  # in a child of fork()
    EREADONLY = -21  # the heap is open read-only
    ETOOOLD = -22  # libfur could not keep what a snapshot shows
    EBEHIND = -23  # the shipping log acknowledges nothing
    EFENCED = -24  # another heap has taken over
    EINDOUBT = -25  # durable here, and not acknowledged
    ELOST = -26  # lost in a fail-over
    EGROUP = -27  # other heaps of its group are needed


class Error(Exception):
    """A function of libfur has failed.  The text names the file, the problem and the remedy.

    code: a Code, or a number if the library is newer than this module and has others.
    """

    def __init__(self, code: int, message: Optional[str] = None) -> None:
        if message is None:
            text = _lib.fur_errormsg() or _lib.fur_strerror(code)
            message = _in_python(text.decode(errors="replace"))
        super().__init__(message)
        self.code: int = Code(code) if code in _CODES else code

    def __reduce__(self) -> Any:
        return Error, (int(self.code), str(self))


_CODES = frozenset(Code)


def _with_parts(error: Error, parts: str = "clear_in_parts") -> Error:
    """The error of an update that removes many entries; `parts` takes several for it."""
    if error.code != Code.ETOOBIG:
        return error
    return Error(Code.ETOOBIG, f"{error}; or call {parts}() of the map before")


def version() -> str:
    """The version of libfur.so."""
    found: bytes = _lib.fur_version()
    return found.decode()


def _no_nul(value: bytes, what: str) -> bytes:
    """C would end the text there."""
    if b"\0" in value:
        raise ValueError(f"{what} must not contain a NUL character: {value!r}")
    return value


_Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def _path(path: _Path) -> bytes:
    return _no_nul(os.fsencode(path), "a path")


def _name(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"the name of a map is a str, not {type(name).__name__}")
    return _no_nul(_encode_text(name), "the name of a map")


def _encode_text(text: str) -> bytes:
    """UTF-8; what os.fsdecode() has made of other bytes becomes those bytes again."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    try:
        code = text.encode("utf-8", "surrogateescape")
        if code.decode("utf-8", "surrogateescape") == text:
            return code
    except UnicodeEncodeError:
        pass
    raise ValueError(f"{text!a} has a lone surrogate, which UTF-8 cannot express: store bytes")


def _number(value: Any, what: str, bits: int) -> int:
    """ctypes would cut it off."""
    if not isinstance(value, int) or value < 0 or value >= 1 << bits:
        raise ValueError(
            f"{what} must be a number that is not negative, below 2**{bits}, not {value!r}"
        )
    return value


def _options(given: dict[str, Any]) -> _Options:
    options = _Options(size=ctypes.sizeof(_Options))
    # The interpreter would abort every hardware transaction.
    options.htm = _HTM_NONE
    for name, value in given.items():
        if name in _NAMED:
            values = _NAMED[name]
            if value not in values:
                raise ValueError(f"{name} must be one of {', '.join(values)}, not {value!r}")
            setattr(options, name, values[value])
        elif name == "log":
            options.keep_log(value)
        elif name in _SETTABLE:
            bits = 8 * getattr(_Options, name).size
            setattr(options, name, _number(value, name, bits))
        else:
            names = ", ".join((*_NAMED, "log", *_SETTABLE))
            raise TypeError(f"no option {name!r}: there are {names}")
    return options


# -------------------------------------------------------------------- handles
#
# close() frees what the handles below point to.  So it must know whether a function of the library
# is using one, in any thread.  The interpreter counts that already: an operation loads a handle
# directly into the arguments of its call, which hold a reference from then on until the call has
# returned, whatever exception comes in between.  close() sets all handles to NULL, and then looks
# at their reference counts: a call that it does not see there can only begin with NULL.  So no
# variable may hold a handle: the traceback of an exception would keep it.


class _Handle(ctypes.c_void_p):
    """The fur_heap *, or NULL: not open."""

    kept: Optional[int] = None  # its value, while it is NULL


class _Thread(_Handle):
    """A thread's fur_thread *, and what it has open."""

    open: Optional[_Transaction] = None


class _SnapshotHandle(_Handle):
    """The fur_snapshot *, or NULL: it has ended."""


class _FollowerHandle(_Handle):
    """The fur_follower *, or NULL: it has ended."""


class _MapHandle(ctypes.c_void_p):
    """The fur_map * of all Map objects of a name, or NULL: destroyed."""


class _Local(threading.local):
    """The calling thread's registration with a heap."""

    me: Optional[_Thread] = None


def _references(handles: list[_Handle]) -> list[int]:
    return [sys.getrefcount(handle) for handle in handles]


# --------------------------------------------------------------- transactions
#
# A transaction is the outermost block `with heap.update()` or `with heap.read()` of a thread.  The
# thread's `open` has it from before the library begins it until after the library has ended it,
# and roll_back() may be called at any time in between, and again.
#
# An exception, such as KeyboardInterrupt, may come between any two instructions: also when a block
# has begun and `with` does not guard it yet, or while its end is on the way.  What `with` keeps is
# what it has read from the block's `__exit__`.  So that is an object of its own, which nothing else
# holds (a method would be in a frame as `self`, and so in the traceback): it dies when the
# exception leaves the `with`.  The transaction has a weak reference to it, a _Place, and rolls back
# when the object has died before its block has ended.


class _Place(weakref.ref[Any]):
    """A block in its transaction."""

    __slots__ = ("update", "wait", "transaction")
    update: bool
    wait: bool  # at its end, until it is durable
    transaction: Optional[_Transaction]


def _place_of(end: object, update: bool, wait: bool) -> _Place:
    place = _Place(end, _end_died)
    place.update, place.wait, place.transaction = update, wait, None
    return place


def _end_died(place: Any) -> None:
    transaction = getattr(place, "transaction", None)
    if transaction:
        transaction.look_for_the_dead()


class _Durable:
    """Awaitable: what is visible now is durable; None: nothing to wait for."""

    def __init__(self, heap: Optional[Heap]) -> None:
        self._heap = heap

    def __await__(self) -> Generator[Any, None, None]:
        if self._heap is not None:
            yield from self._heap.durable().__await__()


def _leave(place: Optional[_Place], kind: object) -> None:
    if place is None or place.transaction is None:
        raise RuntimeError("this block is not open")
    place.transaction.leave(place, kind is not None)


def _leave_async(place: Optional[_Place], kind: object) -> _Durable:
    transaction = place.transaction if place else None
    _leave(place, kind)
    has_ended = kind is None and transaction is not None and not transaction.blocks
    return _Durable(transaction.heap if transaction and has_ended else None)


class _Exit:
    """`__exit__` or `__aexit__` of a block, which calls this function."""

    def __init__(self, leave: Callable[[Optional[_Place], object], Optional[_Durable]]) -> None:
        self._leave = leave

    def __get__(self, block: Optional[_Block], _: object) -> Any:
        if block is None:
            return self._end_block
        if block._open():
            return functools.partial(self._end_block, block)
        places: list[_Place] = []
        end = functools.partial(self._end, places)
        block._place = _place_of(end, block._update, block._wait and self._leave is _leave)
        places.append(block._place)
        return end

    def _end(self, places: list[_Place], kind: object, *_: object) -> Optional[_Durable]:
        """What `with` calls."""
        return self._leave(places.pop() if places else None, kind)

    def _end_block(self, block: _Block, kind: object, *_: object) -> Optional[_Durable]:
        """What others call, who keep the block."""
        place, block._place = block._place, None
        return self._leave(place, kind)


class _Block:
    """The context manager of one block."""

    __slots__ = ("_heap", "_update", "_wait", "_place", "__weakref__")

    def __init__(self, heap: Heap, update: bool, wait: bool) -> None:
        self._heap, self._update, self._wait = heap, update, wait
        self._place: Optional[_Place] = None

    def _open(self) -> bool:
        place = self._place
        return place is not None and place() is not None and place.transaction is not None

    def _enter(self, frame: FrameType, wait: bool) -> None:
        if self._open():
            raise RuntimeError("this block is open: take a new one for each `with`")
        if self._place is None or self._place() is None:  # it is no `with` that enters
            self._place = _place_of(self, self._update, wait)
        place = self._place
        place.transaction = self._heap._transaction() or _Transaction(self._heap, place, frame)
        place.transaction.enter(place)

    def __enter__(self) -> None:
        self._enter(sys._getframe(1), self._wait)

    if TYPE_CHECKING:

        def __exit__(self, *_: object) -> None:
            ...

        async def __aenter__(self) -> None:
            ...

        async def __aexit__(self, *_: object) -> None:
            ...

    else:

        def __aenter__(self):
            self._enter(sys._getframe(1), False)
            return _Durable(None)

        __exit__ = _Exit(_leave)
        __aexit__ = _Exit(_leave_async)


class _Transaction:
    """A transaction of the library, and the blocks that make it up."""

    def __init__(self, heap: Heap, place: _Place, frame: FrameType) -> None:
        """`frame`: that which enters the first block."""
        self.heap = heap
        self.update = place.update
        self.wait = place.wait
        self.handle = ctypes.c_void_p()  # fur_update * or fur_ro *
        self.owner = _owner(frame)
        self.blocks: list[_Place] = []
        self.failed = ""  # why it can only be rolled back
        self.left = False  # its block has ended in another thread, which cannot end it

    def enter(self, place: _Place) -> None:
        if place.update:
            self.check_update()
        self.blocks.append(place)
        if self.blocks[0] is not place:
            return
        begin = _lib.fur_begin_update if self.update else _lib.fur_begin_ro
        try:
            self.heap._me().open = self
            self.heap._check(begin(self.heap._me(), ctypes.byref(self.handle)))
        except BaseException:
            self.roll_back()
            raise

    def check_update(self) -> None:
        if not self.update:
            raise Error(
                Code.ENESTED,
                "a change inside `with heap.read()`: end that first, or use `with heap.update()` "
                "instead of it",
            )

    def leave(self, place: _Place, failed: bool) -> None:
        """The block ends; `failed`: by an exception."""
        if self.heap._opened() is not self:
            self.leave_elsewhere(failed)
            return
        in_order = self.blocks[-1] is place
        if not in_order:
            self.failed = "it ended before a block inside it"
        if self.blocks[0] is not place:
            if failed and place.update:
                self.failed = "an exception has left a block inside it"
            self.blocks.remove(place)
            if in_order or failed:
                return
            raise self.error()
        if failed or self.failed:
            self.roll_back()
            if failed:
                return
            raise self.error()
        end = _lib.fur_commit if self.update else _lib.fur_end_ro
        result = end(self.handle, None if self.wait else ctypes.byref(_Ticket()))
        self.forget()
        self.heap._check(result)

    def leave_elsewhere(self, failed: bool) -> None:
        """The block ends, and the calling thread does not have the transaction open."""
        if any(thread.open is self for thread in list(self.heap._threads.values())):
            self.left = True
            raise Error(
                Code.ENOTX,
                f"{self} ends in another thread than it began in, and can only be rolled back: its "
                "own thread does that when it next uses the heap; end each block in its thread",
            )
        if not failed:
            raise Error(Code.ENOTX, f"{self} was rolled back before its block ended")

    def roll_back(self) -> None:
        """End it, without effect.  It is no error if it has ended before."""
        if self.heap._opened() is self:
            _lib.fur_thread_abandon(self.heap._me())
            self.forget()

    def forget(self) -> None:
        """It has ended."""
        self.heap._me().open = None
        self.blocks.clear()

    def look_for_the_dead(self) -> None:
        """End the transaction if its first block has died; without another one it fails."""
        dead = [place for place in self.blocks if place() is None]
        if not dead:
            return
        if self.heap._opened() is not self:
            self.left = True
        elif self.blocks[0] in dead:
            self.roll_back()
        else:
            if any(place.update for place in dead):
                self.failed = "an exception has left a block inside it"
            self.blocks = [place for place in self.blocks if place not in dead]

    def error(self) -> Error:
        return Error(Code.EABORTED, f"{self} was rolled back: {self.failed}")

    def __str__(self) -> str:
        return (
            f"an update of {self.heap.path!r}" if self.update else f"a read of {self.heap.path!r}"
        )

    # ------------------------------------------------------------- whose it is

    def check_context(self) -> None:
        """Refuse another task, greenlet or generator of this thread."""
        greenlet, task, frame = self.owner
        if frame:
            if _on_stack(frame):
                return
            code = frame.f_code
            whose = f"the generator {code.co_name} ({code.co_filename}:{frame.f_lineno})"
        elif greenlet is _greenlet() and task is _task():
            return
        elif task:
            whose = f"the task {task.get_name()!r}"
        else:
            whose = f"the greenlet {greenlet!r}" if greenlet else "the code outside of this task"
        raise Error(
            Code.ENESTED,
            f"this thread has {self} open, which belongs to {whose}, and no other one may use the "
            "heap in this thread meanwhile: end that block first; keep `await`, `yield` and "
            "switches out of it, or guard it by a lock",
        )


# What may be suspended in a block: the flags of generators, coroutines and both in one.
_SUSPENDABLE = 0x20 | 0x80 | 0x100 | 0x200
_COROUTINE = 0x80 | 0x100
# A generator that enters a block for its caller, as contextlib.contextmanager does.
_ENTERING = ("__enter__", "__aenter__", "enter_context", "enter_async_context")


def _task() -> Any:
    """The asyncio task that runs in this thread."""
    asyncio = sys.modules.get("asyncio")
    running = getattr(asyncio, "_get_running_loop", None)
    loop = running() if running else None
    return asyncio.current_task(loop) if asyncio and loop else None


def _greenlet() -> Any:
    current = getattr(sys.modules.get("greenlet"), "getcurrent", None)
    return current() if current else None


def _owner(frame: Optional[FrameType]) -> tuple[Any, Any, Optional[FrameType]]:
    """Who enters a block in that frame: the greenlet, the task, and a generator's frame.

    Of a generator it is the frame that counts: on whose stack it is, runs in it.
    """
    task = _task()
    while frame:
        code, caller = frame.f_code, frame.f_back
        entering = code.co_name in _ENTERING or (caller and caller.f_code.co_name in _ENTERING)
        if code.co_flags & _SUSPENDABLE and not entering:
            if code.co_flags & _COROUTINE:
                if task:
                    break
                # A coroutine of something else than asyncio: a task is its outermost one.
                while caller and caller.f_code.co_flags & _COROUTINE:
                    frame, caller = caller, caller.f_back
            return _greenlet(), None, frame
        frame = caller
    return _greenlet(), task, None


def _on_stack(frame: FrameType) -> bool:
    at: Optional[FrameType] = sys._getframe(1)
    while at and at is not frame:
        at = at.f_back
    return at is not None


# ------------------------------------------------------------------ durability


class _Waiter:
    """A thread that waits for the medium, in place of the event loops of a heap's tasks.

    One wait serves all that have asked before it begins.  The thread refers to the heap only while
    a task waits, and ends when none has for a while.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: Optional[threading.Thread] = None
        self._asked: list[tuple[Heap, AbstractEventLoop, Future[None]]] = []
        self._waits = False

    def ask(self, heap: Heap, loop: AbstractEventLoop, future: Future[None]) -> None:
        """Complete the future when all that is visible now is durable."""
        with self._changed:
            self._asked.append((heap, loop, future))
            if not self._lives():
                self._thread = threading.Thread(target=self._run, name="libfur", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def finish(self) -> None:
        """Return when no task waits."""
        with self._changed:
            while self._lives() and (self._asked or self._waits):
                self._changed.wait()

    def _lives(self) -> bool:
        # An exception may have come before its start.
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._waits = False
                self._changed.notify_all()
                if not self._changed.wait_for(lambda: self._asked, _IDLE):
                    self._thread = None
                    return
                asked, self._asked, self._waits = self._asked, [], True
            self._serve(asked)
            asked.clear()

    @staticmethod
    def _serve(asked: list[tuple[Heap, AbstractEventLoop, Future[None]]]) -> None:
        error: Optional[Exception] = None
        heap = asked[0][0]
        try:
            heap._check(_lib.fur_sync(heap._heap()))
        except Exception as raised:
            error = raised.with_traceback(None)  # its frames have handles
        futures: dict[AbstractEventLoop, list[Future[None]]] = {}
        for _, loop, future in asked:
            futures.setdefault(loop, []).append(future)
        for loop, its in futures.items():
            try:
                loop.call_soon_threadsafe(_complete, its, error)
            except RuntimeError:  # the loop was closed
                pass


def _complete(futures: list[Future[None]], error: Optional[Exception]) -> None:
    for future in futures:
        if future.done():  # cancelled
            continue
        if error is not None:
            future.set_exception(copy.copy(error))
        else:
            future.set_result(None)


class Heap:
    """An open heap file.

    Options, as keywords of create(), open() and open_or_create(): heap_bytes, max_bytes (up to
    which the heap grows by itself), log_bytes (it bounds an update), ring_slots, max_threads,
    dram_bytes, snapshot_bytes (for what updates overwrite while snapshots are open), file_mode,
    address, async_ms (how long an update of `update(wait=False)` may remain volatile), debug,
    reader_report_ns, ack_patience_ms and log; pm: "auto" (the default), "pmem", "eadr", "emulated"
    or "sync"; and ack: "local" (the default) or "replicated", for a heap whose updates are shipped.
    fur.h, or `man fur_options`, describes them.

    log(level, message) is called with rare events that an operator wants to know: how libfur runs
    the heap, a recovery, a failure, a reader that has made an update wait for reader_report_ns.
    level is that of the module logging, so logging.getLogger("heap").log will do.  Any thread may
    call it, in the middle of an operation: it must not use this heap.
    """

    _handle = _Handle()  # never opened

    def __init__(self, path: str | bytes) -> None:
        """For the functions below."""
        self.path = path
        self._handle = _Handle()
        self._log: Any = None
        self._closed = False
        self._process = os.getpid()
        self._local = _Local()
        self._threads: weakref.WeakValueDictionary[int, _Thread] = weakref.WeakValueDictionary()
        # By the registration's address.
        self._registered: weakref.WeakValueDictionary[int, _Thread] = weakref.WeakValueDictionary()
        self._maps: weakref.WeakValueDictionary[str, _MapHandle] = weakref.WeakValueDictionary()
        self._waiter = _Waiter()
        self._snapshots: weakref.WeakValueDictionary[int, Snapshot] = weakref.WeakValueDictionary()
        # Those to end: `kept` has what the library knows.
        self._dropped: dict[int, _SnapshotHandle] = {}
        # Who begins or ends snapshots.  If an exception comes just after an end, the handle stays
        # in _dropped, and is ended again, which the library refuses: no begin may come in between
        # and have the same address.
        self._ending = threading.RLock()
        self._follower: Optional[Follower] = None

    @classmethod
    def _with(cls, function: Callable[..., int], path: _Path, given: Any, mode: int = 0) -> Heap:
        options, name = _options(given), _path(path)
        options.open = mode
        heap = cls(os.fspath(path))
        if options.called:
            heap._log = options.called
            _logs[id(heap._log)] = heap._log
        # The library sets the handle itself, so that no exception can lose it.
        try:
            heap._check(function(name, ctypes.byref(options), ctypes.byref(heap._handle)))
        except BaseException:
            heap.close()
            _logs.pop(id(heap._log), None)  # it was never open
            raise
        return heap

    @classmethod
    def create(cls, path: _Path, **options: Any) -> Heap:
        """Make a heap file, and open it.  Raises Error, also if the file exists."""
        return cls._with(_lib.fur_create, path, options)

    @classmethod
    def open(cls, path: _Path, **options: Any) -> Heap:
        """Open a heap file; after a crash, replay its log first.  Raises Error."""
        return cls._with(_lib.fur_open, path, options)

    @classmethod
    def open_or_create(cls, path: _Path, **options: Any) -> Heap:
        """Open the heap file; if there is none, make it.  Raises Error."""
        return cls._with(_lib.fur_open, path, options, _OPEN_OR_CREATE)

    @classmethod
    def open_copy(cls, path: _Path) -> Heap:
        """Open a copy of the heap as of one instant, even while a program updates it.  Raises
        Error."""
        return cls._with(_lib.fur_open_copy, path, {})

    def __enter__(self) -> Heap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<libfur.Heap {self.path!r}{', closed' if self._closed else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} cannot be pickled or copied, nor can its maps: one process has it open; let "
            "the other one read a copy, with Heap.open_copy(), or ask this one"
        )

    # --------------------------------------------------------------------- closing

    def close(self) -> None:
        """Close the heap; everything is durable then.

        Raises Error while another thread uses the heap, and while a thread has a transaction open:
        the heap stays open then.  If another exception interrupts it, call it again.  Tasks that
        wait for durable() have got it when it returns.  It ends the heap's snapshots and its
        follower.
        """
        if not self._handle and not self._handle.kept:
            return
        transaction = self._opened()
        if transaction:
            transaction.look_for_the_dead()
        # A child of fork() has one thread, and no transaction.
        if os.getpid() == self._process:
            self._check_idle()
            with self._ending:
                self._seal()
                self._end_all()
                self._closed = True
        self._closed = True
        for _ in range(1000):
            result = _lib.fur_close(self._handle.kept or self._handle)
            if result != Code.EBUSY:
                break
            # A thread has ended inside a block, for Python, but not yet for the C library, which
            # rolls the block back.
            time.sleep(0.001)
        if result == Code.EBUSY:
            self._unseal()
            self._closed = False
        else:
            _logs.pop(id(self._log), None)
            self._handle.kept = self._handle.value = None
            if self._local.me is not None:
                self._local.me.open = None
            if result == Code.EINVAL:  # it was closed, and then an exception came
                return
        if result < 0:
            raise Error(result)

    def _handles(self) -> list[_Handle]:
        handles = [self._handle, *self._threads.values()]
        if self._follower is not None:
            handles.append(self._follower._handle)
        return handles

    def _handles_to_seal(self) -> list[_Handle]:
        # Each operation on a snapshot also has the handle of its thread.
        return [*self._handles(), *(snapshot._handle for snapshot in self._snapshots.values())]

    def _check_idle(self) -> None:
        """Raise Error rather than wait for an operation that holds _ending."""
        try:
            self._check_ended()
            self._waiter.finish()
            self._check_unused()
        except BaseException as error:
            raise error.with_traceback(None)  # its frames have handles

    def _seal(self) -> None:
        """Set all handles to NULL, unless one is in use.  Raises Error."""
        try:
            self._check_ended()
            self._waiter.finish()
            self._check_unused()
            self._set_null()
            self._check_unused()
        except BaseException as error:
            self._unseal()
            raise error.with_traceback(None)  # its frames have handles

    def _set_null(self) -> None:
        for handle in self._handles_to_seal():
            handle.kept = handle.value or handle.kept
            handle.value = None

    def _unseal(self) -> None:
        for handle in self._handles_to_seal():
            handle.value, handle.kept = handle.kept or handle.value, None

    def _check_ended(self) -> None:
        if any(thread.open for thread in list(self._threads.values())):
            raise Error(
                Code.EBUSY,
                f"{self.path!r}: a thread has a transaction open on this heap: end it, then close",
            )

    def _check_unused(self) -> None:
        self._check_ended()
        idle = _Local()
        idle.me = _Thread()
        (most,) = _references([idle.me])
        if max(_references(self._handles())) > most:
            raise Error(
                Code.EBUSY,
                f"{self.path!r}: an operation on this heap is still running, in another thread or "
                "below this signal handler: wait for its end, then close",
            )

    def __del__(self) -> None:
        # The exit of the interpreter leaves the heap as a killed process does.
        if (self._handle or self._handle.kept) and not sys.is_finalizing():
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self)
            self._end_dropped()
            if self._follower is not None:
                self._follower._end()
            if _lib.fur_close(self._handle.kept or self._handle) != Code.EBUSY:
                _logs.pop(id(self._log), None)

    # ------------------------------------------------------------------- snapshots

    def snapshot(self) -> Snapshot:
        """The state of the heap at this instant, to be read for as long as you like: see Snapshot.
        It waits for an open `with heap.update()` of another thread, and until what it shows is
        durable.  Raises Error: inside a block; if 64 are open; if there is no memory."""
        self._outside("take the snapshot before or after the block")
        snapshot = Snapshot(self)
        with self._ending:
            self._end_dropped()
            self._check(_lib.fur_snapshot_begin(self._me(), ctypes.byref(snapshot._handle)))
        return snapshot

    def _drop(self, snapshot: Snapshot) -> None:
        """The program does not use it any more."""
        snapshot._handle.kept = snapshot._handle.value or snapshot._handle.kept
        self._dropped[id(snapshot._handle)] = snapshot._handle
        snapshot._handle.value = None
        self._snapshots.pop(id(snapshot), None)

    def _end_dropped(self) -> None:
        """End the snapshots that were dropped, or leave that to the end of this thread's block: a
        thread that has _ending may wait for the block."""
        if not self._dropped or self._opened() or os.getpid() != self._process:
            return
        with self._ending:
            for handle in list(self._dropped.values()):
                # With a transaction on another heap, later.
                if self._closed or _lib.fur_snapshot_end(handle.kept) != Code.ENESTED:
                    handle.kept = None
                    self._dropped.pop(id(handle), None)

    def _end_all(self) -> None:
        """Of a heap that is sealed."""
        for snapshot in list(self._snapshots.values()):
            self._drop(snapshot)
        self._end_dropped()
        if self._dropped:
            self._unseal()
            raise Error(
                Code.ENESTED,
                f"{self.path!r} has a snapshot, which cannot end while this thread has a "
                "transaction open on another heap: end that, then close",
            )
        if self._follower is not None:
            self._follower._end()

    # -------------------------------------------------------------------- shipping

    def follow(
        self,
        settings: Iterable[str] = (),
        log: Optional[Callable[[int, str], object]] = None,
        patience_ms: int = 0,
    ) -> Follower:
        """Follow the log of this heap, which is a standby: see Follower.  docs/shipping.md has the
        whole.

        settings: "KEY=VALUE" texts for the client of the log.  log(level, message) is called with
        rare events: that the log cannot be reached, and that it can again; why the follower has
        ended; a promotion.  It is called as that of Heap is, by a thread of libfur; it must not use
        this heap.  patience_ms: how long take_over() waits for the log; 0: 10 seconds.

        Raises Error: if the heap is no standby, or has a follower; inside a block.
        """
        options = _ship.options_of(settings, _number(patience_ms, "patience_ms", 32))
        called = None if log is None else _called(log)
        options.log = ctypes.cast(called, ctypes.c_void_p) if called else None
        self._outside("follow before or after the block")
        with self._ending:
            if self._follower is not None and self._follower._lives():
                raise Error(Code.EINVAL, f"{self.path!r} has a follower: stop() ends it")
            self._follower = Follower(self, called)
            # The library sets the handle itself, so that no exception can lose it.
            try:
                self._check(
                    _lib.fur_follow(
                        self._heap(), ctypes.byref(options), ctypes.byref(self._follower._handle)
                    )
                )
            except BaseException:
                self._follower._end()
                raise
            return self._follower

    def get_token(self) -> Token:
        """A token for all that this thread has stored in the heap or read of it, in blocks that
        have ended.  It waits until that is durable here.  Who calls wait_token() with it at a
        standby finds all of it there.  At a standby, it is for what readers find there now.

        Raises Error: if the heap is not shipped; with Code.EBEHIND, if no fur-ship has worked for
        it since it was opened; with Code.EFENCED, if another heap has taken over; inside a block.
        """
        self._outside("take the token after the block")
        token = _ship.CToken()
        self._check(_lib.fur_get_token(self._me(), ctypes.byref(token)))
        return Token(token.lineage, token.durts)

    def wait_token(self, token: Token, timeout: float) -> None:
        """Wait until what the token stands for is here: at a standby, for blocks and look-ups that
        begin after the return; at the primary, until the log has acknowledged it, so that no
        fail-over loses it.  It waits for `timeout` seconds at most, and with 0 not at all.  In a
        task of asyncio, call `await asyncio.to_thread(heap.wait_token, token, timeout)`.

        Raises Error: with Code.EBEHIND, if it is not there yet; with Code.ELOST, if a fail-over has
        lost some of it, or the heap cannot tell; if the heap is not shipped, or is a standby
        without a Follower; inside a block."""
        lineage, durts = (_number(part, "a part of a token", 64) for part in token)
        rest, begun = _ship.milliseconds(timeout), time.monotonic()
        end = begun + rest / 1000
        self._outside("wait for the token before the block")
        wanted = _ship.CToken(lineage, durts)
        while True:
            # Signal handlers run between two of these waits.
            part = min(rest, _PART_MS)
            result = _lib.fur_wait_token(self._heap(), ctypes.byref(wanted), part)
            rest = max(0, math.ceil((end - time.monotonic()) * 1000))
            if result != Code.EBEHIND or rest == 0:
                break
        self._check(result)

    # -------------------------------------------------------------------- handles

    def _check(self, result: int) -> int:
        if result < 0:
            self._check_open()
            raise Error(result)
        return result

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the heap {self.path!r} is closed")

    def _heap(self) -> _Handle:
        """Only as an argument of a function of the library: see above."""
        self._wait_for_close(lambda: self._handle.kept)
        return self._handle

    def _wait_for_close(self, kept: Callable[[], Optional[int]]) -> None:
        """Return when no other thread is closing the heap.  Raises ValueError if it is closed."""
        for _ in range(1000):
            if self._closed or not kept():
                break
            time.sleep(0.001)
        self._check_open()

    def _me(self) -> _Thread:
        """Likewise, or to set its `open`."""
        if self._dropped:
            self._end_dropped()
        if not self._local.me:
            self._register()
        return self._local.me  # type: ignore[return-value]

    def _register(self) -> None:
        """Give `me` a value."""
        if self._local.me is None:
            self._local.me = _Thread()
            self._threads[id(self._local.me)] = self._local.me
        self._wait_for_close(lambda: self._local.me.kept if self._local.me is not None else None)
        if not self._local.me:
            self._check(_lib.fur_thread_register(self._heap(), None, ctypes.byref(self._local.me)))
        # If threading.local is one for each greenlet (gevent), they share the thread's handle.
        assert self._local.me.value
        self._local.me = self._registered.setdefault(self._local.me.value, self._local.me)

    @property
    def size(self) -> int:
        """The size of the heap in bytes."""
        info = _Info(ctypes.sizeof(_Info))
        self._check(_lib.fur_get_info(self._heap(), ctypes.byref(info)))
        size: int = info.heap_bytes
        return size

    def backup(self, path: _Path) -> None:
        """Copy the heap as of one instant to a new file, while it is in use.  Raises Error."""
        self._check(_lib.fur_backup(self._heap(), _path(path)))

    def grow(self, size: int) -> None:
        """Let the heap have this many bytes, up to max_bytes.  Raises Error."""
        self._check(_lib.fur_grow(self._heap(), _number(size, "the size", 64)))

    # ---------------------------------------------------------------- transactions

    def update(self, *, wait: bool = True) -> _Block:
        """`with heap.update():` is one update: all or nothing, durable when the block has ended.
        `async with heap.update():` as well, and other tasks run while it waits for that; if the
        task is cancelled meanwhile, the update stays.

        With wait=False others see the update when the block has ended, and a power failure may
        undo it until sync() or durable(); a kill may too with pm "sync", which an ordinary file
        system has.  The heap becomes durable in the order of its updates.

        An exception that leaves the block rolls it back.  A block inside another one joins it, and
        the outer one waits; if an exception leaves the inner one, the outer one can only fail.
        Raises Error: inside `with heap.read()`; while another task, greenlet or generator of this
        thread has a block open; if the heap is full; if the update does not fit its log
        (log_bytes).
        """
        return _Block(self, True, wait)

    def read(self, *, wait: bool = True) -> _Block:
        """`with heap.read():` reads one state: no update of another thread comes in between.  What
        it has read is durable when the block has ended; `async with` and `wait` are as for
        update().

        Updates wait for readers that overlap them, so keep it short.  Inside an update it reads
        what the update has stored.  Raises Error, as update().
        """
        return _Block(self, False, wait)

    def sync(self) -> None:
        """Wait until all that threads and tasks have seen of the heap is durable.  One wait serves
        many `with heap.update(wait=False)`.  Raises Error: if the medium has failed; inside a
        block."""
        self._outside("wait for its end, and then until it is durable")
        self._check(_lib.fur_sync(self._heap()))

    async def durable(self) -> None:
        """The same for a task of asyncio, whose event loop runs on.  Raises Error, as sync(); it
        cannot be cancelled by the end of the loop: use close() then."""
        from asyncio import get_running_loop

        self._outside("wait for its end, and then until it is durable")
        self._check_open()
        if os.getpid() != self._process:
            self.sync()  # refuses
        loop = get_running_loop()
        future = loop.create_future()
        self._waiter.ask(self, loop, future)
        await future

    def _opened(self) -> Optional[_Transaction]:
        """What this thread has open."""
        return self._local.me.open if self._local.me is not None else None

    def _transaction(self) -> Optional[_Transaction]:
        """The transaction that an operation here is a part of.  Raises Error."""
        if self._local.me is None:
            self._register()
        transaction = self._opened()
        if transaction is None:
            return None
        transaction.look_for_the_dead()
        if transaction.left:
            transaction.roll_back()
        if self._opened() is not transaction:
            return None
        transaction.check_context()
        if transaction.failed:
            raise Error(
                Code.EABORTED,
                f"{transaction} can only be rolled back: {transaction.failed}",
            )
        return transaction

    # ------------------------------------------------------------------------ maps

    @overload
    def hash_map(self, name: str) -> Map[bytes]:
        ...

    @overload
    def hash_map(self, name: str, *, text: Literal[False]) -> Map[bytes]:
        ...

    @overload
    def hash_map(self, name: str, *, text: Literal[True]) -> Map[str]:
        ...

    @overload
    def hash_map(self, name: str, *, text: bool) -> Map[Any]:
        ...

    def hash_map(self, name: str, *, text: bool = False) -> Map[Any]:
        """The hash map of that name, made if there is none.  Raises Error: if the name belongs to
        something else; inside a transaction."""
        return Map(self, self._root(name, _HASH), text, name)

    @overload
    def ordered_map(self, name: str) -> OrderedMap[bytes]:
        ...

    @overload
    def ordered_map(self, name: str, *, text: Literal[False]) -> OrderedMap[bytes]:
        ...

    @overload
    def ordered_map(self, name: str, *, text: Literal[True]) -> OrderedMap[str]:
        ...

    @overload
    def ordered_map(self, name: str, *, text: bool) -> OrderedMap[Any]:
        ...

    def ordered_map(self, name: str, *, text: bool = False) -> OrderedMap[Any]:
        """The ordered map of that name, made if there is none.  Its order is that of the keys'
        bytes: for text, of their code points.  Raises Error, as hash_map()."""
        return OrderedMap(self, self._root(name, _ORDERED), text, name)

    @overload
    def hash_set(self, name: str) -> Set[bytes]:
        ...

    @overload
    def hash_set(self, name: str, *, text: Literal[False]) -> Set[bytes]:
        ...

    @overload
    def hash_set(self, name: str, *, text: Literal[True]) -> Set[str]:
        ...

    @overload
    def hash_set(self, name: str, *, text: bool) -> Set[Any]:
        ...

    def hash_set(self, name: str, *, text: bool = False) -> Set[Any]:
        """The set of that name, made if there is none.  In the heap it is a hash map whose values
        are empty.  Raises Error, as hash_map()."""
        return Set(self.hash_map(name, text=text))

    @overload
    def ordered_set(self, name: str) -> OrderedSet[bytes]:
        ...

    @overload
    def ordered_set(self, name: str, *, text: Literal[False]) -> OrderedSet[bytes]:
        ...

    @overload
    def ordered_set(self, name: str, *, text: Literal[True]) -> OrderedSet[str]:
        ...

    @overload
    def ordered_set(self, name: str, *, text: bool) -> OrderedSet[Any]:
        ...

    def ordered_set(self, name: str, *, text: bool = False) -> OrderedSet[Any]:
        """The set of that name, in the order of the keys' bytes, made if there is none.  Raises
        Error, as hash_map()."""
        return OrderedSet(self.ordered_map(name, text=text))

    def _outside(self, remedy: str) -> None:
        transaction = self._transaction()
        if transaction:
            raise Error(
                Code.ENESTED, f"this is not possible inside a block ({transaction}): {remedy}"
            )

    def _root(self, name: str, kind: int) -> _MapHandle:
        found, key = _MapHandle(), _name(name)
        self._outside("find or make its maps before the block")
        for function in (_lib.fur_map_find_root, _lib.fur_map_root):
            self._check(function(self._me(), key, kind, ctypes.byref(found)))
            if found:
                break
        known = self._maps.setdefault(name, found)
        if known.value != found.value:  # there was another map of that name
            known = self._maps[name] = found
        return known

    def destroy(self, name: str) -> bool:
        """Remove the map of that name, with all its entries, and free its room in the heap.  Its
        Map objects cannot be used any more.  Returns: was there such a name?  Raises Error: if the
        name belongs to something else; if the update does not fit the log (call clear_in_parts() of
        the map first); inside a transaction."""
        key, known = _name(name), self._maps.get(name)
        self._outside("remove a map before or after the block")
        # First, so that no exception leaves objects that point to freed memory.
        address = known.value if known is not None else None
        if known is not None:
            known.value = None
        result = _lib.fur_map_destroy_root(self._me(), key)
        if known is not None and result <= 0:
            known.value = address
        try:
            return bool(self._check(result))
        except Error as error:
            raise _with_parts(error) from None

    def remove_root(self, name: str) -> bool:
        """Forget the name of a map.  The map stays in the heap, for those who have it; destroy()
        frees it as well.  Returns: was there such a name?  Raises Error."""
        key = _name(name)
        self._outside("remove a map before or after the block")
        self._maps.pop(name, None)
        return bool(self._check(_lib.fur_map_remove_root(self._me(), key)))


# ----------------------------------------------------------------------- maps


def _split(copied: bytes) -> list[tuple[bytes, bytes]]:
    """The entries that the library has copied."""
    entries: list[tuple[bytes, bytes]] = []
    at = 0
    while at < len(copied):
        key_size, value_size = _SIZES_OF_ENTRY.unpack_from(copied, at)
        at += _SIZES_OF_ENTRY.size + key_size
        entries.append((copied[at - key_size : at], copied[at : at + value_size]))
        at += value_size
    return entries


class _Reading(Mapping[T, T], Generic[T]):
    """What can be read of a map, live or as of a snapshot."""

    _heap: Heap
    _text: bool

    # ----------------------------------------------------------- keys and values

    def _encode(self, value: T) -> bytes:
        if self._text:
            if not isinstance(value, str):
                raise TypeError(f"this map has text=True: it takes str, not {type(value).__name__}")
            return _encode_text(value)
        if not isinstance(value, (bytes, bytearray, memoryview)):
            kind = type(value).__name__
            raise TypeError(f"this map takes bytes, not {kind}: use text=True for str")
        return bytes(value)

    def _encode_key(self, key: T) -> bytes:
        """Of a key to look for.  Raises KeyError if the map cannot have it."""
        try:
            return self._encode(key)
        except ValueError:
            raise KeyError(key) from None

    def _decode(self, value: bytes) -> T:
        return value.decode("utf-8", "surrogateescape") if self._text else value  # type: ignore

    # ------------------------------------------------------------------- look-ups

    def _get(self, key: bytes, room: Any, size: ctypes.c_size_t) -> int:
        """fur_map_get()"""
        raise NotImplementedError

    def _find(self, key: bytes) -> Optional[bytes]:
        size = ctypes.c_size_t(_ROOM)
        while True:
            room = ctypes.create_string_buffer(size.value)
            if not self._get(key, room, size):
                return None
            if size.value <= len(room):
                return room.raw[: size.value]

    def __getitem__(self, key: T) -> T:
        value = self._find(self._encode_key(key))
        if value is None:
            raise KeyError(key)
        return self._decode(value)

    def _get_many(self, lookups: Any, count: int) -> int:
        """fur_map_get_many()"""
        raise NotImplementedError

    def _find_many(self, keys: list[Optional[bytes]]) -> list[Optional[bytes]]:
        """For each key its value or None; for None, None."""
        values: list[Optional[bytes]] = [None] * len(keys)
        # Each with the room for its value.
        left = [(n, key, _ROOM) for n, key in enumerate(keys) if key is not None]
        while True:
            names = ctypes.create_string_buffer(b"".join([key for _, key, _ in left]))
            room = ctypes.create_string_buffer(sum([size for _, _, size in left]))
            from_, to = ctypes.addressof(names), ctypes.addressof(room)
            packed = []
            for _, key, size in left:
                packed.append(_LOOKUP.pack(from_, len(key), to, size, 0, 0))
                from_, to = from_ + len(key), to + size
            lookups = ctypes.create_string_buffer(b"".join(packed), len(left) * _LOOKUP.size)
            self._get_many(lookups, len(left))
            copied, at, larger = memoryview(room), 0, []
            for (n, key, size), (*_, needed, found) in zip(left, _LOOKUP.iter_unpack(lookups)):
                if needed > size:
                    larger.append((n, key, needed))
                elif found:
                    values[n] = copied[at : at + needed].tobytes()
                at += size
            if not larger:
                return values
            left = larger

    def get_many(self, keys: Iterable[T]) -> list[Optional[T]]:
        """For each key its value, or None if it is not there, in the order of `keys`.

        It is one call of the library, which is faster than a get() for each key, most of all in a
        map that is larger than the processor's caches.  Outside a block it is one transaction for
        all values of up to 256 bytes, and a later one for those that are larger: to read one state,
        call it in `with heap.read()`.  A snapshot always shows one state.  Raises TypeError if a
        key is not of the map's type, and then reads nothing; Error."""
        codes: list[Optional[bytes]] = []
        for key in keys:
            try:
                codes.append(self._encode_key(key))
            except KeyError:
                codes.append(None)
        values = self._find_many(codes)
        return [None if value is None else self._decode(value) for value in values]

    def __contains__(self, key: object) -> bool:
        try:
            code = self._encode(key)  # type: ignore
        except (TypeError, ValueError):
            return False
        return bool(self._get(code, None, ctypes.c_size_t(0)))

    # ------------------------------------------------------------------ iteration

    def _batch(
        self, where: int, key: bytes, most: Optional[int] = _BATCH
    ) -> tuple[list[tuple[bytes, bytes]], bool]:
        """Up to `most` entries from a place on.  Are there more?"""
        raise NotImplementedError

    def _scan(self, *arguments: object) -> int:
        """fur_map_scan()"""
        raise NotImplementedError

    def _copy_from(self, place: int, most: int) -> tuple[int, list[tuple[bytes, bytes]]]:
        at, size = ctypes.c_uint64(_number(place, "a place", 64)), ctypes.c_size_t(_PART)
        count = _number(most, "the number of entries", 64)
        while True:
            room = ctypes.create_string_buffer(size.value)
            self._scan(ctypes.byref(at), count, room, ctypes.byref(size))
            if size.value <= len(room):
                return at.value, _split(ctypes.string_at(room, size.value))

    def scan_from(self, place: int = 0, most: int = _BATCH) -> tuple[int, list[tuple[T, T]]]:
        """A walk through a hash map in parts, from one process to the next if need be, as SCAN of
        Redis: some entries from a place on, about `most` of them, and the place to go on from.  The
        walk begins at 0, and is complete when it returns 0.

        Each call is a transaction.  An entry that is there all the time is returned at least once,
        however the map changes between the calls; again, if the map shrinks.  Any number is a
        place, and means the same in each process.  Raises TypeError: of an ordered map, whose
        scan() goes on from a key."""
        place, entries = self._copy_from(place, most)
        return place, [(self._decode(key), self._decode(value)) for key, value in entries]

    def _walk(self, where: int, key: bytes, onward: int) -> Iterator[tuple[bytes, bytes]]:
        """All entries from a place on, in batches."""
        more = True
        while more:
            entries, more = self._batch(where, key)
            yield from entries
            if entries:
                where, key = onward, entries[-1][0]

    def _entries(self) -> Iterator[tuple[T, T]]:
        for key, value in self._walk(_FIRST, b"", _BEHIND):
            yield self._decode(key), self._decode(value)

    def __iter__(self) -> Iterator[T]:
        for key, _ in self._entries():
            yield key

    def items(self) -> ItemsView[T, T]:
        """The entries; iterate over them for pairs."""
        return _Items(self)

    def values(self) -> ValuesView[T]:
        """The values."""
        return _Values(self)

    def __repr__(self) -> str:
        return f"<libfur.{type(self).__name__} in {self._heap.path!r}>"

    def __reduce__(self) -> Any:
        return self._heap.__reduce__()


class _Ordered(_Reading[T]):
    """Likewise, of one whose keys are in the order of their bytes."""

    def scan(self, start: Optional[T] = None, stop: Optional[T] = None) -> Iterator[tuple[T, T]]:
        """The entries whose keys are not before `start`, and before `stop`, in order.

        Of a map in a heap it reads 1000 entries in a transaction, or, inside one, all of them in
        it.  An entry that is in the map all the time is seen once.
        """
        end = None if stop is None else self._encode(stop)
        where, at = (_FIRST, b"") if start is None else (_FROM, self._encode(start))
        for key, value in self._walk(where, at, _BEHIND):
            if end is not None and key >= end:
                return
            yield self._decode(key), self._decode(value)

    def scan_from(self, place: int = 0, most: int = _BATCH) -> NoReturn:
        raise TypeError("an ordered map has no such places: call scan() with the last key")

    def __reversed__(self) -> Iterator[T]:
        for key, _ in self._walk(_LAST, b"", _BEFORE):
            yield self._decode(key)

    def _entries(self) -> Iterator[tuple[T, T]]:
        return self.scan()

    def first(self) -> tuple[T, T]:
        """The entry with the smallest key.  Raises KeyError if the map is empty."""
        return self._edge(_FIRST)

    def last(self) -> tuple[T, T]:
        """The entry with the largest key.  Raises KeyError if the map is empty."""
        return self._edge(_LAST)

    def _edge(self, where: int) -> tuple[T, T]:
        for key, value in self._batch(where, b"", 1)[0]:
            return self._decode(key), self._decode(value)
        raise KeyError("the map is empty")


class Map(_Reading[T], MutableMapping[T, T]):
    """A map in a heap, of bytes or str, as Heap.hash_map() and Heap.ordered_map() return it.

    Iteration over a hash map reads all of it in one transaction; over an ordered map, 1000 entries
    in each.  Every other operation is one transaction.
    """

    def __init__(self, heap: Heap, handle: _MapHandle, text: bool, name: str) -> None:
        """For Heap."""
        self._heap, self._handle, self._text, self._name = heap, handle, text, name

    # -------------------------------------------------------------- transactions

    def _check(self, result: int) -> int:
        if result == Code.EINVAL and not self._handle:
            raise ValueError("this map was destroyed")
        return self._heap._check(result)

    def _read(self, name: str, *arguments: object) -> int:
        """Call a function in the open transaction, or in one of its own."""
        transaction = self._heap._transaction()
        if transaction is None:
            with self._heap.read():
                return self._read(name, *arguments)
        function = getattr(_lib, f"fur_map_{name}_{'update' if transaction.update else 'ro'}")
        return self._check(function(transaction.handle, self._handle, *arguments))

    def _change(self, name: str, *arguments: object) -> int:
        """Likewise, for a change."""
        transaction = self._heap._transaction()
        if transaction is None:
            with self._heap.update():
                return self._change(name, *arguments)
        transaction.check_update()
        function = getattr(_lib, f"fur_map_{name}")
        return self._check(function(transaction.handle, self._handle, *arguments))

    def _change_one(self, name: str, *arguments: object) -> int:
        """Likewise; outside a transaction it is one call, which nothing interrupts."""
        if self._heap._transaction():
            return self._change(name, *arguments)
        function = getattr(_lib, f"fur_map_{name}_one")
        return self._check(function(self._heap._me(), self._handle, *arguments))

    # -------------------------------------------------------------------- mapping

    def _get(self, key: bytes, room: Any, size: ctypes.c_size_t) -> int:
        if self._heap._transaction():
            return self._read("get", key, len(key), room, ctypes.byref(size))
        return self._check(
            _lib.fur_map_get_one(
                self._heap._me(), self._handle, key, len(key), room, ctypes.byref(size)
            )
        )

    def _get_many(self, lookups: Any, count: int) -> int:
        if self._heap._transaction():
            return self._read("get_many", lookups, count)
        return self._check(
            _lib.fur_map_get_many_one(self._heap._me(), self._handle, lookups, count)
        )

    def _scan(self, *arguments: object) -> int:
        return self._read("scan", *arguments)

    def __setitem__(self, key: T, value: T) -> None:
        k, v = self._encode(key), self._encode(value)
        self._change_one("put", k, len(k), v, len(v))

    def __delitem__(self, key: T) -> None:
        k = self._encode_key(key)
        if not self._change_one("remove", k, len(k)):
            raise KeyError(key)

    def __len__(self) -> int:
        size = ctypes.c_uint64()
        self._read("size", ctypes.byref(size))
        return size.value

    def clear(self) -> None:
        """Remove all entries, in one update.  Raises Error if it does not fit the log: then call
        clear_in_parts()."""
        try:
            self._change("clear")
        except Error as error:
            raise _with_parts(error) from None

    def clear_in_parts(self) -> None:
        """Remove all entries of a map of any size, in several updates: others see it shrink, and
        what they add meanwhile is removed as well.  Raises Error: inside a block."""
        self._heap._outside("use clear()")
        self._check(_lib.fur_map_clear_in_parts(self._heap._me(), self._handle))

    def remove_if(self, predicate: Callable[[T, T], object]) -> int:
        """Remove the entries for which predicate(key, value) is true, in one update.

        Returns how many.  The predicate may be asked about an entry again; it must not change the
        map.  If it raises an exception, nothing is removed.  Raises Error if the update does not
        fit the log: then call remove_if_in_parts()."""
        removed = 0
        try:
            with self._heap.update():
                for entries in self._parts():
                    for key, value in entries:
                        if predicate(self._decode(key), self._decode(value)):
                            removed += self._change("remove", key, len(key))
        except Error as error:
            raise _with_parts(error, "remove_if_in_parts") from None
        return removed

    def remove_if_in_parts(self, predicate: Callable[[T, T], object]) -> int:
        """Likewise, in several updates, of which each is durable before the next: for maps of any
        size.  It is asked about an entry before it removes it, and again in the update.  What
        others add meanwhile may be removed or not.  If the predicate raises an exception, what
        earlier updates have removed stays removed.  Raises Error: inside a block."""
        self._heap._outside("use remove_if()")
        removed = 0
        for entries in self._parts():
            keys = [k for k, v in entries if predicate(self._decode(k), self._decode(v))]
            removed += self._remove_if(keys, predicate)
        return removed

    def _remove_if(self, keys: list[bytes], predicate: Callable[[T, T], object]) -> int:
        """In one update, or in several if that does not fit the log."""
        removed = 0
        if not keys:
            return 0
        try:
            with self._heap.update():
                for key in keys:
                    value = self._find(key)
                    if value is not None and predicate(self._decode(key), self._decode(value)):
                        removed += self._change("remove", key, len(key))
            return removed
        except Error as error:
            if error.code != Code.ETOOBIG or len(keys) == 1:
                raise
        half = len(keys) // 2
        return self._remove_if(keys[:half], predicate) + self._remove_if(keys[half:], predicate)

    def _parts(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """All entries, some at a time.  Those that were returned may be removed in between; others
        may come again."""
        place, entries = self._copy_from(0, _BATCH)
        while place:
            yield entries
            place, entries = self._copy_from(place, _BATCH)
        yield entries

    def setdefault(self, key: T, default: T) -> T:  # type: ignore[override]
        """The key's value; if there is none, `default`, which it then has."""
        k, v = self._encode(key), self._encode(default)
        with self._heap.update():
            return default if self._change("insert", k, len(k), v, len(v)) else self[key]

    def pop(self, key: T, *default: Any) -> Any:
        """Remove the key, and return its value; without it `default`, or KeyError."""
        if len(default) > 1:
            raise TypeError(f"pop() takes one default, not {len(default)}")
        k = self._encode_key(key)
        with self._heap.update():
            value = self._find(k)
            if value is not None:
                self._change("remove", k, len(k))
        # Not in the block: a KeyError would also roll back a block around it.
        if value is not None:
            return self._decode(value)
        if not default:
            raise KeyError(key)
        return default[0]

    def popitem(self) -> tuple[T, T]:
        """Remove and return some entry.  Raises KeyError if there is none."""
        with self._heap.update():
            entries, _ = self._batch(_FIRST, b"", 1)
            for key, _ in entries:
                self._change("remove", key, len(key))
        for key, value in entries:
            return self._decode(key), self._decode(value)
        raise KeyError("the map is empty")

    def update(self, *others: Any, **more: Any) -> None:
        """Take over all pairs, in one update."""
        with self._heap.update():
            super().update(*others, **more)

    # ------------------------------------------------------------------ iteration

    def _entry(self, it: _Iterator) -> tuple[bytes, bytes]:
        parts = []
        for part in (_lib.fur_map_key, _lib.fur_map_value):
            room = ctypes.create_string_buffer(_ROOM)
            size = part(ctypes.byref(it), room, _ROOM)
            if size > _ROOM:
                room = ctypes.create_string_buffer(size)
                part(ctypes.byref(it), room, size)
            parts.append(room.raw[:size])
        return parts[0], parts[1]

    def _batch(
        self, where: int, key: bytes, most: Optional[int] = _BATCH
    ) -> tuple[list[tuple[bytes, bytes]], bool]:
        """In one transaction."""
        go = _lib.fur_map_previous if where in _BACKWARD else _lib.fur_map_next
        it = _Iterator()
        entries: list[tuple[bytes, bytes]] = []
        with self._heap.read():
            found = self._read("seek", where, key, len(key), ctypes.byref(it))
            while found and (most is None or len(entries) < most):
                entries.append(self._entry(it))
                found = self._heap._check(go(ctypes.byref(it)))
        return entries, bool(found)

    def _entries(self) -> Iterator[tuple[T, T]]:
        for key, value in self._batch(_FIRST, b"", None)[0]:
            yield self._decode(key), self._decode(value)


class OrderedMap(_Ordered[T], Map[T]):
    """A map whose keys are in the order of their bytes."""

    def _parts(self) -> Iterator[list[tuple[bytes, bytes]]]:
        where, key, more = _FIRST, b"", True
        while more:
            entries, more = self._batch(where, key)
            if entries:
                where, key = _BEHIND, entries[-1][0]
            yield entries

    def _range(self, start: Optional[T], stop: Optional[T]) -> _Range:
        first, last = (None if key is None else self._encode(key) for key in (start, stop))
        return _Range(first, len(first or b""), last, len(last or b""))

    def remove_range(self, start: Optional[T] = None, stop: Optional[T] = None) -> int:
        """Remove the entries whose keys are not before `start`, and before `stop`, in one update.

        Returns how many.  Raises Error if it does not fit the log: then call
        remove_range_in_parts()."""
        keys, removed = self._range(start, stop), ctypes.c_uint64()
        try:
            self._change("remove_range", ctypes.byref(keys), ctypes.byref(removed))
        except Error as error:
            raise _with_parts(error, "remove_range_in_parts") from None
        return removed.value

    def remove_range_in_parts(self, start: Optional[T] = None, stop: Optional[T] = None) -> int:
        """Likewise, in several updates, of which each is durable before the next: for ranges of
        any size.  What others add meanwhile may be removed as well.  Raises Error: inside a
        block."""
        self._heap._outside("use remove_range()")
        keys, removed = self._range(start, stop), ctypes.c_uint64()
        self._check(
            _lib.fur_map_remove_range_in_parts(
                self._heap._me(), self._handle, ctypes.byref(keys), ctypes.byref(removed)
            )
        )
        return removed.value


class Snapshot:
    """One state of a heap, as Heap.snapshot() returns it.

        with heap.snapshot() as then:
            for key, value in then[orders].items():
                ...

    No update waits for it, and none that comes later changes what it shows: also not between two
    steps of an iteration, in which the same thread may update the heap.  All that it shows is
    durable.  Several may be open at a time, and several threads may read one, outside of blocks:
    inside `with heap.update()` or `with heap.read()` its reads raise Error.

    It costs memory for what updates overwrite meanwhile, up to the option snapshot_bytes.  If that
    is not enough, libfur revokes the oldest snapshot: its reads raise Error with Code.ETOOOLD, also
    in the middle of an iteration.  Close it then.
    """

    _handle = _SnapshotHandle()  # never begun

    def __init__(self, heap: Heap) -> None:
        """For Heap."""
        self._heap, self._handle = heap, _SnapshotHandle()
        heap._snapshots[id(self)] = self

    @overload
    def __getitem__(self, map: OrderedMap[T]) -> SnapshotOrderedMap[T]:
        ...

    @overload
    def __getitem__(self, map: Map[T]) -> SnapshotMap[T]:
        ...

    @overload
    def __getitem__(self, map: OrderedSet[T]) -> SnapshotOrderedSet[T]:
        ...

    @overload
    def __getitem__(self, map: Set[T]) -> SnapshotSet[T]:
        ...

    def __getitem__(self, map: Any) -> Any:
        """The map or set of that name as it was then.  Raises KeyError if there was none; Error: if
        the name belonged to something else; inside a block; if the snapshot is revoked."""
        if isinstance(map, OrderedSet):
            return SnapshotOrderedSet(self._find_map(map._map))
        if isinstance(map, Set):
            return SnapshotSet(self._find_map(map._map))
        return self._find_map(map)

    def _find_map(self, map: Any) -> Any:
        if not isinstance(map, Map):
            raise TypeError(f"a snapshot takes a Map or a Set, not {type(map).__name__}")
        if map._heap is not self._heap:
            raise ValueError(f"{map!r} is not in the heap of {self!r}")
        ordered = isinstance(map, OrderedMap)
        found = ctypes.c_void_p()
        kind, name = _ORDERED if ordered else _HASH, _name(map._name)
        if not self._read("find_root", name, kind, ctypes.byref(found)):
            raise KeyError(map._name)
        if ordered:
            return SnapshotOrderedMap(self, found, map._text, map._name)
        return SnapshotMap(self, found, map._text, map._name)

    def _read(self, name: str, *arguments: object) -> int:
        """Call a function that reads a snapshot."""
        self._heap._outside("read the snapshot before or after the block")
        function = getattr(_lib, f"fur_map_{name}_at")
        result = function(self._heap._me(), self._at(), *arguments)
        if result == Code.EINVAL and not self._handle:
            raise self._ended()
        return self._heap._check(result)

    def _at(self) -> _SnapshotHandle:
        """Only as an argument of a function of the library: see above."""
        if not self._handle:
            self._heap._wait_for_close(lambda: self._handle.kept)
            if not self._handle:
                raise self._ended()
        return self._handle

    def _ended(self) -> ValueError:
        return ValueError(f"{self!r} has ended")

    def close(self) -> None:
        """End the snapshot, and give its memory back; afterwards its reads raise ValueError.  If
        nothing refers to it and its maps any more, it ends when the heap is next used or closed.
        Raises Error: while another thread reads it; inside a block."""
        if not (self._handle or self._handle.kept) or os.getpid() != self._heap._process:
            return  # a child of fork() has no snapshot
        self._heap._outside("close the snapshot before or after the block")
        with self._heap._ending:
            if id(self._handle) not in self._heap._dropped:
                self._seal()
                self._heap._drop(self)
        self._heap._end_dropped()

    def _seal(self) -> None:
        """Set the handle to NULL, unless it is in use.  Raises Error."""
        self._handle.kept = self._handle.value or self._handle.kept
        self._handle.value = None
        try:
            idle = _Local()
            idle.me = _Thread()
            if _references([self._handle]) > _references([idle.me]):
                raise Error(
                    Code.EBUSY,
                    f"{self!r}: a read is still running, in another thread or below this signal "
                    "handler: wait for its end, then close",
                )
        except BaseException as error:
            self._handle.value, self._handle.kept = self._handle.kept, None
            raise error.with_traceback(None)  # its frames have the handle

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if (self._handle or self._handle.kept) and not sys.is_finalizing():
            # It takes no lock, for which the garbage collector might wait anywhere.
            self._heap._drop(self)

    def __repr__(self) -> str:
        return f"<libfur.Snapshot of {self._heap.path!r}{'' if self._handle else ', ended'}>"

    def __reduce__(self) -> Any:
        return self._heap.__reduce__()


class Follower:
    """What makes a standby follow its log, as Heap.follow() returns it.

        with heap.follow() as follower:
            heap.wait_token(token, 5)
            print(stock["nuts"], follower.state())

    A thread of libfur applies to this heap what the primary has shipped.  Reads and snapshots show
    the heap as it was at the primary between two updates; an update raises Error with
    Code.EREADONLY.  It goes on while the log cannot be reached, and ends for good when the log is
    not what it was: state() tells.  The end of the `with` ends it, and so does the heap's close().
    Any thread may use it.
    """

    def __init__(self, heap: Heap, called: Any) -> None:
        """For Heap.  `called`: what the library calls, or None."""
        self._heap, self._handle, self._called = heap, _FollowerHandle(), called
        if called:
            _logs[id(called)] = called

    def state(self) -> FollowState:
        """How far it is."""
        state = _ship.CFollowState(size=ctypes.sizeof(_ship.CFollowState))
        self._check(_lib.fur_get_follow_state(self._live(), ctypes.byref(state)))
        has = {name: getattr(state, name) for name, *_ in state._fields_ if name != "size"}
        has["unread"] = None if state.unread == _ship.NEVER_LOOKED else state.unread
        has["error"] = Code(state.error) if state.error in _CODES else state.error
        has["message"] = _in_python(state.message.decode(errors="replace"))
        return FollowState(**has)

    def take_over(self, term: int = 0) -> None:
        """Promote the standby: it claims the log, which fences the old primary, and applies all
        that the log has before the claim.  Then call stop(), and close and open the heap: it is the
        primary, which fur-ship ships and programs update.

        term: that of the writer to be replaced, as state().term was when you decided, so that of
        several standbys one takes over; 0: that of the writer now.  What the old primary had not
        shipped is lost.

        Raises Error: with Code.EFENCED, if another node has claimed the log since; with
        Code.EBEHIND, if the log does not answer; inside a block.  The heap is a standby then, and
        follows on."""
        number = _number(term, "term", 64)
        self._heap._outside("take over before or after the block")
        self._check(_lib.fur_take_over(self._live(), number))

    def stop(self) -> None:
        """End it; the heap stays a standby, and open.  Raises Error: while another thread is in
        take_over() or state()."""
        if not self._lives() or os.getpid() != self._heap._process:
            return  # a child of fork() has no such thread
        with self._heap._ending:
            if self._handle:
                self._seal()
            self._end()

    def _lives(self) -> bool:
        return bool(self._handle or self._handle.kept)

    def _seal(self) -> None:
        """Set the handle to NULL, unless it is in use.  Raises Error."""
        self._handle.kept = self._handle.value
        self._handle.value = None
        try:
            idle = _Local()
            idle.me = _Thread()
            if _references([self._handle]) > _references([idle.me]):
                raise Error(
                    Code.EBUSY,
                    f"{self!r} is in use in another thread or below this signal handler: wait for "
                    "that, then stop it",
                )
        except BaseException as error:
            self._handle.value, self._handle.kept = self._handle.kept, None
            raise error.with_traceback(None)  # its frames have the handle

    def _end(self) -> None:
        """End it, when it is not in use."""
        self._handle.kept = self._handle.value or self._handle.kept
        self._handle.value = None
        if self._handle.kept:
            # The library frees it.  An exception between the call and the step that forgets it
            # would end it twice, or never: so list() makes both, where none can come.
            list(map(_lib.fur_unfollow, map(vars(self._handle).pop, ["kept"])))
        _logs.pop(id(self._called), None)

    def _live(self) -> _FollowerHandle:
        """Only as an argument of a function of the library: see above."""
        if not self._handle:
            self._heap._wait_for_close(lambda: self._handle.kept)
        return self._handle

    def _check(self, result: int) -> None:
        if result == Code.EINVAL and not self._handle:
            self._heap._check_open()
            raise ValueError(f"{self!r} has ended")
        self._heap._check(result)

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<libfur.Follower of {self._heap.path!r}{'' if self._handle else ', ended'}>"

    def __reduce__(self) -> Any:
        return self._heap.__reduce__()


class SnapshotMap(_Reading[T]):
    """A map as it was at a Snapshot: snapshot[map] returns it.  An iteration copies some entries at
    a time, and begins no transaction."""

    def __init__(self, snapshot: Snapshot, found: ctypes.c_void_p, text: bool, name: str) -> None:
        """For Snapshot."""
        self._heap, self._text, self._name = snapshot._heap, text, name
        self._snapshot, self._map = snapshot, found

    def _get(self, key: bytes, room: Any, size: ctypes.c_size_t) -> int:
        return self._snapshot._read("get", self._map, key, len(key), room, ctypes.byref(size))

    def _scan(self, *arguments: object) -> int:
        return self._snapshot._read("scan", self._map, *arguments)

    def _get_many(self, lookups: Any, count: int) -> int:
        return self._snapshot._read("get_many", self._map, lookups, count)

    def __len__(self) -> int:
        size = ctypes.c_uint64()
        self._snapshot._read("size", self._map, ctypes.byref(size))
        return size.value

    def _batch(
        self, where: int, key: bytes, most: Optional[int] = _BATCH
    ) -> tuple[list[tuple[bytes, bytes]], bool]:
        size = ctypes.c_size_t(2 * _ROOM if most == 1 else _PART)
        while True:
            room = ctypes.create_string_buffer(size.value)
            more = self._snapshot._read(
                "copy", self._map, where, key, len(key), room, ctypes.byref(size)
            )
            if size.value <= len(room):
                break
        entries = _split(ctypes.string_at(room, size.value))
        return entries[:most], bool(more) or len(entries) > len(entries[:most])

    def __repr__(self) -> str:
        return f"<libfur.{type(self).__name__} {self._name!r} in {self._snapshot!r}>"


class SnapshotOrderedMap(_Ordered[T], SnapshotMap[T]):
    """Likewise, a map whose keys are in the order of their bytes."""


class _Items(ItemsView[T, T]):
    """Each pair is read at once: a key may be gone when its value is asked for."""

    _mapping: Mapping[T, T]

    def __iter__(self) -> Iterator[tuple[T, T]]:
        return self._mapping._entries()  # type: ignore


class _Values(ValuesView[T]):
    """Likewise."""

    _mapping: Mapping[Any, T]

    def __iter__(self) -> Iterator[T]:
        for _, value in self._mapping._entries():  # type: ignore
            yield value
