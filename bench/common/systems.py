# SPDX-License-Identifier: BSD-3-Clause
"""A system in a plot: its name, and how its line looks."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """A transactional memory, or a scheme of replay. `reads` and `updates`: where its transactions
    commit when not under the lock. `durably_opaque`: without it, a transaction may return data that
    a power failure takes back."""

    tm: str
    label: str
    colour: str
    marker: str
    reads: str = ""
    updates: str = ""
    durably_opaque: bool = True

    @property
    def line(self) -> str:
        return "-" if self.durably_opaque else "--"
