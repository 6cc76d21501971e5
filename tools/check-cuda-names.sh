#!/usr/bin/env bash
# Files and kernels of src/cuda are named by the grammar at the head of docs/gpu-kernels.md; the words are its table's.
#
#     tools/check-cuda-names.sh REPOSITORY
set -euo pipefail
cd "$1"

words() { # of a row of the table, as an alternation
    sed -n "/^| $1 |/{s/^| $1 |//; s/[^\`]*\`\([^\`]*\)\`[^\`]*/\1|/g; s/|\$//p; q}" docs/gpu-kernels.md
}
families=$(words family)
after="(_($(words form)))?(_($(words pass)))*(_($(words part)))?"

bad=0
complain() { bad=1; echo "$1: $2 (docs/gpu-kernels.md)"; }

# The last word of what stands between __global__ and a body, without what is in brackets.
kernels() {
    tr '\n' ' ' < "$1" | grep -oE '__global__ void[^{;]*\{' |
        sed -E ':a; s/\([^()]*\)//; ta; s/ *\{$//; s/.* //'
}

while read -r file; do
    room=${file#src/cuda/} name=${file##*/}
    room=${room%%/*} stem=${name%%.*}
    case $room in
    "$name") complain "$file" "a file of src/cuda is in a room" && continue ;;
    host | common) kernel="${stem}_[a-z]+_kernel" rule="${stem}_..._kernel" ;;
    *)
        kernel="$room${after}_kernel" rule="$room[_FORM][_PASS][_PART]_kernel"
        [[ $room =~ ^($families)$ ]] || complain "$file" "$room is no family"
        [[ $stem =~ ^$room$after$ ]] || complain "$file" "$stem is not $room[_FORM][_PASS][_PART]"
        ;;
    esac
    while read -r found; do
        [[ $found =~ ^$kernel$ ]] || complain "$file" "the kernel $found is not $rule"
    done < <(kernels "$file")
done < <(find src/cuda -type f | sort)

twice=$(find src/cuda -name '*.c[uc]' -printf '%f\n' | sort | uniq -d)
[ -z "$twice" ] || complain src/cuda "two sources have the name $twice, and objects must not"
exit "$bad"
