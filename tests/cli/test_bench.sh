#!/bin/bash
# bench verifies before it times: small relative errors, and every field there.  Never the times.
. "$(dirname "$0")/support.sh"
export LINNET_BENCH_SECONDS=0.01

fails 2 "LINNET_BENCH_SECONDS: 'soon' is not a finite number above 0" \
    env LINNET_BENCH_SECONDS=soon "$LINNET" bench --mechanism linear

# measured LIMIT OPTIONS...: few tokens, since the definition is slow, and one thread, unless they say
# otherwise; 96 tokens are more than a tile of any algorithm.
measured() {
    local limit=$1
    shift
    succeeds "$LINNET" bench --json --heads 2 --dim 16 --length 48 --threads 1 "$@"
    npy json stdout.txt mechanism=text algorithm=text device=text isa=text threads=whole \
        dtype=text heads=whole kv_heads=whole dim=whole dim_value=whole length=whole \
        causal=flag pass=text seconds=number ns_per_token=number gflops=number peak_gflops=number \
        fraction_of_peak=number gbytes_per_second=number peak_gbytes_per_second=number \
        fraction_of_bandwidth=number relative_error=number
    npy expect stdout.txt "0 <= m['relative_error'] <= $limit"
    npy expect stdout.txt 'min(m["seconds"], m["peak_gflops"], m["peak_gbytes_per_second"]) > 0'
    npy expect stdout.txt 'abs(m["fraction_of_peak"] * m["peak_gflops"] / m["gflops"] - 1) < 1e-9'
    npy expect stdout.txt \
        'abs(m["fraction_of_bandwidth"] * m["peak_gbytes_per_second"] / m["gbytes_per_second"] - 1) < 1e-9'
}

for mechanism in softmax linear taylor; do
    for pass in forward backward step; do
        case $pass in backward) limit=1e-4 ;; *) limit=2e-6 ;; esac
        measured $limit --mechanism $mechanism --pass $pass --causal --length 96 --threads 2
        grep -q '"threads": 2,' stdout.txt || wrong "other threads than asked for"
        grep -q "\"pass\": \"$pass\"" stdout.txt || wrong "another pass was measured"
    done
    # the last is a step, of one token
    npy expect stdout.txt "m['algorithm'] in ('$mechanism/recurrent', '$mechanism/rows')"
    measured 2e-6 --mechanism $mechanism --kv-heads 1 --dim-value 24 --batch 2
    measured 1e-4 --mechanism $mechanism --kv-heads 1 --dim-value 24 --batch 2 --pass backward
    measured 1e-12 --mechanism $mechanism --dtype f64 --causal
    measured 1e-6 --mechanism $mechanism --dtype f64 --causal --pass backward
    measured 1e-2 --mechanism $mechanism --dtype bf16 --causal
    measured 2e-3 --mechanism $mechanism --dtype f16 --causal --pass step
done
maps=$("$LINNET" bench --help | sed -n 's/^ *--feature-map elu1|\([^ ]*\).*/\1/p')
[ -n "$maps" ] || wrong "--help does not list the feature maps"
for map in ${maps//|/ }; do
    measured 1e-5 --mechanism linear --feature-map $map --dim 8 --causal
    measured 1e-3 --mechanism linear --feature-map $map --dim 8 --causal --pass backward
done
measured 2e-6 --mechanism linear --decay 0.9 --causal --pass step
grep -q '"threads": 1,' stdout.txt || wrong "--threads is not told"
for algorithm in direct state; do
    measured 2e-6 --mechanism taylor --algorithm $algorithm --terms 6 --dim 8 --length 96 --causal
    npy expect stdout.txt "(m['algorithm'], m['terms']) == ('taylor/$algorithm', 6)"
    measured 1e-4 --mechanism taylor --algorithm $algorithm --terms 6 --dim 8 --length 96 --causal --pass backward
    measured 2e-6 --mechanism taylor --algorithm $algorithm --coefficients 1,0.5,0.25
    npy expect stdout.txt 'm["terms"] == 3'
done
for pass in forward backward step; do # negative scores alone: a series of terms of both signs
    measured 1e-4 --mechanism taylor --scale -1 --dim 4 --causal --pass $pass
done

for algorithm in flash stored; do
    for options in "" "--pinv ridge --ridge 0.01 --select step-mean" "--select sum"; do
        # shellcheck disable=SC2086
        measured 2e-6 --mechanism cur --landmarks 16 --length 96 --algorithm $algorithm $options
        npy expect stdout.txt "(m['algorithm'], m['landmarks']) == ('cur/$algorithm', 16)"
        # shellcheck disable=SC2086
        measured 1e-4 --mechanism cur --landmarks 16 --algorithm $algorithm $options --pass backward
    done
done
measured 1e-12 --mechanism cur --landmarks 16 --dtype f64
# Verified over fewer tokens than are timed: a pin among the others is left out.
measured 1e-4 --mechanism cur --landmarks 8 --length 300 --pin 299,1 --pass backward
measured 2e-6 --mechanism cur --landmarks 16 --kv-heads 1 --dim-value 24 --batch 2

# A cache that rounds: the error is that of rounding, and its bytes are counted as they are.
for cache in f16 bf16 q8; do
    case $cache in f16) limit=1e-3 ;; bf16) limit=1e-2 ;; q8) limit=2e-2 ;; esac
    measured $limit --mechanism softmax --kv-heads 1 --dim 40 --length 300 --pass step --cache $cache
    npy expect stdout.txt "m['cache'] == '$cache' and m['relative_error'] > 1e-5"
done
token=$((4 * 3 * 80))
npy expect stdout.txt \
    "abs(m['gbytes_per_second'] * m['seconds'] * 1e9 / (300 * 4 * 34 + $token) - 1) < 1e-9"
fails 2 "--cache needs --pass step" "$LINNET" bench --mechanism softmax --cache q8
fails 2 "--cache" "$LINNET" bench --mechanism linear --pass step --cache q8

# q, k, v and out are read or written once, and the useful operations are those of the plan.
shape="--heads 2 --kv-heads 1 --dim 16 --dim-value 24 --length 96 --mechanism linear --causal"
# shellcheck disable=SC2086
succeeds "$LINNET" plan --json --no-calibrate $shape
flops=$(grep -o '"flops": [0-9]*' stdout.txt)
# shellcheck disable=SC2086
measured 2e-6 $shape
npy expect stdout.txt "abs(m['gflops'] * m['seconds'] * 1e9 / ${flops#*: } - 1) < 1e-9"
npy expect stdout.txt "abs(m['gbytes_per_second'] * m['seconds'] * 1e9 / (4 * 96 * 3 * (16 + 24)) - 1) < 1e-9"
npy expect stdout.txt "abs(m['ns_per_token'] * 96 / (m['seconds'] * 1e9) - 1) < 1e-9"

# The default of a single measurement, as a person reads it.
succeeds "$LINNET" bench --mechanism linear --length 64 --causal
grep -q 'linear/' stdout.txt && grep -q '8 x 64, 64 tokens' stdout.txt || wrong "no table"
succeeds "$LINNET" bench --mechanism linear --length 0 --causal
grep -q '0 tokens.* - ' stdout.txt || wrong "of no token it tells what each takes: $(cat stdout.txt)"

