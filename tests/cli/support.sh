# What the tests of the tool share: a directory of their own, and ways to say what must happen.
set -eu

: "${LINNET:?set LINNET to the tool}"
case $LINNET in /*) ;; *) LINNET=$PWD/$LINNET ;; esac
export PYTHONDONTWRITEBYTECODE=1 # importing npy.py leaves no trace in the source tree
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
skipped=0
finish() { # what a test that failed has left running goes too
    local status=${1:-$?} left
    left=$(jobs -p)
    disown -a # nor is its end told
    [ -z "$left" ] || kill -KILL $left 2>/dev/null || true
    rm -rf "$work"
    [ "$status" != 0 ] || exit "$skipped"
}
trap finish EXIT
cd "$work"

# npy COMMAND...: see npy.py, which is started at the first and answers all.
npy() {
    local answer IFS=$'\x1f'
    [ -n "${NPY_PID:-}" ] || { coproc NPY { exec python3 "$here/npy.py" serve; }; }
    printf '%s\n' "$*" >&"${NPY[1]}"
    read -r answer <&"${NPY[0]}" && [ "$answer" = ok ]
}

# Tells what is not tested, and why: at its end a script that passes then exits with 77, as skipped.
skip() {
    echo "SKIPPED: $*"
    skipped=77
}

# have PROGRAM: or what needs it is skipped.
have() {
    command -v "$1" >/dev/null || { skip "$1 is not installed"; false; }
}

wrong() {
    echo "FAILED: $*" >&2
    exit 1
}

# fails STATUS TEXT COMMAND...: that exit status, nothing on stdout, and one sentence on stderr that
# starts with the tool's name and contains TEXT.
fails() {
    local expected=$1 text=$2 status=0
    shift 2
    "$@" >stdout.txt 2>stderr.txt || status=$?
    [ "$status" = "$expected" ] || wrong "exit $status, not $expected: $* ($(cat stderr.txt))"
    [ ! -s stdout.txt ] || wrong "output on stdout: $*"
    [ "$(wc -l <stderr.txt)" = 1 ] || wrong "not one line: $* ($(cat stderr.txt))"
    grep -q '^linnet\( [a-z]*\)\?: ' stderr.txt || wrong "no name: $(cat stderr.txt)"
    grep -qF -- "$text" stderr.txt || wrong "'$text' is not in: $(cat stderr.txt)"
}

# succeeds COMMAND...: exit 0 and nothing on stderr; stdout is kept in stdout.txt.
succeeds() {
    "$@" >stdout.txt 2>stderr.txt || wrong "exit $?: $* ($(cat stderr.txt))"
    [ ! -s stderr.txt ] || wrong "output on stderr: $* ($(cat stderr.txt))"
}

absent() {
    for file; do [ ! -e "$file" ] || wrong "$file exists"; done
}
