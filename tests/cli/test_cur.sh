#!/bin/bash
# attend --mechanism cur gives what the formulas give, for every option, and says what it cannot do.
. "$(dirname "$0")/support.sh"

# run TOLERANCE "Q K V" "tool options" [name=value ...]
run() {
    local tolerance=$1 files=$2 options=$3
    shift 3
    rm -f y.npy
    # shellcheck disable=SC2086
    succeeds "$LINNET" attend $files -o y.npy --mechanism cur $options
    # shellcheck disable=SC2086
    npy check y.npy $files "$tolerance" cur "$@"
}

npy make q4.npy 2x4x37x8 '<f4' 4
npy make k4.npy 2x2x37x8 '<f4' 5
npy make v4.npy 2x2x37x6 '<f4' 6
npy make q.npy 30x5 '<f8' 7
npy make k.npy 41x5 '<f8' 8
npy make v.npy 41x3 '<f8' 9

for algorithm in flash stored; do
    for select in sum abs embed step mean step-mean kmeans; do
        run 1e-5 "q4.npy k4.npy v4.npy" "--landmarks 7 --select $select --algorithm $algorithm" \
            landmarks=7 select=$select
        run 1e-10 "q.npy k.npy v.npy" "--landmarks 6 --select $select --algorithm cur/$algorithm \
            --pinv ridge --ridge 1e-4" landmarks=6 select=$select ridge=1e-4
    done
done
run 1e-5 "q4.npy k4.npy v4.npy" "" # 64 landmarks: exact
run 1e-10 "q.npy k.npy v.npy" "--landmarks 30" landmarks=30
run 1e-10 "q.npy k.npy v.npy" "--landmarks 5 --no-row-copy" landmarks=5 no_copy=1
run 1e-10 "q.npy k.npy v.npy" "--landmarks 5 --pinv-iterations 3 --scale 0.2" landmarks=5 \
    iterations=3 scale=0.2
run 1e-10 "q.npy k.npy v.npy" "--landmarks 5 --pinv-init paper1" landmarks=5 init=paper1
run 1e-10 "q.npy k.npy v.npy" "--landmarks 5 --activation laplace --scale 0.02" landmarks=5 \
    laplace=1 scale=0.02
run 1e-10 "q.npy k.npy v.npy" "--landmarks 50 --activation laplace" landmarks=50 laplace=1
run 1e-5 "q4.npy k4.npy v4.npy" "--landmarks 7 --select embed --embed-column 3 --separate-indices" \
    landmarks=7 select=embed column=3 separate=1
run 1e-5 "q4.npy k4.npy v4.npy" "--landmarks 7 --select abs --pin 0,5" landmarks=7 select=abs \
    pin=0+5

# Which tokens they are.
succeeds "$LINNET" attend q4.npy k4.npy v4.npy -o y.npy --mechanism cur --landmarks 5 \
    --indices-out i.npy --pin 0,36 --json
npy shape i.npy '<f8' 2x4x2x5
npy json stdout.txt landmarks=whole pinv_divergences=whole pinv_rank=number
npy expect stdout.txt '0 < m["pinv_rank"] <= 5 and m["pinv_divergences"] == 0'
succeeds "$LINNET" attend q4.npy k4.npy v4.npy -o y.npy --mechanism cur --landmarks 1
grep -q '^1 landmark, of rank 1.0 or more$' stdout.txt || wrong "no rank: $(cat stdout.txt)"
fails 2 "--pin: 37 is not one of the 37 tokens" "$LINNET" attend q4.npy k4.npy v4.npy -o y.npy \
    --mechanism cur --landmarks 5 --pin 0,37
python3 - "$here" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import npy
assert npy.read("i.npy")[2] == [0, 7, 14, 22, 36] * 16, npy.read("i.npy")[2]
END
succeeds "$LINNET" attend q4.npy k4.npy v4.npy -o a.npy --mechanism cur --landmarks 5 \
    --select random --seed 7 --indices-out i.npy
succeeds "$LINNET" attend q4.npy k4.npy v4.npy -o b.npy --mechanism cur --landmarks 5 \
    --select random --seed 7 --indices-out j.npy
cmp a.npy b.npy && cmp i.npy j.npy || wrong "the seed does not fix the landmarks"
succeeds "$LINNET" attend q4.npy k4.npy v4.npy -o b.npy --mechanism cur --landmarks 5 \
    --select random --seed 8
! cmp -s a.npy b.npy || wrong "another seed gave the same"

# The landmarks alone are a result too.
landmarks() { "$LINNET" attend q.npy k.npy v.npy --mechanism cur --landmarks 3 --indices-out "$@"; }
succeeds landmarks beside.npy -o y.npy
succeeds landmarks alone.npy
cmp beside.npy alone.npy || wrong "other landmarks where nothing else is written"
rm y.npy

# What it refuses.
attend() { "$LINNET" attend q.npy k.npy v.npy -o n.npy --mechanism cur "$@"; }
fails 2 "cur is not causal" attend --causal
grep -q "use softmax, linear, taylor or hybrid" stderr.txt || wrong "nothing to use instead"
fails 2 "cur is not causal" "$LINNET" bench --mechanism cur --pass step
fails 2 "cur has no state" attend --state-out s.safetensors
fails 2 "--landmarks: '0' is not a whole number of at least 1" attend --landmarks 0
fails 2 "--select: 'best' is not one of sum, abs, embed, step, random, mean, step-mean, kmeans" \
    attend --select best
fails 2 "--embed-column needs --select embed" attend --embed-column 1
fails 2 "--embed-column: '64' is not below --dim, which is 64" \
    "$LINNET" plan --mechanism cur --select embed --embed-column 64
fails 1 "embed_column is 5, must be 0 to 4" attend --landmarks 3 --select embed --embed-column 5
fails 2 "--ridge needs --pinv ridge" attend --ridge 0.1
fails 2 "--ridge: '0' is not a finite number of at least 1e-12" attend --pinv ridge --ridge 0
fails 2 "--pinv-iterations needs --pinv iterate" attend --pinv ridge --pinv-iterations 3
fails 2 "--pinv-init: 'ones' is not one of norms, paper1" attend --pinv-init ones
fails 2 "--pin: '-1' is not a whole number" attend --pin -1
fails 2 "--pin: '1.5' is not a whole number" attend --pin 1.5
fails 2 "--pin: '' is not a whole number" attend --pin 1,
fails 2 "--pin: 3 is there twice" attend --pin 3,3
fails 2 "--pin: 2 tokens for 1 landmarks" attend --pin 3,4 --landmarks 1
fails 2 "--pin: the landmarks of --select mean are no tokens" attend --pin 3 --select mean
fails 2 "--activation: 'relu' is not one of softmax, laplace" attend --activation relu
fails 2 "are the same file" attend --indices-out n.npy
fails 2 "--indices-out does not apply to linear" \
    "$LINNET" attend q.npy k.npy v.npy -o n.npy --mechanism linear --indices-out i.npy
fails 1 "cannot" attend --landmarks 3 --indices-out missing/i.npy
absent n.npy missing s.safetensors

# What is not the default is told.
plan() { "$LINNET" plan --mechanism cur --heads 2 --dim 8 --length 100 --landmarks 9 --no-calibrate "$@"; }
told() { # TEXT OPTIONS...
    succeeds plan "${@:2}"
    grep -q "^cur of $1, f32" stdout.txt || wrong "not '$1': $(head -n 1 stdout.txt)"
}
told "9 landmarks"
told "9 landmarks, embed" --select embed
told "9 landmarks, sum, ridge" --select sum --pinv ridge
