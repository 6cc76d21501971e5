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

# Of a model that others trained, eval reads the text as it was trained too, and says what the other costs.
python3 "$here/gguf.py" tiny.gguf
for i in $(seq 30); do echo "the cat sat on the mat $i"; done >foreign.txt
for with in "" "--mechanism softmax" "--mechanism linear"; do
    succeeds "$LINNET" eval tiny.gguf --data foreign.txt --length 64 --json $with
    cat stdout.txt
done >each.txt
python3 - <<'END'
import json
own, same, other = [json.loads(line) for line in open("each.txt")]
assert "own_perplexity" not in own and "cache" in own and "cache" not in other, (own, other)
for m in same, other:
    assert m["own_mechanism"] == "softmax" and m["own_perplexity"] == own["perplexity"], (own, m)
    assert abs(m["perplexity_ratio"] - m["perplexity"] / own["perplexity"]) < 1e-9, m
assert same["perplexity_ratio"] == 1 and other["perplexity_ratio"] != 1, (same, other)
END
succeeds "$LINNET" eval tiny.gguf --data foreign.txt --length 64 --mechanism softmax
grep -q "its own softmax .* 1 times that: as good as its own" stdout.txt || wrong "no verdict: $(cat stdout.txt)"

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
python3 "$here/drop.py" make
succeeds study --model bert --data texts --batch 4 --landmarks 16 --svg drop.svg --json
python3 - <<'END'
import json, os
lines = [json.loads(line) for line in open("stdout.txt")]
layers, lines = [m for m in lines if "layer" in m], [m for m in lines if "layer" not in m]
# By 7 inverses: 8 choices, 7 of them pinned, 4 with indices of their own, 4 with both; then 5 lengths.
assert len(lines) == 7 * (8 + 7 + 4 + 4) + 5 * 8 and len(layers) == 2, (len(lines), len(layers))
assert all(m["texts"] == 4 and -1 <= m["rank"] <= 1 and 0 < m["cosine"] <= 1 + 1e-9 for m in lines), lines
assert {m["words"]: m["tokens"] for m in lines} == {32: 34, 64: 64, 128: 64, 256: 64, 512: 64}, lines
assert len({m["cosine"] for m in lines}) > 120
assert all(m["difference"] >= 0 for m in lines) and all(len(m["errors"]) == 4 for m in layers), lines
if os.path.exists("drop.svg"):  # there is gnuplot
    picture = open("drop.svg").read()
    assert len(picture) < 60000 and picture.count("step-mean") >= 2, len(picture)
END
# One choice of each against the formulas, and against a model that is loaded with cur; and all as tables.
embeds() { succeeds "$LINNET" embed bert --file lines.txt -o "$1" "${@:2}"; }
embeds softmax.npy
embeds cur.npy --mechanism cur --landmarks 16 --pinv ridge
succeeds study --model bert --data texts --batch 4 --length 40 --landmarks 16 --select step --pinv ridge --json
python3 "$here/drop.py" check <stdout.txt || wrong "the study is not what the formulas give"
succeeds study --model bert --data texts --batch 4 --landmarks 16 --select sum --pinv iterate
for words in "(figure 5)" "(figure 6)" "(figure 7)" "by layer" "length of a text, 8 iterations" "separate"; do
    grep -qF "$words" stdout.txt || wrong "no '$words': $(cat stdout.txt)"
done
succeeds study --model bert --data texts --batch 4 --length 12 --landmarks 64 --select step --json
python3 - <<'END'
import json
for m in map(json.loads, open("stdout.txt")): # as many landmarks as tokens: exact
    if "layer" in m: assert m["alone"] > 1 - 1e-6 and max(m["errors"]) < 1e-5 and m["least"] is None, m
    else: assert m["cosine"] > 1 - 1e-6 and m["rank"] > 0.99 and m["difference"] < 1e-5, m
END
fails 1 "at least two texts are compared" study --model bert --data texts/short.txt --length 3
fails 2 "is not 3 to 256 texts" study --model bert --data texts --batch 2
fails 2 "pinv-iterations is for --pinv iterate, not ridge" \
    study --model bert --data texts --pinv ridge --pinv-iterations 3
fails 2 "pinv is for models that are encoders" study --model writer --data text.txt --pinv tuned
fails 1 "cannot read 'texts/none/'" study --model bert --data texts/none/
