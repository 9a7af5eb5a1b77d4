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
            print(stock["nuts"], stock.get("sold"))

A map is a MutableMapping, from bytes to bytes or, with text=True, from str to str.  Outside a
`with`, each operation is a transaction of its own.  An exception that leaves `with heap.update()`
rolls the update back.  An assignment has survived a power failure when it returns; within
`with heap.update()`, when the block has ended.

Several threads may use a heap and its maps.  Updates run one at a time, for the interpreter fits no
hardware transaction; reads run beside them.

This module calls libfur.so and needs nothing else.  It loads the library by its name, or from the
path in the environment's LIBFUR_LIBRARY.
"""
from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from contextlib import contextmanager
from typing import Any, Generic, Optional, TypeVar

__all__ = ["Error", "Heap", "Map", "OrderedMap", "version"]

T = TypeVar("T")  # bytes or str

_SONAME = "libfur.so.0"
_BATCH = 1000  # entries that one transaction of a scan reads
_ROOM = 256  # bytes of a value that are copied without asking for its size

_EINVAL = -1
_ENOENT = -3
_EEXIST = -4
_HTM_NONE = 1
_HASH, _ORDERED = 1, 2
_FIRST, _LAST, _AT, _FROM, _BEHIND = range(5)


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
        ("pm_latency_ns", ctypes.c_uint32),
        ("pm_gap_ns", ctypes.c_uint32),
        ("retries", ctypes.c_uint32),
        ("no_populate", ctypes.c_bool),
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
    ]


# The options that make sense from Python; fur.h describes them.
_SIZES = ("heap_bytes", "log_bytes", "ring_slots", "max_threads", "dram_bytes", "max_bytes")
_SETTABLE = (*_SIZES, "file_mode")
_PM = {"auto": 0, "pmem": 1, "eadr": 2, "emulated": 3, "sync": 4}


class _Iterator(ctypes.Structure):
    """struct fur_map_iterator."""

    _fields_ = [("opaque", ctypes.c_uint64 * 128)]


def _load() -> ctypes.CDLL:
    path = os.environ.get("LIBFUR_LIBRARY", _SONAME)
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"libfur: cannot load {path} ({error}): install libfur, or set LIBFUR_LIBRARY to its "
            "path"
        ) from None
    handle, size = ctypes.c_void_p, ctypes.c_size_t
    text, data = ctypes.c_char_p, ctypes.c_char_p
    out = ctypes.POINTER(handle)
    it = ctypes.POINTER(_Iterator)
    options = ctypes.POINTER(_Options)
    for name, arguments in {
        "fur_create": [text, options, out],
        "fur_open": [text, options, out],
        "fur_open_read_only": [text, options, out],
        "fur_close": [handle],
        "fur_backup": [handle, text],
        "fur_grow": [handle, ctypes.c_uint64],
        "fur_thread_register": [handle, out],
        "fur_begin_ro": [handle, out],
        "fur_end_ro": [handle],
        "fur_begin_update": [handle, out],
        "fur_commit": [handle],
        "fur_abort": [handle],
        "fur_map_root": [handle, handle, text, ctypes.c_int, out],
        "fur_map_find_root": [handle, handle, text, ctypes.c_int, out],
        "fur_map_remove_root": [handle, handle, text],
        "fur_map_clear": [handle, handle],
        "fur_map_destroy": [handle, handle],
        "fur_map_put": [handle, handle, data, size, data, size],
        "fur_map_insert": [handle, handle, data, size, data, size],
        "fur_map_remove": [handle, handle, data, size],
        "fur_map_next": [it],
        "fur_map_previous": [it],
    }.items():
        getattr(lib, name).argtypes = arguments
        getattr(lib, name).restype = ctypes.c_int
    for kind in ("ro", "update"):
        for name, arguments in {
            "size": [handle, handle, ctypes.POINTER(ctypes.c_uint64)],
            "get": [handle, handle, data, size, ctypes.c_char_p, ctypes.POINTER(size)],
            "seek": [handle, handle, ctypes.c_int, data, size, it],
        }.items():
            function = getattr(lib, f"fur_map_{name}_{kind}")
            function.argtypes, function.restype = arguments, ctypes.c_int
    for name in ("fur_map_key", "fur_map_value"):
        getattr(lib, name).argtypes = [it, ctypes.c_char_p, size]
        getattr(lib, name).restype = size
    lib.fur_bytes.argtypes, lib.fur_bytes.restype = [handle], ctypes.c_uint64
    lib.fur_strerror.argtypes, lib.fur_strerror.restype = [ctypes.c_int], text
    lib.fur_errormsg.argtypes, lib.fur_errormsg.restype = [], text
    lib.fur_version.argtypes, lib.fur_version.restype = [], text
    return lib


_lib = _load()


class Error(Exception):
    """A function of libfur has failed.  The text names the file, the problem and the remedy.

    code: the FUR_E* code, as -10 for FUR_ENOSPC.
    """

    def __init__(self, code: int) -> None:
        super().__init__((_lib.fur_errormsg() or _lib.fur_strerror(code)).decode(errors="replace"))
        self.code = code


def _check(result: int) -> int:
    if result < 0:
        raise Error(result)
    return result


def version() -> str:
    """The version of libfur.so."""
    found: bytes = _lib.fur_version()
    return found.decode()


class _Thread(threading.local):
    """This thread's registration with a heap, and its open transactions."""

    handle: Optional[int] = None
    ro: Optional[int] = None
    update: Optional[int] = None


def _options(given: dict[str, Any]) -> _Options:
    options = _Options(size=ctypes.sizeof(_Options))
    # The interpreter would abort every hardware transaction.
    options.htm = _HTM_NONE
    for name, value in given.items():
        if name == "pm":
            if value not in _PM:
                raise ValueError(f"pm must be one of {', '.join(_PM)}, not {value!r}")
            options.pm = _PM[value]
        elif name in _SETTABLE:
            if not isinstance(value, int) or value < 0 or value >= 1 << 64:
                raise ValueError(f"{name} must be a number that is not negative, not {value!r}")
            setattr(options, name, value)
        else:
            raise TypeError(f"no option {name!r}: there are pm, {', '.join(_SETTABLE)}")
    return options


class Heap:
    """An open heap file.

    Options, as keywords of create(), open() and open_or_create(): heap_bytes, max_bytes (up to
    which the heap grows by itself), log_bytes (it bounds an update), ring_slots, max_threads,
    dram_bytes, file_mode, and pm: "auto" (the default), "pmem", "eadr", "emulated" or "sync".
    fur.h, or `man fur_options`, describes them.
    """

    def __init__(self, handle: int, path: str) -> None:
        """For the functions below."""
        self._handle: Optional[int] = handle
        self._local = _Thread()
        self.path = path

    @classmethod
    def _with(cls, function: Callable[..., int], path: str | os.PathLike[str], given: Any) -> Heap:
        handle, name = ctypes.c_void_p(), os.fspath(path)
        options = _options(given)
        _check(function(os.fsencode(name), ctypes.byref(options), ctypes.byref(handle)))
        assert handle.value
        return cls(handle.value, name)

    @classmethod
    def create(cls, path: str | os.PathLike[str], **options: Any) -> Heap:
        """Make a heap file, and open it.  Raises Error, also if the file exists."""
        return cls._with(_lib.fur_create, path, options)

    @classmethod
    def open(cls, path: str | os.PathLike[str], **options: Any) -> Heap:
        """Open a heap file; after a crash, replay its log first.  Raises Error."""
        return cls._with(_lib.fur_open, path, options)

    @classmethod
    def open_or_create(cls, path: str | os.PathLike[str], **options: Any) -> Heap:
        """Open the heap file; if there is none, make it.  Raises Error."""
        try:
            return cls.open(path, **options)
        except Error as error:
            if error.code != _ENOENT:
                raise
        try:
            return cls.create(path, **options)
        except Error as error:
            if error.code != _EEXIST:  # another process was quicker
                raise
        return cls.open(path, **options)

    @classmethod
    def open_read_only(cls, path: str | os.PathLike[str]) -> Heap:
        """Open a copy of the heap as of one instant, even while a program updates it.  Raises
        Error."""
        return cls._with(_lib.fur_open_read_only, path, {})

    def close(self) -> None:
        """Close the heap; everything is durable then.  Raises Error, also while another thread has
        a transaction open: the heap stays open then."""
        if self._handle is not None:
            _check(_lib.fur_close(self._handle))
            self._handle = None

    def __enter__(self) -> Heap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<libfur.Heap {self.path!r}{'' if self._handle else ', closed'}>"

    def _open_handle(self) -> int:
        if self._handle is None:
            raise ValueError(f"the heap {self.path!r} is closed")
        return self._handle

    @property
    def size(self) -> int:
        """The size of the heap in bytes."""
        size: int = _lib.fur_bytes(self._open_handle())
        return size

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the heap as of one instant to a new file, while it is in use.  Raises Error."""
        _check(_lib.fur_backup(self._open_handle(), os.fsencode(path)))

    def grow(self, size: int) -> None:
        """Let the heap have so many bytes, up to max_bytes.  Raises Error."""
        _check(_lib.fur_grow(self._open_handle(), size))

    # ---------------------------------------------------------------- transactions

    def _thread(self) -> _Thread:
        local, heap = self._local, self._open_handle()
        if local.handle is None:
            handle = ctypes.c_void_p()
            _check(_lib.fur_thread_register(heap, ctypes.byref(handle)))
            local.handle = handle.value
        return local

    @contextmanager
    def update(self) -> Iterator[None]:
        """`with heap.update():` is one update: all or nothing, durable when the block has ended.

        An exception that leaves the block rolls it back.  A block inside another one joins it; if
        an exception leaves the inner one, the outer one can only fail.
        Raises Error: inside `with heap.read()`; if the heap is full; if the update does not fit
        its log (log_bytes).
        """
        with self._inside("update", _lib.fur_begin_update, _lib.fur_commit, _lib.fur_abort):
            yield

    @contextmanager
    def read(self) -> Iterator[None]:
        """`with heap.read():` reads one state: no update of another thread comes in between.

        Updates wait for readers that overlap them, so keep it short.  Inside an update it reads
        what the update has stored.  Raises Error.
        """
        if self._thread().update is not None:
            yield
            return
        with self._inside("ro", _lib.fur_begin_ro, _lib.fur_end_ro, _lib.fur_end_ro):
            yield

    @contextmanager
    def _inside(
        self,
        kind: str,
        begin: Callable[..., int],
        end: Callable[..., int],
        give_up: Callable[..., int],
    ) -> Iterator[None]:
        """A transaction of libfur, which the thread's `kind` names meanwhile."""
        thread, handle = self._thread(), ctypes.c_void_p()
        outer = getattr(thread, kind)
        _check(begin(thread.handle, ctypes.byref(handle)))
        setattr(thread, kind, handle.value)
        try:
            yield
        except BaseException:
            setattr(thread, kind, outer)
            give_up(handle)
            raise
        setattr(thread, kind, outer)
        _check(end(handle))

    # ------------------------------------------------------------------------ maps

    def hash_map(self, name: str, *, text: bool = False) -> Map[Any]:
        """The hash map of that name, made if there is none.  Raises Error: if the name belongs to
        something else; inside a transaction."""
        return Map(self, self._root(name, _HASH), text)

    def ordered_map(self, name: str, *, text: bool = False) -> OrderedMap[Any]:
        """The ordered map of that name, made if there is none.  Its order is that of the keys'
        bytes: for text, of their code points.  Raises Error, as hash_map()."""
        return OrderedMap(self, self._root(name, _ORDERED), text)

    def _root(self, name: str, kind: int) -> int:
        handle, heap, thread = ctypes.c_void_p(), self._open_handle(), self._thread().handle
        key = name.encode()
        if not _check(_lib.fur_map_find_root(heap, thread, key, kind, ctypes.byref(handle))):
            _check(_lib.fur_map_root(heap, thread, key, kind, ctypes.byref(handle)))
        assert handle.value
        return handle.value

    def remove_root(self, name: str) -> bool:
        """Forget the name of a map, which stays in the heap: clear() it before.  Returns: was there
        such a name?  Raises Error."""
        thread = self._thread().handle
        return bool(_check(_lib.fur_map_remove_root(self._open_handle(), thread, name.encode())))


class Map(MutableMapping[T, T], Generic[T]):
    """A map in a heap, of bytes or str, as Heap.hash_map() and Heap.ordered_map() return it.

    Iteration over a hash map reads all of it in one transaction; over an ordered map, 1000 entries
    in each.  Every other operation is one transaction.
    """

    def __init__(self, heap: Heap, handle: int, text: bool) -> None:
        """For Heap."""
        self._heap, self._handle, self._text = heap, handle, text

    # ----------------------------------------------------------- keys and values

    def _encode(self, value: T) -> bytes:
        if self._text:
            if not isinstance(value, str):
                raise TypeError(f"this map has text=True: it takes str, not {type(value).__name__}")
            return value.encode("utf-8", "surrogateescape")
        if not isinstance(value, (bytes, bytearray, memoryview)):
            kind = type(value).__name__
            raise TypeError(f"this map takes bytes, not {kind}: use text=True for str")
        return bytes(value)

    def _decode(self, value: bytes) -> T:
        return value.decode("utf-8", "surrogateescape") if self._text else value  # type: ignore

    # -------------------------------------------------------------- transactions

    @contextmanager
    def _reading(self) -> Iterator[tuple[str, Optional[int]]]:
        """The transaction to read in, and the ending of its functions' names."""
        thread = self._heap._thread()
        if thread.update is not None:
            yield "update", thread.update
        elif thread.ro is not None:
            yield "ro", thread.ro
        else:
            with self._heap.read():
                yield "ro", thread.ro

    def _call(self, name: str, *arguments: object) -> int:
        with self._reading() as (kind, tx):
            function = getattr(_lib, f"fur_map_{name}_{kind}")
            return _check(function(tx, self._handle, *arguments))

    def _change(self, name: str, *arguments: object) -> int:
        with self._heap.update():
            function = getattr(_lib, f"fur_map_{name}")
            return _check(function(self._heap._thread().update, self._handle, *arguments))

    # -------------------------------------------------------------------- mapping

    def _find(self, key: bytes) -> Optional[bytes]:
        with self._heap.read():
            size = ctypes.c_size_t(_ROOM)
            room = ctypes.create_string_buffer(_ROOM)
            if not self._call("get", key, len(key), room, ctypes.byref(size)):
                return None
            if size.value > _ROOM:
                room = ctypes.create_string_buffer(size.value)
                self._call("get", key, len(key), room, ctypes.byref(size))
            return room.raw[: size.value]

    def __getitem__(self, key: T) -> T:
        value = self._find(self._encode(key))
        if value is None:
            raise KeyError(key)
        return self._decode(value)

    def __contains__(self, key: object) -> bool:
        code = self._encode(key)  # type: ignore
        return bool(self._call("get", code, len(code), None, ctypes.byref(ctypes.c_size_t(0))))

    def __setitem__(self, key: T, value: T) -> None:
        k, v = self._encode(key), self._encode(value)
        self._change("put", k, len(k), v, len(v))

    def __delitem__(self, key: T) -> None:
        code = self._encode(key)
        if not self._change("remove", code, len(code)):
            raise KeyError(key)

    def __len__(self) -> int:
        size = ctypes.c_uint64()
        self._call("size", ctypes.byref(size))
        return size.value

    def clear(self) -> None:
        """Remove all entries, in one update.  Raises Error if it does not fit the log: then remove
        them in several."""
        self._change("clear")

    def setdefault(self, key: T, default: T) -> T:  # type: ignore[override]
        """The key's value; if there is none, `default`, which it then has."""
        k, v = self._encode(key), self._encode(default)
        with self._heap.update():
            return default if self._change("insert", k, len(k), v, len(v)) else self[key]

    def pop(self, key: T, *default: Any) -> Any:
        """Remove the key, and return its value; without it `default`, or KeyError."""
        with self._heap.update():
            return super().pop(key, *default)

    def popitem(self) -> tuple[T, T]:
        """Remove and return some entry.  Raises KeyError if there is none."""
        with self._heap.update():
            return super().popitem()

    def update(self, *others: Any, **more: Any) -> None:
        """Take over all pairs, in one update."""
        with self._heap.update():
            super().update(*others, **more)

    # ------------------------------------------------------------------ iteration

    def _entry(self, it: _Iterator) -> tuple[bytes, bytes]:
        parts = []
        for copy in (_lib.fur_map_key, _lib.fur_map_value):
            room = ctypes.create_string_buffer(_ROOM)
            size = copy(ctypes.byref(it), room, _ROOM)
            if size > _ROOM:
                room = ctypes.create_string_buffer(size)
                copy(ctypes.byref(it), room, size)
            parts.append(room.raw[:size])
        return parts[0], parts[1]

    def _batch(
        self, where: int, key: bytes, most: Optional[int], back: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Up to `most` entries from a place on, in one transaction."""
        go = _lib.fur_map_previous if back else _lib.fur_map_next
        it = _Iterator()
        entries: list[tuple[bytes, bytes]] = []
        with self._heap.read():
            found = self._call("seek", where, key, len(key), ctypes.byref(it))
            if back and where == _FROM:  # the entry before
                found = _check(go(ctypes.byref(it)))
            while found and (most is None or len(entries) < most):
                entries.append(self._entry(it))
                found = _check(go(ctypes.byref(it)))
        return entries

    def _entries(self) -> Iterator[tuple[T, T]]:
        for key, value in self._batch(_FIRST, b"", None):
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


class OrderedMap(Map[T]):
    """A map whose keys are in the order of their bytes."""

    def scan(self, start: Optional[T] = None, stop: Optional[T] = None) -> Iterator[tuple[T, T]]:
        """The entries whose keys are not before `start`, and before `stop`, in order.

        It reads 1000 entries in a transaction, or, inside one, all of them in it.  An entry that is
        in the map all the time is seen once.
        """
        end = None if stop is None else self._encode(stop)
        where, at = (_FIRST, b"") if start is None else (_FROM, self._encode(start))
        while True:
            entries = self._batch(where, at, _BATCH)
            for key, value in entries:
                if end is not None and key >= end:
                    return
                yield self._decode(key), self._decode(value)
            if len(entries) < _BATCH:
                return
            where, at = _BEHIND, entries[-1][0]

    def __reversed__(self) -> Iterator[T]:
        where, at = _LAST, b""
        while True:
            entries = self._batch(where, at, _BATCH, back=True)
            for key, _ in entries:
                yield self._decode(key)
            if len(entries) < _BATCH:
                return
            where, at = _FROM, entries[-1][0]

    def _entries(self) -> Iterator[tuple[T, T]]:
        return self.scan()

    def first(self) -> tuple[T, T]:
        """The entry with the smallest key.  Raises KeyError if the map is empty."""
        return self._edge(_FIRST)

    def last(self) -> tuple[T, T]:
        """The entry with the largest key.  Raises KeyError if the map is empty."""
        return self._edge(_LAST)

    def _edge(self, where: int) -> tuple[T, T]:
        for key, value in self._batch(where, b"", 1):
            return self._decode(key), self._decode(value)
        raise KeyError("the map is empty")


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
