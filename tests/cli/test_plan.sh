#!/bin/bash
# plan tells costs without computing anything: its fields, their arithmetic, and its table.
. "$(dirname "$0")/support.sh"

for mechanism in softmax linear taylor; do
    succeeds "$LINNET" plan --mechanism $mechanism --heads 4 --kv-heads 2 --dim 16 --dim-value 8 \
        --length 300 --batch 3 --causal --no-calibrate --json
    npy json stdout.txt mechanism=text algorithm=text flops=number flops_per_token=number \
        state_bytes=number workspace_bytes=number kv_cache_elements=number seconds=number
done

succeeds "$LINNET" plan --mechanism linear --heads 4 --kv-heads 2 --dim 16 --dim-value 8 \
    --length 300 --batch 3 --causal --no-calibrate --json
npy json stdout.txt flops_direct=number flops_state=number entries_direct=number \
    entries_state=number state_elements=number
python3 - <<'END'
import json
plan = json.loads(open("stdout.txt").read())
assert plan["mechanism"] == "linear" and plan["algorithm"].startswith("linear/"), plan
assert plan["state_elements"] == 2 * (16 * 8 + 16), plan       # (d m + d) per kv head
assert plan["kv_cache_elements"] == 2 * 300 * (16 + 8), plan   # n (d + m) per kv head
assert plan["state_bytes"] >= 3 * 4 * plan["state_elements"], plan
END

# A state of (m + 1) binomial(d + P - 1, P - 1) numbers, and SATA's operations for a token.
for terms in 1 2 3 4 5; do
    "$LINNET" plan --mechanism taylor --heads 4 --kv-heads 2 --dim 6 --dim-value 8 --terms $terms \
        --length 300 --batch 3 --causal --no-calibrate --json
done >plans.txt
python3 - <<'END'
import json, math
plans = [json.loads(line) for line in open("plans.txt")]
assert [plan["terms"] for plan in plans] == [1, 2, 3, 4, 5], plans
for plan in plans:
    d, m, P = 6, 8, plan["terms"]
    F = math.comb(d + P - 1, P - 1)
    assert plan["state_elements"] == 2 * (m + 1) * F, plan
    token = (4 * m + 2 * (P * d + 1) / (d + 1) + 2) * F # added once, read by both of two heads
    assert math.isclose(plan["flops_per_token"], 2 * token / 2 + 4 * token / 2), plan
    assert "crossover_speed_paper" not in plan or P == 3, plan
END

# The crossovers of the paper on TaylorShift, to the unit, at three terms and only there.
for dim in 8 16 32 64 128; do
    "$LINNET" plan --mechanism taylor --terms 3 --dim $dim --no-calibrate --json
done >plans.txt
npy expect plans.txt '[x["crossover_speed_paper"] for x in lines] == [73, 273, 1057, 4161, 16513]'
npy expect plans.txt '[x["crossover_memory_paper"] for x in lines] == [47, 159, 574, 2174, 8446]'
succeeds "$LINNET" plan --mechanism taylor --coefficients 1,1,1 --dim 8 --no-calibrate
grep -qE '\(N0\) +73$' stdout.txt && grep -qE '\(N1\) +47$' stdout.txt || wrong "no N0, N1"
for options in "--mechanism taylor" "--mechanism linear" "--mechanism taylor --terms 2"; do
    # shellcheck disable=SC2086
    succeeds "$LINNET" plan $options --dim 8 --no-calibrate --json
    ! grep -q paper stdout.txt || wrong "crossovers of another mechanism: $options"
done

# A state that no machine holds is refused; what needs none is planned all the same.  Its size is
# told as long as 64 bits count the monomials, and no number is made up beyond.
for terms in 6 9 32; do
    case $terms in 6) told="make 8.459e+12 monomials, a state of" ;; *) told="more monomials than can be counted" ;; esac
    fails 1 "$told" "$LINNET" plan --mechanism taylor --dim 1000 --terms $terms --algorithm state --no-calibrate
    grep -q 'would fit' stderr.txt || wrong "what would fit is not told: $(cat stderr.txt)"
    succeeds "$LINNET" plan --mechanism taylor --dim 1000 --terms $terms --no-calibrate --json
    npy expect stdout.txt 'm["algorithm"] == "taylor/direct"'
    npy expect stdout.txt 'm["flops"] == m["flops_direct"] > 0'
    case $terms in 6) relation="is not" ;; *) relation="is" ;; esac
    for field in flops_state entries_state flops_per_token state_elements; do
        npy expect stdout.txt "m['$field'] $relation None"
    done
done
npy expect stdout.txt 'm["state_bytes"] is None and m["heads_table"][0]["state_elements"] is None'
npy expect stdout.txt 'm["heads_table"][-1]["state_elements"] == 8000 * 2 * 32' # of width 1
succeeds "$LINNET" plan --mechanism taylor --dim 1000 --terms 32 --no-calibrate
for line in 'operations, state form' 'held by a head, state form' 'operations of one step' \
    'in the state of a sequence' 'state, all sequences'; do
    grep -qE "$line +too large\$" stdout.txt || wrong "a size is told for: $line"
done
succeeds "$LINNET" plan --mechanism taylor --terms 32 --heads 1 --dim 30 --algorithm direct \
    --no-calibrate --json
npy expect stdout.txt 'abs(m["state_elements"] / (31 * 232714176627630544) - 1) < 1e-12'

# The same width in other heads: TaylorShift 4.3 at three terms, SATA's state and step at any.
for terms in 2 3 5; do
    succeeds "$LINNET" plan --mechanism taylor --heads 6 --kv-heads 2 --dim 10 --terms $terms \
        --length 700 --batch 2 --no-calibrate --json
    python3 - $terms <<'END'
import json, math, sys
P, n, width = int(sys.argv[1]), 700, 60
plan = json.loads(open("stdout.txt").read())
rows = plan["heads_table"]
assert [row["heads"] for row in rows] == [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60], rows
assert plan["kv_cache_elements"] == 2 * n * 20, plan
assert plan["kv_cache_flops_per_token"] == 6 * n * 43, plan
for row in rows:
    h, d = row["heads"], row["dim"]
    assert h * d == width, row
    assert row["state_elements"] == h * (d + 1) * math.comb(d + P - 1, P - 1), row
    # Eq. 14 of SATA, degree by degree; the sum is eq. 2.
    step = sum((4 * d + 2 * p + 4) * math.comb(d + p - 1, p) for p in range(P))
    assert row["flops_per_token"] == h * step, row
    assert ("ops_direct" in row) == (P == 3), row
    if P != 3:
        continue
    # In powers of the whole width, as the paper has them for h heads.
    assert row["ops_direct"] == 4 * n**2 * width + 6 * h * n**2, row
    assert math.isclose(row["ops_efficient"], n * (4 * width**3 / h**2 + 10 * width**2 / h
                                                   + 9 * width + 4 * h)), row
    assert row["entries_direct"] == width * n + 2 * n**2 * h, row
    assert math.isclose(row["entries_efficient"], width**3 / h**2 + (n + 1) * width**2 / h
                        + 3 * n * width + n * h), row
if P == 3: # direct costs more with every head, efficient less
    for less, more in zip(rows, rows[1:]):
        for form, sign in ("direct", 1), ("efficient", -1):
            for what in "ops_", "entries_":
                assert sign * (more[what + form] - less[what + form]) > 0, (less, more)
END
done
succeeds "$LINNET" plan --mechanism taylor --terms 3 --heads 4 --dim 16 --length 1024 --no-calibrate
grep -qE '^ +64 +1 ' stdout.txt && grep -q 'efficient' stdout.txt || wrong "no table of heads"
succeeds "$LINNET" plan --mechanism taylor --heads 720720 --dim 1 --length 9 --no-calibrate
[ "$(tail -n 1 stdout.txt | awk '{ print $1 }')" = 720720 ] || wrong "the longest table"
for options in linear "taylor --heads 1048577 --dim 1" "taylor --heads 1048576 --dim 1048576"; do
    # shellcheck disable=SC2086
    succeeds "$LINNET" plan --mechanism $options --length 9 --no-calibrate --json
    ! grep -q heads_table stdout.txt || wrong "a table of heads for $options"
done

# The state form costs the same per token at any length, the direct form does not.
for length in 1000 2000; do
    "$LINNET" plan --mechanism linear --length $length --causal --no-calibrate --json
done >plans.txt
python3 - <<'END'
import json
short, long = (json.loads(line) for line in open("plans.txt"))
assert long["flops_state"] == 2 * short["flops_state"], (short, long)
assert long["flops_direct"] > 3.9 * short["flops_direct"], (short, long)
assert long["flops_per_token"] == short["flops_per_token"], (short, long)
assert long["state_elements"] == short["state_elements"], (short, long)
assert long["kv_cache_elements"] == 2 * short["kv_cache_elements"], (short, long)
END

# A forced algorithm is the one told; the table and the calibrated plan work too.
succeeds "$LINNET" plan --mechanism linear --algorithm direct --no-calibrate --json
grep -q '"algorithm": "linear/direct"' stdout.txt || wrong "not forced: $(cat stdout.txt)"
succeeds "$LINNET" plan --mechanism linear --length 128 --causal
grep -q '^linear/' stdout.txt || wrong "no algorithm in the table"
succeeds "$LINNET" plan --mechanism softmax --length 128 --pass backward --no-calibrate --json
npy json stdout.txt flops_backward=number

# A measurement is kept: the next command chooses by it, as the first did, and writes nothing.
succeeds "$LINNET" plan --mechanism taylor --length 300 --threads 1 --calibration kept.json --json
mv stdout.txt first.txt
cp kept.json before.json
succeeds "$LINNET" plan --mechanism taylor --length 300 --threads 1 --calibration kept.json --json
cmp first.txt stdout.txt || wrong "another plan by the same calibration"
succeeds "$LINNET" bench --mechanism linear --length 64 --threads 1 --calibration kept.json --json
npy make q.npy 4x3
succeeds "$LINNET" attend q.npy q.npy q.npy -o y.npy --mechanism linear --threads 1 --calibration kept.json
cmp kept.json before.json || wrong "a calibration was written again"
fails 1 "its threads is 1, here it is 2" \
    "$LINNET" attend q.npy q.npy q.npy -o z.npy --mechanism linear --threads 2 --calibration kept.json
absent z.npy
fails 1 "cannot write 'none/kept.json'" "$LINNET" plan --mechanism linear --calibration none/kept.json
fails 2 "--calibration and --no-calibrate cannot both be given" \
    "$LINNET" plan --mechanism linear --calibration kept.json --no-calibrate
fails 2 "--calibration needs --mechanism" "$LINNET" bench --calibration kept.json
fails 2 "--calibration does not apply to --study costs" "$LINNET" bench --study costs --calibration kept.json

# Of no tokens every figure is told all the same: 0 where it grows with them.
for mechanism in softmax linear taylor; do
    succeeds "$LINNET" plan --mechanism $mechanism --length 0 --no-calibrate --json
    npy expect stdout.txt 'm["flops"] == m["flops_direct"] == m["entries_direct"] == m["kv_cache_elements"] == 0'
    npy expect stdout.txt '(m["state_elements"] == 0) == ("flops_state" not in m) == (m["mechanism"] == "softmax")'
done

# Where the crossover is, the planner changes over; some of these forms cost the same just before it.
for shape in "--terms 4" "--terms 2 --causal" "--terms 4 --causal" "--terms 3"; do
    plan=("$LINNET" plan --mechanism taylor --heads 1 --dim 2 --no-calibrate --json)
    # shellcheck disable=SC2206
    plan+=($shape)
    succeeds "${plan[@]}" --length 10
    at=$(python3 -c 'import json; print(int(json.load(open("stdout.txt"))["crossover_speed"]))')
    succeeds "${plan[@]}" --length "$at"
    npy expect stdout.txt 'm["algorithm"] != "taylor/direct"'
    succeeds "${plan[@]}" --length $((at - 1))
    npy expect stdout.txt 'm["algorithm"] == "taylor/direct"'
done

# A step: what bench times, in operations and bytes, and nothing of a whole run.
for mechanism in softmax linear taylor hybrid; do
    shape=(--mechanism $mechanism --heads 4 --kv-heads 2 --dim 16 --dim-value 8 --length 200 --batch 3 --pass step)
    LINNET_BENCH_SECONDS=0.01 "$LINNET" bench "${shape[@]}" --json >timed.txt
    succeeds "$LINNET" plan "${shape[@]}" --json
    python3 - <<'END'
import json, math
timed, plan = json.load(open("timed.txt")), json.load(open("stdout.txt"))
for field in "algorithm", "pass", "length", "causal":
    assert plan[field] == timed[field], (plan, timed)
assert math.isclose(plan["flops"], 1e9 * timed["gflops"] * timed["seconds"], rel_tol=1e-9), (plan, timed)
assert math.isclose(plan["bytes"], 1e9 * timed["gbytes_per_second"] * timed["seconds"], rel_tol=1e-9), (plan, timed)
assert plan["flops"] == 3 * plan["flops_per_token"], plan
read = written = 3 * 4 * plan["state_elements"]      # of every sequence, in f32
if plan["mechanism"] == "softmax":                   # a cache is read and not written
    read, written = 3 * 4 * 2 * 200 * (16 + 8), 0
if plan["mechanism"] == "hybrid":                    # nor are the tokens that it holds
    written = 3 * 4 * 2 * 153 * (8 + 1)              # 153 monomials of 3 terms in 16 dimensions
assert plan["bytes"] == read + written + 3 * 4 * (4 + 2) * (16 + 8), plan # q, k, v and out
for field in "seconds", "chunk", "workspace_bytes", "flops_direct", "flops_state", "crossover_speed":
    assert field not in plan, plan
END
    if [ $mechanism = hybrid ]; then # before its window is full it does what softmax does
        LINNET_BENCH_SECONDS=0.01 "$LINNET" bench "${shape[@]}" --window 196 --sink 4 --json >timed.txt
        succeeds "$LINNET" plan "${shape[@]}" --window 196 --sink 4 --json
        python3 - <<'END'
import json, math
timed, plan = json.load(open("timed.txt")), json.load(open("stdout.txt"))
assert plan["flops"] == 3 * plan["kv_cache_flops_per_token"], plan
assert plan["bytes"] == 3 * 4 * (2 * 200 + 4 + 2) * (16 + 8), plan # keys and values; q, k, v and out
assert math.isclose(plan["flops"], 1e9 * timed["gflops"] * timed["seconds"], rel_tol=1e-9), (plan, timed)
END
    fi
    succeeds "$LINNET" plan "${shape[@]}"
    grep -q ' a step after 200 tokens' stdout.txt || wrong "not a step: $(cat stdout.txt)"
    ! grep -q 'forward' stdout.txt || wrong "a step has a forward run: $(cat stdout.txt)"
done

succeeds "$LINNET" plan --mechanism cur --landmarks 32 --length 4096 --no-calibrate --json
npy json stdout.txt flops=number landmarks=whole crossover_speed=number workspace_bytes=number
npy expect stdout.txt '64 < m["crossover_speed"] < 4096 and m["flops"] < m["flops_direct"]'
succeeds "$LINNET" plan --mechanism cur --landmarks 32 --length 4096
grep -q 'faster than softmax from length' stdout.txt || wrong "no crossover in the table"
! grep -q 'cache' stdout.txt || wrong "a cache beside a state that cur has not: $(cat stdout.txt)"

# Four terms where none are said, with the normalisation of TaylorShift three.
for case in none:4 taylorshift:3; do
    succeeds "$LINNET" plan --mechanism taylor --normalize "${case%:*}" --no-calibrate --json
    npy expect stdout.txt "m['terms'] == ${case#*:}"
done
