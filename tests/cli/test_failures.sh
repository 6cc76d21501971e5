#!/bin/bash
# Failures: exit 1 and one sentence; no output appears, and an earlier one stays as it was.
. "$(dirname "$0")/support.sh"

npy make q.npy 2x6x4 '<f4' 1
npy make k.npy 2x6x4 '<f4' 2
npy make v.npy 2x6x5 '<f4' 3
linear() { "$LINNET" attend "$@" --mechanism linear; }

refused() { # TEXT ARGUMENTS...: fails with and without an output that was there before
    local text=$1
    shift
    fails 1 "$text" linear "$@" -o y.npy
    absent y.npy
    printf 'precious' >y.npy
    fails 1 "$text" linear "$@" -o y.npy
    [ "$(cat y.npy)" = precious ] || wrong "the previous output is gone: $*"
    rm y.npy
}

# Files that cannot be read, or are not what they should be.
refused missing.npy missing.npy k.npy v.npy
mkdir folder.npy
refused folder.npy folder.npy k.npy v.npy
head -c 200 q.npy >short.npy
refused short.npy short.npy k.npy v.npy
head -c 5 q.npy >tiny.npy
refused tiny.npy q.npy tiny.npy v.npy
: >empty.npy
refused empty.npy q.npy k.npy empty.npy
(cat q.npy; printf 'more') >long.npy
refused long.npy long.npy k.npy v.npy
printf 'not an array at all, only text' >text.npy
refused text.npy text.npy k.npy v.npy
sed 's/<f4/<i4/' q.npy >integers.npy
refused i4 integers.npy k.npy v.npy
sed 's/(2, 6, 4)/(2, 6, 9)/' q.npy >claims.npy
refused claims.npy claims.npy k.npy v.npy

# Shapes that do not fit.
npy make one.npy 4
npy make flat.npy 6x4
npy make three.npy 3x6x4
npy make wide.npy 2x6x7
npy make longer.npy 2x9x5
npy make queries.npy 2x8x4
npy make none.npy 2x6x0
refused "'one.npy' is of shape [4], must be [N,d], [H,N,d] or [B,H,N,d]" one.npy k.npy v.npy
refused "as many dimensions" flat.npy k.npy v.npy
refused "the heads of K must divide those of Q" q.npy three.npy three.npy
refused "their heads must be equal" q.npy k.npy three.npy
refused "'q.npy' is [2,6,4] and 'wide.npy' is [2,6,7]: the last dimensions must be equal" \
    q.npy wide.npy v.npy
refused "their lengths must be equal" q.npy k.npy longer.npy
refused "causal needs no more queries than keys" queries.npy k.npy v.npy --causal
refused "at least 1" none.npy none.npy v.npy
refused "--heads is 4, but 'q.npy' has 2" q.npy k.npy v.npy --heads 4
refused "--dim-value is 4, but 'v.npy' has 5" q.npy k.npy v.npy --dim-value 4
npy make shorter.npy 2x3x4
refused "--chunk needs as many queries as keys" shorter.npy k.npy v.npy --causal --chunk 2

LINNET_CUDA_PLUGIN=/nowhere refused "could not be opened" q.npy k.npy v.npy --device cuda
status=0
LINNET_ISA=abacus "$LINNET" info >stdout.txt 2>stderr.txt || status=$?
[ "$status" = 1 ] && grep -q "abacus" stderr.txt || wrong "a wrong LINNET_ISA: exit $status"

# Outputs that cannot be written.
fails 1 "no/such/y.npy" linear q.npy k.npy v.npy -o no/such/y.npy
fails 1 "folder.npy" linear q.npy k.npy v.npy -o folder.npy
fails 1 "/dev/full" linear q.npy k.npy v.npy -o /dev/full
fails 1 "cannot write 'no/such/s.safetensors'" linear q.npy k.npy v.npy -o y.npy \
    --state-out no/such/s.safetensors
fails 1 "folder.npy" linear q.npy k.npy v.npy -o y.npy --state-out folder.npy
absent y.npy
fails 1 "no/such/y.npy" linear q.npy k.npy v.npy -o no/such/y.npy --state-out s.safetensors
fails 1 "/dev/full" linear q.npy k.npy v.npy -o y.npy --state-out /dev/full
ln -s nowhere dangling
fails 1 "link to a file that does not exist" linear q.npy k.npy v.npy -o y.npy --state-out dangling
absent y.npy
absent s.safetensors
: >linked
ln -s linked link
succeeds linear q.npy k.npy v.npy -o y.npy --state-out link
chmod 600 link
succeeds linear q.npy k.npy v.npy -o y.npy --state-out link
[ "$(stat -L -c %a link)" = 600 ] || wrong "the mode of a state that is replaced"
[ -L link ] && [ -s linked ] || wrong "a state did not go where the link leads"
rm y.npy

# A disk that fills up half way: the write fails, what was there stays, nothing is left behind.
npy make big.npy 64x32
printf 'precious' >y.npy
: >stderr.txt
before=$(ls -A)
status=0
(
    ulimit -f 4
    linear big.npy big.npy big.npy -o y.npy >stdout.txt 2>stderr.txt
) || status=$?
[ "$status" = 1 ] || wrong "a full disk: exit $status"
grep -q "y.npy" stderr.txt || wrong "a full disk: $(cat stderr.txt)"
[ "$(cat y.npy)" = precious ] || wrong "a full disk took the previous output"
[ "$(ls -A)" = "$before" ] || wrong "a full disk left something behind: $(ls -A)"
rm y.npy

# States that do not fit.
fails 1 "missing.safetensors" linear q.npy k.npy v.npy -o y.npy --state-in missing.safetensors
fails 1 "text.npy" linear q.npy k.npy v.npy -o y.npy --state-in text.npy
succeeds linear flat.npy flat.npy flat.npy --state-out s.safetensors
fails 1 "s.safetensors" linear q.npy k.npy v.npy -o y.npy --state-in s.safetensors
fails 1 "s.safetensors" "$LINNET" attend flat.npy flat.npy flat.npy --mechanism softmax -o y.npy \
    --state-in s.safetensors
succeeds "$LINNET" attend flat.npy flat.npy flat.npy --mechanism taylor --terms 3 \
    --state-out t.safetensors
fails 1 "t.safetensors" "$LINNET" attend flat.npy flat.npy flat.npy --mechanism taylor -o y.npy \
    --state-in t.safetensors
fails 1 "t.safetensors" linear flat.npy flat.npy flat.npy -o y.npy --state-in t.safetensors
fails 1 "taylor/direct: takes no state" "$LINNET" attend flat.npy flat.npy flat.npy \
    --mechanism taylor -o y.npy --causal --chunk 2 --algorithm direct
head -c 60 s.safetensors >cut.safetensors
fails 1 "cut.safetensors" linear flat.npy flat.npy flat.npy -o y.npy --state-in cut.safetensors
absent y.npy

status=0
linear q.npy k.npy v.npy -o y.npy --json >/dev/full 2>stderr.txt || status=$?
[ "$status" = 1 ] && grep -q "standard output" stderr.txt || wrong "a full stdout: exit $status"
