# SPDX-License-Identifier: BSD-3-Clause
"""Files that are holes for the most part, read without the holes."""
import os

PIECE = 65536
ZEROS = bytes(PIECE)


def contents(path):
    """The size of the file, and its pieces, by their places, without those of zeros only."""
    found: dict[int, bytes] = {}
    with open(path, "rb", buffering=0) as f:
        size = f.seek(0, os.SEEK_END)
        at = 0
        while True:
            try:
                at = f.seek(at, os.SEEK_DATA) // PIECE * PIECE
            except OSError:  # only a hole is left
                return size, found
            end = f.seek(at, os.SEEK_HOLE)
            if end == at:  # a hole, and behind it data in the same piece
                end = at + PIECE
            f.seek(at)
            while at < end:
                piece = f.read(PIECE)
                if piece != ZEROS[: len(piece)]:
                    found[at] = piece
                at += PIECE


def copy_sparse(path, to):
    size, found = contents(path)
    with open(to, "wb", buffering=0) as f:
        for at, piece in found.items():
            f.seek(at)
            f.write(piece)
        f.truncate(size)
