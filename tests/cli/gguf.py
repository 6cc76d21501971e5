"""gguf.py FILE [options]: writes a small Llama model as a GGUF file, the same bytes for the same options.

Its tokens are the 256 bytes, a few merged pairs and ChatML's three; its template is ChatML's.  The weights are
random.  With --says TEXT, whose characters all differ, the model writes TEXT after a line end, and then ends.
Only the standard library is used."""
import argparse
import random
import struct

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9  # the types of values
ALIGNMENT = 32
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ t", "Ġt he", "i n", "Ġ a", "e r", "o n"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content']"
          " + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
          "{% endif %}")


def byte_letters():
    """The printable letter that stands for each byte in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, spare = {}, 256
    for byte in range(256):
        letters[byte] = chr(byte if byte in plain else spare)
        spare += byte not in plain
    return letters


def vocabulary():
    return list(byte_letters().values()) + [merge.replace(" ", "") for merge in MERGES] + SPECIAL


# ---- weights: rows of floats to the bytes of a type, 32 numbers a block -----------------------------


def as_f32(row):
    return struct.pack(f"<{len(row)}f", *row)


def blocks(row):
    return (row[at:at + 32] for at in range(0, len(row), 32))


def as_q8_0(row):
    out = b""
    for block in blocks(row):
        scale = max(abs(x) for x in block) / 127
        scale = struct.unpack("<e", struct.pack("<e", scale))[0]
        codes = [max(-127, min(127, round(x / scale))) if scale else 0 for x in block]
        out += struct.pack("<e32b", scale, *codes)
    return out


def as_q4_0(row):
    out = b""
    for block in blocks(row):
        scale = max(block, key=abs) / -8
        scale = struct.unpack("<e", struct.pack("<e", scale))[0]
        codes = [max(0, min(15, round(x / scale) + 8)) if scale else 8 for x in block]
        out += struct.pack("<e16B", scale, *(codes[i] | codes[i + 16] << 4 for i in range(16)))
    return out


TYPES = {"f32": (0, as_f32, 0), "q4_0": (2, as_q4_0, 2), "q8_0": (8, as_q8_0, 7)}  # number, packing, file type


def matrix(rng, rows, columns, size):
    return [[rng.uniform(-size, size) for _ in range(columns)] for _ in range(rows)]


def head_that_says(rng, embed, tokens, text):
    """A head whose likeliest token after each letter of "\\n" + text is the next one, and in the end <|im_end|>."""
    letters = byte_letters()
    chain = [tokens.index(letters[byte]) for byte in b"\n" + text.encode()] + [tokens.index("<|im_end|>")]
    if len(set(chain)) < len(chain):
        raise SystemExit(f"gguf.py: --says: a byte of '{text}' is there twice")
    rows = matrix(rng, len(embed), len(embed[0]), 0.05)
    for before, after in zip(chain, chain[1:]):
        length = sum(x * x for x in embed[before]) ** 0.5
        rows[after] = [4 * x / length for x in embed[before]]
    return rows


def weights(o, tokens):
    """Names and rows [out][in] of all tensors; a vector is one row."""
    rng = random.Random(o.seed)
    wide, narrow, size = o.heads * o.head_dim, o.kv_heads * o.head_dim, o.dim ** -0.5
    branch = 0.1 * size if o.says else 2 * size
    embed = matrix(rng, len(tokens), o.dim, 1)
    yield "token_embd.weight", embed
    for layer in range(o.layers):
        for name, rows, columns, scale in [
                ("attn_norm", 0, o.dim, 0), ("attn_q", wide, o.dim, 3 * size), ("attn_k", narrow, o.dim, 3 * size),
                ("attn_v", narrow, o.dim, 2 * size), ("attn_output", o.dim, wide, branch),
                ("ffn_norm", 0, o.dim, 0), ("ffn_gate", o.ff, o.dim, 2 * size), ("ffn_up", o.ff, o.dim, 2 * size),
                ("ffn_down", o.dim, o.ff, branch)]:
            value = matrix(rng, rows, columns, scale) if rows else [rng.uniform(0.8, 1.2) for _ in range(columns)]
            yield f"blk.{layer}.{name}.weight", value
    yield "output_norm.weight", [1.0] * o.dim
    yield "output.weight", head_that_says(rng, embed, tokens, o.says) if o.says else matrix(rng, len(tokens), o.dim, 0.6)


# ---- the file -----------------------------------------------------------------------------------------


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, x):
    if kind == STRING:
        return string(x)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], x)


def key(name, kind, x):
    if isinstance(x, list):
        return string(name) + struct.pack("<IIQ", ARRAY, kind, len(x)) + b"".join(value(kind, each) for each in x)
    return string(name) + struct.pack("<I", kind) + value(kind, x)


def metadata(o, tokens):
    end, start = tokens.index("<|im_end|>"), tokens.index("<|im_start|>")
    keys = [
        ("general.architecture", STRING, "llama"), ("general.name", STRING, "tiny"),
        ("general.alignment", U32, ALIGNMENT), ("general.file_type", U32, TYPES[o.type][2]),
        ("llama.block_count", U32, o.layers), ("llama.context_length", U32, o.length),
        ("llama.embedding_length", U32, o.dim), ("llama.feed_forward_length", U32, o.ff),
        ("llama.attention.head_count", U32, o.heads), ("llama.attention.head_count_kv", U32, o.kv_heads),
        ("llama.attention.key_length", U32, o.head_dim), ("llama.attention.value_length", U32, o.head_dim),
        ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5), ("llama.rope.freq_base", F32, 10000.0),
        ("llama.rope.dimension_count", U32, o.head_dim), ("llama.vocab_size", U32, len(tokens)),
        ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, o.pre),
        ("tokenizer.ggml.tokens", STRING, tokens),
        ("tokenizer.ggml.token_type", I32, [3 if token in SPECIAL else 1 for token in tokens]),
        ("tokenizer.ggml.merges", STRING, MERGES), ("tokenizer.ggml.bos_token_id", U32, start),
        ("tokenizer.ggml.eos_token_id", U32, end), ("tokenizer.ggml.add_bos_token", BOOL, False)]
    if o.window:
        keys.append(("llama.attention.sliding_window", U32, o.window))
    if o.template:
        keys.append(("tokenizer.chat_template", STRING, o.template))
    return keys


def write(o):
    tokens = vocabulary()
    keys = metadata(o, tokens)
    header, data, count = b"", b"", 0
    for name, rows in weights(o, tokens):
        flat = not isinstance(rows[0], list)
        number, pack, _ = TYPES["f32" if flat else o.type]
        extents = [len(rows)] if flat else [len(rows[0]), len(rows)]
        header += string(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, number, len(data))
        data += pack(rows) if flat else b"".join(pack(row) for row in rows)
        data += bytes(-len(data) % ALIGNMENT)
        count += 1
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(keys)) + b"".join(key(*each) for each in keys) + header
    with open(o.file, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT) + data)


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("file")
    parse.add_argument("--type", choices=TYPES, default="f32", help="of the matrices")
    parse.add_argument("--says", help="what it answers, after a line end")
    parse.add_argument("--template", default=CHATML, help="Jinja; empty: none")
    parse.add_argument("--pre", default="smollm", help="how text is cut before pairs are merged")
    for name, number in [("seed", 1), ("layers", 2), ("dim", 64), ("heads", 4), ("kv-heads", 2), ("head-dim", 16),
                         ("ff", 96), ("length", 512), ("window", 0)]:
        parse.add_argument("--" + name, type=int, default=number)
    write(parse.parse_args())


if __name__ == "__main__":
    main()
