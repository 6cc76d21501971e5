#!/bin/bash
# info tells version, machine and build; the ISA in use is one of those available.
. "$(dirname "$0")/support.sh"

succeeds "$LINNET" info
grep -q '^linnet [0-9]' stdout.txt && grep -q '^cpu ' stdout.txt || wrong "no facts"

succeeds "$LINNET" info --json --threads 1
npy json stdout.txt version=text cpu=text isa=text isas_built=list isas_available=list \
    threads=whole devices=list mechanisms=list algorithms=list feature_maps=list compiler=text \
    build=text
python3 - <<'END'
import json
info = json.loads(open("stdout.txt").read())
assert info["threads"] == 1, info
assert info["isa"] in info["isas_available"], info
assert set(info["isas_available"]) <= set(info["isas_built"]), info
assert info["mechanisms"] == ["softmax", "linear", "taylor", "cur", "hybrid"], info
assert {name.split("/")[0] for name in info["algorithms"]} == set(info["mechanisms"]), info
assert {"elu1", "positive"} <= set(info["feature_maps"]) and info["devices"][0] == "cpu", info
END

LINNET_ISA=scalar succeeds "$LINNET" info --json
grep -q '"isa": "scalar"' stdout.txt || wrong "LINNET_ISA does not force the ISA"

# Threads that are bound to cores are no fewer.
succeeds "$LINNET" info --json
grep -o '"threads": [0-9]*' stdout.txt >free.txt
OMP_PROC_BIND=close OMP_PLACES=cores succeeds "$LINNET" info --json
grep -o '"threads": [0-9]*' stdout.txt >bound.txt
cmp free.txt bound.txt || wrong "bound to cores: $(cat bound.txt), free: $(cat free.txt)"

# Threads wait for each other briefly, or as the environment says; it starts under any name, and by a loader.
waits() { env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT OMP_DISPLAY_ENV=verbose "$@" 2>&1; }
if ldd "$LINNET" | grep -q libgomp; then
    waits "$LINNET" --version | grep -o "GOMP_SPINCOUNT = .*" >told.txt
    [ "$(wc -l <told.txt)" = 2 ] || wrong "it does not start anew, once: $(cat told.txt)"
    tail -n 1 told.txt | grep -qE "'(1000|50000)'" || wrong "it waits for long: $(cat told.txt)"
    waits env GOMP_SPINCOUNT=7 "$LINNET" --version | grep -o "GOMP_SPINCOUNT = .*" >told.txt
    [ "$(cat told.txt)" = "GOMP_SPINCOUNT = '7'" ] || wrong "it waits otherwise than told: $(cat told.txt)"
    ln -sf "$LINNET" other
    waits ./other --version | grep -q '^linnet ' || wrong "under another name it does not run"
    loader=$(ldd "$LINNET" | grep -o '/[^ ]*/ld-[^ ]*')
    waits "$loader" "$LINNET" --version | grep -q '^linnet ' || wrong "$loader does not run it"
fi
