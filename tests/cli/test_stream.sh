#!/bin/bash
# A stream gives what the whole gives, in chunks of any length and continued from a saved state.
. "$(dirname "$0")/support.sh"

npy make q.npy 4x23x8 '<f4' 1
npy make k.npy 2x23x8 '<f4' 2
npy make v.npy 2x23x6 '<f4' 3
for name in q k v; do
    npy rows $name.npy ${name}a.npy 0 9
    npy rows $name.npy ${name}b.npy 9 23
done

streams() { # MECHANISM OPTIONS...
    local mechanism=$1
    shift
    succeeds "$LINNET" attend q.npy k.npy v.npy -o whole.npy --mechanism "$mechanism" --causal "$@"
    for chunk in 1 2 7 22 23 24 1000; do
        succeeds "$LINNET" attend q.npy k.npy v.npy -o y.npy --mechanism "$mechanism" --causal \
            --chunk $chunk "$@"
        npy same y.npy whole.npy 1e-5
    done
    # 9 tokens, then 14 more in another process, whole and in chunks.
    succeeds "$LINNET" attend qa.npy ka.npy va.npy -o ya.npy --mechanism "$mechanism" --causal \
        --state-out a.safetensors "$@"
    npy rows whole.npy expected_a.npy 0 9
    npy rows whole.npy expected_b.npy 9 23
    npy same ya.npy expected_a.npy 1e-5
    succeeds "$LINNET" attend qb.npy kb.npy vb.npy -o yb.npy --mechanism "$mechanism" --causal \
        --state-in a.safetensors --state-out b.safetensors "$@"
    npy same yb.npy expected_b.npy 1e-5
    succeeds "$LINNET" attend qb.npy kb.npy vb.npy -o yc.npy --mechanism "$mechanism" --causal \
        --state-in a.safetensors --chunk 5 "$@"
    npy same yc.npy expected_b.npy 1e-5
    # Reading a state does not change the file, and continuing twice gives the same bits.
    succeeds "$LINNET" attend qb.npy kb.npy vb.npy -o again.npy --mechanism "$mechanism" --causal \
        --state-in a.safetensors --state-out c.safetensors "$@"
    cmp again.npy yb.npy
    cmp c.safetensors b.safetensors
    # Only the state is wanted.
    rm -f y.npy
    succeeds "$LINNET" attend qa.npy ka.npy va.npy --mechanism "$mechanism" --causal \
        --state-out only.safetensors "$@"
    cmp only.safetensors a.safetensors
    absent y.npy
}

streams softmax
streams softmax --scale 0.2
streams linear
streams linear --decay 0.95,0.8
streams linear --feature-map fourier --features 64 --seed 3
streams linear --feature-map positive --seed 3
streams linear --feature-map exp --eps 0.01
streams taylor
streams taylor --terms 3 --scale 0.2
streams taylor --coefficients 1,0.9,0.6
streams taylor --terms 2 --scale 0.1 --algorithm state
streams hybrid --window 4
streams hybrid --window 1 --sink 2 --terms 1 --scale 0.3
streams hybrid --window 11 --sink 30
streams hybrid --window 3 --far linear --feature-map positive --seed 3

# Without --causal every query sees the tokens of the state and all of K: over all the keys that is
# what the later queries see of the whole.
for mechanism in softmax linear taylor; do
    succeeds "$LINNET" attend qa.npy ka.npy va.npy --mechanism $mechanism \
        --state-out s.safetensors
    succeeds "$LINNET" attend qb.npy kb.npy vb.npy -o y.npy --mechanism $mechanism \
        --state-in s.safetensors
    succeeds "$LINNET" attend qb.npy k.npy v.npy -o whole.npy --mechanism $mechanism
    npy same y.npy whole.npy 1e-5
done

# Fewer queries than keys: the first keys are only remembered.
for mechanism in softmax linear taylor; do
    succeeds "$LINNET" attend qb.npy k.npy v.npy -o y.npy --mechanism $mechanism --causal \
        --state-out s.safetensors
    npy check y.npy qb.npy k.npy v.npy 1e-5 $mechanism causal=1
done

# The algorithm told is the one that ran: pieces of a few tokens go token by token.
told() { # CHUNK MECHANISM ALGORITHM
    succeeds "$LINNET" attend q.npy k.npy v.npy -o y.npy --mechanism "$2" --causal --chunk "$1" \
        --json
    npy expect stdout.txt "m['algorithm'] == '$3'"
}
told 4 taylor taylor/recurrent
told 10 taylor "taylor/state + taylor/recurrent" # 10, 10 and 3
told 23 taylor taylor/state
told 1 linear linear/recurrent
told 23 linear linear/chunked
told 1 softmax softmax/rows
told 23 softmax softmax/tiled

# Other dtypes keep a state too.
npy make q64.npy 1x11x4 '<f8' 4
for mechanism in softmax linear taylor; do
    succeeds "$LINNET" attend q64.npy q64.npy q64.npy -o y.npy --mechanism $mechanism --causal \
        --chunk 3 --state-out s.safetensors
    npy check y.npy q64.npy q64.npy q64.npy 1e-12 $mechanism causal=1
    succeeds "$LINNET" attend q64.npy q64.npy q64.npy -o y.npy --mechanism $mechanism --causal \
        --chunk 3 --dtype f16
    npy check y.npy q64.npy q64.npy q64.npy 5e-3 $mechanism causal=1
done

# The state of linear and Taylor attention does not grow; the cache of softmax does.
npy make short.npy 40x8
npy make long.npy 4000x8
for mechanism in linear taylor softmax; do
    for x in short.npy long.npy; do
        "$LINNET" attend $x $x $x --mechanism $mechanism --causal --state-out s.safetensors --json
    done >told.txt
    case $mechanism in softmax) relation='<' ;; *) relation='==' ;; esac
    npy expect told.txt "lines[0]['state_bytes'] $relation lines[1]['state_bytes']"
done
