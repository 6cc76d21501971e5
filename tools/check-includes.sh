#!/usr/bin/env bash
# Dependencies run one way: a file in src/ includes its own folder and those to the left of it in
# the list below; the tool includes only the public headers and its own folder, and `private` beside.  In
# attention the inside of a state (state.h) is for src/attention/state: algorithms see it through state_view.h.
#
#     tools/check-includes.sh REPOSITORY
set -euo pipefail
cd "$1"

order=(core io cpu device cuda attention plan nn model task train cli)
# What a benchmark of the tool times is inside a library, and nobody else needs it.
private='^src/cli/study/training\.c train/products\.h$'
declare -A rank
for i in "${!order[@]}"; do rank[${order[$i]}]=$i; done

bad=0
complain() { bad=1; echo "$1: $2"; }

while IFS=: read -r file line text; do
    folder=${file#src/} folder=${folder%%/*}
    target=${text#*\"} target=${target%%\"*}
    if [ -z "${rank[$folder]-}" ]; then
        complain "$file:$line" "the folder src/$folder is not in the list of tools/check-includes.sh"
        continue
    fi
    [ "$target" = linnet.h ] && continue
    if [ "$target" = linnet/model.h ]; then
        ((rank[$folder] >= rank[nn])) || complain "$file:$line" "$folder is of liblinnet, which needs no models"
        continue
    fi
    # A bare name is in the own folder of the file.
    case $target in
    ../* | */../*) complain "$file:$line" "\"$target\": write the path from src/" ; continue ;;
    */*) other=${target%%/*} ;;
    *) other=$folder ;;
    esac
    if [[ $folder = attention && $target = attention/state/state.h && $file != src/attention/state/* ]]; then
        complain "$file:$line" "\"$target\": only src/attention/state sees the inside of a state"
    fi
    if [ -z "${rank[$other]-}" ]; then
        complain "$file:$line" "\"$target\" is in no folder of src"
    elif [ "$folder" = cli ] && [ "$other" != cli ]; then
        [[ "$file $target" =~ $private ]] ||
            complain "$file:$line" "\"$target\": the tool may include only the public headers and cli/"
    elif ((rank[$other] > rank[$folder])); then
        complain "$file:$line" "\"$target\": $folder may not depend on $other"
    fi
done < <(grep -rnE '^ *# *include *"' src --include='*.[ch]' --include='*.cc' \
         --include='*.cu' --include='*.cuh' --include='*.def')
exit "$bad"
