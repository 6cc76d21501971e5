"""foreign.py NAME FOLDER: writes a small model with random weights as Hugging Face lays it out, and what it answers.

FOLDER gets config.json and model.safetensors, or two shards and an index where NAME ends in "-sharded"; ids.npy, int32
[tokens]; and expected.npy, f32 [tokens, vocabulary] or, of bert, [1, width].  Of vit and deit it gets image.png,
preprocessor_config.json, and in expected.npy [1, classes] or [1, width].  What is expected comes from the formulas
of each architecture, by the standard library alone, in double, and knows nothing of how Linnet computes it."""
import json
import math
import os
import random
import struct
import sys

import npy
import picture

TOKENS, VOCABULARY, WIDTH, LAYERS, HEADS, HEAD, FEED = 11, 37, 24, 2, 4, 6, 40


class Weights(dict):
    """Tensors by name, (shape, flat); numbers are those that f32 holds."""

    def __init__(self, seed):
        super().__init__()
        self.random = random.Random(seed)

    def make(self, name, *shape, around=0.0, spread=0.25):
        count = math.prod(shape)
        flat = [around + spread * self.random.gauss(0, 1) for _ in range(count)]
        flat = list(struct.unpack(f"<{count}f", struct.pack(f"<{count}f", *flat)))
        self[name] = (shape, flat)
        return flat if len(shape) == 1 else [flat[i:i + shape[-1]] for i in range(0, count, shape[-1])]

    def join(self, name, *names):
        """Matrices one below the other, in their place."""
        parts = [self.pop(each) for each in names]
        self[name] = (sum(shape[0] for shape, _ in parts), parts[0][0][1]), [x for _, flat in parts for x in flat]


# ---- the formulas ----------------------------------------------------------------------------------


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def dense(w, x, bias=None):
    """w [out,in]"""
    y = [sum(a * b for a, b in zip(row, x)) for row in w]
    return add(y, bias) if bias else y


def turned(w):
    return [list(column) for column in zip(*w)]


def rms(x, gain, epsilon):
    scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + epsilon)
    return [v * scale * g for v, g in zip(x, gain)]


def layer_norm(x, gain, bias, epsilon):
    mean = sum(x) / len(x)
    scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + epsilon)
    return [(v - mean) * scale * g + b for v, g, b in zip(x, gain, bias)]


def silu(v):
    return v / (1 + math.exp(-v))


def gelu(v):
    return v * 0.5 * (1 + math.erf(v / math.sqrt(2)))


def gelu_tanh(v):
    return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))


def frequencies(config, width):
    base = [config.get("rope_theta", 10000.0) ** (-2 * i / width) for i in range(width // 2)]
    scaling = config.get("rope_scaling")
    if not scaling:
        return base
    if scaling["rope_type"] == "linear":
        return [f / scaling["factor"] for f in base]
    old, low, high = scaling["original_max_position_embeddings"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    out = []
    for f in base:  # llama3
        length = 2 * math.pi / f
        if length < old / high:
            out.append(f)
        elif length > old / low:
            out.append(f / scaling["factor"])
        else:
            smooth = (old / length - low) / (high - low)
            out.append((1 - smooth) * f / scaling["factor"] + smooth * f)
    return out


def rotate(x, position, f):
    """Pairs are (i, i + width/2), where width is twice the number of frequencies."""
    half, out = len(f), list(x)
    for i, frequency in enumerate(f):
        c, s = math.cos(position * frequency), math.sin(position * frequency)
        out[i], out[i + half] = x[i] * c - x[i + half] * s, x[i + half] * c + x[i] * s
    return out


def attend(q, k, v, causal, window=0):
    """q [tokens][heads][d], k, v [tokens][kv heads][d]"""
    out = []
    for t, queries in enumerate(q):
        mixed = []
        for h, query in enumerate(queries):
            g = h * len(k[0]) // len(queries)
            keys = [j for j in range(t + 1 if causal else len(k)) if not window or j > t - window]
            scores = [sum(a * b for a, b in zip(query, k[j][g])) / math.sqrt(len(query)) for j in keys]
            top = max(scores)
            weights = [math.exp(s - top) for s in scores]
            total = sum(weights)
            mixed += [sum(w * v[j][g][i] for w, j in zip(weights, keys)) / total for i in range(len(query))]
        out.append(mixed)
    return out


def heads(x, count):
    return [x[i * HEAD:(i + 1) * HEAD] for i in range(count)]


# ---- the architectures: each gives (config, logits or vector) ----------------------------------------


def llama(w, ids, kind):
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": 2, "intermediate_size": FEED, "vocab_size": VOCABULARY,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 500.0, "hidden_act": "silu",
              "head_dim": HEAD, "tie_word_embeddings": kind == "tied"}
    gemma, prefix = kind == "gemma", "model."
    if kind == "llama3":
        config["rope_scaling"] = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 32}
    if kind == "mistral":
        config.update(architectures=["MistralForCausalLM"], sliding_window=4)
    if kind == "qwen2":
        config["architectures"] = ["Qwen2ForCausalLM"]
    if kind == "qwen3":
        config["architectures"] = ["Qwen3ForCausalLM"]
    if kind == "phi3":  # only part of a head turns
        del config["rope_theta"]
        config.update(architectures=["Phi3ForCausalLM"], sliding_window=5,
                      rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.7})
    if gemma:
        config.update(architectures=["GemmaForCausalLM"], hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True)
        del config["tie_word_embeddings"]  # gemma ties whether it says so or not
    window, around = config.get("sliding_window", 0), 0.0 if gemma else 1.0
    plus = (lambda g: [v + 1 for v in g]) if gemma else (lambda g: g)
    embed = w.make(prefix + "embed_tokens.weight", VOCABULARY, WIDTH)
    f = frequencies({"rope_theta": 500.0}, 4) if kind == "phi3" else frequencies(config, HEAD)
    x = [[v * (math.sqrt(WIDTH) if gemma else 1) for v in embed[i]] for i in ids]
    for layer in range(LAYERS):
        name = f"{prefix}layers.{layer}."
        q, k, v = (w.make(f"{name}self_attn.{part}_proj.weight", HEAD * count, WIDTH)
                   for part, count in (("q", HEADS), ("k", 2), ("v", 2)))
        biases = [w.make(f"{name}self_attn.{part}_proj.bias", HEAD * count) if kind == "qwen2" else None
                  for part, count in (("q", HEADS), ("k", 2), ("v", 2))]
        norms = [w.make(f"{name}self_attn.{part}_norm.weight", HEAD, around=1.0) if kind == "qwen3" else None
                 for part in "qk"]
        first = plus(w.make(name + "input_layernorm.weight", WIDTH, around=around))
        second = plus(w.make(name + "post_attention_layernorm.weight", WIDTH, around=around))
        out = w.make(name + "self_attn.o_proj.weight", WIDTH, HEAD * HEADS)
        gate, up, down = (w.make(f"{name}mlp.{part}_proj.weight", *shape)
                          for part, shape in (("gate", (FEED, WIDTH)), ("up", (FEED, WIDTH)), ("down", (WIDTH, FEED))))
        side = [rms(row, first, 1e-5) for row in x]
        qs, ks = ([[rotate(rms(h, n, 1e-5) if n else h, t, f) for h in heads(dense(m, row, b), count)]
                   for t, row in enumerate(side)]
                  for m, b, n, count in ((q, biases[0], norms[0], HEADS), (k, biases[1], norms[1], 2)))
        vs = [heads(dense(v, row, biases[2]), 2) for row in side]
        x = [add(row, dense(out, mixed)) for row, mixed in zip(x, attend(qs, ks, vs, True, window))]
        act = gelu_tanh if gemma else silu
        side = [rms(row, second, 1e-5) for row in x]
        x = [add(row, dense(down, [act(a) * b for a, b in zip(dense(gate, s), dense(up, s))])) for row, s in zip(x, side)]
        if kind == "phi3":
            w.join(name + "self_attn.qkv_proj.weight", *(f"{name}self_attn.{part}_proj.weight" for part in "qkv"))
            w.join(name + "mlp.gate_up_proj.weight", *(f"{name}mlp.{part}_proj.weight" for part in ("gate", "up")))
    last = plus(w.make(prefix + "norm.weight", WIDTH, around=around))
    head = embed if gemma or kind == "tied" else w.make("lm_head.weight", VOCABULARY, WIDTH)
    return config, [dense(head, rms(row, last, 1e-5)) for row in x]


def gpt2(w, ids, kind):
    config = {"architectures": ["GPT2LMHeadModel"], "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS,
              "n_positions": 16, "layer_norm_epsilon": 1e-5, "vocab_size": VOCABULARY, "activation_function": "gelu_new",
              "n_inner": FEED}
    embed, places = w.make("wte.weight", VOCABULARY, WIDTH), w.make("wpe.weight", 16, WIDTH)
    x = [add(embed[i], places[t]) for t, i in enumerate(ids)]
    for layer in range(LAYERS):
        name = f"h.{layer}."
        norms = [[w.make(f"{name}ln_{n}.{part}", WIDTH, around=around) for part, around in (("weight", 1.0), ("bias", 0.0))]
                 for n in (1, 2)]
        parts = {part: (turned(w.make(f"{name}{part}.weight", *shape)), w.make(f"{name}{part}.bias", shape[1]))
                 for part, shape in (("attn.c_attn", (WIDTH, 3 * WIDTH)), ("attn.c_proj", (WIDTH, WIDTH)),
                                     ("mlp.c_fc", (WIDTH, FEED)), ("mlp.c_proj", (FEED, WIDTH)))}
        qkv = [dense(parts["attn.c_attn"][0], layer_norm(row, *norms[0], 1e-5), parts["attn.c_attn"][1]) for row in x]
        q, k, v = ([heads(row[i * WIDTH:(i + 1) * WIDTH], HEADS) for row in qkv] for i in range(3))
        x = [add(row, dense(parts["attn.c_proj"][0], mixed, parts["attn.c_proj"][1]))
             for row, mixed in zip(x, attend(q, k, v, True))]
        x = [add(row, dense(parts["mlp.c_proj"][0],
                            [gelu_tanh(u) for u in dense(parts["mlp.c_fc"][0], layer_norm(row, *norms[1], 1e-5),
                                                         parts["mlp.c_fc"][1])], parts["mlp.c_proj"][1])) for row in x]
    last = [w.make(f"ln_f.{part}", WIDTH, around=around) for part, around in (("weight", 1.0), ("bias", 0.0))]
    return config, [dense(embed, layer_norm(row, *last, 1e-5)) for row in x]


def neox(w, ids, kind):
    config = {"architectures": ["GPTNeoXForCausalLM"], "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "intermediate_size": FEED, "max_position_embeddings": 64, "rotary_pct": 0.667,
              "rotary_emb_base": 200, "layer_norm_eps": 1e-5, "hidden_act": "gelu", "vocab_size": VOCABULARY,
              "use_parallel_residual": kind != "serial"}
    f = frequencies({"rope_theta": 200.0}, int(0.667 * HEAD))
    embed = w.make("gpt_neox.embed_in.weight", VOCABULARY, WIDTH)
    x = [embed[i] for i in ids]
    for layer in range(LAYERS):
        name = f"gpt_neox.layers.{layer}."
        norms = [[w.make(f"{name}{n}_layernorm.{part}", WIDTH, around=around)
                  for part, around in (("weight", 1.0), ("bias", 0.0))] for n in ("input", "post_attention")]
        parts = {part: (w.make(f"{name}{part}.weight", *shape), w.make(f"{name}{part}.bias", shape[0]))
                 for part, shape in (("attention.query_key_value", (3 * WIDTH, WIDTH)), ("attention.dense", (WIDTH, WIDTH)),
                                     ("mlp.dense_h_to_4h", (FEED, WIDTH)), ("mlp.dense_4h_to_h", (WIDTH, FEED)))}
        m, b = parts["attention.query_key_value"]
        qkv = [heads(dense(m, layer_norm(row, *norms[0], 1e-5), b), 3 * HEADS) for row in x]  # q, k, v of each head
        q, k = ([[rotate(h, t, f) for h in row[i::3]] for t, row in enumerate(qkv)] for i in (0, 1))
        m, b = parts["attention.dense"]
        mixed = [dense(m, row, b) for row in attend(q, k, [row[2::3] for row in qkv], True)]
        middle = [add(row, y) for row, y in zip(x, mixed)]
        fed = []
        for row in (x if kind != "serial" else middle):
            up = [gelu(u) for u in dense(parts["mlp.dense_h_to_4h"][0], layer_norm(row, *norms[1], 1e-5),
                                         parts["mlp.dense_h_to_4h"][1])]
            fed.append(dense(parts["mlp.dense_4h_to_h"][0], up, parts["mlp.dense_4h_to_h"][1]))
        x = [add(row, y) for row, y in zip(middle, fed)]
    last = [w.make(f"gpt_neox.final_layer_norm.{part}", WIDTH, around=around)
            for part, around in (("weight", 1.0), ("bias", 0.0))]
    head = w.make("embed_out.weight", VOCABULARY, WIDTH)
    return config, [dense(head, layer_norm(row, *last, 1e-5)) for row in x]


def bert(w, ids, kind):
    config = {"architectures": ["BertModel"], "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "intermediate_size": FEED, "max_position_embeddings": 16,
              "layer_norm_eps": 1e-12, "hidden_act": "gelu", "vocab_size": VOCABULARY, "type_vocab_size": 2}
    embed, places, types = (w.make(f"embeddings.{part}_embeddings.weight", rows, WIDTH)
                            for part, rows in (("word", VOCABULARY), ("position", 16), ("token_type", 2)))
    norm = [w.make(f"embeddings.LayerNorm.{part}", WIDTH, around=around) for part, around in (("weight", 1.0), ("bias", 0.0))]
    x = [layer_norm(add(add(embed[i], places[t]), types[0]), *norm, 1e-12) for t, i in enumerate(ids)]
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        parts = {part: (w.make(f"{name}{part}.weight", *shape), w.make(f"{name}{part}.bias", shape[0]))
                 for part, shape in (("attention.self.query", (WIDTH, WIDTH)), ("attention.self.key", (WIDTH, WIDTH)),
                                     ("attention.self.value", (WIDTH, WIDTH)), ("attention.output.dense", (WIDTH, WIDTH)),
                                     ("intermediate.dense", (FEED, WIDTH)), ("output.dense", (WIDTH, FEED)))}
        norms = [[w.make(f"{name}{n}.LayerNorm.{part}", WIDTH, around=around)
                  for part, around in (("weight", 1.0), ("bias", 0.0))] for n in ("attention.output", "output")]
        q, k, v = ([heads(dense(*[parts[f"attention.self.{p}"][0], row, parts[f"attention.self.{p}"][1]]), HEADS)
                    for row in x] for p in ("query", "key", "value"))
        m, b = parts["attention.output.dense"]
        x = [layer_norm(add(row, dense(m, mixed, b)), *norms[0], 1e-12) for row, mixed in zip(x, attend(q, k, v, False))]
        fed = [dense(parts["output.dense"][0], [gelu(u) for u in dense(parts["intermediate.dense"][0], row,
                                                                       parts["intermediate.dense"][1])],
                     parts["output.dense"][1]) for row in x]
        x = [layer_norm(add(row, y), *norms[1], 1e-12) for row, y in zip(x, fed)]
    mean = [sum(row[i] for row in x) / len(x) for i in range(WIDTH)]
    return config, [mean]


def vit(w, ids, kind):
    """An image is made, ids are of no use.  kind: "", "nobias", "model", "model-unpooled", "resized"; "deit" and
    "deit-teacher", whose images are resized and cut.  Gives (config, preprocessor, answer, image)."""
    side, patch, classes, deit = 12, 4, 7, kind.startswith("deit")
    name = "DeiT" if deit else "ViT"
    prefix, of_classes = "" if "model" in kind else name.lower() + ".", "model" not in kind
    config = {"architectures": [name + ("ForImageClassification" if of_classes else "Model") +
                                ("WithTeacher" if "teacher" in kind else "")],
              "model_type": name.lower(), "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
              "intermediate_size": FEED, "image_size": side, "patch_size": patch, "num_channels": 3,
              "layer_norm_eps": 1e-12, "hidden_act": "gelu", "qkv_bias": kind != "nobias"}
    if of_classes:
        config["id2label"] = {str(i): f"class {i}, other {i}" for i in range(classes)}
    first = [w.make(prefix + f"embeddings.{token}_token", 1, 1, WIDTH)[0]
             for token in (["cls", "distillation"] if deit else ["cls"])]
    w.make(prefix + "embeddings.patch_embeddings.projection.weight", WIDTH, 3, patch, patch)
    kernel = w[prefix + "embeddings.patch_embeddings.projection.weight"][1]
    bias = w.make(prefix + "embeddings.patch_embeddings.projection.bias", WIDTH)
    preprocessor = {"image_processor_type": name + "ImageProcessor", "image_mean": [0.4, 0.5, 0.6],
                    "image_std": [0.3, 0.3, 0.3]}
    width, height, to = (17, 23, 16) if deit else (29, 9, side) if kind == "resized" else (side, side, side)
    image = [[[w.random.randrange(256) for _ in range(3)] for _ in range(width)] for _ in range(height)]
    if deit:
        preprocessor.update(size=to, resample=3, crop_size={"height": side, "width": side})
    elif kind == "resized":
        preprocessor.update(size={"height": to, "width": to}, resample=2, rescale_factor=1 / 255)
    else:
        preprocessor["do_resize"] = False
    fits = picture.resize(image, to, to, picture.cubic if deit else picture.tent) if to != width else image
    seen = [row[(to - side) // 2:(to + side) // 2] for row in fits[(to - side) // 2:(to + side) // 2]]
    seen = [[[(v / 255 - 0.4 - c / 10) / 0.3 for c, v in enumerate(p)] for p in row] for row in seen]
    x = first + [[bias[i] + sum(kernel[((i * 3 + c) * patch + dy) * patch + dx] * seen[top + dy][left + dx][c]
                                for c in range(3) for dy in range(patch) for dx in range(patch)) for i in range(WIDTH)]
                 for top in range(0, side, patch) for left in range(0, side, patch)]
    w.make(prefix + "embeddings.position_embeddings", 1, len(x), WIDTH)
    places = w[prefix + "embeddings.position_embeddings"][1]
    x = [add(row, places[t * WIDTH:(t + 1) * WIDTH]) for t, row in enumerate(x)]
    for layer in range(LAYERS):
        name = f"{prefix}encoder.layer.{layer}."
        norms = [[w.make(f"{name}layernorm_{n}.{part}", WIDTH, around=around)
                  for part, around in (("weight", 1.0), ("bias", 0.0))] for n in ("before", "after")]
        qkv = {p: (w.make(f"{name}attention.attention.{p}.weight", WIDTH, WIDTH),
                   w.make(f"{name}attention.attention.{p}.bias", WIDTH) if kind != "nobias" else None)
               for p in ("query", "key", "value")}
        out, up, down = ((w.make(f"{name}{part}.dense.weight", *shape), w.make(f"{name}{part}.dense.bias", shape[0]))
                         for part, shape in (("attention.output", (WIDTH, WIDTH)), ("intermediate", (FEED, WIDTH)),
                                             ("output", (WIDTH, FEED))))
        side_rows = [layer_norm(row, *norms[0], 1e-12) for row in x]
        q, k, v = ([heads(dense(qkv[p][0], row, qkv[p][1]), HEADS) for row in side_rows] for p in qkv)
        x = [add(row, dense(out[0], mixed, out[1])) for row, mixed in zip(x, attend(q, k, v, False))]
        x = [add(row, dense(down[0], [gelu(u) for u in dense(up[0], layer_norm(row, *norms[1], 1e-12), up[1])], down[1]))
             for row in x]
    last = [w.make(f"{prefix}layernorm.{part}", WIDTH, around=around) for part, around in (("weight", 1.0), ("bias", 0.0))]
    x = [layer_norm(row, *last, 1e-12) for row in x]
    if kind == "model-unpooled":
        answer = x[0]
    elif not of_classes:
        m, b = w.make("pooler.dense.weight", WIDTH, WIDTH), w.make("pooler.dense.bias", WIDTH)
        answer = [math.tanh(v) for v in dense(m, x[0], b)]
    else:
        names = ["cls_classifier", "distillation_classifier"] if "teacher" in kind else ["classifier"]
        said = [dense(w.make(n + ".weight", classes, WIDTH), row, w.make(n + ".bias", classes)) for n, row in zip(names, x)]
        answer = [sum(v) / len(said) for v in zip(*said)]
    return config, preprocessor, [answer], image


# ---- files -------------------------------------------------------------------------------------------


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (shape, flat) in tensors.items():
        data = struct.pack(f"<{len(flat)}f", *flat)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def main():
    name, folder = sys.argv[1:]
    builder, _, rest = name.partition("-")
    kind = rest.removesuffix("sharded").rstrip("-")
    w = Weights(name.removesuffix("-sharded"))
    ids = [w.random.randrange(VOCABULARY) for _ in range(TOKENS)]
    os.makedirs(folder, exist_ok=True)
    if builder in ("vit", "deit"):
        config, preprocessor, expected, image = vit(w, ids, kind if builder == "vit" else f"deit-{kind}".rstrip("-"))
        picture.write_png(f"{folder}/image.png", image)
        with open(f"{folder}/preprocessor_config.json", "w") as file:
            json.dump(preprocessor, file)
    else:
        config, expected = {"llama": llama, "gpt2": gpt2, "neox": neox, "bert": bert}[builder](w, ids, kind)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file)
    if rest.endswith("sharded"):
        names = list(w)
        shards = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
        for shard, inside in shards.items():
            write_safetensors(f"{folder}/{shard}", {n: w[n] for n in inside})
        with open(f"{folder}/model.safetensors.index.json", "w") as file:
            json.dump({"weight_map": {n: shard for shard, inside in shards.items() for n in inside}}, file)
    else:
        write_safetensors(f"{folder}/model.safetensors", w)
    npy.write(f"{folder}/ids.npy", [TOKENS], ids, "<i4")
    npy.write(f"{folder}/expected.npy", [len(expected), len(expected[0])], [v for row in expected for v in row])


if __name__ == "__main__":
    main()
