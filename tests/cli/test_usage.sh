#!/bin/bash
# Wrong usage: exit 2 and one sentence that names the option, the value and what is allowed.
. "$(dirname "$0")/support.sh"

npy make q.npy 4x3
attend() { "$LINNET" attend q.npy q.npy q.npy -o y.npy "$@"; }

fails 2 "linnet: 'atend' is not a command; did you mean 'attend'?" "$LINNET" atend
fails 2 "'frobnicate' is not a command" "$LINNET" frobnicate
fails 2 "unknown option '--bogus'" "$LINNET" --bogus
fails 2 "linnet: 'two?lines ?[1m' is not a command" "$LINNET" $'two\nlines \e[1m'

fails 2 "linnet attend: unknown option '--caussal'; did you mean '--causal'?" attend --caussal
fails 2 "did you mean '--feature-map'?" attend --feature_map=relu
fails 2 "--landmarks does not apply to linear" attend --mechanism linear --landmarks 3
fails 2 "unknown option '-x'" attend -x
fails 2 "--length is not an option of this command" attend --mechanism linear --length 5
fails 2 "--causal takes no value, 'yes' was given" attend --mechanism linear --causal=yes
fails 2 "--dim needs a value" attend --mechanism linear --dim
fails 2 "--output needs a value" "$LINNET" attend q.npy q.npy q.npy --mechanism linear -o --causal
fails 2 "--output: the value is empty" "$LINNET" attend q.npy q.npy q.npy --output=

for value in x 0 -1 3.5 1e3 '' ' 3' 0x10; do
    fails 2 "linnet attend: --dim: '$value' is not a whole number of at least 1" \
        attend --mechanism linear "--dim=$value"
done
fails 2 "--dim: '99999999999999999999' is too large" attend --mechanism linear \
    --dim 99999999999999999999
fails 2 "--threads: '5000' is too large, at most 4096" attend --mechanism linear --threads 5000
fails 2 "--seed: '-1' is not a whole number" attend --mechanism linear --seed -1
for value in x nan inf '' 1,2; do
    fails 2 "--scale: '$value' is not a finite number" attend --mechanism softmax "--scale=$value"
done
fails 2 "--eps: '-1' is not a finite number of at least 0" attend --mechanism linear --eps -1
for value in 0 1.5 -0.5 x; do
    fails 2 "--decay: '$value' is not a number above 0 and at most 1" \
        attend --mechanism linear --causal --decay "$value"
done
fails 2 "--decay: '' is not a number" attend --mechanism linear --causal --decay 0.5,
fails 2 "--decay: 2 numbers for 1 kv heads" attend --mechanism linear --causal --decay 0.5,0.5
fails 2 "--decay needs --causal" attend --mechanism linear --decay 0.5
fails 2 "--terms: '0' is not a whole number of at least 1" attend --mechanism taylor --terms 0
fails 2 "--terms: '33' is too large, at most 32 is allowed" attend --mechanism taylor --terms 33
for bad in best nan inf '' 1x; do
    for value in "$bad" "1,$bad" "1,$bad,2"; do
        fails 2 "--coefficients: '$bad' is not a finite number; give taylor, fit, or one number" \
            attend --mechanism taylor "--coefficients=$value"
    done
done
fails 2 "--coefficients: 3 numbers for --terms 4; give one for each term" \
    attend --mechanism taylor --terms 4 --coefficients 1,2,3
fails 2 "--coefficients: 1 numbers for --terms 2" \
    attend --mechanism taylor --coefficients 1 --terms 2
fails 2 "--coefficients: more than 32 numbers" \
    attend --mechanism taylor --coefficients "$(seq -s, 33)"

fails 2 "--mechanism is missing" attend
fails 2 "--mechanism: 'sofmax' is not one of softmax, linear, taylor" attend --mechanism sofmax
fails 2 "--algorithm: 'quick' is not one of linear/" attend --mechanism linear --algorithm quick
fails 2 "--algorithm: 'softmax/tiled' is not one of linear/" \
    attend --mechanism linear --algorithm softmax/tiled
fails 2 "--feature-map: 'tanh' is not one of elu1, relu" \
    attend --mechanism linear --feature-map tanh
fails 2 "--dtype: 'f8' is not one of f32, f16, bf16, f64" attend --mechanism linear --dtype f8
fails 2 "--device: 'tpu' is not one of cpu, cuda" attend --mechanism linear --device tpu
fails 2 "--scale does not apply to linear" attend --mechanism linear --scale 1
fails 2 "--terms does not apply to linear" attend --mechanism linear --terms 3
fails 2 "--coefficients does not apply to softmax" \
    attend --mechanism softmax --coefficients taylor
for option in "--eps 1" "--decay 0.5" "--feature-map relu" "--features 8"; do
    # shellcheck disable=SC2086
    fails 2 "${option%% *} does not apply to taylor" attend --mechanism taylor --causal $option
done
fails 2 "--sigma needs --coefficients fit" attend --mechanism taylor --sigma 1
fails 2 "--temperature needs --normalize taylorshift" attend --mechanism taylor --temperature 2
fails 2 "--temperature: 'warm' is not a finite number" \
    attend --mechanism taylor --normalize taylorshift --temperature 1,warm
fails 2 "--temperature: 2 numbers for 1 heads; give 1 or one for each" \
    attend --mechanism taylor --normalize taylorshift --temperature 1,2
fails 2 "--center needs --normalize none" \
    attend --mechanism taylor --normalize taylorshift --center mean
fails 2 "--center mean looks at every key" attend --mechanism taylor --causal --center mean
fails 2 "--center mean looks at every key and cannot be used with a state" \
    attend --mechanism taylor --center mean --state-out new.state
fails 2 "--center does not apply to linear" attend --mechanism linear --center mean
fails 2 "--normalize: 'unit' is not one of none, taylorshift" \
    attend --mechanism taylor --normalize unit
fails 2 "--algorithm: 'tiled' is not one of taylor/direct, taylor/" \
    attend --mechanism taylor --algorithm tiled
fails 2 "--feature-map does not apply to softmax" attend --mechanism softmax --feature-map relu
fails 2 "--features applies to --feature-map fourier and positive" \
    attend --mechanism linear --features 8
fails 2 "--features: '7' is odd" attend --mechanism linear --feature-map fourier --features 7
fails 2 "--chunk needs --causal" attend --mechanism linear --chunk 2
fails 2 "--algorithm cannot be chosen with --chunk" \
    attend --mechanism softmax --causal --chunk 2 --algorithm tiled

fails 2 "1 of 3 files are missing" "$LINNET" attend q.npy q.npy -o y.npy --mechanism linear
fails 2 "'more' is one argument too many" attend more --mechanism linear
fails 2 "'q.npy' is one argument too many" "$LINNET" info q.npy
fails 2 "-o/--output is missing" "$LINNET" attend q.npy q.npy q.npy --mechanism linear
fails 2 "are the same file" attend --mechanism linear --state-out y.npy
fails 2 "are the same file" attend --mechanism linear --state-out ./y.npy
fails 2 "--state-out: './q.npy' is one of Q, K and V" attend --mechanism linear --causal --state-out ./q.npy

fails 2 "linnet plan: --mechanism is missing" "$LINNET" plan
fails 2 "--kv-heads: '3' does not divide --heads, which is 8" \
    "$LINNET" plan --mechanism linear --heads 8 --kv-heads 3
fails 2 "linnet bench: --length needs --mechanism" "$LINNET" bench --length 5
fails 2 "--pass: 'sideways' is not one of forward, backward, step" \
    "$LINNET" bench --mechanism linear --pass sideways

absent y.npy

# Both spellings of a value; the last of two wins; -- ends the options.
cp q.npy ./--odd.npy
succeeds "$LINNET" attend --mechanism softmax --mechanism=linear --dim 7 --dim=3 -oy.npy -- \
    --odd.npy q.npy q.npy
npy check y.npy q.npy q.npy q.npy 1e-5 linear
succeeds attend --mechanism softmax --scale -0.5
npy check y.npy q.npy q.npy q.npy 1e-5 softmax scale=-0.5
succeeds attend --mechanism taylor --coefficients 7,8,9,10,11 --coefficients taylor
npy check y.npy q.npy q.npy q.npy 1e-5 taylor
