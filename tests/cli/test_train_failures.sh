#!/bin/bash
# Training with bad input, damaged files and a full disk: exit 1, one sentence that names what is
# wrong, and what was there before still there.
. "$(dirname "$0")/support.sh"

cat >copy.json <<'END'
{"model": {"dim": 16, "layers": 1, "heads": 4, "length": 16},
 "train": {"steps": 10, "batch": 4, "save_every": 5, "eval_batches": 1}}
END
train() { "$LINNET" train --task copy --config copy.json "$@"; }
succeeds train --out one

# ---- tasks, data and places ---------------------------------------------------------------------

mkdir empty
: >file
echo 'x' >tiny.txt
fails 1 "task 'chess' is not one of copy, text, listops" "$LINNET" train --task chess --out new
fails 1 "holds a checkpoint; --resume goes on from it" train --out one
fails 1 "makes its own data" train --data copy.json --out new
fails 1 "task text needs data" "$LINNET" train --task text --out new
fails 1 "missing.txt" "$LINNET" train --task text --data missing.txt --out new
fails 1 "'empty': has no .txt file" "$LINNET" train --task text --data empty --out new
fails 1 "to train on, must have at least 257" "$LINNET" train --task text --data tiny.txt --out new
fails 1 "cannot read 'missing': it has neither train-images-idx3-ubyte nor" "$LINNET" train --task mnist --data missing --out new
fails 1 "cannot read '.': it has neither" "$LINNET" train --task mnist-class --data . --out new
fails 1 "cannot read 'missing'" "$LINNET" train --task speech --data missing --out new
fails 1 "'empty': has no recordings" "$LINNET" train --task speech --data empty --out new
fails 1 "cannot make" train --out no/such/place
fails 1 "'file' is not a directory" train --out file
mkdir piped
mkfifo piped/log.jsonl # nobody reads it, and nobody waits for that
fails 1 "cannot write 'piped/log.jsonl': it is not a regular file" \
    timeout 20 "$LINNET" train --task copy --config copy.json --out piped
cp one/checkpoint.safetensors piped
fails 1 "cannot write 'piped/log.jsonl': it is not a regular file" \
    timeout 20 "$LINNET" train --resume --out piped --steps 11
for name in model.safetensors loss.svg; do # noticed before a step is trained
    rm -rf taken piped
    mkdir -p "taken/$name" piped
    mkfifo "piped/$name"
    for out in taken piped; do
        fails 1 "cannot write '$out/$name': it is not a regular file" \
            timeout 20 "$LINNET" train --task copy --config copy.json --out $out
        absent $out/log.jsonl
    done
done
fails 1 "checkpoint.safetensors" "$LINNET" train --out new --resume
absent new
fails 1 "missing.safetensors" "$LINNET" eval missing.safetensors
fails 1 "seed is 9223372036854775808, must be 0 to" "$LINNET" eval one --seed 9223372036854775808
fails 1 "copy.json" "$LINNET" eval copy.json

# ---- configs ------------------------------------------------------------------------------------

# refused TASK CONFIG SENTENCE [OPTION...]
refused() {
    local task=$1 sentence=$3
    printf '%s\n' "$2" >bad.json
    shift 3
    fails 1 "$sentence" "$LINNET" train --task "$task" --config bad.json --out new "$@"
}

fails 1 "missing.json" "$LINNET" train --task copy --config missing.json --out new
refused copy '' "'bad.json', byte 1: expected a value"
refused copy '{"model": {"dim": 8}' "expected ',' or '}'"
refused copy '[]' "'bad.json': the config must be an object"
refused copy '{"model": []}' "'bad.json': model must be an object"
refused copy '{"model": {"attention": 3}}' "'bad.json': model.attention must be an object"
refused copy '{"modle": {}}' "an unknown key 'modle'; it takes model, train, task"
refused copy '{"model": {"dmi": 8}}' "model has an unknown key 'dmi'"
refused copy '{"train": {"stesp": 5}}' "train has an unknown key 'stesp'"
refused copy '{"task": {"words": 3}}' "task has an unknown key 'words'; it takes symbols, whole"
refused copy '{"model": {"attention": {"term": 3}}}' "model.attention has an unknown key 'term'"
refused copy '{"model": {"dim": 8, "dim": 16}}' "same key twice"

refused copy '{"model": {"dim": "wide"}}' "model.dim must be a whole number"
refused copy '{"model": {"dim": 1.5}}' "model.dim must be a whole number"
refused copy '{"model": {"tied": 1}}' "model.tied must be true or false"
refused copy '{"train": {"rate": "fast"}}' "train.rate must be a number"
refused copy '{"train": {"rate": 1e999}}' "train.rate is inf, must be 0 to 10"
refused text '{"train": {"schedule": "step"}}' "train.schedule is 'step', which needs drop_at" --data tiny.txt
refused copy '{"train": {"optimizer": "sgd"}}' "'sgd', must be one of adamw, radam, lamb"
refused copy '{"model": {"attention": {"mechanism": "magic"}}}' "'magic', must be one of softmax"
refused copy '{"model": {"attention": {"mechanism": "hybrid", "far": "cur"}}}' \
    "'bad.json': model.attention.far is 'cur', must be one of linear, taylor"
refused text '{"task": {"tokenizer": "none"}}' \
    "'bad.json': task.tokenizer is 'none', must be one of bytes, bpe" --data tiny.txt

refused copy '{"model": {"dim": 10, "heads": 3}}' "must be a multiple of heads"
refused copy '{"model": {"heads": 0}}' "model.heads is 0, must be 1 to"
refused copy '{"model": {"heads": 8, "kv_heads": 3}}' "must divide heads"
refused copy '{"model": {"length": 0}}' "model.length is 0, must be 1 to"
refused copy '{"model": {"length": 2}}' "model.length is 2, must be at least 3"
refused copy '{"model": {"layers": -1}}' "model.layers is -1, must be 1 to"
refused copy '{"model": {"dim": 65536, "layers": 1024, "heads": 1}}' "memory"
refused copy '{"model": {"kind": "encoder"}}' "kind must be decoder"
refused copy '{"model": {"attention": {"mechanism": "cur"}}}' \
    "mechanism cur sees whole sequences, and is for encoders; this model is a decoder"
refused copy '{"model": {"attention": {"sink": 8}}, "train": {"steps": 1}}' \
    "model.attention.sink does not apply to mechanism softmax"
refused copy '{"model": {"averages": 4}}' "averages need kind encoder"
refused copy '{"train": {"steps": 0}}' "train.steps is 0, must be 1 to"
refused copy '{"train": {"batch": 0}}' "train.batch is 0, must be 1 to"
refused copy '{"task": {"symbols": 0}}' "task.symbols is 0, must be 1 to"
refused listops '{"task": {"shortest": 50, "longest": 20}}' "shortest is 50, must be at most longest"
refused listops '{"model": {"kind": "decoder"}}' "kind must be encoder"
refused text '{"task": {"tokenizer": "bpe", "vocabulary": 200}}' \
    "task.vocabulary is 200, must be 257 to" --data tiny.txt
refused listops '{"model": {"attention": {"mechanism": "linear", "decay": [0.9]}}}' \
    "'bad.json': model: attention.decay goes by age; kind must be decoder"
refused text '{"task": {"held_out": 1}}' "task.held_out is 1, must be 0 to 0.9" --data tiny.txt
# Config and tool agree on what is an option of which mechanism, and on what it needs beside it: here one
# that is its own goes on to be refused for its heads.
for option in scale=0.5 feature_map='"relu"' features=8 eps=0.5 terms=3 coefficients='[1,1]' \
    normalize='"taylorshift"' output_norm=true compensated=true landmarks=8 select='"sum"' \
    embed_column=1 separate_indices=true no_row_copy=true pinv='"ridge"' pinv_iterations=3 \
    pinv_init='"paper1"' ridge=0.5 window=8 sink=2 far='"linear"' decay='[0.5]'; do
    key=${option%%=*} value=${option#*=}
    flag=("--${key//_/-}" "$(tr -d '"[]' <<< "$value")")
    [ "$value" = true ] && flag=("${flag[0]}")
    for mechanism in softmax linear taylor cur hybrid; do
        causal=(--causal)
        [ "$mechanism" = cur ] && causal=()
        tool=$("$LINNET" attend q k v -o y --mechanism "$mechanism" "${causal[@]}" "${flag[@]}" 2>&1) || true
        case $tool in
        *"${flag[0]} does not apply to $mechanism"*)
            sentence="model.attention.$key does not apply to mechanism $mechanism" ;;
        *"${flag[0]} needs "* | *"${flag[0]} applies to "*) sentence="model.attention.$key needs " ;;
        *) sentence="must be a multiple of heads" ;;
        esac
        refused copy "{\"model\": {\"dim\": 10, \"heads\": 3,
            \"attention\": {\"mechanism\": \"$mechanism\", \"$key\": $value}}}" "$sentence"
    done
done
refused copy '{"model": {"a\nb\u001b[2J": 1}}' "unknown key 'a?b?[2J'"
absent new

# ---- numbers too large --------------------------------------------------------------------------

small='"dim": 16, "layers": 2, "heads": 4, "length": 16'
refused copy "{\"model\": {$small,
    \"attention\": {\"mechanism\": \"taylor\", \"terms\": 9, \"scale\": 1e6}}}" \
    "step 1: the loss or its gradient is not finite with the weights it begins with; try other options"
absent new/model.safetensors new/checkpoint.safetensors
rm -r new
refused copy "{\"model\": {$small, \"attention\": {\"mechanism\": \"linear\", \"feature_map\": \"exp\"}},
    \"train\": {\"steps\": 60, \"batch\": 4, \"rate\": 10, \"clip\": 0, \"save_every\": 1}}" \
    "the loss or its gradient is not finite; try a lower rate"
succeeds "$LINNET" eval new/model.safetensors --batches 1 # that of the step before
rm -r new

# ---- damage -------------------------------------------------------------------------------------

# A flipped bit in the length, along the header, at the ends and in the middle of every array, and in
# the last byte: noticed, and the damaged file left as it is.
cat >flip.py <<'END'
import json, os, struct, sys
data = open(sys.argv[1], "rb").read()
start = 8 + struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:start])
arrays = [e["data_offsets"] for name, e in header.items() if name != "__metadata__"]
places = {0, 3, 7, len(data) - 1} | set(range(8, start, int(sys.argv[2])))
for first, last in arrays: places |= {start + first, start + (first + last) // 2, start + last - 1}
for at in places:
    flipped = bytearray(data)
    flipped[at] ^= 1 << at % 8
    open(os.path.join("flips", str(at)), "wb").write(flipped)
END
# damaged FILE STRIDE COMMAND...: which reads bad/FILE.
damaged() {
    local file=$1 at
    rm -rf flips
    mkdir flips
    python3 flip.py "one/$file" "$2"
    shift 2
    for at in flips/*; do
        cp "$at" "bad/$file"
        fails 1 "bad/$file" "$@"
        cmp -s "$at" "bad/$file" || wrong "$file, $at: the damaged file was changed"
    done
}
mkdir bad
damaged model.safetensors 151 "$LINNET" eval bad/model.safetensors --batches 1
damaged checkpoint.safetensors 307 "$LINNET" train --out bad --resume --steps 11

# Files cut short, made longer, or put in each other's place.
for file in model checkpoint; do
    size=$(wc -c <one/$file.safetensors)
    for left in 0 5 8 100 $((size / 2)) $((size - 1)); do
        head -c "$left" one/$file.safetensors >bad/$file.safetensors
        if [ $file = model ]; then
            fails 1 "bad/model.safetensors" "$LINNET" eval bad/model.safetensors
        else
            fails 1 "bad/checkpoint.safetensors" "$LINNET" train --out bad --resume --steps 11
        fi
    done
done
{ cat one/model.safetensors; echo more; } >bad/model.safetensors
fails 1 "bad/model.safetensors" "$LINNET" eval bad/model.safetensors
cp one/model.safetensors bad/checkpoint.safetensors
fails 1 "is not a checkpoint of linnet" "$LINNET" train --out bad --resume --steps 11

# ---- other data ---------------------------------------------------------------------------------

cat >text.json <<'END'
{"model": {"dim": 8, "layers": 1, "heads": 2, "length": 8},
 "train": {"steps": 2, "batch": 2, "eval_batches": 1}}
END
mkdir texts
seq 1000 >texts/a.txt
seq 1000 2000 >texts/b.txt
succeeds "$LINNET" train --task text --config text.json --data texts --out read
cp read/checkpoint.safetensors kept
mv texts elsewhere
succeeds "$LINNET" train --out read --resume --data elsewhere --steps 3
cp kept read/checkpoint.safetensors
echo more >>elsewhere/b.txt
fails 1 "'read/checkpoint.safetensors': was trained upon other data than 'elsewhere' has now" \
    "$LINNET" train --out read --resume --data elsewhere --steps 3
cmp -s kept read/checkpoint.safetensors || wrong "other data: the checkpoint was changed"

# ---- a full disk --------------------------------------------------------------------------------

# full STEPS LIMIT SENTENCE: a limit on the size of files in kB plays the full disk.  The checkpoint
# before is still there, and training goes on from it to the bits of a run that met no full disk.
succeeds train --out whole --steps 20
full() {
    rm -rf full
    cp -r one full
    (
        ulimit -f "$2"
        status=0
        "$LINNET" train --out full --resume --steps "$1" >stdout.txt 2>stderr.txt || status=$?
        [ "$status" = 1 ] && [ "$(wc -l <stderr.txt)" = 1 ] && grep -q "$3" stderr.txt
    ) || wrong "a full disk: $(cat stderr.txt)"
    cmp one/checkpoint.safetensors full/checkpoint.safetensors || wrong "the checkpoint is damaged"
    cmp one/model.safetensors full/model.safetensors || wrong "the model is damaged"
    [ -z "$(find full -name '*.tmp*')" ] || wrong "temporary files: $(find full -name '*.tmp*')"
    succeeds "$LINNET" train --out full --resume --steps 20
    cmp whole/model.safetensors full/model.safetensors || wrong "not the same bits after a full disk"
}
size=$(wc -c <one/checkpoint.safetensors)
full 20 $((size / 1024 - 1)) "checkpoint.safetensors" # all else would fit
full 200 3 "log.jsonl"              # not even the log

# What a run that was killed had begun to write goes when training goes on; what others write there
# stays.
cp -r one killed
gone="killed/.linnet-999999998-0.tmp killed/log.jsonl.999999998-3.tmp killed/loss.svg.999999998-0.tmp"
# shellcheck disable=SC2086 # words
touch $gone
touch killed/.linnet-$$-0.tmp killed/log.jsonl.$$-0.tmp # of a process that runs
touch killed/.linnet-1-2.tmp.txt killed/other.999999999-0.tmp killed/.linnet-999999999-x.tmp
ln -s one killed/.linnet-999999999-0.tmp
succeeds "$LINNET" train --out killed --resume --steps 20
# shellcheck disable=SC2086
absent $gone
for file in .linnet-$$-0.tmp log.jsonl.$$-0.tmp .linnet-1-2.tmp.txt other.999999999-0.tmp \
    .linnet-999999999-x.tmp .linnet-999999999-0.tmp; do
    [ -L "killed/$file" ] || [ -e "killed/$file" ] || wrong "$file was removed"
done
cmp whole/model.safetensors killed/model.safetensors || wrong "not the same bits after a kill"

# A disk that is really full, where one may be mounted.
mkdir disk
if mount -t tmpfs -o size=200k tmpfs disk 2>/dev/null; then
    # shellcheck disable=SC2154 # support.sh sets it
    trap 'status=$?; umount "$work/disk"; finish "$status"' EXIT
    cp -r one disk/run
    dd if=/dev/zero of=disk/filler bs=4k count=1000 2>/dev/null || true
    fails 1 "disk/run/" "$LINNET" train --out disk/run --resume --steps 200
    cmp one/checkpoint.safetensors disk/run/checkpoint.safetensors || wrong "a full disk: damage"
    rm disk/filler
    succeeds "$LINNET" train --out disk/run --resume --steps 20
    cmp whole/model.safetensors disk/run/model.safetensors || wrong "not the same bits"
else
    skip "no disk that is really full: mounting one takes root"
fi

# Nowhere to say what was learned: the files are there, and the failure is told.
cp -r one mute
status=0
"$LINNET" train --out mute --resume --steps 20 >/dev/full 2>stderr.txt || status=$?
[ "$status" = 1 ] && [ "$(wc -l <stderr.txt)" = 1 ] || wrong "/dev/full: $(cat stderr.txt)"
cmp whole/model.safetensors mute/model.safetensors || wrong "the model is not what was learned"
