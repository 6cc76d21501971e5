#!/bin/bash
# --cache of models: what a cache takes is said, a saved session keeps its own, and what has none refuses it.
. "$(dirname "$0")/support.sh"

python3 "$here/gguf.py" tiny.gguf # 2 layers, 2 kv heads of 16
python3 "$here/gguf.py" says.gguf --says "Hi, you."
generate() { "$LINNET" generate tiny.gguf --temperature 0 --json "$@"; }
chat() { "$LINNET" chat says.gguf --temperature 0 "$@"; }
lines() { printf '%s\n' "$@"; }

# Bytes of a row of 16 numbers: f32, f16, bf16, and a block of 32 with its scale.
while read -r cache numbers bytes; do
    succeeds generate --prompt "the cat" --tokens 20 --cache "$cache" --save-state "$cache.safetensors"
    npy expect stdout.txt "m['cache'] == '$numbers' and m['state_bytes'] % (8 * $bytes) == 0"
    npy expect stdout.txt "m['cache_bytes'] == 8 * $bytes * m['session_tokens'] <= m['state_bytes']"
    succeeds generate --tokens 5 --load-state "$cache.safetensors"
    npy expect stdout.txt "m['cache'] == '$numbers'"
    succeeds generate --tokens 5 --load-state "$cache.safetensors" --cache "$cache"
done <<END_OF_ROWS
same f32 64
f16 f16 32
bf16 bf16 32
q8 q8 34
END_OF_ROWS
succeeds generate --prompt "the cat" --tokens 20
npy expect stdout.txt 'm["cache"] == "f32"'
for cache in q8 same; do
    fails 1 "'f16.safetensors': its cache is 'f16', --cache is '$cache'" \
        generate --load-state f16.safetensors --cache $cache
done
fails 2 "--cache" generate --cache q4
fails 1 "cache is f16, must be same: no layer of the model is softmax" generate --mechanism linear --cache f16

# A conversation keeps its cache when it begins anew, and takes that of what it loads.
succeeds chat --cache q8 --json < <(lines hello "/save talk.safetensors" /reset hello /stats)
npy expect stdout.txt 'all(line["cache"] == "q8" for line in lines) and len(lines) == 3'
succeeds chat < <(lines "/load talk.safetensors" /stats)
grep -q "a softmax cache of q8 holds" stdout.txt || wrong "/stats: $(cat stdout.txt)"
fails 1 "its cache is 'q8', --cache is 'f16'" chat --cache f16 < <(lines "/load talk.safetensors")
fails 1 "its cache is 'q8', --cache is 'f16'" chat --cache f16 --load-state talk.safetensors </dev/null

# Perplexity is that of the cache: near that of f32, and not the same.
for _ in $(seq 60); do echo "the cat sat on the mat and the dog sat on the log."; done >text.txt
for cache in same f16 q8; do
    succeeds "$LINNET" eval tiny.gguf --data text.txt --length 64 --cache $cache --json
    cat stdout.txt >>each.txt
done
npy expect each.txt '[line["cache"] for line in lines] == ["f32", "f16", "q8"]'
npy expect each.txt '0 < abs(lines[1]["loss"] - m["loss"]) < abs(lines[2]["loss"] - m["loss"]) < 0.01'
python3 - <<'END'
import struct
with open("ids.npy", "wb") as f:
    header = "{'descr': '<i4', 'fortran_order': False, 'shape': (9,), }".ljust(117) + "\n"
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    f.write(struct.pack("<9i", *range(9)))
END
for cache in same q8; do
    succeeds "$LINNET" eval tiny.gguf --token-ids ids.npy --logits $cache.npy --cache $cache
done
! cmp -s same.npy q8.npy || wrong "--cache does not reach --token-ids"

# A model of a task is tested without a cache.
cat >text.json <<'END'
{"model": {"dim": 16, "layers": 1, "heads": 2, "length": 16, "position": "rotary"}, "train": {"steps": 1}}
END
succeeds "$LINNET" train --task text --config text.json --data text.txt --out text
fails 2 "--cache is for" "$LINNET" eval text --data text.txt --cache f16
succeeds "$LINNET" generate text --tokens 20 --cache f16 --json
npy expect stdout.txt 'm["cache"] == "f16"'
