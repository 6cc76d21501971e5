"""Makes and checks .npy files with the standard library alone, for the tests of the tool.

    npy.py make  FILE SHAPE [DESCR] [SEED] [fortran]   random normal numbers; SHAPE is 2x3x4
    npy.py mask  FILE SHAPE DESCR SEED [fortran]       the same, a third of them -inf; |b1: a third of them false
    npy.py check Y Q K V TOLERANCE MECHANISM [name=value ...]   against the formula, in double
    npy.py same  A B TOLERANCE                         equal shapes, and elements within TOLERANCE
    npy.py shape FILE DESCR SHAPE                      what the header says
    npy.py rows  FROM TO FIRST END                     rows FIRST .. END-1 along the length
    npy.py json  FILE name=type ...                    lines of JSON objects that have these fields
    npy.py expect FILE EXPRESSION                      true of m, the first object, and lines, all
    npy.py serve                                       these, one a line, arguments parted by \\x1f
"""
import ast
import json
import math
import random
import struct
import sys
import traceback

FORMAT = {"f2": "e", "f4": "f", "f8": "d", "b1": "?", "i4": "i", "i8": "q"}


def product(numbers):
    result = 1
    for n in numbers:
        result *= n
    return result


def strides(shape, fortran):
    steps, step = [0] * len(shape), 1
    for i in range(len(shape)) if fortran else reversed(range(len(shape))):
        steps[i] = step
        step *= shape[i]
    return steps


def reorder(flat, shape, source, target):
    """Moves elements from one order of strides to another."""
    out = list(flat)
    index = [0] * len(shape)
    for _ in range(len(flat)):
        out[sum(i * s for i, s in zip(index, target))] = flat[
            sum(i * s for i, s in zip(index, source))]
        for axis in reversed(range(len(shape))):
            index[axis] += 1
            if index[axis] < shape[axis]:
                break
            index[axis] = 0
    return out


def write(path, shape, flat, descr="<f4", fortran=False):
    """flat is row-major whatever the order in the file."""
    if fortran:
        flat = reorder(flat, shape, strides(shape, False), strides(shape, True))
    header = repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)})
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    body = struct.pack("%s%d%s" % (descr[0].replace("|", "="), len(flat), FORMAT[descr[1:]]), *flat)
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body)


def read(path):
    """(descr, shape, row-major list)"""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", path
    start = 10 + struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:start].decode())
    shape, descr = header["shape"], header["descr"]
    assert not header["fortran_order"], path
    count = product(shape)
    code = FORMAT[descr[1:]]
    assert len(data) - start == count * struct.calcsize(code), path
    return descr, shape, list(struct.unpack("%s%d%s" % (descr[0], count, code), data[start:]))


def read_any(path):
    """As read, Fortran order undone; for the inputs made here."""
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:start].decode())
    shape, descr = header["shape"], header["descr"]
    flat = list(struct.unpack("%s%d%s" % (descr[0].replace("|", "="), product(shape), FORMAT[descr[1:]]),
                              data[start:]))
    if header["fortran_order"]:
        flat = reorder(flat, shape, strides(shape, True), strides(shape, False))
    return descr, shape, flat


FEATURE = {
    "elu1": lambda x: x + 1 if x > 0 else math.exp(x),
    "relu": lambda x: max(x, 0.0),
    "exp": math.exp,
    "identity": lambda x: x,
}


def coefficients(option):
    if "coefficients" in option:
        return [float(a) for a in option["coefficients"].split(",")]
    return [1 / math.factorial(p) for p in range(int(option.get("terms", 4)))]


def unit(x):
    length = math.sqrt(sum(a * a for a in x))
    return [a / length for a in x]


def weights(mechanism, q, keys, position, option):
    """One weight per key that the query sees, before the division."""
    if mechanism == "hybrid":
        return hybrid_weights(q, keys, position, option)
    if mechanism in ("softmax", "taylor"):
        scale = float(option.get("scale", 1 / math.sqrt(len(q))))
        if "taylorshift" in option:
            scale = option["temperature_of_head"]
            q, keys = unit(q), [unit(k) for k in keys]
        if "center" in option:
            keys = [[a - c for a, c in zip(k, option["center_of_head"])] for k in keys]
        logits = [scale * sum(a * b for a, b in zip(q, k)) for k in keys]
        if mechanism == "softmax":
            logits = [score(x, position, j, option) for j, x in enumerate(logits)]
        if mechanism == "taylor":
            return [sum(a * x ** p for p, a in enumerate(coefficients(option))) for x in logits]
        top = max(logits, default=0)
        return [math.exp(x - top) if x > -math.inf else 0.0 for x in logits]
    phi = FEATURE[option.get("map", "elu1")]
    fq = [phi(x) for x in q]
    decay = option["decay_of_head"]
    return [decay ** (position - j) * sum(a * phi(b) for a, b in zip(fq, k))
            for j, k in enumerate(keys)]


def score(x, position, j, option):
    """The score of key j, x before anything is done to it; -inf: it is not seen."""
    away = position - j
    if "window" in option and abs(away) >= int(option["window"]):
        return -math.inf
    if "cap" in option:
        x = float(option["cap"]) * math.tanh(x / float(option["cap"]))
    x -= option["slope_of_head"] * abs(away)
    add = option["mask_of_query"](j) if "mask_of_query" in option else 0
    return (x if add else -math.inf) if isinstance(add, bool) else x + add


def slopes(heads):
    """Of ALiBi."""
    if heads & (heads - 1) == 0:
        return [2 ** (-8 * (h + 1) / heads) for h in range(heads)]
    lower = 2 ** (heads.bit_length() - 1)
    return slopes(lower) + slopes(2 * lower)[0::2][:heads - lower]


def mask_of(path, lead):
    """Element (j) of the mask for some batch, head and query, given as a function of these."""
    _, shape, flat = read_any(path)
    shape = [1] * (4 - len(shape)) + list(shape)
    step = [0 if n == 1 else s for n, s in zip(shape, strides(shape, False))]
    return lambda j: flat[sum(i * s for i, s in zip(lead + (j,), step))]


def hybrid_weights(q, keys, position, option):
    """e^x for the last keys and the first, the weights of another mechanism for the others."""
    window, sink = int(option.get("window", 128)), int(option.get("sink", 0))
    scale = float(option.get("scale", 1 / math.sqrt(len(q))))
    center = option.get("center_of_head", [0.0] * len(q))
    far = weights(option.get("far", "taylor"), q, keys, position, dict({"terms": 3}, **option))
    return [math.exp(scale * sum(a * (b - c) for a, b, c in zip(q, k, center)))
            if position - j < window or j < sink else far[j] for j, k in enumerate(keys)]


def matrix_product(a, b):
    columns = list(zip(*b))
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def pseudo_inverse(u, option):
    """By iterations, or with ridge=r the regularised inverse by elimination."""
    size, turned = len(u), [list(column) for column in zip(*u)]
    if "ridge" in option:
        r = float(option["ridge"]) * sum(x * x for row in u for x in row)
        g = [row + t for row, t in zip(matrix_product(turned, u), turned)]
        for i in range(size):
            g[i][i] += r
        for i in range(size):
            g[i] = [x / g[i][i] for x in g[i]]
            for k in range(size):
                if k != i:
                    g[k] = [x - g[k][i] * y for x, y in zip(g[k], g[i])]
        return [row[size:] for row in g]
    norm = max(sum(map(abs, column)) for column in turned)
    if option.get("init") != "paper1":
        norm *= max(sum(map(abs, row)) for row in u)
    z = [[x / norm for x in row] for row in turned]

    def minus(number, a):
        return [[number * (i == j) - x for j, x in enumerate(row)] for i, row in enumerate(a)]

    for _ in range(int(option.get("iterations", 6))):
        uz = matrix_product(u, z)
        inner = minus(13, matrix_product(uz, minus(15, matrix_product(uz, minus(7, uz)))))
        z = [[x / 4 for x in row] for row in matrix_product(z, inner)]
    return z


def landmarks(queries, keys, option):
    """Indices into the queries and the keys."""
    count, select, pins = int(option.get("landmarks", 64)), option.get("select", "step"), []
    if "pin" in option:
        pins = [int(p) for p in option["pin"].split("+")]
    if select in ("step", "mean", "step-mean", "kmeans"):
        return [[i * len(x) // count for i in range(count)] for x in (queries, keys)]
    score = {"sum": sum, "abs": lambda row: sum(map(abs, row)),
             "embed": lambda row: row[int(option.get("column", 0))]}[select]
    sides = [[score(row) for row in queries], [score(row) for row in keys]]
    if "separate" not in option and len(queries) == len(keys):
        sides = [[a + b for a, b in zip(*sides)]] * 2
    return [sorted(sorted(range(len(s)), key=lambda i: (i not in pins, -s[i], i))[:count])
            for s in sides]


def activation(logits, option):
    if "laplace" in option:
        return [(1 + math.erf((x - math.sqrt(0.5)) * math.sqrt(2 * math.pi))) / 2 for x in logits]
    w = [math.exp(x - max(logits)) for x in logits]
    return [x / sum(w) for x in w]


def cur(queries, keys, values, option):
    """The rows of one head."""
    count, select = int(option.get("landmarks", 64)), option.get("select", "step")
    scale = float(option.get("scale", 1 / math.sqrt(len(queries[0]))))

    def attend(q, k):
        return [activation([scale * sum(a * b for a, b in zip(x, y)) for y in k], option)
                for x in q]

    def means(x):
        ends = [i * len(x) // count for i in range(count + 1)]
        return [[sum(c) / (e - s) for c in zip(*x[s:e])] for s, e in zip(ends, ends[1:])]

    def clusters(x):
        starts, members = [x[i * len(x) // count] for i in range(count)], [[] for _ in range(count)]
        for row in x:
            far = [sum((a - b) ** 2 for a, b in zip(row, start)) for start in starts]
            members[far.index(min(far))].append(row)
        return [[sum(c) / len(m) for c in zip(*m)] for m in members]

    if min(len(queries), len(keys)) <= count:
        return matrix_product(attend(queries, keys), values)
    rows, columns = landmarks(queries, keys, option)
    chosen_q = means(queries) if select == "mean" else [queries[i] for i in rows]
    chosen_k = [keys[j] for j in columns]
    if select in ("mean", "step-mean"):
        chosen_k = means(keys)
    elif select == "kmeans":
        chosen_k = clusters(keys)
    rv = matrix_product(attend(chosen_q, keys), values)
    w = matrix_product(pseudo_inverse(attend(chosen_q, chosen_k), option), rv)
    out = matrix_product(attend(queries, chosen_k), w)
    for l, i in enumerate(rows):
        if select != "mean" and "no_copy" not in option:
            out[i] = rv[l]
    return out


def rows_of(flat, shape, lead):
    """Rows of one head: lead counts heads over the whole batch."""
    n, d = shape[-2], shape[-1]
    return [flat[(lead * n + i) * d:(lead * n + i + 1) * d] for i in range(n)]


def attention(mechanism, q, k, v, option):
    """q, k, v are (descr, shape, flat); gives the row-major output."""
    heads = q[1][-3] if len(q[1]) > 2 else 1
    kv_heads = k[1][-3] if len(k[1]) > 2 else 1
    batch = q[1][0] if len(q[1]) > 3 else 1
    decays = [float(x) for x in option.get("decay", "1").split(",")]
    temperatures = [float(x) for x in option.get("temperature", "1").split(",")]
    eps = float(option.get("eps", 1e-6)) if mechanism == "linear" else 0.0
    out = []
    for lead in range(batch * heads):
        b, h = divmod(lead, heads)
        kv = h * kv_heads // heads
        keys = rows_of(k[2], k[1], b * kv_heads + kv)
        values = rows_of(v[2], v[1], b * kv_heads + kv)
        queries = rows_of(q[2], q[1], lead)
        if option.get("center") == "mean":
            option = dict(option, center_of_head=[sum(x) / len(keys) for x in zip(*keys)])
        elif "center" in option:
            d = q[1][-1]
            option = dict(option, center_of_head=read(option["center"])[2][kv * d:(kv + 1) * d])
        option = dict(option, decay_of_head=decays[kv % len(decays)],
                      slope_of_head=slopes(heads)[h] if "alibi" in option else 0.0,
                      temperature_of_head=temperatures[h % len(temperatures)])
        if mechanism == "cur" and queries and keys:
            out += [y for row in cur(queries, keys, values, option) for y in row]
            continue
        for i, query in enumerate(queries):
            position = i if option.get("align") == "begin" else i + len(keys) - len(queries)
            seen = position + 1 if "causal" in option else len(keys)
            if "mask" in option:
                option = dict(option, mask_of_query=mask_of(option["mask"], (b, h, i)))
            w = weights(mechanism, query, keys[:seen], position, option)
            total = sum(w) + eps
            for c in range(v[1][-1]):
                y = sum(a * row[c] for a, row in zip(w, values))
                if "output_norm" in option:
                    y *= math.sqrt(seen / len(query))
                out.append(y / total if total else 0.0)
    return out


def fail(text):
    sys.exit("npy.py: " + text)


def compare(a, b, tolerance, what):
    if len(a) != len(b):
        fail("%s: %d and %d elements" % (what, len(a), len(b)))
    size = max([abs(x) for x in b], default=0.0) or 1.0
    for i, (x, y) in enumerate(zip(a, b)):
        if not abs(x - y) <= tolerance * size:
            fail("%s: element %d is %r, expected %r" % (what, i, x, y))


def make(path, shape, descr="<f4", seed="0", order="c"):
    extents = [int(n) for n in shape.split("x")]
    rng = random.Random(int(seed))
    write(path, extents, [rng.gauss(0, 1) for _ in range(product(extents))], descr,
          order == "fortran")


def mask(path, shape, descr, seed, order="c"):
    extents = [int(n) for n in shape.split("x")]
    rng = random.Random(int(seed))
    numbers = [rng.gauss(0, 1) if rng.random() > 1 / 3 else -math.inf for _ in range(product(extents))]
    if descr == "|b1":
        numbers = [x > -math.inf for x in numbers]
    write(path, extents, numbers, descr, order == "fortran")


def check(y, q, k, v, tolerance, mechanism, *settings):
    option = dict(s.split("=") for s in settings)
    q, k, v = read_any(q), read_any(k), read_any(v)
    descr, shape, flat = read(y)
    if shape != q[1][:-1] + v[1][-1:]:
        fail("%s is of shape %s" % (y, shape))
    if descr[1:] != q[0][1:]:
        fail("%s has dtype %s, Q has %s" % (y, descr, q[0]))
    compare(flat, attention(mechanism, q, k, v, option), float(tolerance), y)


def same(a, b, tolerance):
    left, right = read(a), read(b)
    if left[:2] != right[:2]:
        fail("%s is %s, %s is %s" % (a, left[:2], b, right[:2]))
    compare(left[2], right[2], float(tolerance), a)


def shape(path, descr, extents):
    found = read(path)
    if found[0] != descr or "x".join(map(str, found[1])) != extents:
        fail("%s is %s %s" % (path, found[0], found[1]))


def rows(source, target, first, end):
    descr, extents, flat = read(source)
    heads = product(extents[:-2])
    kept = []
    for lead in range(heads):
        for row in rows_of(flat, extents, lead)[int(first):int(end)]:
            kept += row
    write(target, extents[:-2] + (int(end) - int(first),) + extents[-1:], kept, descr)


KINDS = {"text": str, "whole": int, "number": (int, float), "flag": bool, "list": list}


def objects(path):
    with open(path) as file:
        found = [json.loads(line) for line in file]
    if not found:
        fail("no JSON line in %s" % path)
    return found


def fields(path, *wanted):
    for found in objects(path):
        for item in wanted:
            name, kind = item.split("=")
            if name not in found:
                fail("no field %s in %s" % (name, found))
            value = found[name]
            is_flag = isinstance(value, bool)
            if not isinstance(value, KINDS[kind]) or is_flag != (kind == "flag"):
                fail("field %s is %r, not a %s" % (name, value, kind))


def expect(path, expression):
    lines = objects(path)
    if not eval(expression, {"m": lines[0], "lines": lines}):
        fail("not so: %s; %s has %s" % (expression, path, lines))


COMMANDS = {"make": make, "mask": mask, "check": check, "same": same, "shape": shape, "rows": rows,
            "json": fields, "expect": expect}


def serve():
    """Starting Python takes longer than most of these commands do; so it is started once."""
    for line in sys.stdin:
        name, *arguments = line.rstrip("\n").split("\x1f")
        try:
            COMMANDS[name](*arguments)
            answer = "ok"
        except SystemExit as failure:
            print(failure, file=sys.stderr)
            answer = "failed"
        except Exception:
            traceback.print_exc()
            answer = "failed"
        print(answer, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        COMMANDS[sys.argv[1]](*sys.argv[2:])
