# SPDX-License-Identifier: BSD-3-Clause
"""What the scripts that measure share: numbers on their command lines, their progress, and
what the disk needs for a sync."""
from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time


def whole(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10**7:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to 10000000")
    return int(text)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"'{text}' is no length: use up to 3600 seconds")
    return value


def say_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<79.79}\r", end="", file=sys.stderr, flush=True)


def sync_us(directory: str) -> float:
    """fdatasync after a write of 4 KiB into a file of a fixed size; the median."""
    times = []
    with tempfile.TemporaryFile(dir=directory) as file:
        descriptor = file.fileno()
        os.write(descriptor, bytes(1 << 20))
        os.fsync(descriptor)
        for k in range(100):
            os.pwrite(descriptor, b"x" * 4096, k * 4096)
            began = time.perf_counter()
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6
