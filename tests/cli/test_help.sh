#!/bin/bash
# Help and version: everywhere, on stdout, exit 0; nothing at all asked for is wrong usage.
. "$(dirname "$0")/support.sh"

for flag in --help -h; do
    succeeds "$LINNET" $flag
    for command in attend plan bench train eval generate chat import tokenize embed info demo; do
        grep -q "^  $command " stdout.txt || wrong "$command is not in the overview"
    done
done

for command in attend plan bench train eval generate chat import tokenize embed info demo; do
    for flag in --help -h; do
        succeeds "$LINNET" "$command" $flag
        grep -q "^usage: linnet $command" stdout.txt || wrong "no usage of $command"
        grep -q -- '--help' stdout.txt || wrong "no options of $command"
    done
done

succeeds "$LINNET" attend --help
for option in mechanism causal heads kv-heads dim dim-value scale feature-map features eps decay \
    terms coefficients seed algorithm chunk dtype device threads state-in state-out compare output \
    json; do
    grep -qE -- "--$option( |$)" stdout.txt || wrong "--$option is not in the help of attend"
done
grep -q 'softmax|linear|taylor' stdout.txt || wrong "the mechanisms are not in the help"
awk 'length > 100 { exit 1 }' stdout.txt || wrong "the help is wider than 100 columns"

succeeds "$LINNET" train --help
grep -q '^tasks:$' stdout.txt || wrong "no tasks in the help of train"
for task in copy text mnist mnist-class speech listops; do
    grep -qE "^  $task +[a-z]" stdout.txt || wrong "task $task is not in the help of train"
done

# Where commands take an option with other words, each names its own, and takes all that it names.
grep -qF -- '--dtype f32|bf16 ' stdout.txt || wrong "other dtypes than train takes: $(grep dtype stdout.txt)"
fails 2 "--dtype: 'f16' is not one of f32, bf16" "$LINNET" train --task copy --out new --dtype f16
absent new
for command in attend plan bench; do
    succeeds "$LINNET" $command --help
    grep -qF -- '--dtype f32|f16|bf16|f64' stdout.txt || wrong "not the dtypes that $command takes"
done

succeeds "$LINNET" --version
grep -qE '^linnet [0-9]+\.[0-9]+\.[0-9]+$' stdout.txt || wrong "version: $(cat stdout.txt)"

status=0
"$LINNET" >stdout.txt 2>stderr.txt || status=$?
[ "$status" = 2 ] && [ ! -s stdout.txt ] || wrong "no arguments: exit $status"
grep -q '^usage: linnet' stderr.txt || wrong "no arguments: no usage"

for command in --help --version "attend --help" "info" "info --json"; do
    status=0
    # shellcheck disable=SC2086
    "$LINNET" $command >/dev/full 2>stderr.txt || status=$?
    [ "$status" = 1 ] || wrong "linnet $command into a full device: exit $status"
    grep -q 'standard output' stderr.txt || wrong "linnet $command into a full device: no sentence"
done
