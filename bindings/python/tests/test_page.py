# SPDX-License-Identifier: BSD-3-Clause
"""The examples of docs/bindings.md do what the page says."""
import asyncio
import contextlib
import io
import pathlib
import textwrap
import unittest
from typing import Any

import libfur
from test_libfur import HeapTest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "bindings.md"


def example(first_line: str) -> str:
    """The indented block that begins with this line."""
    text = PAGE.read_text()
    lines = text[text.index("    " + first_line + "\n") :].splitlines()
    end = next(n for n, line in enumerate(lines) if line and not line.startswith("    "))
    return textwrap.dedent("\n".join(lines[:end]))


class Page(HeapTest):
    def test_the_first_example(self) -> None:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(example("import libfur").replace("/tmp/shop.fur", self.path + ".shop"), {})
        self.assertEqual(output.getvalue(), "('11', '1')\n")

    def test_snapshots(self) -> None:
        stock = self.heap.ordered_map("stock", text=True)
        stock.update({"nuts": "12", "rice": "7"})
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(
                example("with heap.snapshot() as then:"),
                {"heap": self.heap, "stock": stock},
            )
        self.assertEqual(output.getvalue(), "2 12\n")
        self.assertEqual(dict(stock), {"nuts": "13", "rice": "8"})

    def test_several_values_for_a_key(self) -> None:
        names: dict[str, Any] = {"heap": self.heap}
        exec(example('logins = heap.ordered_set("logins", text=True)'), names)
        self.assertEqual(names["tokens"], ["t1", "t2"])
        self.assertEqual(set(names["logins"]), {"adam\0t3"})

    def test_the_class_of_asyncio(self) -> None:
        names: dict[str, Any] = {}
        exec(example("class Sessions:"), names)

        async def main() -> None:
            sessions = names["Sessions"](self.heap)
            await asyncio.gather(*(sessions.login(f"t{n}", "ada") for n in range(3)))
            await sessions.login("t", "adam")
            self.assertEqual(await sessions.tokens("ada"), ["t0", "t1", "t2"])

        asyncio.run(main())

    def test_a_block_that_is_lent(self) -> None:
        names: dict[str, Any] = {"contextlib": contextlib, "heap": self.heap}
        exec(example("@contextlib.contextmanager"), names)
        m = self.heap.hash_map("m")
        with names["transfer"]():
            m[b"k"] = b"v"
            with self.assertRaises(libfur.Error):
                self.heap.sync()
        self.assertEqual(len(m), 1)


if __name__ == "__main__":
    unittest.main()
