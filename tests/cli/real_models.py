"""real_models.py TOOL FOLDER: models as they are found in the world, held against what other programs say of them.

FOLDER has, anywhere in it, any of the models named below; each is known by the checksum of its weights, and one that
is not there is said.  SmolLM2 and MiniLM were run by transformers, in f32 from the same weights; the models of llama2.c
by its formulas in f64.  Exits with 77 where a model was not there."""
import hashlib
import json
import math
import os
import subprocess
import sys

import npy

# Signs of all kinds, spaces, scripts, emoji, code, special tokens, repetition.
LINES = [
    "Hello, World! It's 2026-11-19.", "  two  spaces\tand\ttabs \n\n newlines", "naïve café — “quotes” … ½ ™",
    "漢字かな交じり文 한국어 العربية हिन्दी", "👩\u200d👩\u200d👧\u200d👦 🇫🇷 e\u0301 \u200b\ufeff",
    "if (x<=0) { return a[i++]->b; } // 0x1F 1e-9", "<|im_start|>user\nhi<|im_end|>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 12345678901234567890",
]
ISHMAEL = (
    "Call me Ishmael. Some years ago--never mind how long precisely--having little or no money in my purse, and "
    "nothing particular to interest me on shore, I thought I would sail about a little and see the watery part of the"
    " world. It is a way I have of driving off the spleen and regulating the circulation. Whenever I find myself "
    "growing grim about the mouth; whenever it is a damp, drizzly November in my soul; whenever I find myself "
    "involuntarily pausing before coffin warehouses, and bringing up the rear of every funeral I meet; then, I "
    "account it high time to get to sea as soon as I can.")
LILY = "Lily and Ben went to the park. They saw a big dog."
ONCE = "Once upon a time"

# What a model is, and what is known of it: `logits`, the first after `ids`, and the norm of all; `text`, what follows
# `prompt`; `loss`, nats a token of `data`; `vectors`, the first numbers of each of `texts`; `tokens` of `lines`.
MODELS = [
    dict(
        name="SmolLM2-135M-Instruct, Q4_1", file=".gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ids=[504, 3575, 282, 4649, 314], norm=892.13586,
        logits=[1.6136, -11.8719, -7.9444, -9.3469, -10.0852, -10.8128, -3.9415, -10.8056],
        prompt="The capital of France is", text=" Paris.\n\nThe answer is",
        data=ISHMAEL, loss=4.35912, lines=LINES, tokens=[
        [19556, 28, 2260, 17, 657, 506, 216, 34, 32, 34, 38, 29, 33, 33, 29, 33, 41, 30],
        [216, 827, 216, 5600, 197, 397, 197, 100, 7366, 38028, 725, 5110],
        [3546, 46494, 37366, 1841, 619, 385, 2346, 573, 5548, 216, 16738, 4636, 222, 112],
        [177, 137, 112, 36518, 7365, 229, 7365, 120, 16736, 114, 7365, 242, 10391, 228, 29184, 216, 33085, 246, 181,
         130, 251, 183, 240, 129, 27819, 34966, 20602, 31462, 23339, 43463, 12335, 134, 27011, 30658, 16525, 44757,
         37189],
        [10813, 235, 119, 321, 231, 10813, 235, 119, 321, 231, 10813, 235, 117, 321, 231, 10813, 235, 116, 15107,
         225, 121, 10813, 225, 132, 297, 151, 219, 459, 229, 186, 136, 140],
        [342, 365, 104, 44, 45, 32, 25, 1662, 1003, 253, 75, 89, 11444, 77, 22690, 82, 43, 4029, 13241, 216, 32,
         104, 33, 54, 216, 33, 85, 29, 41],
        [1, 4093, 198, 6004, 2],
        [46880, 46880, 46880, 46880, 46880, 46880, 46880, 11510, 81, 216, 33, 34, 35, 36, 37, 38, 39, 40, 41, 32,
         33, 34, 35, 36, 37, 38, 39, 40, 41, 32]
    ]),
    dict(
        name="all-MiniLM-L6-v2", file="model.safetensors", folder=True,
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        texts=["A man is eating food.", "A monkey is playing drums.", "naïve café 漢字 👩\u200d👧"],
        vectors=[[0.033242, 0.004406, -0.006277, 0.048379, -0.138702, -0.033617],
                 [0.023465, -0.058529, 0.055992, -0.046667, -0.065652, 0.028978],
                 [-0.026077, 0.032755, -0.003897, 0.031272, 0.008139, -0.005192]],
        lines=LINES, tokens=[
        [101, 7592, 1010, 2088, 999, 2009, 1005, 1055, 16798, 2575, 1011, 2340, 1011, 2539, 1012, 102],
        [101, 2048, 7258, 1998, 21628, 2015, 2047, 12735, 102],
        [101, 15743, 7668, 1517, 1523, 16614, 1524, 1529, 1092, 1580, 102],
        [101, 1904, 100, 1651, 30193, 100, 1657, 30212, 1861, 1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008,
         1270, 23673, 29830, 17149, 29816, 14498, 19433, 1339, 29877, 29863, 29861, 29878, 102],
        [101, 100, 100, 1041, 102],
        [101, 2065, 1006, 1060, 1026, 1027, 1014, 1007, 1063, 2709, 1037, 1031, 1045, 1009, 1009, 1033, 1011, 1028,
         1038, 1025, 1065, 1013, 1013, 1014, 2595, 2487, 2546, 1015, 2063, 1011, 1023, 102],
        [101, 1026, 1064, 10047, 1035, 2707, 1064, 1028, 5310, 7632, 1026, 1064, 10047, 1035, 2203, 1064, 1028, 102],
        [101, 13360, 11057, 11057, 11057, 11057, 11057, 11057, 11057, 11057, 11057, 11057, 11057, 11057, 11057,
         11057, 13138, 19961, 2575, 2581, 2620, 21057, 12521, 22022, 26976, 2581, 2620, 21057, 102]
    ]),
    dict(
        name="stories260K", file=".bin",
        sha256="b0a507e7ad0f626624f17112325e66691f9076d622e1d3274d103d00299f2696",
        ids=[1, 403, 407, 261, 378], norm=179.51425,
        logits=[-10.13658, -5.32946, -10.13809, -10.13686, -10.13721, -10.13833, -10.13727, -10.13764],
        prompt=ONCE, text=", there was a little girl named Lily. She loved to play outside in the park. One day, she saw "
                          "a big, red ball. She wanted to play with it, but it was too high.\nLily",
        data=LILY, loss=1.3096788,
        lines=["Hello, World! 123", "  two  spaces", "Ünï 漢字 😀", "tab\tnew\nline", "<s></s>", "a" * 20],
        tokens=[[1, 346, 306, 414, 432, 410, 448, 304, 341, 443, 410, 475, 479, 472],
                [1, 410, 410, 259, 424, 414, 410, 262, 427, 412, 331, 419],
                [1, 410, 198, 159, 416, 198, 178, 410, 233, 191, 165, 232, 176, 154, 410, 243, 162, 155, 131],
                [1, 259, 412, 430, 12, 416, 411, 424, 13, 421, 271, 411], [1, 410, 504, 419, 505, 504, 492, 419, 505],
                [1, 261] + [412] * 19]),
    dict(
        name="babyllama105", file=".bin",
        sha256="98b63851593002f0ab706ff1db61fd9f5fd73d89df34970dd66eced9ee954464",
        ids=[1, 3, 34, 9, 22, 4, 3, 18, 20, 7, 9, 3, 5, 3, 6, 10, 16, 4], norm=50.688264,
        logits=[-1.391, -1.72497, -8.21062, 6.18944, -0.5452, -1.33235, -0.35326, 0.23005],
        prompt=ONCE, text=", there was a little girl named Lily. She loved to play outs", data=LILY, loss=0.5145215,
        lines=[ONCE], tokens=[[1, 3, 34, 9, 22, 4, 3, 18, 20, 7, 9, 3, 5, 3, 6, 10, 16, 4]]),
]


def find(folder, model):
    """Its path; None: it is not there."""
    for root, _, names in os.walk(folder, followlinks=True):
        for name in sorted(names):
            path = os.path.join(root, name)
            if name.endswith(model["file"]) and os.path.isfile(path):
                with open(path, "rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() == model["sha256"]:
                        return root if model.get("folder") else path
    return None


class Missing(Exception):
    """The tool was built without what a tokenizer needs."""


def run(*arguments):
    done = subprocess.run([TOOL, *arguments], capture_output=True, text=True)
    if "this build has no" in done.stderr:
        raise Missing(done.stderr.strip())
    assert done.returncode == 0 and not done.stderr, (arguments, done.stderr)
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def put(name, text):
    with open(name, "w", newline="") as file:
        file.write(text)
    return name


def near(got, wanted, tolerance, size):
    wrong = [(a, b) for a, b in zip(got, wanted) if not abs(a - b) <= tolerance * size]
    assert len(got) >= len(wanted) and not wrong, wrong


def check(path, m):
    if "logits" in m:
        npy.write("ids.npy", [len(m["ids"])], m["ids"], "<i4")
        run("eval", path, "--token-ids", "ids.npy", "--logits", "logits.npy", "--last", "1")
        _, _, last = npy.read("logits.npy")
        near(last, m["logits"], 2e-3, max(map(abs, m["logits"])))
        near([math.sqrt(sum(x * x for x in last))], [m["norm"]], 1e-4, m["norm"])
        answer = run("generate", path, "--prompt", m["prompt"], "--tokens", "60", "--temperature", "0", "--json")
        assert answer["text"].startswith(m["text"]), answer["text"]
        loss = run("eval", path, "--data", put("data.txt", m["data"]), "--json")["loss"]
        near([loss], [m["loss"]], 1e-3, 1)
    for line, wanted in zip(m["lines"], m["tokens"]):
        got = run("tokenize", path, "--file", put("line.txt", line), "--json")["tokens"]
        assert got == wanted, (line, got, wanted)
    if "texts" in m:
        run("embed", path, "--file", put("texts.txt", "\n".join(m["texts"]) + "\n"), "-o", "vectors.npy")
        _, shape, flat = npy.read("vectors.npy")
        for i, wanted in enumerate(m["vectors"]):
            near(flat[i * shape[1]:(i + 1) * shape[1]], wanted, 1e-4, 1)


def main():
    global TOOL
    TOOL, folder = sys.argv[1:]
    skipped = False
    for m in MODELS:
        path = find(folder, m)
        try:
            if path:
                check(path, m)
            else:
                raise Missing(f"it is not in {folder}")
            print(f"{m['name']}: {path}")
        except Missing as why:
            print(f"SKIPPED: {m['name']}: {why}")
            skipped = True
    sys.exit(77 if skipped else 0)


if __name__ == "__main__":
    main()
