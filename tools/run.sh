#!/usr/bin/env bash
# The main job, on what is in the repository: the model in models/ writes a page, and ten thousand tokens
# more from where it stopped; then the time of a token as a text grows, of the model and of attention
# alone, beside softmax.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=build/linnet
model=models/default.safetensors
page=build/page.safetensors
how=(--temperature 0.55 --top-p 0.95)

echo "A page by $model, a model of 2.4 million parameters with hybrid attention:"
echo
"$tool" generate "$model" --prompt 'Prince Andrew came into the room, and' --tokens 500 "${how[@]}" \
    --seed 4 --save-state "$page"
echo
echo "Ten thousand tokens more, from what it remembers of that page, into build/pages.txt, which ends:"
echo
"$tool" generate "$model" --load-state "$page" --tokens 10000 "${how[@]}" --seed 8 > build/pages.txt
printf '... '
tail -c 300 build/pages.txt | LC_ALL=C sed -E '1s/^[^ ]*( |$)//' # not from within a word
echo
echo
echo "What a token costs after so many others:"
echo
"$tool" bench --study generation --model "$model" --tokens 10000 --svg build/generation.svg
echo
"$tool" demo --svg build/crossover.svg
! command -v gnuplot > /dev/null || echo "As pictures: build/generation.svg, build/crossover.svg"
