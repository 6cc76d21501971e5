#!/bin/bash
# Training: the files it leaves, and the same bits after kill -9 and for any number of threads.
. "$(dirname "$0")/support.sh"

cat >copy.json <<'END'
{"model": {"dim": 32, "layers": 2, "heads": 4, "length": 24, "dropout": 0.1},
 "train": {"steps": 40, "batch": 8, "save_every": 5, "eval_every": 20, "eval_batches": 2}}
END
train() { "$LINNET" train --task copy --config copy.json "$@"; }

succeeds train --out whole
for file in model checkpoint; do [ -s "whole/$file.safetensors" ] || wrong "no $file"; done
grep -q '^copy, .* parameters, 40 steps, [0-9].* tokens/s$' stdout.txt || wrong "summary: $(cat stdout.txt)"
grep -q '^test loss .* bits per token, accuracy' stdout.txt || wrong "summary: $(cat stdout.txt)"
[ "$(grep -c '"loss"' whole/log.jsonl)" = 40 ] || wrong "the log has not a line for each step"
[ "$(grep -c '"test_loss"' whole/log.jsonl)" = 2 ] || wrong "the log has not a line for each test"
[ whole/checkpoint.safetensors -nt whole/log.jsonl ] || wrong "it is saved before it is tested"
python3 - <<'END'
import json, xml.dom.minidom
lines = [json.loads(line) for line in open("whole/log.jsonl")]
step = ["step", "loss", "bits", "accuracy", "error_rate", "rate", "gradient", "tokens", "seconds"]
test = ["step", "test_loss", "test_bits", "unit", "test_accuracy", "test_error_rate", "test_targets",
        "peak_bytes"]
for m in lines:
    assert list(m) == (step if "loss" in m else test), m
    assert m.get("gradient", 1) > 0 and m.get("seconds", 1) > 0, m
# A word, once more, and what is between: eight of 3 to 23 tokens, and none for padding.
tokens = [m["tokens"] for m in lines if "loss" in m]
assert all(8 * 3 <= n <= 8 * 23 and n % 2 == 0 for n in tokens) and len(set(tokens)) > 10, tokens
# The curves are those of the log: 0 and the highest loss stand at the ends of the axis.
drawn = [[tuple(map(float, point.split(","))) for point in curve.getAttribute("points").split()]
         for curve in xml.dom.minidom.parse("whole/loss.svg").getElementsByTagName("polyline")]
losses = [[(m["step"], m[name]) for m in lines if name in m] for name in ("loss", "test_loss")]
most = max(loss for curve in losses for step, loss in curve)
assert [len(curve) for curve in drawn] == [len(curve) for curve in losses] == [40, 2]
for curve, numbers in zip(drawn, losses):
    for (x, y), (step, loss) in zip(curve, numbers):
        assert abs(x - (70 + (step - 1) / 39 * 630)) < 0.06, (x, step)
        assert abs(y - (390 - loss / most * 350)) < 0.06, (y, loss)
END

# On a terminal, be it narrow, the bar is gone at the end and has left nothing behind.
for columns in 90 60 25; do
    python3 "$here/terminal.py" 8 $columns "$LINNET" train --task copy --config copy.json --out bar$columns \
        >seen.txt || wrong "on a terminal: exit $?"
    grep -q "model.safetensors" seen.txt || wrong "no summary on a terminal: $(cat seen.txt)"
    if grep -q "left\|\.\.\.\|/40" seen.txt; then wrong "the bar stays: $(cat seen.txt)"; fi
done

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

# Killed again and again, at any moment, also while a checkpoint is written (after every step): what
# is there is whole, and the end the same bits.  The schedule of copy does not look at the number of
# steps, so a run that is meant to be longer begins the same.
steps_of() { grep -c '"loss"' "$1/log.jsonl" || true; }
sed 's/"save_every": 5/"save_every": 1/' copy.json >often.json
arguments="--task copy --config often.json"
kills=0
for kill in 1 2 3; do
    before=0
    [ ! -e killed/log.jsonl ] || before=$(steps_of killed)
    # shellcheck disable=SC2086 # words
    "$LINNET" train $arguments --out killed --steps $((before + 100)) >/dev/null 2>&1 &
    child=$!
    until [ -s killed/checkpoint.safetensors ] && [ "$(steps_of killed)" -ge $((before + 2)) ]; do
        kill -0 "$child" 2>/dev/null || break
        sleep 0.00$kill
    done
    kill -9 "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || kills=$((kills + 1))
    arguments=--resume
done
[ "$kills" -gt 0 ] || wrong "every run had ended before it was killed"
whole_steps=$(($(steps_of killed) + 3))
succeeds "$LINNET" train --out killed --resume --steps "$whole_steps"
succeeds train --out unkilled --steps "$whole_steps" # saves less often, which changes nothing
cmp unkilled/model.safetensors killed/model.safetensors || wrong "not the same bits after kill -9"
[ "$(steps_of killed)" = "$whole_steps" ] || wrong "the log has steps twice, or not at all"
[ -z "$(find unkilled -name '*.tmp*')" ] || wrong "temporary files: $(find unkilled -name '*.tmp*')"

# SIGTERM lets a step end; another, a while later, ends a run that is in a long one.
echo '{"model": {"dim": 16}, "train": {"accumulate": 4096}}' >long.json
"$LINNET" train --task copy --config long.json --out long >/dev/null 2>&1 &
child=$!
caught() { local mask; mask=$(sed -n 's/^SigCgt:\s*//p' "/proc/$child/status") && [ $((0x$mask >> 14 & 1)) = 1 ]; }
until [ -e long/log.jsonl ] && caught; do # with a log it is the tool, no longer the shell that became it
    kill -0 "$child" || wrong "it ended before it began"
done
kill -TERM "$child"
sleep 0.5
kill -0 "$child" || wrong "SIGTERM did not let a step end"
kill -TERM "$child"
status=0
wait "$child" || status=$?
[ "$status" = 143 ] || wrong "two SIGTERM: exit $status"

# Killed after the last checkpoint and before the model: what is missing is made, and nothing is
# trained or logged again.
cp unkilled/log.jsonl log-before.jsonl
rm unkilled/model.safetensors unkilled/loss.svg
succeeds "$LINNET" train --out unkilled --resume
cmp unkilled/model.safetensors killed/model.safetensors ||
    wrong "the model of an ended run is another one"
cmp unkilled/log.jsonl log-before.jsonl || wrong "the log of an ended run has changed"
[ -s unkilled/loss.svg ] || wrong "the curve of an ended run is missing"
fails 1 "steps is 1, must be $whole_steps or more" "$LINNET" train --out unkilled --resume --steps 1

# Stopped at a step that is then said to be the last, it is tested there.
grep -v '"test_loss"' log-before.jsonl >unkilled/log.jsonl
succeeds "$LINNET" train --out unkilled --resume
grep -q '"test_loss"' <<<"$(tail -n 1 unkilled/log.jsonl)" || wrong "an ended run is not tested at its end"
grep -q 'test loss' stdout.txt || wrong "no test in the summary: $(cat stdout.txt)"

# Of many steps that stand on one spot of the picture the lowest and the highest are drawn.
python3 - "$whole_steps" <<'END'
import json, random, sys
random.seed(1)
with open("unkilled/log.jsonl", "w") as log:
    for i in range(300 * int(sys.argv[1])):
        print(json.dumps({"step": i // 300 + 1, "loss": random.random()}), file=log)
END
succeeds "$LINNET" train --out unkilled --resume
python3 - <<'END' || wrong "the curve of many steps"
import json, xml.dom.minidom
lines = [json.loads(line) for line in open("unkilled/log.jsonl")]
losses = {}
for m in lines:
    if "loss" in m: losses.setdefault(m["step"], []).append(m["loss"])
most = max(max(m.get("loss", 0), m.get("test_loss", 0)) for m in lines)
curve = xml.dom.minidom.parse("unkilled/loss.svg").getElementsByTagName("polyline")[0].getAttribute("points").split()
heights = [390 - float(point.split(",")[1]) for point in curve]
assert len(heights) == 2 * len(losses), (len(heights), len(losses))
for i, of in enumerate(losses.values()):
    assert abs(min(heights[2 * i : 2 * i + 2]) - min(of) / most * 350) < 0.06
    assert abs(max(heights[2 * i : 2 * i + 2]) - max(of) / most * 350) < 0.06
END

# Two runs do not write into one directory; one that goes on reads nothing there that may still be replaced.
python3 - "$LINNET" <<'END' || wrong "two runs in one directory"
import fcntl, os, subprocess, sys
os.mkdir("held")
fcntl.flock(os.open("held", os.O_RDONLY), fcntl.LOCK_EX)
run = subprocess.run([sys.argv[1], "train", "--task", "copy", "--config", "copy.json", "--out", "held"],
                     stderr=subprocess.PIPE, text=True)
assert run.returncode == 1 and "another run trains in 'held'" in run.stderr, run
assert os.listdir("held") == []
open("held/checkpoint.safetensors", "w").write("half of one")
run = subprocess.run([sys.argv[1], "train", "--resume", "--out", "held"], stderr=subprocess.PIPE, text=True)
assert run.returncode == 1 and "another run trains in 'held'" in run.stderr, run
END

# Asked to stop, it ends the step and saves: nothing is trained twice.
"$LINNET" train --task copy --config copy.json --out stopped --steps 1000000 --dtype bf16 \
    >stdout.txt 2>stderr.txt &
child=$!
until [ -s stopped/log.jsonl ] && [ "$(steps_of stopped)" -ge 2 ]; do
    kill -0 "$child" || wrong "it ended before it was asked to"
    sleep 0.01
done
kill -TERM "$child"
status=0
wait "$child" || status=$?
[ "$status" = 1 ] || wrong "asked to stop: exit $status"
reached=$(steps_of stopped)
grep -q "stopped after step $reached of 1000000; --resume --out 'stopped' goes on" stderr.txt ||
    wrong "asked to stop: $(cat stderr.txt)"
cp -r stopped asked
succeeds "$LINNET" train --out stopped --resume --steps $((reached + 3)) # the model stays in bf16
succeeds train --out unstopped --dtype bf16 --steps $((reached + 3))
cmp unstopped/model.safetensors stopped/model.safetensors || wrong "not the same bits after a stop"
succeeds train --out full --steps $((reached + 3))
cp -r asked lost
succeeds "$LINNET" train --out asked --resume --dtype f32 --steps $((reached + 3))
cmp full/model.safetensors asked/model.safetensors || wrong "--dtype does not say what a model goes on as"
succeeds "$LINNET" train --out asked --resume --steps $((reached + 4)) # and is remembered
succeeds train --out longer --steps $((reached + 4))
cmp longer/model.safetensors asked/model.safetensors || wrong "--dtype is forgotten by the next --resume"
for left in 0 100; do # all of a run is in its checkpoint
    head -c $left stopped/model.safetensors >lost/model.safetensors
    succeeds "$LINNET" train --out lost --resume --steps $((reached + 3))
    cmp stopped/model.safetensors lost/model.safetensors || wrong "a damaged model: another one after it"
done
sed 's/"steps"/"dtype": "bf16", "steps"/' copy.json >half.json
succeeds "$LINNET" train --task copy --config half.json --out half --steps $((reached + 3))
cmp stopped/model.safetensors half/model.safetensors || wrong "train.dtype is not that of the model"
succeeds "$LINNET" train --resume --task copy --config copy.json --out half --steps $((reached + 3))
cmp stopped/model.safetensors half/model.safetensors || wrong "a config that is silent changes the dtype"
[ "$(steps_of stopped)" = $((reached + 3)) ] || wrong "the log has steps twice, or not at all"

# A run goes on with all of its command said again, and with nothing else in any part of it.
succeeds train --out again --mechanism taylor --seed 3 --steps 4
cp -r again kept
succeeds train --out again --mechanism taylor --seed 3 --steps 6 --resume
succeeds "$LINNET" train --out kept --resume --steps 6
cmp again/model.safetensors kept/model.safetensors || wrong "what is said again changes the bits"
differs() { fails 1 "cannot change with --resume: $1" "$LINNET" train --out again --resume "${@:2}"; }
differs "task is 'listops', must be 'copy'" --task listops
differs "mechanism is 'softmax', must be 'taylor'" --mechanism softmax
differs "seed is 4, must be 3" --seed 4
differs "'copy.json': model.attention.mechanism is \"softmax\", must be \"taylor\"" --config copy.json
succeeds train --out again --mechanism taylor --seed 3 --resume # but for the steps
differs "'copy.json': train.seed is 1, must be 3" --config copy.json --mechanism taylor --steps 6
differs "cannot read 'missing.json'" --config missing.json
for change in dim=16 dropout=0.2 batch=9 rate=0.1 symbols=7 whole=true; do
    key=${change%=*}
    case $key in
    symbols | whole) sed "s/\"train\"/\"task\": {\"$key\": ${change#*=}}, \"train\"/" copy.json ;;
    rate) sed 's/"batch"/"rate": 0.1, "batch"/' copy.json ;;
    *) sed "s/\"$key\": [0-9.]*/\"$key\": ${change#*=}/" copy.json ;;
    esac >changed.json
    differs "'changed.json': " --config changed.json --mechanism taylor --seed 3 --steps 6
    grep -qE "\.$key is ${change#*=}, must be " stderr.txt || wrong "$change: $(cat stderr.txt)"
done
sed 's/"dim"/"inputs": 5, "dim"/' copy.json >changed.json
differs "'changed.json': model.inputs is 5, task copy has 11" --config changed.json --mechanism taylor --seed 3 --steps 6
cmp again/model.safetensors kept/model.safetensors || wrong "a run that was refused changed its files"

# The first word and the separator count too where the config says so: of the same 16 words.
sed 's/"train"/"task": {"whole": true}, "train"/' copy.json >counting.json
succeeds "$LINNET" train --task copy --config counting.json --steps 1 --out counting
counted() { grep -o '"test_targets": [0-9]*' "$1/log.jsonl" | tail -n 1 | grep -o '[0-9]*$'; }
[ "$(counted counting)" = $((2 * $(counted whole) + 16)) ] || wrong "$(counted counting) symbols, $(counted whole) without"

sed 's/"dropout": 0.1/"dropout": -0.0/' copy.json >zero.json # which is 0
for again in "" --resume; do
    # shellcheck disable=SC2086
    succeeds "$LINNET" train --task copy --config zero.json --steps 1 --out zero $again
done

# Symbols may be given as they are written.
succeeds "$LINNET" generate whole/model.safetensors --prompt 0,3,1 --tokens 5 --seed 2
cp stdout.txt commas.txt
succeeds "$LINNET" generate whole/model.safetensors --prompt '0 3 1 ' --tokens 5 --seed 2
cmp commas.txt stdout.txt || wrong "0,3,1 is not 0 3 1"
fails 2 "not a list of tokens" "$LINNET" generate whole/model.safetensors --prompt '0;3'

# All of a text may be for training: nothing is tested then.
printf 'abcdefgh%.0s' $(seq 40) >letters.txt
echo '{"model": {"dim": 8, "layers": 1, "heads": 2, "length": 8},
 "train": {"steps": 3, "batch": 2, "eval_every": 1}, "task": {"held_out": 0}}' >all.json
succeeds "$LINNET" train --task text --data letters.txt --config all.json --out all
[ -s all/model.safetensors ] || wrong "nothing held out: no model"
! grep -q test_loss all/log.jsonl || wrong "nothing held out, and tested"

# A directory is all its files, however many, and no directory in it.
mkdir -p many/inner.txt
ln -s inner.txt many/link.txt
for i in $(seq 1100); do echo "a line" >"many/$i.txt"; done
succeeds "$LINNET" eval all/model.safetensors --data many --json
python3 -c 'import json; assert json.load(open("stdout.txt"))["targets"] == 7 * 1100 - 1' ||
    wrong "not all files: $(cat stdout.txt)"
mkdir two # in the order of their names, whatever the file system gives
printf 'hgfedcbahgfe' >two/b.txt
printf 'aabbccddaabb' >two/a.txt
cat two/a.txt two/b.txt >joined
loss() {
    succeeds "$LINNET" eval all/model.safetensors --data "$1" --json
    python3 -c 'import json; print(json.load(open("stdout.txt"))["loss"])'
}
[ "$(loss two)" = "$(loss joined)" ] || wrong "files in another order"
chmod 600 all/loss.svg
succeeds "$LINNET" train --task text --config all.json --out all --resume --data letters.txt --steps 4
[ "$(stat -c %a all/loss.svg)" = 600 ] || wrong "the mode of loss.svg: $(stat -c %a all/loss.svg)"

succeeds train --out one --threads 1
for threads in 2 3; do
    succeeds train --out "with-$threads" --threads "$threads"
    cmp one/model.safetensors "with-$threads/model.safetensors" || wrong "threads change the bits"
done
cmp one/model.safetensors whole/model.safetensors || wrong "another run changes the bits"
succeeds train --out other --seed 9
! cmp -s one/model.safetensors other/model.safetensors || wrong "the seed changes nothing"

# A rate of 17 digits and a seed beyond 2^53 come back from a checkpoint as they were.
echo '{"model": {"dim": 8, "layers": 1, "heads": 2, "length": 8},
 "train": {"steps": 4, "batch": 2, "rate": 0.0012300001108087606, "schedule": "constant", "save_every": 2}}' >long.json
long="--task copy --config long.json --seed 9223372036854775807"
# shellcheck disable=SC2086
succeeds "$LINNET" train $long --out straight
# shellcheck disable=SC2086
succeeds "$LINNET" train $long --out halved --steps 2
succeeds "$LINNET" train --resume --out halved --steps 4
cmp straight/model.safetensors halved/model.safetensors || wrong "a long rate does not come back"
grep -q '<circle' straight/loss.svg || wrong "a single test is not to be seen"

# MEGA and MegaCUR from the command line, with padding; the bits do not depend on threads there either.
for attention in '"distance_bias": true, "attention": {"activation": "laplace"}' \
    '"attention": {"mechanism": "cur", "landmarks": 6, "activation": "laplace"}'; do
    cat >mega.json <<END
{"model": {"dim": 32, "layers": 2, "heads": 2, "averages": 4, "position": "none", $attention},
 "train": {"steps": 4, "batch": 8, "eval_batches": 1},
 "task": {"shortest": 8, "longest": 40, "depth": 3}}
END
    rm -rf mega1 mega2
    for threads in 1 2; do
        succeeds "$LINNET" train --task listops --config mega.json --out mega$threads \
            --threads $threads
    done
    cmp mega1/model.safetensors mega2/model.safetensors || wrong "threads change the bits of mega"
    succeeds "$LINNET" train --task listops --config mega.json --out mega1 --resume
    succeeds "$LINNET" eval mega1/model.safetensors --batches 1
done

# Evaluation.
succeeds "$LINNET" eval whole/model.safetensors --batches 3
grep -q '^accuracy' stdout.txt || wrong "eval: $(cat stdout.txt)"
succeeds "$LINNET" eval whole/model.safetensors --json --batches 3
python3 - <<'END'
import json
r = json.load(open("stdout.txt"))
assert list(r) == ["task", "mechanism", "parameters", "targets", "loss", "bits", "unit", "accuracy", "error_rate",
                   "seconds"], r
assert r["loss"] > 0 and r["targets"] > 0 and r["seconds"] > 0 and r["error_rate"] is None, r
END

# Wrong usage.
fails 2 "--out is missing" train
fails 2 "--task is missing" "$LINNET" train --out new
fails 2 "--steps: '0' is not a whole number of at least 1" train --out new --steps 0
fails 2 "MODEL is missing; usage: linnet eval MODEL" "$LINNET" eval
absent new
