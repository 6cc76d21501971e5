"""llama2c.py shared|separate FOLDER: writes a small model of llama2.c with random weights, and what it answers.

FOLDER gets model.bin; tokenizer.bin; ids.npy, int32 [tokens]; expected.npy, f32 [tokens, vocabulary]; text.txt and
text_ids.npy, a text and its tokens.  What is expected comes from the formulas, in double, and from merging by scores,
both written anew here: positions turn neighbours, and a text begins with token 1 and a space.
llama2c.py damage FILE OUT COMMAND: the file's bytes as `b`, changed by a command of Python."""
import math
import os
import struct
import sys

import npy
from foreign import FEED, HEAD, HEADS, LAYERS, TOKENS, WIDTH, Weights, add, attend, dense, heads, rms, silu

KV_HEADS, LENGTH = 2, 16
WORDS = [" ", "a", "b", "c", "e", "é", "ab", " a", " ab", "abc", " abc", "ca", "bé", "ee"]
SCORES = [-1, -2, -3, -4, -5, -6, -7, -7.5, -6.5, -9, -12, -8, -5.5, -20]
VOCABULARY = 3 + 256 + len(WORDS)
TEXT = "abc abcab  béb eee é \n<s> 漢a\x01"


def rotate(x, position):
    out = list(x)
    for i in range(0, len(x), 2):
        angle = position * 10000 ** (-i / len(x))
        out[i] = x[i] * math.cos(angle) - x[i + 1] * math.sin(angle)
        out[i + 1] = x[i] * math.sin(angle) + x[i + 1] * math.cos(angle)
    return out


def model(w, ids, separate):
    """The weights come in the order of the file, a matrix a layer."""
    def each(*shape, **more):
        return [w.make(f"{len(w)}", *shape, **more) for _ in range(LAYERS)]
    embed = w.make("embed", VOCABULARY, WIDTH)
    first = each(WIDTH, around=1.0)
    q, k, v, out = (each(*shape) for shape in ((WIDTH, WIDTH), (HEAD * KV_HEADS, WIDTH), (HEAD * KV_HEADS, WIDTH),
                                               (WIDTH, WIDTH)))
    second = each(WIDTH, around=1.0)
    gate, down, up = each(FEED, WIDTH), each(WIDTH, FEED), each(FEED, WIDTH)
    last = w.make("last", WIDTH, around=1.0)
    angles = [t * 10000 ** (-2 * i / HEAD) for t in range(LENGTH) for i in range(HEAD // 2)]
    w["cos"], w["sin"] = (None, [math.cos(a) for a in angles]), (None, [math.sin(a) for a in angles])
    head = w.make("head", VOCABULARY, WIDTH) if separate else embed
    x = [embed[i] for i in ids]
    for l in range(LAYERS):
        side = [rms(row, first[l], 1e-5) for row in x]
        qs, ks = ([[rotate(h, t) for h in heads(dense(m, row), count)] for t, row in enumerate(side)]
                  for m, count in ((q[l], HEADS), (k[l], KV_HEADS)))
        vs = [heads(dense(v[l], row), KV_HEADS) for row in side]
        x = [add(row, dense(out[l], mixed)) for row, mixed in zip(x, attend(qs, ks, vs, True))]
        side = [rms(row, second[l], 1e-5) for row in x]
        x = [add(row, dense(down[l], [silu(a) * b for a, b in zip(dense(gate[l], s), dense(up[l], s))]))
             for row, s in zip(x, side)]
    return [dense(head, rms(row, last, 1e-5)) for row in x]


def encode(text, tokens):
    """Characters, or the bytes of those without a token, merged where the score is highest, the first of equals."""
    number = {t: i for i, t in enumerate(tokens)}
    ids = []
    for c in " " + text:
        ids += [number[c.encode()]] if c.encode() in number else [3 + byte for byte in c.encode()]
    while True:
        pairs = [(number.get(tokens[a] + tokens[b]), i) for i, (a, b) in enumerate(zip(ids, ids[1:]))]
        pairs = [(SCORES[t - 259], -i, t) for t, i in pairs if t is not None and t >= 259]
        if not pairs:
            return [1] + ids
        _, i, t = max(pairs)
        ids[-i:-i + 2] = [t]


def main():
    kind, folder = sys.argv[1:3]
    if kind == "damage":
        b = bytearray(open(folder, "rb").read())
        scope = {"b": b, "struct": struct}
        exec(sys.argv[4], scope)
        open(sys.argv[3], "wb").write(scope["b"])
        return
    w = Weights(kind)
    ids = [w.random.randrange(VOCABULARY) for _ in range(TOKENS)]
    expected = model(w, ids, kind == "separate")
    os.makedirs(folder, exist_ok=True)
    vocabulary = -VOCABULARY if kind == "separate" else VOCABULARY
    with open(f"{folder}/model.bin", "wb") as file:
        file.write(struct.pack("<7i", WIDTH, FEED, LAYERS, HEADS, KV_HEADS, vocabulary, LENGTH))
        for _, flat in w.values():
            file.write(struct.pack(f"<{len(flat)}f", *flat))
    tokens = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % i for i in range(256)] + [t.encode() for t in WORDS]
    with open(f"{folder}/tokenizer.bin", "wb") as file:
        file.write(struct.pack("<i", max(map(len, tokens))))
        for i, t in enumerate(tokens):
            file.write(struct.pack("<fi", SCORES[i - 259] if i >= 259 else 0, len(t)) + t)
    npy.write(f"{folder}/ids.npy", [TOKENS], ids, "<i4")
    npy.write(f"{folder}/expected.npy", [len(expected), len(expected[0])], [v for row in expected for v in row])
    with open(f"{folder}/text.txt", "w") as file:
        file.write(TEXT)
    found = encode(TEXT, tokens)
    npy.write(f"{folder}/text_ids.npy", [len(found)], found, "<i4")


if __name__ == "__main__":
    main()
