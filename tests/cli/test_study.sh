#!/bin/bash
# The experiments of the papers: what each must find, at lengths that take no time; their fields,
# their pictures, and what is wrong to ask of them.  Never the times.
. "$(dirname "$0")/support.sh"

study() { "$LINNET" bench --study "$@"; }
# expect EXPRESSION: true of m, the first object of stdout.txt, and lines, all of them.
expect() { npy expect stdout.txt "${1//$'\n'/ }"; }

# The help knows them all.
succeeds "$LINNET" bench --help
names="recovery sizes taylorshift costs packing heads context memory accumulation crossover cur
    training learning images generation"
for name in $names; do grep -q "^  $name " stdout.txt || wrong "$name is not in the help"; done
awk 'length > 100 { exit 1 }' stdout.txt || wrong "the help is wider than 100 columns"

# Each term that is added brings taylor nearer to softmax, for every width.
succeeds study recovery --length 1000 --json
npy json stdout.txt study=text algorithm=text dim=whole terms=whole length=whole rows=whole \
    median=number percentile_1=number percentile_99=number most=number
expect '[m["dim"] for m in lines] == [d for d in (8, 16, 32, 64) for p in range(4)]'
expect '[m["terms"] for m in lines] == [3, 4, 5, 6] * 4'
expect 'all(a["median"] > 1.5 * b["median"] for a, b in zip(lines, lines[1:])
    if a["dim"] == b["dim"])'
expect 'all(1e-5 < m["median"] < 0.1 and m["median"] < m["percentile_99"] for m in lines)'
expect 'all(abs(sum(m["share"]) - 1) < 1e-9 for m in lines)'
expect 'all(len(m["position"]) == len(m["median_by_position"]) == 7 for m in lines)'
cp stdout.txt first.txt
succeeds study recovery --length 1000 --json --threads 1
cmp -s stdout.txt first.txt || wrong "recovery is not the same with one thread"
succeeds study recovery --length 1 --json
expect 'all(m["most"] < 1e-6 for m in lines)' # one key: its value

# The sizes of TaylorShift's table 1 within 3 %.
widths=8
[ "${LINNET_TEST_BUDGET:-full}" != full ] || widths="8 16"
for width in $widths; do
    succeeds study sizes --dim $width --json
    npy json stdout.txt study=text expression=text dim=whole length=whole formula=number \
        measured=number deviation=number
    expect 'len(lines) == 6 and all(abs(m["deviation"]) <= 0.03 for m in lines)'
    expect 'all(abs(m["measured"] / m["formula"] - 1 - m["deviation"]) < 1e-9
        for m in lines)'
done

# The formulas, by hand: binomial(19, 3) = 969 monomials at width 16 and 4 terms.
succeeds study costs --terms 32
! grep -q nan stdout.txt || wrong "nan in a table: $(cat stdout.txt)"
grep -qE '^ +64 +too large +- +too large +-$' stdout.txt || wrong "a number made up: $(cat stdout.txt)"
succeeds study costs --json
expect '[m["state_elements"] for m in lines if m["dim"] == 16] == [17 * 969] * 7'
expect 'all(abs(m["flops_per_token"] - (4 * 16 + 2 * 65 / 17 + 2) * 969) < 1e-6
    for m in lines if m["dim"] == 16)'
expect 'all(m["kv_cache_elements"] == 2 * m["dim"] * m["length"] for m in lines)'
expect 'all(abs(m["flops_per_token_softmax"] / (4 * m["dim"] + 3) / m["length"] - 1)
    < 0.01 for m in lines)'
succeeds study packing --json
expect 'all(abs(m["state_reduction"] * m["state_elements"] / (m["dim"] + 1) /
    sum(m["dim"] ** p for p in range(m["terms"])) - 1) < 1e-9 for m in lines)'
expect '[m for m in lines if m["dim"] == 8 and m["terms"] == 4][0]["state_reduction"]
    == 585 / 165'
succeeds study heads --json
expect 'all(m["heads"] * m["dim"] == 1024 for m in lines)'
expect '[m for m in lines if m["dim"] == 16 and m["terms"] == 4][0]["state_elements"]
    == 64 * 17 * 969'

# What is measured: every field, and memory that is fixed for the state and grows for the cache.
succeeds study crossover --length 128 --dim 4 --json
expect '[m["length"] for m in lines[:-1]] == [64] * 4 + [128] * 4'
expect 'all(m["ns_per_token"] > 0 for m in lines[:-1])'
expect '2 * lines[6]["bytes_per_token"] == lines[2]["bytes_per_token"]'
expect 'set(lines[-1]) == {"study", "crossover_speed", "crossover_memory"}'
succeeds study context --length 64 --json
expect 'len(lines) == 8 and all(m["ns_per_token"] > 0 < m["ns_next_token"] for m in lines)'
expect '[m["state_bytes"] for m in lines if m["mechanism"] == "softmax"] ==
    [64 * 2 * d * 4 for d in (8, 16, 32, 64)]'
state=$("$LINNET" plan --mechanism taylor --heads 1 --dim 8 --causal --no-calibrate --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["state_bytes"])')
expect "[m['state_bytes'] for m in lines if m['mechanism'] == 'taylor'][0] == $state"
succeeds study context --length 1100 --json
expect 'sorted({m["length"] for m in lines}) == [1024, 1100]'
succeeds study taylorshift --dim 4 --json
expect 'len(lines) == 18 and all(m["seconds"] > 0 < m["bytes"] for m in lines)'
expect '(m["crossover_speed_paper"], m["crossover_memory_paper"]) == (21, 16)'
succeeds study memory --length 20000 --dim 8 --json
expect '[m["length"] for m in lines] == [200, 2000, 20000]'
expect 'lines[2]["input_output_bytes"] == 4 * 20000 * 8 * 4'
expect 'all(m["beyond_bytes"] < 64e6 for m in lines)'

# Plain sums lose digits as tokens come, compensated ones do not.
if [ "${LINNET_TEST_BUDGET:-full}" = full ]; then # it takes that many tokens, one by one
    succeeds study accumulation --length 1000000 --json
    expect '[m["tokens"] for m in lines] == 2 * [1e3, 1e4, 1e5, 1e6]'
    expect '[m["sums"] for m in lines] == 4 * ["plain"] + 4 * ["compensated"]'
    expect 'lines[3]["relative_error"] > 10 * lines[7]["relative_error"]'
    expect 'lines[7]["relative_error"] < 1.25 * lines[4]["relative_error"]'
fi
succeeds study accumulation --length 2500 --json
expect '[m["tokens"] for m in lines] == 2 * [1000, 2000]'
fails 2 "--length: '999' is less than 1000" study accumulation --length 999

# As a person reads them.
for name in recovery costs packing heads memory accumulation; do
    case $name in
    recovery | memory) length="--length 500" ;;
    accumulation) length="--length 10000" ;;
    *) length= ;;
    esac
    # shellcheck disable=SC2086
    succeeds study $name $length
    [ "$(wc -l <stdout.txt)" -gt 5 ] || wrong "$name prints no table"
done

# Pictures: whole, or not at all; without gnuplot a sentence, and the table all the same.
if have gnuplot; then
    for name in costs packing heads "recovery --length 300" "crossover --length 64 --dim 4"; do
        rm -f figure.svg
        # shellcheck disable=SC2086
        succeeds study $name --svg figure.svg
        head -c 5 figure.svg | grep -q '<?xml' || wrong "$name: not an SVG"
        [ "$(tail -n 2 figure.svg | tr -d '\n')" = "</svg>" ] || wrong "$name: half a picture"
        python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' figure.svg
        grep -q 'tokens\|terms\|width' figure.svg || wrong "$name: no labels"
    done
    ln -s figure.svg link.svg
    succeeds study costs --svg link.svg
    [ -L link.svg ] || wrong "the link was replaced by a picture"
fi
mkdir empty broken
printf '#!/bin/sh\necho half a picture\nexit 1\n' >broken/gnuplot
chmod +x broken/gnuplot
printf 'precious' >old.svg
PATH=$work/empty "$LINNET" bench --study costs --svg old.svg >stdout.txt 2>stderr.txt ||
    wrong "exit $?"
grep -q "old.svg' is not drawn: gnuplot is not installed" stderr.txt || wrong "$(cat stderr.txt)"
grep -q '^ *64 ' stdout.txt || wrong "no table without gnuplot"
status=0
PATH=$work/broken:$PATH "$LINNET" bench --study costs --svg old.svg >stdout.txt 2>stderr.txt ||
    status=$?
[ "$status" = 1 ] || wrong "a gnuplot that fails: exit $status"
grep -q "old.svg' is not drawn: gnuplot failed" stderr.txt || wrong "$(cat stderr.txt)"
[ "$(cat old.svg)" = precious ] || wrong "half a picture replaced what was there"
for name in figure.png figure.PDF figure.jpeg; do
    fails 2 "--svg: '$name' must end in .svg" study costs --svg $name
    fails 2 "--svg: '$name' must end in .svg" "$LINNET" demo --svg $name
done
absent figure.png figure.PDF figure.jpeg
fails 1 "cannot write 'nowhere/figure.svg'" study costs --svg nowhere/figure.svg
fails 1 "cannot write 'empty': it is not a regular file" study costs --svg empty
fails 1 "cannot write '/dev/null': it is not a regular file" study costs --svg /dev/null
# What an earlier process of the same number has left there is not in the way.
bash -c 'touch "new.svg.$$-0.tmp"; exec "$LINNET" bench --study costs --svg new.svg' >stdout.txt ||
    wrong "a leftover of the same number"
rm new.svg.*.tmp
ln -s nothing dangling.svg
fails 1 "cannot write 'dangling.svg': it is a link to a file that does not exist" \
    study costs --svg dangling.svg
[ -L dangling.svg ] || wrong "a link was replaced"
[ -z "$(find . -name '*.tmp')" ] || wrong "temporary files are left: $(find . -name '*.tmp')"

# CUR: flash holds the same at every length, stored more; less work than softmax at every point.
succeeds study cur --length 640 --heads 1 --dim 8 --json
npy json stdout.txt study=text algorithm=text batch=whole heads=whole dim=whole length=number \
    seconds=number speedup=number workspace_bytes=number relative_error=number
expect 'len(lines) == 28 and all(m["relative_error"] < 2e-6 for m in lines)'
expect '[m["length"] for m in lines[::7]] == [160, 320, 480, 640]'
expect 'all(lines[k]["workspace_bytes"] == lines[k + 21]["workspace_bytes"] for k in (1, 2, 3))'
expect 'all(lines[k]["workspace_bytes"] < lines[k + 21]["workspace_bytes"] for k in (4, 5, 6))'

# A step of training beside its products, for what a model of that kind can have.
cat >tiny.json <<'END'
{"model": {"dim": 16, "layers": 1, "heads": 2, "length": 8}, "train": {"batch": 2}}
END
succeeds study training --config tiny.json --mechanism linear --json
npy json stdout.txt study=text mechanism=text parameters=whole tokens=whole seconds=number \
    products_seconds=number tokens_per_second=number products_tokens_per_second=number ratio=number \
    all_products_seconds=number all_ratio=number cut_products_seconds=number cut_ratio=number
expect 'len(lines) == 1 and m["mechanism"] == "linear" and 2 * 3 <= m["tokens"] <= 2 * 7'
expect 'min(m["products_seconds"], m["cut_products_seconds"], m["seconds"]) > 0'
expect 'abs(m["ratio"] * m["products_seconds"] / m["seconds"] - 1) < 1e-9'
expect 'abs(m["all_ratio"] * m["all_products_seconds"] / m["seconds"] - 1) < 1e-9'
expect 'abs(m["cut_ratio"] * m["cut_products_seconds"] / m["seconds"] - 1) < 1e-9'
study training --config tiny.json --json >stdout.txt 2>stderr.txt || wrong "$(cat stderr.txt)"
grep -q 'cur is left out: .* is for encoders' stderr.txt || wrong "cur: $(cat stderr.txt)"
expect '{m["mechanism"] for m in lines} >= {"softmax", "linear", "taylor"}'
# Attention's share of the operations, by hand.
python3 - <<'END'
import json
m = [json.loads(line) for line in open("stdout.txt")][0]
assert m["mechanism"] == "softmax", m
DIM, LAYERS, HEADS, LENGTH, WORDS = 16, 1, 2, 8, 11
dense = 6 * LENGTH * (12 * DIM * DIM * LAYERS + DIM * WORDS)
pairs = LAYERS * HEADS * LENGTH * (LENGTH + 1) // 2
attention = pairs * (14 * DIM // HEADS + 7)
assert abs(m["all_products_seconds"] / m["products_seconds"] - 1 - attention / dense) < 1e-9, (m, attention / dense)
END
fails 1 "is for encoders" study training --config tiny.json --mechanism cur
fails 1 "missing.json" study training --config missing.json
fails 2 "--config does not apply to --study costs" study costs --config tiny.json
fails 2 "--config needs --study" "$LINNET" bench --config tiny.json

# Runs side by side: what their logs say, and a picture.
printf '{"train": {"steps": 6, "batch": 2}, "model": {"dim": 16, "layers": 1, "heads": 2, "length": 8}}' >six.json
mkdir -p runs/empty
for mechanism in softmax linear; do
    succeeds "$LINNET" train --task copy --config six.json --mechanism $mechanism --out runs/$mechanism
done
succeeds study learning --data runs --json
npy json stdout.txt study=text run=text steps=whole loss=number bits=number accuracy=number \
    tokens_per_second=number peak_bytes=number
expect '[(m["run"], m["steps"], m["error_rate"]) for m in lines] ==
    [("linear", 6, None), ("softmax", 6, None)]'
tail -n 1 runs/softmax/log.jsonl >last.txt
npy expect last.txt "m['test_loss'] == $(sed -n '$s/.*"loss": \([^,]*\),.*/\1/p' stdout.txt)"
expect 'all(abs(m["bits"] * 0.6931471805599453 / m["loss"] - 1) < 1e-9 for m in lines)'
succeeds study learning --data runs
grep -q '^softmax  *6 ' stdout.txt || wrong "learning: no table: $(cat stdout.txt)"
if have gnuplot; then
    succeeds study learning --data runs --svg learning.svg
    grep -q softmax learning.svg || wrong "learning.svg does not name its runs"
fi
# What is drawn, by a gnuplot that gives back what it reads: of 401 steps the means of three, the last
# of two, at the step where each ends.  Tokens a second are all tokens in all seconds.
mkdir -p echo long/run
printf '#!/bin/sh\nexec cat\n' >echo/gnuplot
chmod +x echo/gnuplot
for step in $(seq 401); do
    echo "{\"step\": $step, \"loss\": $((step % 3)), \"tokens\": 10, \"seconds\": $((step % 2 + 1))}"
done >long/run/log.jsonl
succeeds env PATH="$work/echo:$PATH" "$LINNET" bench --study learning --data long --json --svg long.txt
expect 'abs(m["tokens_per_second"] / (4010 / 602) - 1) < 1e-12 and m["loss"] is None'
sed -n '/^\$points0/,/^END/p' long.txt | sed '1d;$d' >points.txt
[ "$(head -n 2 points.txt | tr '\n' ' ')$(tail -n 2 points.txt | tr '\n' ' ')$(wc -l <points.txt)" = \
    "3 1 6 1 399 1 401 1.5 134" ] || wrong "learning draws $(cat points.txt)"
# A folder's name is a name, whatever is in it: not a line of the table, nor one of gnuplot's script.
mkdir names
cp -r runs/softmax names/$'a\n!touch obeyed\n#'
cp -r runs/softmax names/$'it\'s \e[1m`touch obeyed`'
if have gnuplot; then
    succeeds study learning --data names --svg names.svg
    [ ! -e obeyed ] || wrong "gnuplot obeyed the name of a folder"
fi
succeeds study learning --data names
grep -q '^a?!touch obeyed?#  *6 ' stdout.txt || wrong "learning: a name is not a cell: $(cat stdout.txt)"
grep -q "^it's ?\[1m" stdout.txt || wrong "learning: a name reached the terminal: $(cat stdout.txt)"
fails 2 "--data is missing" study learning
fails 1 "cannot read 'nowhere'" study learning --data nowhere
fails 1 "'runs/empty' has no run in it" study learning --data runs/empty
mkdir -p other/run
echo '{"not": "a log"}' >other/run/log.jsonl
fails 1 "'other/run/log.jsonl' is not the log of a run" study learning --data other
rm other/run/log.jsonl
mkfifo other/run/log.jsonl # nor is it waited for
fails 1 "cannot read 'other/run/log.jsonl': it is not a regular file" \
    timeout 20 "$LINNET" bench --study learning --data other

# Drawing: four ways at every batch, each held against a whole pass; only the cache grows.
printf '{"model": {"dim": 16, "layers": 2, "heads": 2}, "task": {"shrink": 7}}' >small.json
succeeds study images --config small.json --json
npy json stdout.txt study=text method=text mechanism=text parameters=whole layers=whole pixels=whole \
    batch=whole threads=whole seconds=number images_per_second=number ratio=number \
    state_bytes_per_image=number difference=number
expect '[(m["batch"], m["mechanism"]) for m in lines] ==
    [(b, k) for b in (1, 4) for k in ("softmax", "softmax", "linear", "taylor")]'
expect 'all(m["pixels"] == 16 and m["layers"] == 2 and m["difference"] < 1e-4 for m in lines)'
expect 'all(m["images_per_second"] > 0 and abs(m["images_per_second"] * m["seconds"] - m["batch"])
    < 1e-9 for m in lines)'
expect '[m["ratio"] for m in lines if m["method"] == "softmax, all again"] == [1, 1]'
expect '[m["state_bytes_per_image"] for m in lines[:4]] ==
    [m["state_bytes_per_image"] for m in lines[4:]]'
expect '[round(m["paper_ratio"] or 0) for m in lines[:4]] == [1, 17, 317, 0]'
expect 'lines[1]["state_bytes_per_image"] == 2 * 4 * 2 * 16 * 16' # keys and values of 16 pixels
expect '1 <= lines[2]["state_bytes_per_image"] / (2 * 2 * 4 * 9 * 8) <= 2' # rows may be padded
succeeds study images --config small.json --batch 2
[ "$(grep -c '^softmax, ' stdout.txt)" = 2 ] || wrong "images: no table: $(cat stdout.txt)"

# Generating: the state stays as it is, the cache does not.
printf '{"model": {"dim": 16, "layers": 1, "heads": 2}}' >tiny.json
succeeds study generation --config tiny.json --tokens 4000 --json
npy json stdout.txt study=text mechanism=text parameters=whole layers=whole threads=whole \
    tokens=whole ns_per_token=number bytes=number ratio_to_first=number
expect '[m["tokens"] for m in lines[::3]] == [1000, 2000, 4000]'
expect '[m["mechanism"] for m in lines] == 3 * ["linear", "taylor", "softmax"]'
expect 'all(m["ns_per_token"] > 100 for m in lines)' # thousands of operations
expect 'len({m["bytes"] for m in lines if m["mechanism"] == "linear"}) == 1'
expect 'len({m["bytes"] for m in lines if m["mechanism"] == "taylor"}) == 1'
expect 'all(m["bytes"] == 2 * 16 * 4 * m["layers"] * m["tokens"] for m in lines
    if m["mechanism"] == "softmax")'
succeeds study generation --config tiny.json --tokens 1300 --json
expect '[m["tokens"] for m in lines[::3]] == [650, 1300]' # each has tokens of its own around it
printf '{"model": {"dim": 16, "layers": 1, "heads": 2, "length": 16, "position": "rotary",
    "attention": {"mechanism": "taylor"}}, "train": {"steps": 1}}' >copy.json
succeeds "$LINNET" train --task copy --config copy.json --out copy
succeeds study generation --model copy/model.safetensors --tokens 1024
grep -q '^taylor: a token after 1024 others' stdout.txt || wrong "generation: $(cat stdout.txt)"
succeeds "$LINNET" train --task copy --config copy.json --mechanism hybrid --out hybrid
succeeds study generation --model hybrid/model.safetensors --tokens 2000 --json
expect '[(m["mechanism"], m["tokens"]) for m in lines] ==
    [(k, n) for n in (1000, 2000) for k in ("hybrid", "softmax")]'
expect 'lines[0]["bytes"] == lines[2]["bytes"] > 0 and lines[1]["bytes"] < lines[3]["bytes"]'
if have gnuplot; then
    succeeds study generation --config tiny.json --tokens 1024 --svg generation.svg
    grep -q 'softmax, with its cache' generation.svg || wrong "generation: no legend"
    succeeds study images --config small.json --batch 1 --svg images.svg
    grep -q 'softmax, all again' images.svg || wrong "images: no legend"
fi
printf '{"modle": {}}' >wrong.json
fails 1 "'copy/model.safetensors': the model of task copy draws no images" \
    study images --model copy/model.safetensors
fails 1 "modle" study images --config wrong.json
fails 1 "missing.safetensors" study generation --model missing.safetensors
fails 2 "--model has its own config" study images --model a --config b
fails 2 "--tokens: '1000' is too few for --study generation, at least 1024" \
    study generation --tokens 1000
fails 2 "--batch: '1025' is too large for --study images" study images --batch 1025
fails 2 "--tokens does not apply to --study images" study images --tokens 5
fails 2 "--model needs --study" "$LINNET" bench --model a
fails 2 "--tokens needs --study" "$LINNET" bench --mechanism linear --tokens 5

# Wrong usage.
fails 2 "--study: 'speed' is not one of recovery, sizes" study speed
fails 2 "--mechanism does not apply to --study costs" study costs --mechanism linear
fails 2 "--length does not apply to --study sizes" study sizes --length 5
fails 2 "--dim: '65' is too large for --study sizes, at most 64 is allowed" study sizes --dim 65
fails 2 "--svg does not apply to --study sizes" study sizes --svg figure.svg
fails 2 "--svg does not apply to --study memory" study memory --svg figure.svg
fails 2 "--svg needs --study" "$LINNET" bench --svg figure.svg
fails 2 "--length: '0' leaves nothing to compare" study recovery --length 0
fails 2 "--length: '1' is too short for a curve" study crossover --length 1
fails 2 "--length: '0' is no context" study context --length 0
fails 2 "--length: '3' is too short" study cur --length 3
fails 2 "--terms does not apply to --study cur" study cur --terms 3
