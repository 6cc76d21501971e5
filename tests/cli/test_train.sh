#!/bin/bash
# Training: the files it leaves, the same bits after kill -9 and for any number of threads, and bad
# input: exit 1, one sentence, what was there before still there.
. "$(dirname "$0")/support.sh"

cat >copy.json <<'END'
{"model": {"dim": 32, "layers": 2, "heads": 4, "length": 24, "dropout": 0.1},
 "train": {"steps": 40, "batch": 8, "save_every": 5, "eval_every": 20, "eval_batches": 2}}
END
train() { "$LINNET" train --task copy --config copy.json "$@"; }

succeeds train --out whole
for file in model checkpoint; do [ -s "whole/$file.safetensors" ] || wrong "no $file"; done
grep -q '^copy, .* parameters, 40 steps' stdout.txt || wrong "summary: $(cat stdout.txt)"
grep -q '^test loss .* bits per token, accuracy' stdout.txt || wrong "summary: $(cat stdout.txt)"
[ "$(grep -c '"loss"' whole/log.jsonl)" = 40 ] || wrong "the log has not a line for each step"
[ "$(grep -c '"test_loss"' whole/log.jsonl)" = 2 ] || wrong "the log has not a line for each test"
python3 - <<'END'
import json, xml.dom.minidom
for line in open("whole/log.jsonl"): json.loads(line)
xml.dom.minidom.parse("whole/loss.svg")
END

# Python's view of the model: names, shapes, and metadata without Linnet.
python3 - <<'END'
import json, struct
data = open("whole/model.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
meta = header.pop("__metadata__")
config = json.loads(meta["config"])
assert config["dim"] == 32 and config["kind"] == "decoder", config
assert meta["task"] == "copy" and json.loads(meta["tokenizer"])["kind"] == "none", meta
assert header["blocks.1.qkv.weight"]["shape"] == [32, 96], header
assert header["embed.weight"]["dtype"] == "F32"
assert max(e["data_offsets"][1] for e in header.values()) == len(data) - 8 - size
END

# Killed in the middle: the checkpoint is whole, and the end the same bits.  The schedule of copy does
# not look at the number of steps, so a run that is meant to be longer begins the same.
"$LINNET" train --task copy --config copy.json --out killed --steps 100000 >/dev/null 2>&1 &
child=$!
until [ -s killed/checkpoint.safetensors ] && [ "$(wc -l <killed/log.jsonl)" -ge 8 ]; do
    sleep 0.02
done
kill -9 "$child"
wait "$child" 2>/dev/null || true
done_steps=$(grep -c '"loss"' killed/log.jsonl)
whole_steps=$((done_steps + 10))
succeeds "$LINNET" train --out killed --resume --steps "$whole_steps"
succeeds train --out unkilled --steps "$whole_steps"
cmp unkilled/model.safetensors killed/model.safetensors || wrong "not the same bits after kill -9"
[ "$(grep -c '"loss"' killed/log.jsonl)" = "$whole_steps" ] ||
    wrong "the log has steps twice, or not at all"

succeeds train --out one --threads 1
succeeds train --out three --threads 3
cmp one/model.safetensors three/model.safetensors || wrong "threads change the bits"
cmp one/model.safetensors whole/model.safetensors || wrong "another run changes the bits"
succeeds train --out other --seed 9
! cmp -s one/model.safetensors other/model.safetensors || wrong "the seed changes nothing"

# Evaluation.
succeeds "$LINNET" eval whole/model.safetensors --batches 3
grep -q '^accuracy' stdout.txt || wrong "eval: $(cat stdout.txt)"
succeeds "$LINNET" eval whole/model.safetensors --json --batches 3
python3 -c 'import json; r = json.load(open("stdout.txt")); assert r["loss"] > 0 and r["targets"] > 0'

# Wrong usage.
fails 2 "--out is missing" train
fails 2 "--task is missing" "$LINNET" train --out new
fails 2 "--task cannot change with --resume" train --out whole --resume
fails 2 "--steps: '0' is not a whole number of at least 1" train --out new --steps 0
fails 2 "1 of 1 files are missing" "$LINNET" eval
absent new

# Bad input.
fails 1 "task 'chess' is not one of copy, text, listops" "$LINNET" train --task chess --out new
fails 1 "holds a checkpoint; --resume goes on from it" train --out whole
fails 1 "missing.json" "$LINNET" train --task copy --config missing.json --out new
fails 1 "task text needs data" "$LINNET" train --task text --out new
fails 1 "missing.txt" "$LINNET" train --task text --data missing.txt --out new
fails 1 "cannot read" "$LINNET" train --task mnist --data . --out new
fails 1 "makes its own data" train --data copy.json --out new
echo '{"model": {"dmi": 8}}' >bad.json
fails 1 "model has an unknown key 'dmi'" "$LINNET" train --task copy --config bad.json --out new
echo '{"model": {"dim": 10, "heads": 3}}' >bad.json
fails 1 "must be a multiple of heads" "$LINNET" train --task copy --config bad.json --out new
echo '{"model": {"dim": 65536, "layers": 1024, "heads": 1}}' >bad.json
fails 1 "memory" "$LINNET" train --task copy --config bad.json --out new
echo 'x' >tiny.txt
fails 1 "too few for sequences" "$LINNET" train --task text --data tiny.txt --out new
fails 1 "cannot make" train --out no/such/place
: >file
fails 1 "'file' is not a directory" train --out file
fails 1 "checkpoint.safetensors" "$LINNET" train --out new --resume

# Damage to a checkpoint is noticed, wherever it is.
size=$(wc -c <one/checkpoint.safetensors)
for at in 3 40 $((size / 2)) $((size - 1)); do
    cp one/checkpoint.safetensors three/checkpoint.safetensors
    byte=$(od -An -tu1 -j "$at" -N 1 three/checkpoint.safetensors | tr -d ' ')
    printf "$(printf '\\%03o' $((byte ^ 4)))" |
        dd of=three/checkpoint.safetensors bs=1 seek="$at" conv=notrunc 2>/dev/null
    fails 1 "checkpoint.safetensors" "$LINNET" train --out three --resume --steps 50
done

# A full disk, played by a limit on the size of files: the checkpoint before is still there.
cp -r one full
(
    trap '' XFSZ
    ulimit -f 60 # kB: the log and the curve fit, the checkpoint does not
    status=0
    "$LINNET" train --out full --resume --steps 50 >stdout.txt 2>stderr.txt || status=$?
    [ "$status" = 1 ] && [ "$(wc -l <stderr.txt)" = 1 ] && grep -q 'checkpoint.safetensors' stderr.txt
) || wrong "a full disk: $(cat stderr.txt)"
cmp one/checkpoint.safetensors full/checkpoint.safetensors || wrong "the checkpoint is damaged"
succeeds "$LINNET" train --out full --resume --steps 50
