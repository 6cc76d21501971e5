#!/bin/bash
# The demonstration draws both curves; into a file it sends no colours.
. "$(dirname "$0")/support.sh"

[ "${LINNET_TEST_BUDGET:-full}" = full ] || exit 0 # it measures for some seconds

succeeds "$LINNET" demo
grep -q 'time of the next token' stdout.txt || wrong "no chart of time"
grep -q 'memory for the tokens so far' stdout.txt || wrong "no chart of memory"
grep -qE '^ *16384 ' stdout.txt || wrong "no row for 16384 tokens"
! grep -q $'\033' stdout.txt || wrong "colours in a file"
tail -n 2 stdout.txt | grep -q 'the state stayed at' || wrong "no closing sentence"
