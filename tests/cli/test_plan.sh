#!/bin/bash
# plan tells costs without computing anything: its fields, their arithmetic, and its table.
. "$(dirname "$0")/support.sh"

for mechanism in softmax linear; do
    succeeds "$LINNET" plan --mechanism $mechanism --heads 4 --kv-heads 2 --dim 16 --dim-value 8 \
        --length 300 --batch 3 --causal --no-calibrate --json
    npy json mechanism=text algorithm=text flops=number flops_per_token=number state_bytes=number \
        workspace_bytes=number kv_cache_elements=number seconds=number <stdout.txt
done

succeeds "$LINNET" plan --mechanism linear --heads 4 --kv-heads 2 --dim 16 --dim-value 8 \
    --length 300 --batch 3 --causal --no-calibrate --json
npy json flops_direct=number flops_state=number entries_direct=number entries_state=number \
    state_elements=number <stdout.txt
python3 - <<'END'
import json
plan = json.loads(open("stdout.txt").read())
assert plan["mechanism"] == "linear" and plan["algorithm"].startswith("linear/"), plan
assert plan["state_elements"] == 2 * (16 * 8 + 16), plan       # (d m + d) per kv head
assert plan["kv_cache_elements"] == 2 * 300 * (16 + 8), plan   # n (d + m) per kv head
assert plan["state_bytes"] >= 3 * 4 * plan["state_elements"], plan
END

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
npy json flops_backward=number <stdout.txt
succeeds "$LINNET" plan --mechanism linear --length 0 --no-calibrate --json
fails 1 "no CUDA device" "$LINNET" plan --mechanism linear --device cuda
