#!/bin/bash
# attend --mechanism hybrid gives what the formula gives, for every option, and says what it cannot do;
# plan and bench know it.
. "$(dirname "$0")/support.sh"

# run TOLERANCE "Q K V" "tool options" [name=value ...]
run() {
    local tolerance=$1 files=$2 options=$3
    shift 3
    rm -f y.npy
    # shellcheck disable=SC2086
    succeeds "$LINNET" attend $files -o y.npy --mechanism hybrid --causal $options
    # shellcheck disable=SC2086
    npy check y.npy $files "$tolerance" hybrid causal=1 "$@"
}

npy make q4.npy 2x4x37x8 '<f4' 4
npy make k4.npy 2x2x37x8 '<f4' 5
npy make v4.npy 2x2x37x6 '<f4' 6
npy make q.npy 70x5 '<f8' 7
npy make k.npy 81x5 '<f8' 8
npy make v.npy 81x3 '<f8' 9
npy make mu.npy 2x8 '<f8' 10

for algorithm in direct chunked recurrent; do
    for window in 1 7 32 100; do
        run 1e-5 "q4.npy k4.npy v4.npy" "--window $window --algorithm $algorithm" window=$window
        run 1e-10 "q.npy k.npy v.npy" "--window $window --sink 3 --algorithm hybrid/$algorithm" \
            window=$window sink=3
        run 1e-10 "q.npy k.npy v.npy" "--window $window --far linear --algorithm $algorithm" \
            window=$window far=linear
    done
    run 1e-5 "q4.npy k4.npy v4.npy" "--window 3 --center mu.npy --algorithm $algorithm" window=3 \
        center=mu.npy
done
run 1e-5 "q4.npy k4.npy v4.npy" "" # 128 near: softmax
run 1e-10 "q.npy k.npy v.npy" "--window 5 --terms 5 --scale 0.2" window=5 terms=5 scale=0.2
run 1e-10 "q.npy k.npy v.npy" "--window 5 --coefficients 1,0.5,0.25" window=5 \
    coefficients=1,0.5,0.25
run 1e-10 "q.npy k.npy v.npy" "--window 5 --far linear --feature-map relu" window=5 far=linear \
    map=relu

# What is planned and timed is said.
succeeds "$LINNET" plan --mechanism hybrid --causal --heads 4 --dim 16 --length 5000 --window 64 \
    --sink 4 --no-calibrate --json
npy json stdout.txt algorithm=text far=text window=whole sink=whole terms=whole state_bytes=number
# 153 monomials by 16 + 1; 64 + 4 near tokens and 16 that wait.
npy expect stdout.txt 'm["state_elements"] == 4 * (153 * 17 + (64 + 4 + 16) * 32)'
npy expect stdout.txt 'm["terms"] == 3 and m["far"] == "taylor" and m["window"] == 64'
succeeds "$LINNET" plan --mechanism hybrid --causal --heads 4 --dim 16 --length 5000 --no-calibrate
grep -q "hybrid of 128 near, 3 terms" stdout.txt
for pass in forward backward step; do
    succeeds "$LINNET" bench --mechanism hybrid --causal --heads 2 --dim 8 --length 200 --window 30 \
        --pass $pass --json
    npy expect stdout.txt 'm["mechanism"] == "hybrid" and m["relative_error"] < 1e-5'
done

# A sequence has as many operations in two pieces as in one, be the window full after the first or not.
npy make whole.npy 70x5
for first in 0 4 9 40; do
    npy make first.npy ${first}x5
    npy make second.npy $((70 - first))x5
    hybrid=(--mechanism hybrid --causal --window 7 --sink 2 --json)
    {
        "$LINNET" attend first.npy first.npy first.npy "${hybrid[@]}" --state-out s.safetensors
        "$LINNET" attend second.npy second.npy second.npy -o y.npy "${hybrid[@]}" --state-in s.safetensors
        "$LINNET" attend whole.npy whole.npy whole.npy -o y.npy "${hybrid[@]}" --chunk 70
    } >told.txt
    npy expect told.txt 'lines[0]["flops"] + lines[1]["flops"] == lines[2]["flops"]'
done

# What it does not offer.
attend=("$LINNET" attend q4.npy k4.npy v4.npy -o no.npy --mechanism hybrid)
fails 2 "--causal" "${attend[@]}"
fails 2 "--window: '0'" "${attend[@]}" --causal --window 0
fails 2 "--sink: '-1'" "${attend[@]}" --causal --sink -1
fails 2 "--far: 'softmax'" "${attend[@]}" --causal --far softmax
fails 2 "--far taylor" "${attend[@]}" --causal --far linear --terms 3
fails 2 "--far linear" "${attend[@]}" --causal --feature-map relu
fails 2 "--decay" "${attend[@]}" --causal --decay 1.5
fails 2 "--window does not apply to taylor" "$LINNET" attend q4.npy k4.npy v4.npy -o no.npy \
    --mechanism taylor --window 3
fails 2 "causal" "${attend[@]}" --causal --center mean
succeeds "$LINNET" attend q4.npy k4.npy v4.npy --mechanism hybrid --causal --window 9 \
    --state-out s.safetensors
fails 1 "window is '9'" "${attend[@]}" --causal --window 8 --state-in s.safetensors
fails 1 "far is 'taylor'" "${attend[@]}" --causal --window 9 --far linear --state-in s.safetensors
absent no.npy
