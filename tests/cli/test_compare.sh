#!/bin/bash
# attend --compare softmax: every figure is what the definitions give, the verdict follows its rule.
. "$(dirname "$0")/support.sh"

cat >compared.py <<'PYTHON'
"""compared.py HERE Y Q K V [name=value ...]: what stdout.txt tells of Y is so.  With taylorshift
the scores are those of normalised q and k."""
import math, sys
sys.path.insert(0, sys.argv[1])
import npy

y, q, k, v = ([*map(npy.read_any, sys.argv[2:6])])
option = dict(item.split("=") for item in sys.argv[6:])
told = npy.objects("stdout.txt")[0]
plain = {name: option[name] for name in ("causal", "scale") if name in option}
softmax = npy.attention("softmax", q, k, v, plain)
errors = [abs(a - b) for a, b in zip(y[2], softmax)]
ordered = sorted(errors)


def norm(x):
    return math.sqrt(sum(a * a for a in x))


def quantile(fraction):
    place = fraction * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (place - math.floor(place)) * (above - below)


def scores():
    heads, kv_heads = (x[1][-3] if len(x[1]) > 2 else 1 for x in (q, k))
    d, found = q[1][-1], []
    usual = 1 if "taylorshift" in option else 1 / math.sqrt(d)
    temperature = [float(x) for x in option.get("temperature", "1").split(",")]
    for lead in range(npy.product(q[1][:-2])):
        b, h = divmod(lead, heads)
        queries = npy.rows_of(q[2], q[1], lead)
        keys = npy.rows_of(k[2], k[1], b * kv_heads + h * kv_heads // heads)
        scale = float(option.get("scale", usual)) * temperature[h % len(temperature)]
        if "taylorshift" in option:
            queries, keys = [npy.unit(x) for x in queries], [npy.unit(x) for x in keys]
        for i, query in enumerate(queries):
            seen = i + len(keys) - len(queries) + 1 if "causal" in option else len(keys)
            found += [scale * sum(a * c for a, c in zip(query, key)) for key in keys[:seen]]
    return found


n, m = q[1][-2], v[1][-1]
stretches = [[] for _ in range(min(n, 8))]
for at, error in enumerate(errors):
    stretches[at // m % n * len(stretches) // n].append(error)
x = scores()
mean = sum(x) / len(x)
want = {
    "error_relative": norm(errors) / norm(softmax),
    "error_mean": sum(errors) / len(errors),
    "error_median": quantile(0.5),
    "error_p95": quantile(0.95),
    "error_max": ordered[-1],
    "softmax_rms": norm(softmax) / math.sqrt(len(softmax)),
    "logit_min": min(x),
    "logit_max": max(x),
    "logit_abs_max": max(map(abs, x)),
    "logit_mean": mean,
    "logit_sigma": math.sqrt(sum((a - mean) ** 2 for a in x) / len(x)),
}
for name, value in want.items():
    assert math.isclose(told[name], value, rel_tol=1e-8, abs_tol=1e-12), (name, told[name], value)
by_position = [sum(part) / len(part) for part in stretches]
assert len(told["error_by_position"]) == len(by_position), told
for a, b in zip(told["error_by_position"], by_position):
    assert math.isclose(a, b, rel_tol=1e-8, abs_tol=1e-12), (told, by_position)
assert told["compare"] == "softmax", told
assert told["logits_of"] == ("taylor" if told["mechanism"] == "taylor" else "softmax"), told
error, bad = told["error_relative"], told["nonpositive_denominators"]
verdict = "can be trusted" if error < 0.01 and not bad else \
    "is rough" if error < 0.05 and not bad else "cannot be trusted"
assert told["trust"].startswith("%s %s here: " % (told["mechanism"], verdict)), told
assert ("%d row%s had a denominator" % (bad, "s" * (bad != 1)) in told["trust"]) == (bad > 0), told
PYTHON

# compared "Q K V" "tool options" [name=value ...]
compared() {
    local files=$1 options=$2
    shift 2
    # shellcheck disable=SC2086
    succeeds "$LINNET" attend $files -o y.npy $options --compare softmax --json
    # shellcheck disable=SC2086
    python3 compared.py "$here" y.npy $files "$@" || wrong "attend $files $options"
}

npy make q.npy 2x4x37x8 '<f4' 1
npy make k.npy 2x2x37x8 '<f4' 2
npy make v.npy 2x2x37x6 '<f4' 3
npy make q2.npy 5x4 '<f8' 4
npy make k2.npy 9x4 '<f8' 5
npy make v2.npy 9x3 '<f8' 6
npy make one.npy 1x4 '<f2' 7
npy make x16.npy 9x4 '<f2' 8
npy make x8.npy 8x4 '<f4' 9

for mechanism in softmax linear taylor; do
    compared "q.npy k.npy v.npy" "--mechanism $mechanism"
    compared "q.npy k.npy v.npy" "--mechanism $mechanism --causal" causal=1
    compared "q.npy k.npy v.npy" "--mechanism $mechanism --causal --chunk 9" causal=1
    compared "q.npy k.npy v.npy" "--mechanism $mechanism --scale -0.7" scale=-0.7
    compared "q2.npy k2.npy v2.npy" "--mechanism $mechanism"
    compared "q2.npy k2.npy v2.npy" "--mechanism $mechanism --causal" causal=1
    compared "one.npy one.npy one.npy" "--mechanism $mechanism"
    compared "x16.npy x16.npy x16.npy" "--mechanism $mechanism --causal" causal=1
    compared "x8.npy x8.npy x8.npy" "--mechanism $mechanism"
done
compared "q.npy k.npy v.npy" "--mechanism linear --feature-map positive --seed 3"
compared "q.npy k.npy v.npy" "--mechanism taylor --terms 3 --coefficients fit"
for options in "" "--causal --output-norm"; do
    compared "q.npy k.npy v.npy" "--mechanism taylor --normalize taylorshift --terms 3 $options \
        --temperature 1.5,-1,2,0.5" taylorshift=1 temperature=1.5,-1,2,0.5 ${options:+causal=1}
    grep -q 'normalised q and k' stdout.txt || wrong "not told whose scores"
done
compared "q.npy k.npy v.npy" "--mechanism taylor --normalize taylorshift --scale 2" taylorshift=1 \
    scale=2

# What a narrow dtype rounds away is an error too, and double has none to speak of.
succeeds "$LINNET" attend x8.npy x8.npy x8.npy --mechanism softmax --dtype bf16 --json \
    --compare softmax
npy expect stdout.txt '1e-4 < m["error_relative"] < 1e-2'
succeeds "$LINNET" attend q2.npy k2.npy v2.npy --mechanism softmax --compare softmax --json
npy expect stdout.txt 'm["error_max"] == m["error_median"] == m["error_relative"] == 0'

# The same output with and without, -o or none.
rm y.npy
succeeds "$LINNET" attend q.npy k.npy v.npy -o plain.npy --mechanism linear
succeeds "$LINNET" attend q.npy k.npy v.npy --mechanism linear --compare softmax
absent y.npy
grep -q 'cannot be trusted here' stdout.txt && grep -q 'scores of softmax' stdout.txt ||
    wrong "no comparison in words: $(cat stdout.txt)"
succeeds "$LINNET" attend q.npy k.npy v.npy -o y.npy --mechanism linear --compare softmax
cmp y.npy plain.npy

# More terms and smaller scores: from what cannot be trusted to what can, each told with its reason.
verdicts=
for scale in 0.5 0.12 0.06; do
    compared "q.npy k.npy v.npy" "--mechanism taylor --terms 3 --scale $scale" scale=$scale
    verdicts="$verdicts $(grep -oE 'cannot|rough|can be' stdout.txt)"
done
[ "$verdicts" = " cannot rough can be" ] || wrong "verdicts:$verdicts"
compared "q.npy k.npy v.npy" "--mechanism taylor --terms 8 --scale 0.1" scale=0.1
grep -q 'scores reach only |x| = 1.46, where 8 terms are within 1 % of e^x"' stdout.txt ||
    wrong "no reason to trust: $(cat stdout.txt)"
for terms in 1 2 3 4 5 8 16 32; do
    "$LINNET" attend q.npy k.npy v.npy --mechanism taylor --terms $terms --scale 9 --json \
        --algorithm direct --compare softmax
done >told.txt
"$LINNET" attend q.npy k.npy v.npy --mechanism taylor --terms 4 --scale 9 --json --compare softmax \
    --coefficients 3,3,1.5,0.5 >>told.txt
python3 - <<'END'
import json, math, re
lines = [json.loads(line) for line in open("told.txt")]
radii = [float(re.search(r"e\^x only for \|x\| <= ([0-9.]+)$", x["trust"]).group(1)) for x in lines]
for P, radius in zip((1, 2, 3, 4, 5, 8, 16, 32), radii):
    def off(x):
        w = sum(x ** p / math.factorial(p) for p in range(P))
        return abs(w / math.exp(x) - 1)
    assert max(off(radius), off(-radius)) <= 0.01 + 1e-9, (P, radius)
    assert max(off(radius + 0.01), off(-radius - 0.01)) > 0.01, (P, radius)
assert "a multiple of e^x" in lines[-1]["trust"] and radii[-1] >= radii[3], lines[-1]
for x in lines:
    reach = float(re.search(r"reach \|x\| = ([0-9.]+)", x["trust"]).group(1))
    assert math.isclose(reach, x["logit_abs_max"], rel_tol=0.01), x
END

# A denominator that is not above zero is no ground to trust, however small the error.
python3 - "$here" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import npy
npy.write("far.npy", [2, 1], [-3.0, 1.0])
npy.write("plus.npy", [2, 1], [1.0, 1.0])
npy.write("holes.npy", [3, 2], [1.0, 2.0, float("nan"), 2.0, float("inf"), 3.0])
npy.write("three.npy", [3, 1], [1.0, 2.0, 3.0])
npy.write("zeros.npy", [3, 1], [0.0, 0.0, 0.0])
END
compared "far.npy plus.npy plus.npy" "--mechanism taylor"
npy expect stdout.txt 'm["nonpositive_denominators"] == 1 and m["error_relative"] < 1e-6'
npy expect stdout.txt '"1 row had a denominator that was not above zero, or too large" in m["trust"]'

# What is not finite is said to be so, values of zero have no error, of nothing nothing is told.
succeeds "$LINNET" attend three.npy three.npy holes.npy --mechanism linear --compare softmax --json
npy expect stdout.txt 'm["error_relative"] is None and m["error_median"] is None'
npy expect stdout.txt 'm["error_max"] is None and m["error_mean"] is None'
grep -q 'cannot be trusted here: not every number is finite' stdout.txt || wrong "NaN is trusted"
succeeds "$LINNET" attend three.npy three.npy zeros.npy --mechanism linear --compare softmax --json
npy expect stdout.txt 'm["error_relative"] == 0'
npy make none.npy 0x4
npy make v0.npy 0x3
for mechanism in linear taylor; do
    succeeds "$LINNET" attend none.npy k2.npy v2.npy --mechanism $mechanism --compare softmax --json
    npy expect stdout.txt 'm["error_by_position"] == [] and m["error_max"] is None'
    grep -q 'nothing to compare' stdout.txt || wrong "nothing is compared"
    succeeds "$LINNET" attend q2.npy none.npy v0.npy --mechanism $mechanism --compare softmax --json
    npy expect stdout.txt 'm["error_max"] == 0 and m["logit_min"] is None'
    succeeds "$LINNET" attend q2.npy none.npy v0.npy --mechanism $mechanism --compare softmax
    ! grep -q nan stdout.txt || wrong "scores of no keys: $(cat stdout.txt)"
done

fails 2 "--compare: 'linear' is not one of softmax" \
    "$LINNET" attend q.npy k.npy v.npy --mechanism linear --compare linear
succeeds "$LINNET" attend q.npy k.npy v.npy --mechanism linear --causal --state-out s.safetensors \
    --compare softmax
fails 2 "--compare cannot be used with --state-in" "$LINNET" attend q.npy k.npy v.npy -o y.npy \
    --mechanism linear --causal --state-in s.safetensors --compare softmax
fails 2 "--compare is not an option of this command" "$LINNET" plan --mechanism linear \
    --compare softmax
rm y.npy
fails 1 "no/such/y.npy" "$LINNET" attend q.npy k.npy v.npy -o no/such/y.npy --mechanism linear \
    --compare softmax
absent y.npy
