#!/usr/bin/env bash
# Trains one task with every mechanism that the papers compare on it, and sets the runs side by side:
# a table, and their curves in DIR/learning.svg.  Runs that were stopped go on where they were.
#
#     bench/learning.sh copy DIR            softmax, linear, taylor, hybrid
#     bench/learning.sh mnist DIR DATA      softmax, linear, taylor; DATA has the four idx files
#     bench/learning.sh text DIR DATA       softmax, hybrid, taylor, linear; DATA has texts
#     bench/learning.sh listops DIR         softmax, cur, taylor with 3 and 5 terms, with 4 to 64 heads
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tool=${LINNET:-$root/build/linnet}
configs=$root/bench/learning

task=${1:?which task: copy, mnist, text or listops} folder=${2:?a directory for the runs} data=${3-}
mkdir -p "$folder"

dtype=f32
[ "$task" != text ] || dtype=bf16

learn() { # name, config, train options ...
    local out=$folder/$1 config=$2 how
    shift 2
    if [ -e "$out/checkpoint.safetensors" ]; then how=(--resume)
    else how=(--task "$task" --config "$config" "$@"); fi
    echo "$out"
    "$tool" train "${how[@]}" ${data:+--data "$data"} --dtype "$dtype" --out "$out"
}

case $task in
copy)
    for mechanism in softmax taylor; do
        learn "$mechanism" "$configs/copy.json" --mechanism "$mechanism"
    done
    for mechanism in linear hybrid; do learn "$mechanism" "$configs/copy-$mechanism.json"; done
    ;;
mnist)
    for mechanism in softmax taylor; do
        learn "$mechanism" "$configs/mnist.json" --mechanism "$mechanism"
    done
    learn linear "$configs/mnist-linear.json"
    ;;
text)
    for mechanism in softmax hybrid taylor linear; do
        learn "$mechanism" "$root/models/default.json" --mechanism "$mechanism"
    done
    ;;
listops)
    for mechanism in softmax cur taylor; do
        learn "$mechanism" "$configs/listops.json" --mechanism "$mechanism"
    done
    learn taylor-5-terms "$configs/listops-taylor.json"
    for heads in 4 16 32 64; do
        sed "s/\"heads\": 8/\"heads\": $heads/" "$configs/listops.json" > "$folder/$heads.json"
        learn "taylor-$heads" "$folder/$heads.json" --mechanism taylor
    done
    ;;
*) echo "learning: '$task' is none of copy, mnist, text, listops" >&2; exit 2 ;;
esac
"$tool" bench --study learning --data "$folder" --svg "$folder/learning.svg"
