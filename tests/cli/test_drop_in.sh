#!/bin/bash
# Another attention in place of a model's own, without training: eval and generate say what it does.
. "$(dirname "$0")/support.sh"

cat >copy.json <<'END'
{"model": {"dim": 16, "layers": 2, "heads": 2, "length": 24}, "train": {"steps": 20, "batch": 8}}
END
loss() { sed -n 's/.*"loss": *\([^,]*\),.*/\1/p' stdout.txt; }
mechanism() { sed -n 's/.*"mechanism": *"\([^"]*\)".*/\1/p' stdout.txt; }

succeeds "$LINNET" train --task copy --config copy.json --out run
succeeds "$LINNET" eval run --batches 2 --json
own=$(loss)
succeeds "$LINNET" eval run --batches 2 --json --mechanism softmax
[ "$(loss)" = "$own" ] || wrong "its own mechanism changes the loss from $own to $(loss)"
succeeds "$LINNET" eval run --batches 2 --json --mechanism linear
[ "$(mechanism)" = linear ] && [ "$(loss)" != "$own" ] || wrong "linear is not in its place: $(cat stdout.txt)"
succeeds "$LINNET" eval run --batches 2 --json --mechanism hybrid --window 64
python3 -c "assert abs($(loss) - $own) < 1e-5 * $own" || wrong "a window over all is softmax: $(loss), not $own"
succeeds "$LINNET" eval run --batches 2 --json --mechanism hybrid --window 2 --sink 1 --far linear
[ "$(loss)" != "$own" ] || wrong "the window does not reach the model"
succeeds "$LINNET" generate run --prompt "1 2 3" --tokens 3 --mechanism taylor --terms 3
fails 2 "landmarks needs --mechanism" "$LINNET" eval run --landmarks 8
fails 2 "window does not apply to linear" "$LINNET" eval run --mechanism linear --window 3
fails 1 "cur sees whole sequences" "$LINNET" eval run --mechanism cur
fails 1 "cur sees whole sequences" "$LINNET" generate run --mechanism cur --landmarks 4 --pin 0

# The study of a decoder: a window over the whole text is the model as it is.
for i in $(seq 120); do echo "the cat number $i sat upon the mat, and so did the other"; done >text.txt
cat >text.json <<'END'
{"model": {"dim": 16, "layers": 1, "heads": 2, "length": 64}, "train": {"steps": 3, "batch": 2}}
END
succeeds "$LINNET" train --task text --config text.json --data text.txt --out writer
study() { "$LINNET" bench --study drop-in "$@"; }
succeeds study --model writer --data text.txt --length 100 --json
python3 - <<'END'
import json
lines = [json.loads(line) for line in open("stdout.txt")]
own = lines[0]["loss"]
assert len(lines) == 13 and all(abs(m["loss"] - own) < 1e-4 * own for m in lines), lines
END
succeeds study --model writer --data text.txt --length 600 --json
python3 - <<'END'
import json
lines = [json.loads(line) for line in open("stdout.txt")]
assert all(m["loss"] != lines[0]["loss"] for m in lines[1:5]), lines
END
fails 2 "needs --data" study --model writer
fails 2 "needs --model" study --data text.txt
fails 2 "landmarks is for models that are encoders" study --model writer --data text.txt --landmarks 8
fails 1 "tokens, 9000000 are needed" study --model writer --data text.txt --length 9000 --batch 1000

# That of an encoder, upon one as Hugging Face lays it out.
python3 - <<'END'
import json, os, random, struct
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
END
succeeds study --model bert --data texts --batch 4 --length 40 --landmarks 16 --json
python3 - <<'END'
import json
lines = [json.loads(line) for line in open("stdout.txt")]
# Lengths; 8 selections by 7 inverses; each once more, pinned (all but means), and separate (three).
assert len(lines) == 5 * 2 + 8 * 7 + 8 + 7 + 2 * 3, len(lines)
assert all(m["texts"] == 4 and -1 <= m["rank"] <= 1 and 0 < m["cosine"] <= 1 + 1e-9 for m in lines), lines
assert {m["words"]: m["tokens"] for m in lines} == {32: 34, 64: 64, 128: 64, 256: 64, 512: 64, 40: 42}, lines
assert len({m["cosine"] for m in lines}) > 40
END
succeeds study --model bert --data texts --batch 4 --length 12 --landmarks 64 --select step --json
python3 - <<'END'
import json
for m in map(json.loads, open("stdout.txt")): # as many landmarks as tokens: exact
    assert m["cosine"] > 1 - 1e-6 and m["rank"] > 0.99, m
END
fails 1 "at least two texts are compared" study --model bert --data texts/short.txt --length 3
fails 2 "is not 3 to 256 texts" study --model bert --data texts --batch 2
