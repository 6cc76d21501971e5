#!/usr/bin/env python3
"""Writes an array of normal numbers, f32, as .npy:  random-npy.py FILE EXTENT..."""
import random
import struct
import sys

if len(sys.argv) < 3:
    sys.exit(__doc__)
path, shape = sys.argv[1], tuple(int(extent) for extent in sys.argv[2:])
count = 1
for extent in shape:
    count *= extent
source = random.Random(path)
header = repr({"descr": "<f4", "fortran_order": False, "shape": shape})
header += " " * (63 - (10 + len(header)) % 64) + "\n"
with open(path, "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    file.write(struct.pack(f"<{count}f", *(source.gauss(0, 1) for _ in range(count))))
