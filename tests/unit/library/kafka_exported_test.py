#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""libfur-kafka.so.0 exports the one function that libfur looks for, and needs nothing of libfur.

    kafka_exported_test.py OBJDUMP LIBRARY
"""
import re
import subprocess
import sys

from dynamic_symbols import exported_by

objdump, library = sys.argv[1:]

exported = set(exported_by(objdump, library))
if exported != {"fur_stream_engine_open"}:
    sys.exit(f"exported: {' '.join(sorted(exported))}")
text = subprocess.run(
    [objdump, "--private-headers", "--dynamic-syms", library],
    check=True,
    stdout=subprocess.PIPE,
    text=True,
).stdout
if re.search(r"NEEDED +libfur", text) or re.search(r"\*UND\*.* fur_", text):
    sys.exit("it needs libfur.so: take what it needs from struct engine_host")
if not re.search(r"SONAME +libfur-kafka\.so\.0$", text, re.M):
    sys.exit("its name is not libfur-kafka.so.0, for which engine_open.c asks")
