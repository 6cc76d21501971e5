#!/bin/bash
# The demonstration draws its curves; into a file it sends no colours.
. "$(dirname "$0")/support.sh"

[ "${LINNET_TEST_BUDGET:-full}" = full ] || { skip "it measures for some seconds: too long for a small budget"; exit; }

have gnuplot && svg="--svg crossover.svg" || svg=
# shellcheck disable=SC2086
succeeds "$LINNET" demo $svg
grep -q '^time a token' stdout.txt || wrong "no chart of time"
grep -q '^memory a token' stdout.txt || wrong "no chart of memory"
charts=$(sed -n '/^time a token/,$p' stdout.txt)
[ "$(grep -c '●\|✱' <<< "$charts")" -gt 4 ] || wrong "softmax is not to be seen"
grep -q '✱ several' <<< "$charts" || wrong "it is not told where curves meet" # direct forms take the same memory
grep -qE '^ *16384 ' stdout.txt || wrong "no row for 16384 tokens"
! grep -q $'\033' stdout.txt || wrong "colours in a file"
# Which of the two it is, a busy machine decides.
grep -qE 'taylor/state is (not )?faster than softmax here' stdout.txt || wrong "no closing sentence"
succeeds "$LINNET" demo --json
npy json stdout.txt study=text || wrong "no JSON: $(cat stdout.txt)"
[ -z "$svg" ] || [ -s crossover.svg ] || wrong "no picture"
