#!/bin/bash
# bench verifies before it times: small relative errors, and every field there.  Never the times.
. "$(dirname "$0")/support.sh"

# measured LIMIT OPTIONS...
measured() {
    local limit=$1
    shift
    succeeds "$LINNET" bench --json --heads 2 --dim 16 --length 96 "$@"
    npy json mechanism=text algorithm=text device=text isa=text threads=whole dtype=text \
        heads=whole kv_heads=whole dim=whole dim_value=whole length=whole causal=flag pass=text \
        seconds=number ns_per_token=number gflops=number peak_gflops=number \
        fraction_of_peak=number gbytes_per_second=number peak_gbytes_per_second=number \
        fraction_of_bandwidth=number relative_error=number <stdout.txt
    python3 - "$limit" "$*" <<'END'
import json, sys
m = json.loads(open("stdout.txt").read())
assert 0 <= m["relative_error"] <= float(sys.argv[1]), (sys.argv[2], m)
assert m["seconds"] > 0 and m["peak_gflops"] > 0 and m["peak_gbytes_per_second"] > 0, m
END
}

for mechanism in softmax linear; do
    for pass in forward backward step; do
        case $pass in backward) limit=1e-4 ;; *) limit=2e-6 ;; esac
        measured $limit --mechanism $mechanism --pass $pass --causal
        grep -q "\"pass\": \"$pass\"" stdout.txt || wrong "another pass was measured"
    done
    measured 2e-6 --mechanism $mechanism --kv-heads 1 --dim-value 24 --batch 2
    measured 1e-4 --mechanism $mechanism --kv-heads 1 --dim-value 24 --batch 2 --pass backward
    measured 1e-12 --mechanism $mechanism --dtype f64 --causal
    measured 1e-6 --mechanism $mechanism --dtype f64 --causal --pass backward
    measured 1e-2 --mechanism $mechanism --dtype bf16 --causal
    measured 2e-3 --mechanism $mechanism --dtype f16 --causal --pass step
done
for map in relu exp identity fourier positive; do
    measured 1e-5 --mechanism linear --feature-map $map --causal
    measured 1e-3 --mechanism linear --feature-map $map --causal --pass backward
done
measured 2e-6 --mechanism linear --decay 0.9 --causal --pass step --threads 1
grep -q '"threads": 1,' stdout.txt || wrong "--threads is not told"

# The default of a single measurement, as a person reads it.
succeeds "$LINNET" bench --mechanism linear --length 64 --causal
grep -q 'linear/' stdout.txt && grep -q '8 x 64, 64 tokens' stdout.txt || wrong "no table"

fails 1 "no CUDA device" "$LINNET" bench --mechanism linear --device cuda
