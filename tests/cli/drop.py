# The study drop-in of an encoder, computed anew.
#
#     python3 drop.py make            a BERT of two layers in bert/, and texts/ of words that it knows
#     python3 drop.py check           lines of the study (stdin: step, 16 landmarks, ridge, 40 words, 4 texts) against
#                                     the formulas; lines.txt has those texts, softmax.npy and cur.npy what `embed`
#                                     makes of them, and must agree too
import json
import math
import os
import random
import struct
import sys

import npy

LANDMARKS, RIDGE, WORDS, TEXTS, HEADS = 16, 1e-5, 40, 4, 2


def make():
    random.seed(5)
    d, ff, words, most = 8, 16, ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + ["w%d" % i for i in range(60)], 64
    shapes = {"embeddings.word_embeddings.weight": [len(words), d], "embeddings.position_embeddings.weight": [most, d],
              "embeddings.token_type_embeddings.weight": [2, d]}
    for layer in range(2):
        for name, out, inner in (("attention.self.query", d, d), ("attention.self.key", d, d), ("attention.self.value", d, d),
                                 ("attention.output.dense", d, d), ("intermediate.dense", ff, d), ("output.dense", d, ff)):
            shapes["encoder.layer.%d.%s.weight" % (layer, name)] = [out, inner]
            shapes["encoder.layer.%d.%s.bias" % (layer, name)] = [out]
    norms = ["embeddings"] + ["encoder.layer.%d.%s" % (l, n) for l in range(2) for n in ("attention.output", "output")]
    shapes.update({n + ".LayerNorm." + end: [d] for n in norms for end in ("weight", "bias")})
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        numbers = [1.0] * count if name.endswith("Norm.weight") else [random.gauss(0, 0.7) for _ in range(count)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += struct.pack("<%df" % count, *numbers)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64 + 56)
    os.mkdir("bert")
    open("bert/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
    json.dump({"architectures": ["BertModel"], "model_type": "bert", "hidden_size": d, "num_hidden_layers": 2,
               "num_attention_heads": 2, "intermediate_size": ff, "vocab_size": len(words), "hidden_act": "gelu",
               "max_position_embeddings": most, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
               "position_embedding_type": "absolute"}, open("bert/config.json", "w"))
    special = [{"id": i, "content": w, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False} for i, w in enumerate(words[:4])]
    json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
               "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                              "strip_accents": None, "lowercase": True},
               "pre_tokenizer": {"type": "BertPreTokenizer"},
               "post_processor": {"type": "TemplateProcessing",
                                  "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                                             {"Sequence": {"id": "A", "type_id": 0}},
                                             {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "pair": [],
                                  "special_tokens": {w: {"id": w, "ids": [words.index(w)], "tokens": [w]}
                                                     for w in ("[CLS]", "[SEP]")}},
               "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
               "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                         "max_input_chars_per_word": 100, "vocab": {w: i for i, w in enumerate(words)}}},
              open("bert/tokenizer.json", "w"))
    os.mkdir("texts")
    for i in range(5):
        open("texts/%d.txt" % i, "w").write(" ".join(random.choice(words[4:]) for _ in range(520)))
    open("texts/short.txt", "w").write("w1 w2 w3")
    json.dump({"max_seq_length": 48}, open("bert/sentence_bert_config.json", "w"))  # which embed heeds, not the study
    with open("lines.txt", "w") as out:
        for i in range(TEXTS):
            out.write(" ".join(open("texts/%d.txt" % i).read().split()[:WORDS]) + "\n")


# ---- the model ---------------------------------------------------------------------------------------


def weights():
    data = open("bert/model.safetensors", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        first, end = entry["data_offsets"]
        flat = struct.unpack("<%df" % ((end - first) // 4), data[8 + size + first:8 + size + end])
        shape = entry["shape"]
        found[name] = flat if len(shape) == 1 else [flat[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]
    return found


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def dense(w, name, rows):
    matrix, bias = w[name + ".weight"], w[name + ".bias"]
    return [[dot(row, m) + b for m, b in zip(matrix, bias)] for row in rows]


def norm(w, name, rows):
    out = []
    for row in rows:
        mean = math.fsum(row) / len(row)
        spread = math.sqrt(math.fsum((x - mean) ** 2 for x in row) / len(row) + 1e-12)
        out.append([(x - mean) / spread * g + b
                    for x, g, b in zip(row, w[name + ".LayerNorm.weight"], w[name + ".LayerNorm.bias"])])
    return out


def add(a, b):
    return [[x + y for x, y in zip(r, s)] for r, s in zip(a, b)]


def softmax(q, keys):
    scores = [dot(q, k) / math.sqrt(len(q)) for k in keys]
    weights = [math.exp(x - max(scores)) for x in scores]
    return [x / math.fsum(weights) for x in weights]


def product(a, b):
    return [[dot(row, column) for column in zip(*b)] for row in a]


def solve(g, b):
    """g^-1 b, by elimination with pivots."""
    rows = [list(r) + list(s) for r, s in zip(g, b)]
    for i in range(len(rows)):
        p = max(range(i, len(rows)), key=lambda r: abs(rows[r][i]))
        rows[i], rows[p] = rows[p], rows[i]
        for r in range(len(rows)):
            if r != i:
                f = rows[r][i] / rows[i][i]
                rows[r] = [x - f * y for x, y in zip(rows[r], rows[i])]
    return [[x / rows[i][i] for x in rows[i][len(g):]] for i in range(len(g))]


def landmarks(n):
    return [i * n // LANDMARKS for i in range(LANDMARKS)]


def matrix_u(q, k):
    at = landmarks(len(q))
    return [softmax(q[i], [k[j] for j in at]) for i in at]


def cur(q, k, v):
    at = landmarks(len(q))
    u, rv = matrix_u(q, k), product([softmax(q[i], k) for i in at], v)
    size = math.fsum(x * x for row in u for x in row)
    gram = product(list(zip(*u)), u)
    for i in range(LANDMARKS):
        gram[i][i] += RIDGE * size
    w = solve(gram, product(list(zip(*u)), rv))
    y = product([softmax(row, [k[j] for j in at]) for row in q], w)
    for l, i in enumerate(at):
        y[i] = rv[l]
    return y


def exact(q, k, v):
    return product([softmax(row, k) for row in q], v)


def run(w, tokens, attend):
    """The vector of a text; what attention gave in each layer, and its q, k, v by heads."""
    x = [[a + b + c for a, b, c in zip(w["embeddings.word_embeddings.weight"][t],
                                       w["embeddings.position_embeddings.weight"][i],
                                       w["embeddings.token_type_embeddings.weight"][0])]
         for i, t in enumerate(tokens)]
    x = norm(w, "embeddings", x)
    mixed, seen = [], []
    for layer in range(2):
        name = "encoder.layer.%d." % layer
        q, k, v = (dense(w, name + "attention.self." + part, x) for part in ("query", "key", "value"))
        width = len(q[0]) // HEADS
        parts = [[[row[h * width:(h + 1) * width] for row in t] for t in (q, k, v)] for h in range(HEADS)]
        heads = [attend(layer, *p) for p in parts]
        mixed.append([[value for head in heads for value in head[i]] for i in range(len(x))])
        seen.append(parts)
        x = norm(w, name + "attention.output", add(x, dense(w, name + "attention.output.dense", mixed[-1])))
        fed = [[u / 2 * (1 + math.erf(u / math.sqrt(2))) for u in row] for row in dense(w, name + "intermediate.dense", x)]
        x = norm(w, name + "output", add(x, dense(w, name + "output.dense", fed)))
    return [math.fsum(c) / len(x) for c in zip(*x)], mixed, seen


# ---- what the study tells ----------------------------------------------------------------------------


def cosine(a, b):
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def mean(values):
    values = list(values)
    return math.fsum(values) / len(values)


def ranks(values):
    return [sum(y < x for y in values) + (sum(y == x for y in values) - 1) / 2 for x in values]


def correlation(a, b):
    a, b = ([x - mean(r) for x in r] for r in (ranks(a), ranks(b)))
    return cosine(a, b)


def agreement(ours, theirs):
    pairs = [(i, j) for i in range(TEXTS) for j in range(i)]
    return (mean(cosine(a, b) for a, b in zip(ours, theirs)),
            correlation([cosine(ours[i], ours[j]) for i, j in pairs], [cosine(theirs[i], theirs[j]) for i, j in pairs]))


def largest(square):
    """The largest eigenvalue of a symmetric matrix without negative ones."""
    x = [1 + 0.1 * i for i in range(len(square))]
    for _ in range(3000):
        y = [dot(row, x) for row in square]
        x = [v / math.sqrt(dot(y, y)) for v in y]
    return dot(x, [dot(row, x) for row in square])


def singular(u):
    """How many singular values are above a tenth of the largest, and the least by the largest."""
    n = len(u)
    unit = [[float(i == j) for j in range(n)] for i in range(n)]
    gram, inverse = product(list(zip(*u)), u), solve(u, unit)
    top = largest(gram)
    least = 1 / largest(product(list(zip(*inverse)), inverse))
    g, above = [[x - (0.01 * top if i == j else 0) for j, x in enumerate(row)] for i, row in enumerate(gram)], 0
    for i in range(n):  # as many positive pivots as positive eigenvalues
        above += g[i][i] > 0
        for r in range(i + 1, n):
            f = g[r][i] / g[i][i]
            g[r] = [x - f * y for x, y in zip(g[r], g[i])]
    return above, math.sqrt(least / top)


def near(found, expected, what, tolerance):
    if not abs(found - expected) <= tolerance * max(1e-3, abs(expected)):
        sys.exit("%s is %r, should be %r" % (what, found, expected))


def flat(rows):
    return [x for row in rows for x in row]


def check():
    lines = [json.loads(line) for line in sys.stdin]
    w = weights()
    tokens = [[2] + [int(word[1:]) + 4 for word in line.split()] + [3] for line in open("lines.txt")]
    plain = [run(w, t, lambda layer, *x: exact(*x)) for t in tokens]
    other = [run(w, t, lambda layer, *x: cur(*x)) for t in tokens]
    vectors = [p[0] for p in plain]
    expected = agreement(vectors, [o[0] for o in other])
    cell = [m for m in lines if m.get("pinned") == 0 and m.get("words") == WORDS]
    assert len(cell) == 1 and cell[0]["pinv"] == "ridge" and cell[0]["landmarks"] == LANDMARKS, cell
    near(cell[0]["cosine"], expected[0], "cosine", 1e-5)
    near(cell[0]["rank"], expected[1], "rank", 1e-9)
    difference = mean(abs(a - b) for p, o in zip(plain, other) for l in range(2)
                      for a, b in zip(flat(p[1][l]), flat(o[1][l])))
    near(cell[0]["difference"], difference, "difference", 1e-4)
    layers = [m for m in lines if "layer" in m]
    assert [m["layer"] for m in layers] == [0, 1], layers
    for l, m in enumerate(layers):
        own = [flat(head) for p in plain for head in (exact(*x) for x in p[2][l])]
        its = [flat(head) for p in plain for head in (cur(*x) for x in p[2][l])]
        apart = math.fsum((a - b) ** 2 for a, b in zip(flat(own), flat(its)))
        near(m["errors"][2], math.sqrt(apart / dot(flat(own), flat(own))), "the error of layer %d" % l, 1e-4)
        alone = [run(w, t, lambda layer, *x: (cur if layer == l else exact)(*x))[0] for t in tokens]
        near(m["alone"], agreement(vectors, alone)[0], "layer %d alone" % l, 1e-5)
        counts, least = zip(*(singular(matrix_u(q, k)) for q, k, _ in plain[0][2][l]))
        near(m["above_a_tenth"], mean(counts), "above a tenth in layer %d" % l, 1e-9)
        near(math.log(m["least"]), mean(math.log(x) for x in least), "least of layer %d" % l, 1e-3)
    near(layers[0]["from"], expected[0], "from layer 0", 1e-5)
    near(layers[1]["from"], layers[1]["alone"], "from layer 1", 1e-9)
    embedded = []
    for path in ("softmax.npy", "cur.npy"):
        _, shape, values = npy.read(path)
        embedded.append([values[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])])
    near(mean(cosine(a, b) for a, b in zip(*embedded)), cell[0]["cosine"], "the cosine of embed", 1e-5)


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]]()
