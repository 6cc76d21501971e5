"""Images as rows of pixels, for the tests of the tool: files of them, and what they are in another size.

    picture.py png  FILE WIDTH HEIGHT SEED      a picture of waves and noise
    picture.py jpeg FILE WIDTH HEIGHT SEED      the same, but for what its colours lose by rounding

A pixel is [red, green, blue].  The standard library alone; no library of images is asked."""
import math
import random
import struct
import sys
import zlib


def picture(width, height, seed):
    dice = random.Random(seed)
    return [[[min(255, max(0, int(128 + 90 * math.sin(x / (3 + c) + y / (9 - c) + seed) + dice.gauss(0, 12))))
              for c in range(3)] for x in range(width)] for y in range(height)]


# ---- PNG -----------------------------------------------------------------------------------------------


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def write_png(path, rows, size=None):
    """size: what the header says, where that is not the truth."""
    width, height = size or (len(rows[0]), len(rows))
    body = b"".join(b"\0" + bytes(v for pixel in row for v in pixel) for row in rows)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b""))


# ---- JPEG: baseline, every table of quantisation 1, every code of one length -----------------------------

ZIGZAG = sorted(((y, x) for y in range(8) for x in range(8)),
                key=lambda at: (sum(at), at[0] if sum(at) % 2 else at[1]))
AC = [0] + [run << 4 | size for run in range(16) for size in range(1, 11)] + [0xF0]  # 162 codes of 8 bits


class Bits:
    def __init__(self):
        self.text = []

    def put(self, value, bits):
        if bits:
            self.text.append(format(value, f"0{bits}b"))

    def number(self, value):
        """How many bits it has, then those: of a negative one, those of value - 1."""
        size = abs(value).bit_length()
        return size, (value if value > 0 else value + (1 << size) - 1) if size else 0

    def bytes(self):
        text = "".join(self.text)
        text += "1" * (-len(text) % 8)
        data = bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))
        return data.replace(b"\xff", b"\xff\0")


def cosines(block):
    """The 8 x 8 coefficients of a block of numbers around 0."""
    basis = [[(math.sqrt(0.125) if k == 0 else 0.5) * math.cos((2 * i + 1) * k * math.pi / 16) for i in range(8)]
             for k in range(8)]
    half = [[sum(basis[k][i] * row[i] for i in range(8)) for k in range(8)] for row in block]
    return [[round(sum(basis[k][i] * half[i][x] for i in range(8))) for x in range(8)] for k in range(8)]


def put_block(bits, block, before):
    numbers = cosines(block)
    size, code = bits.number(numbers[0][0] - before)
    bits.put(size, 4)
    bits.put(code, size)
    run = 0
    flat = [numbers[y][x] for y, x in ZIGZAG][1:]
    while flat and flat[-1] == 0:
        flat.pop()
    for value in flat:
        if value == 0:
            run += 1
            continue
        for _ in range(run // 16):
            bits.put(AC.index(0xF0), 8)
        size, code = bits.number(value)
        bits.put(AC.index(run % 16 << 4 | size), 8)
        bits.put(code, size)
        run = 0
    if len(flat) < 63:
        bits.put(AC.index(0), 8)
    return numbers[0][0]


def segment(marker, data):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def luminance(pixel):
    r, g, b = pixel
    y = 0.299 * r + 0.587 * g + 0.114 * b
    return [y - 128, (b - y) / 1.772, (r - y) / 1.402]


def write_jpeg(path, rows):
    width, height = len(rows[0]), len(rows)
    bits, before = Bits(), [0, 0, 0]
    for top in range(0, height, 8):
        for left in range(0, width, 8):
            tile = [[luminance(rows[min(top + y, height - 1)][min(left + x, width - 1)]) for x in range(8)]
                    for y in range(8)]
            for c in range(3):
                before[c] = put_block(bits, [[v[c] for v in row] for row in tile], before[c])
    frame = struct.pack(">BHHB", 8, height, width, 3) + b"".join(bytes([c, 0x11, 0]) for c in (1, 2, 3))
    scan = b"\3" + b"".join(bytes([c, 0]) for c in (1, 2, 3)) + b"\0\x3f\0"
    tables = (b"\0" + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12)) +
              b"\x10" + bytes([0] * 7 + [len(AC)] + [0] * 8) + bytes(AC))
    with open(path, "wb") as file:
        file.write(b"\xff\xd8" + segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0") + segment(0xDB, b"\0" + b"\1" * 64) +
                   segment(0xC0, frame) + segment(0xC4, tables) + segment(0xDA, scan) + bits.bytes() + b"\xff\xd9")


# ---- another size ----------------------------------------------------------------------------------------


def tent(x):
    return max(0, 1 - abs(x))


def cubic(x):
    x = abs(x)
    return 1.5 * x ** 3 - 2.5 * x ** 2 + 1 if x < 1 else -0.5 * x ** 3 + 2.5 * x ** 2 - 4 * x + 2 if x < 2 else 0


def resized(line, count, kernel):
    """A line of pixels in another length, without rounding."""
    ratio, out = len(line) / count, []
    for i in range(count):
        weights = [kernel((j + 0.5 - (i + 0.5) * ratio) / max(1, ratio)) for j in range(len(line))]
        out.append([sum(w * pixel[c] for w, pixel in zip(weights, line)) / sum(weights) for c in range(3)])
    return out


def turned(rows):
    return [list(column) for column in zip(*rows)]


def rounded(rows):
    return [[[min(255, max(0, math.floor(v + 0.5))) for v in pixel] for pixel in row] for row in rows]


def resize(rows, width, height, kernel):
    """Along rows, then along columns, each time rounded to 8 bits."""
    narrow = rounded([resized(row, width, kernel) for row in rows])
    return turned(rounded([resized(column, height, kernel) for column in turned(narrow)]))


def main():
    what, path, width, height, seed = sys.argv[1:]
    {"png": write_png, "jpeg": write_jpeg}[what](path, picture(int(width), int(height), int(seed)))


if __name__ == "__main__":
    main()
