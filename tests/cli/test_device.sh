#!/bin/bash
# --device cuda: what is said without a plug-in, and every command through a fake one.
. "$(dirname "$0")/support.sh"

: "${LINNET_FAKE_PLUGIN:?set LINNET_FAKE_PLUGIN to the fake plug-in}"
npy make q.npy 2x50x6 "<f4" 1
npy make k.npy 2x50x6 "<f4" 2
npy make v.npy 2x50x6 "<f4" 3

export LINNET_CUDA_PLUGIN=/nowhere/liblinnet-cuda.so
for command in "info" "plan --mechanism linear" "bench --mechanism linear" "bench" \
    "attend q.npy k.npy v.npy -o y.npy --mechanism linear"; do
    # shellcheck disable=SC2086 # words
    fails 1 "the plug-in liblinnet-cuda.so could not be opened" "$LINNET" $command --device cuda
done
absent y.npy
fails 2 "does not apply to --study" "$LINNET" bench --study sizes --device cuda
succeeds "$LINNET" info --json
npy expect stdout.txt '"plug-in" in m["no_gpu"] and m["devices"] == ["cpu"]'

# A plug-in beside the program that cannot be opened is the one that is told of.
mkdir bin lib
cp "$LINNET" bin/linnet
for place in lib bin; do
    echo "no library" >$place/liblinnet-cuda.so
    fails 1 "$place/liblinnet-cuda.so: " env -u LINNET_CUDA_PLUGIN bin/linnet info --device cuda
done

export LINNET_CUDA_PLUGIN=$LINNET_FAKE_PLUGIN
succeeds "$LINNET" info --json --device cuda
npy expect stdout.txt 'm["devices"] == ["cpu", "cuda"] and m["gpu"].startswith("no GPU at all")'
succeeds "$LINNET" info
grep -q 'cuda  *no GPU at all' stdout.txt || wrong "info does not name the device"

for mechanism in softmax linear taylor; do
    for causal in "" --causal; do
        # shellcheck disable=SC2086 # none or one
        succeeds "$LINNET" attend q.npy k.npy v.npy -o gpu.npy --mechanism $mechanism $causal --json \
            --device cuda
        npy expect stdout.txt 'm["device"] == "cuda"'
        # shellcheck disable=SC2086
        succeeds "$LINNET" attend q.npy k.npy v.npy -o cpu.npy --mechanism $mechanism $causal --json
        npy expect stdout.txt 'm["device"] == "cpu"'
        npy same gpu.npy cpu.npy 1e-6
    done
    succeeds "$LINNET" bench --mechanism $mechanism --heads 2 --dim 8 --length 64 --causal --json \
        --device cuda
    npy expect stdout.txt 'm["device"] == "cuda" and 0 <= m["relative_error"] < 1e-5'
    succeeds "$LINNET" plan --mechanism $mechanism --heads 2 --dim 8 --length 64 --causal --json \
        --device cuda --no-calibrate
    npy expect stdout.txt 'm["device"] == "cuda" and "seconds" not in m and m["workspace_bytes"] > 0'
done
succeeds "$LINNET" bench --mechanism taylor --heads 2 --dim 8 --length 64 --pass step --json --device cuda
npy expect stdout.txt 'm["algorithm"] == "taylor/recurrent" and m["relative_error"] < 1e-5'
succeeds "$LINNET" attend q.npy k.npy v.npy --mechanism taylor --compare softmax --json --device cuda
npy expect stdout.txt '0 < m["error_relative"] < 1'
for mechanism in softmax linear taylor; do
    for most in bf16:5e-2 f32:2e-5; do
        succeeds "$LINNET" bench --mechanism $mechanism --heads 2 --dim 8 --length 64 --causal --json \
            --pass backward --dtype ${most%:*} --device cuda
        npy expect stdout.txt 'm["device"] == "cuda" and m["pass"] == "backward"'
        npy expect stdout.txt "0 < m['relative_error'] < ${most#*:} and m['ns_per_token'] > 0"
    done
done
succeeds "$LINNET" attend q.npy k.npy v.npy -o gpu.npy --mechanism cur --landmarks 12 --device cuda
succeeds "$LINNET" attend q.npy k.npy v.npy -o cpu.npy --mechanism cur --landmarks 12
npy same gpu.npy cpu.npy 1e-6
fails 1 "landmarks: on the cpu only" "$LINNET" attend q.npy k.npy v.npy -o y.npy --mechanism cur \
    --landmarks 12 --indices-out i.npy --device cuda
fails 1 "hybrid is not offered" "$LINNET" attend q.npy k.npy v.npy -o y.npy --mechanism hybrid \
    --causal --device cuda
fails 1 "softmax has one on the cpu only" "$LINNET" attend q.npy k.npy v.npy -o y.npy \
    --mechanism softmax --causal --chunk 10 --device cuda
absent y.npy

# A state begun on one device goes on upon the other.
npy rows q.npy q1.npy 0 30
npy rows k.npy k1.npy 0 30
npy rows v.npy v1.npy 0 30
npy rows q.npy q2.npy 30 50
npy rows k.npy k2.npy 30 50
npy rows v.npy v2.npy 30 50
for form in "--mechanism linear" "--mechanism taylor" \
    "--mechanism taylor --terms 3 --normalize taylorshift"; do
    # shellcheck disable=SC2086 # words
    succeeds "$LINNET" attend q.npy k.npy v.npy -o whole.npy $form --causal
    npy rows whole.npy end.npy 30 50
    for first in cpu cuda; do
        second=cuda
        [ $first = cpu ] || second=cpu
        # shellcheck disable=SC2086
        succeeds "$LINNET" attend q1.npy k1.npy v1.npy --state-out s.safetensors $form --causal \
            --device $first --chunk 7
        # shellcheck disable=SC2086
        succeeds "$LINNET" attend q2.npy k2.npy v2.npy --state-in s.safetensors -o y.npy $form \
            --causal --device $second
        npy same y.npy end.npy 1e-5
    done
done
