#!/bin/bash
# attend gives what the formulas give: ranks, shared heads, dtypes, byte orders, options.
. "$(dirname "$0")/support.sh"

# run TOLERANCE "Q K V" "tool options" MECHANISM [name=value ...]
run() {
    local tolerance=$1 files=$2 options=$3
    shift 3
    rm -f y.npy
    # shellcheck disable=SC2086
    succeeds "$LINNET" attend $files -o y.npy --mechanism "$1" $options
    # shellcheck disable=SC2086
    npy check y.npy $files "$tolerance" "$@"
}

npy make q2.npy 5x4 '<f4' 1
npy make k2.npy 9x4 '<f4' 2
npy make v2.npy 9x3 '<f4' 3
npy make q4.npy 2x4x7x8 '<f4' 4
npy make k4.npy 2x2x7x8 '<f4' 5
npy make v4.npy 2x2x7x6 '<f4' 6
npy make k1.npy 2x1x7x8 '<f4' 7
npy make v1.npy 2x1x7x6 '<f4' 8

for mechanism in softmax linear taylor; do
    run 1e-5 "q2.npy k2.npy v2.npy" "" $mechanism
    run 1e-5 "q2.npy k2.npy v2.npy" "--causal" $mechanism causal=1
    run 1e-5 "q4.npy k4.npy v4.npy" "" $mechanism
    run 1e-5 "q4.npy k4.npy v4.npy" "--causal" $mechanism causal=1
    run 1e-5 "q4.npy k1.npy v1.npy" "--causal --kv-heads 1 --heads 4 --dim 8" $mechanism causal=1
    run 1e-5 "q4.npy k4.npy v4.npy" "--causal --threads 1" $mechanism causal=1
done

npy make q3.npy 3x70x16 '<f4' 9
npy make k3.npy 3x70x16 '<f4' 10
npy make v3.npy 3x70x16 '<f4' 11
for mechanism in softmax linear taylor; do
    run 1e-5 "q3.npy k3.npy v3.npy" "--causal" $mechanism causal=1
done

# Every algorithm by name, long and short.
for name in $("$LINNET" info --json | python3 -c \
    'import json, sys; print(*json.load(sys.stdin)["algorithms"])'); do
    case $name in cur/*) continue ;; esac # not causal: test_cur.sh
    run 1e-5 "q3.npy k3.npy v3.npy" "--causal --algorithm $name" "${name%%/*}" causal=1
    run 1e-5 "q3.npy k3.npy v3.npy" "--causal --algorithm ${name##*/}" "${name%%/*}" causal=1
done

# Options of the mechanisms.
run 1e-5 "q2.npy k2.npy v2.npy" "--scale 0.3" softmax scale=0.3
run 1e-5 "q2.npy k2.npy v2.npy" "--scale=-2" softmax scale=-2
run 1e-5 "q2.npy k2.npy v2.npy" "--feature-map relu --eps 0.5" linear map=relu eps=0.5
run 1e-5 "q2.npy k2.npy v2.npy" "--feature-map exp" linear map=exp
run 1e-5 "q2.npy k2.npy v2.npy" "--feature-map identity --eps 100" linear map=identity eps=100
for causal in "" causal=1; do
    for terms in 1 2 3 5 8; do
        run 1e-5 "q2.npy k2.npy v2.npy" "${causal:+--causal} --terms $terms" taylor \
            terms=$terms $causal
    done
    run 1e-5 "q4.npy k4.npy v4.npy" "${causal:+--causal} --scale 0.2 --terms 3" taylor \
        scale=0.2 terms=3 $causal
    for algorithm in direct state; do
        run 1e-5 "q4.npy k4.npy v4.npy" "${causal:+--causal} --algorithm $algorithm \
            --coefficients 2,-0.5,0,0.125,0.25" taylor coefficients=2,-0.5,0,0.125,0.25 $causal
    done
done
for algorithm in direct state recurrent; do # q4 has 4 heads
    run 1e-5 "q4.npy k4.npy v4.npy" "--algorithm $algorithm --terms 3 --normalize taylorshift" \
        taylor terms=3 taylorshift=1
    run 1e-5 "q4.npy k4.npy v4.npy" "--algorithm $algorithm --terms 3 --normalize taylorshift \
        --temperature 1.5,-1,2,0.5 --output-norm --causal" taylor terms=3 taylorshift=1 \
        temperature=1.5,-1,2,0.5 output_norm=1 causal=1
done
npy make mu.npy 2x8 '<f8' 12 # one vector per kv head of k4
for algorithm in direct state; do
    run 1e-5 "q4.npy k4.npy v4.npy" "--algorithm $algorithm --center mean" taylor center=mean
done
for algorithm in direct state recurrent; do
    run 1e-5 "q4.npy k4.npy v4.npy" "--algorithm $algorithm --center mu.npy --causal" taylor \
        center=mu.npy causal=1
done
run 1e-5 "q4.npy k4.npy v4.npy" "--center none" taylor
fails 1 "--center: 'q2.npy' must be of shape [2,8] (kv heads, width) or [8]" \
    "$LINNET" attend q4.npy k4.npy v4.npy -o y.npy --mechanism taylor --center q2.npy
# e^{1/2} (He_0 + He_1 + He_2 / 2) = e^{1/2} (1/2 + x + x^2 / 2)
run 1e-5 "q2.npy k2.npy v2.npy" "--terms 3 --coefficients fit --sigma 1" taylor \
    coefficients=0.5,1,0.5
succeeds "$LINNET" attend q2.npy k2.npy v2.npy -o y.npy --mechanism taylor --coefficients fit
run 1e-5 "q2.npy k2.npy v2.npy" "--terms 3 --coefficients 1,1e0,.5" taylor terms=3
run 1e-5 "q2.npy k2.npy v2.npy" "--terms 3 --coefficients taylor" taylor terms=3
run 1e-5 "q2.npy k2.npy v2.npy" "--coefficients -1" taylor coefficients=-1
run 1e-5 "q4.npy k4.npy v4.npy" "--causal --decay 0.9" linear causal=1 decay=0.9
run 1e-5 "q4.npy k4.npy v4.npy" "--causal --decay 0.9,0.5" linear causal=1 decay=0.9,0.5

# Random maps: the seed alone decides.
for map in fourier positive; do
    succeeds "$LINNET" attend q2.npy k2.npy v2.npy -o a.npy --mechanism linear \
        --feature-map $map --features 32 --seed 7
    succeeds "$LINNET" attend q2.npy k2.npy v2.npy -o b.npy --mechanism linear \
        --feature-map $map --features 32 --seed 7
    cmp a.npy b.npy
    succeeds "$LINNET" attend q2.npy k2.npy v2.npy -o b.npy --mechanism linear \
        --feature-map $map --features 32 --seed 8
    ! cmp -s a.npy b.npy || wrong "$map: another seed gave the same"
done

# Dtypes: the output has that of Q, whatever it is computed in.
for descr in '<f2' '>f2' '<f4' '>f4' '<f8' '>f8'; do
    npy make qd.npy 2x6x4 "$descr" 12
    npy make kd.npy 2x6x4 "$descr" 13 fortran
    npy make vd.npy 2x6x3 "$descr" 14
    case $descr in *2) tolerance=2e-3 ;; *4) tolerance=1e-5 ;; *8) tolerance=1e-12 ;; esac
    for mechanism in softmax linear taylor; do
        run $tolerance "qd.npy kd.npy vd.npy" "" $mechanism
        npy shape y.npy "<${descr#?}" 2x6x3
    done
done
npy make qf.npy 2x6x4 '<f8' 12 fortran
npy make kf.npy 2x6x4 '<f2' 13
npy make vf.npy 2x6x3 '<f4' 14
run 1e-12 "qf.npy kf.npy vf.npy" "--causal" linear causal=1
run 1e-5 "qf.npy kf.npy vf.npy" "--dtype f32" softmax
run 3e-3 "qf.npy kf.npy vf.npy" "--dtype f16" softmax
run 2e-2 "qf.npy kf.npy vf.npy" "--dtype bf16" softmax
npy shape y.npy '<f8' 2x6x3
cp y.npy rounded.npy
run 1e-12 "qf.npy kf.npy vf.npy" "--dtype f64" softmax
! cmp -s y.npy rounded.npy || wrong "--dtype bf16 did not round"

# Nothing to attend to, and nobody who attends.
npy make q0.npy 0x4
npy make k0.npy 0x4
npy make v0.npy 0x3
for mechanism in softmax linear taylor; do
    run 0 "q0.npy k0.npy v0.npy" "--causal" $mechanism causal=1
    run 0 "q0.npy k2.npy v2.npy" "" $mechanism
    run 0 "q2.npy k0.npy v0.npy" "" $mechanism
done

# What it says.
succeeds "$LINNET" attend q4.npy k4.npy v4.npy -o y.npy --mechanism linear --causal --json
npy json stdout.txt mechanism=text algorithm=text device=text isa=text threads=whole \
    seconds=number flops=number state_bytes=whole nonpositive_denominators=whole
[ "$(wc -l <stdout.txt)" = 1 ] || wrong "not one line of JSON"
succeeds "$LINNET" attend q4.npy k4.npy v4.npy -o y.npy --mechanism linear --causal
grep -q 'linear/' stdout.txt && grep -q 'wrote y.npy' stdout.txt || wrong "no summary"

# Rows whose denominator is not above zero are counted, not hidden.
python3 - "$here" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import npy
npy.write("minus.npy", [2, 1], [-1.0, 1.0])
npy.write("plus.npy", [2, 1], [1.0, 1.0])
npy.write("far.npy", [2, 1], [-3.0, 1.0])
END
succeeds "$LINNET" attend minus.npy plus.npy plus.npy -o y.npy --mechanism linear \
    --feature-map identity --json
npy expect stdout.txt 'm["nonpositive_denominators"] == 1'
# 1 - 3 + 9/2 - 27/6 = -2, and with 81/24 more it is above zero.
for how in "" "--causal" "--causal --chunk 1" "--algorithm direct" "--algorithm state"; do
    # shellcheck disable=SC2086
    succeeds "$LINNET" attend far.npy plus.npy plus.npy -o y.npy --mechanism taylor $how --json
    npy expect stdout.txt 'm["nonpositive_denominators"] == 1'
    # shellcheck disable=SC2086
    succeeds "$LINNET" attend far.npy plus.npy plus.npy -o y.npy --mechanism taylor $how --json \
        --terms 5
    npy expect stdout.txt 'm["nonpositive_denominators"] == 0'
done
denominators="denominator that was not above zero, or too large for a number"
succeeds "$LINNET" attend far.npy plus.npy plus.npy -o y.npy --mechanism taylor
grep -qxF "1 row had a $denominators" stdout.txt || wrong "no row: $(cat stdout.txt)"
# (1e14)^3 / 6 is beyond a float.
succeeds "$LINNET" attend plus.npy plus.npy plus.npy -o y.npy --mechanism taylor --scale 1e14
grep -qxF "2 rows had a $denominators" stdout.txt || wrong "no rows: $(cat stdout.txt)"

# Rows that are not finite are told.
python3 - "$here" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import npy
npy.write("huge.npy", [3, 2], [3e38, 3e38, 1.0, 1.0, 1.0, 2.0])
npy.write("ones.npy", [3, 2], [1.0] * 6)
END
succeeds "$LINNET" attend huge.npy ones.npy ones.npy -o y.npy --mechanism linear --dtype f32 --json
npy expect stdout.txt 'm["rows_not_finite"] == 1'
succeeds "$LINNET" attend huge.npy ones.npy ones.npy -o y.npy --mechanism linear --dtype f32
grep -q '^1 row is not finite$' stdout.txt || wrong "rows that are not finite: $(cat stdout.txt)"
succeeds "$LINNET" attend ones.npy ones.npy ones.npy -o y.npy --mechanism linear
! grep -q 'not finite' stdout.txt || wrong "all is finite: $(cat stdout.txt)"

# Nothing of very many sequences is there at once.
python3 -c 'h = b"{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (1099511627776, 1, 0, 8), }"
h = h.replace(b"\"", b"\x27"); h += b" " * (63 - (10 + len(h)) % 64) + b"\n"
open("none.npy", "wb").write(b"\x93NUMPY\x01\x00" + len(h).to_bytes(2, "little") + h)'
for mechanism in softmax linear taylor "cur --landmarks 2"; do
    # shellcheck disable=SC2086
    succeeds timeout 20 "$LINNET" attend none.npy none.npy none.npy -o y.npy --mechanism $mechanism
done

# No sequences have no state.
npy make none.npy 0x2x4x8
succeeds "$LINNET" attend none.npy none.npy none.npy -o y.npy --mechanism linear --json
npy expect stdout.txt 'm["state_bytes"] == 0'

# A result is rounded once from double to half.
python3 - <<'END'
import struct
def f8(path, x):
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }"
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<d", x))
f8("one.npy", 1.0)
f8("beside.npy", 1 + 2**-11 + 2**-40)
END
succeeds "$LINNET" attend one.npy one.npy beside.npy -o y.npy --mechanism softmax --dtype f16
python3 -c 'import struct; assert struct.unpack("<d", open("y.npy", "rb").read()[-8:])[0] == 1 + 2**-10' ||
    wrong "rounded twice"

# A state that 64 bits cannot count has no size, and the direct form does not need it.
npy make wide.npy 4x700
succeeds "$LINNET" attend wide.npy wide.npy wide.npy -o y.npy --mechanism taylor --terms 30 --json
npy expect stdout.txt 'm["state_bytes"] is None and m["algorithm"] == "taylor/direct"'
succeeds "$LINNET" attend wide.npy wide.npy wide.npy -o y.npy --mechanism taylor --terms 30
grep -q 'state would be too large to count' stdout.txt || wrong "a size of the state: $(cat stdout.txt)"

# The operations told are those of the form that ran: through the state the same for every token.
for length in 100 200; do
    npy make x.npy ${length}x3
    "$LINNET" attend x.npy x.npy x.npy --mechanism taylor --causal --state-out s.safetensors --json
done >told.txt
npy expect told.txt 'lines[1]["flops"] == 2 * lines[0]["flops"]'
