#!/bin/bash
# attend --mechanism softmax with a window, a cap, ALiBi, another alignment and masks gives what the formula
# gives, and says what it cannot do; plan and bench count the window.
. "$(dirname "$0")/support.sh"

# run TOLERANCE "Q K V" "tool options" [name=value ...]
run() {
    local tolerance=$1 files=$2 options=$3
    shift 3
    rm -f y.npy
    # shellcheck disable=SC2086
    succeeds "$LINNET" attend $files -o y.npy --mechanism softmax $options
    # shellcheck disable=SC2086
    npy check y.npy $files "$tolerance" softmax "$@"
}

npy make q4.npy 2x6x20x8 '<f4' 4
npy make k4.npy 2x2x27x8 '<f4' 5
npy make v4.npy 2x2x27x6 '<f4' 6
npy make q.npy 70x5 '<f8' 7
npy make k.npy 81x5 '<f8' 8
npy make v.npy 81x3 '<f8' 9
four="q4.npy k4.npy v4.npy" two="q.npy k.npy v.npy"

for algorithm in tiled rows; do
    run 1e-10 "$two" "--causal --window 7 --algorithm $algorithm" causal=1 window=7
    run 1e-10 "$two" "--window 7 --algorithm $algorithm" window=7
    run 1e-10 "$two" "--cap 0.7 --algorithm $algorithm" cap=0.7
    run 1e-5 "$four" "--causal --alibi --algorithm $algorithm" causal=1 alibi=1
    run 1e-5 "$four" "--alibi --cap 2 --window 9 --algorithm $algorithm" alibi=1 cap=2 window=9
    run 1e-5 "$four" "--causal --align begin --algorithm $algorithm" causal=1 align=begin
    run 1e-5 "$four" "--causal --align end --algorithm $algorithm" causal=1
done
# More queries than keys, which begin together.
run 1e-10 "k.npy q.npy q.npy" "--causal --align begin" causal=1 align=begin
run 1e-10 "k.npy q.npy q.npy" "--causal --align begin --window 3" causal=1 align=begin window=3
fails 1 "causal needs no more queries than keys" "$LINNET" attend k.npy q.npy q.npy -o y.npy --mechanism softmax --causal

for mask in "20x27 |b1" "2x1x20x27 |b1" "2x6x20x27 <f4" "1x27 <f2" "6x20x1 <f8" "2x6x20x27 |b1 fortran" "20x27 >f4 fortran"; do
    set -- $mask
    npy mask m.npy "$1" "$2" 3 ${3:-c}
    run 1e-5 "$four" "--mask m.npy" mask=m.npy
    run 1e-5 "$four" "--mask m.npy --causal --cap 3 --alibi" mask=m.npy causal=1 cap=3 alibi=1
done

npy mask m.npy 3x27 '|b1' 1
fails 1 "'m.npy' is for 3 queries, must be for 20 or 1" "$LINNET" attend $four -o y.npy --mechanism softmax --mask m.npy
npy mask m.npy 27 '|b1' 1
fails 1 "'m.npy' has 1 dimensions, a mask must have 2 to 4" "$LINNET" attend $four -o y.npy --mechanism softmax --mask m.npy
npy mask b.npy 20x8 '|b1' 1
fails 1 "dtype is |b1" "$LINNET" attend b.npy b.npy b.npy -o y.npy --mechanism softmax
fails 1 "'none.npy'" "$LINNET" attend $four -o y.npy --mechanism softmax --mask none.npy
for option in "--mask m.npy" "--align begin"; do
    fails 2 "cannot be used with --chunk" "$LINNET" attend $four -o y.npy --mechanism softmax --causal --chunk 4 $option
    fails 2 "cannot be used with --chunk" "$LINNET" attend $four --mechanism softmax --compare softmax $option
done
for option in "--cap 2" "--alibi" "--align begin" "--mask m.npy" "--window 3"; do
    fails 2 "${option%% *} does not apply to linear" "$LINNET" attend $four -o y.npy --mechanism linear $option
    fails 2 "${option%% *} does not apply to linear" "$LINNET" attend $four --mechanism linear --compare softmax $option
done
fails 2 "--cap" "$LINNET" attend $four -o y.npy --mechanism softmax --cap -1

# In pieces through a cache, which keeps the window alone.
npy make s.npy 2x300x8 '<f4' 2
succeeds "$LINNET" attend s.npy s.npy s.npy -o y.npy --mechanism softmax --causal --window 20 --alibi --cap 4
for chunk in 1 7 100 300; do
    succeeds "$LINNET" attend s.npy s.npy s.npy -o z.npy --mechanism softmax --causal --window 20 --alibi --cap 4 \
        --chunk $chunk --json
    npy expect stdout.txt 'm["state_bytes"] == 2 * (19 + 64) * 16 * 4'
    npy same y.npy z.npy 1e-5
done
npy rows s.npy first.npy 0 150
npy rows s.npy last.npy 150 300
npy rows y.npy want.npy 150 300
succeeds "$LINNET" attend first.npy first.npy first.npy --mechanism softmax --causal --window 20 --alibi --cap 4 \
    --state-out s.safetensors
succeeds "$LINNET" attend last.npy last.npy last.npy -o z.npy --mechanism softmax --causal --window 20 --alibi \
    --cap 4 --state-in s.safetensors
npy same want.npy z.npy 1e-5
fails 1 "window" "$LINNET" attend last.npy last.npy last.npy -o z.npy --mechanism softmax --causal --window 21 \
    --state-in s.safetensors
fails 1 "window" "$LINNET" attend last.npy last.npy last.npy -o z.npy --mechanism softmax --causal --state-in s.safetensors

# What a window leaves out shows against all keys; a cap is the same of both.
succeeds "$LINNET" attend s.npy s.npy s.npy --mechanism softmax --causal --cap 4 --compare softmax --json
npy expect stdout.txt 'm["error_relative"] < 1e-5'
succeeds "$LINNET" attend s.npy s.npy s.npy --mechanism softmax --causal --window 20 --compare softmax --json
npy expect stdout.txt 'm["error_relative"] > 0.01'

succeeds "$LINNET" plan --mechanism softmax --causal --heads 1 --dim 8 --length 1000 --window 10 --no-calibrate --json
npy expect stdout.txt 'm["flops_direct"] == (10 * 990 + 55) * 35 and m["window"] == 10'
succeeds "$LINNET" plan --mechanism softmax --causal --heads 1 --dim 8 --length 1000 --window 10 --no-calibrate
grep -q "window of 10" stdout.txt
for pass in forward backward step; do
    succeeds "$LINNET" bench --mechanism softmax --causal --heads 2 --dim 8 --length 200 --window 30 --cap 5 --alibi \
        --pass $pass --json
    npy expect stdout.txt 'm["mechanism"] == "softmax" and m["relative_error"] < 1e-5 and m["window"] == 30'
done
