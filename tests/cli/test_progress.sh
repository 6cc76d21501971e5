#!/bin/bash
# Bars of loading and of a long prompt: on a terminal alone, and wiped when they end.
. "$(dirname "$0")/support.sh"

python3 "$here/gguf.py" says.gguf --says "Hi, you."
for _ in $(seq 300); do printf 'one two three '; done >long.txt
cat >watch.py <<'END'
import os, pty, sys

child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "dumb"  # no status line while it writes
    os.execvp("sh", ["sh", "-c", sys.argv[1]])
seen = b""
try:
    while more := os.read(terminal, 65536):
        seen += more
except OSError:  # the other side is closed
    pass
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, seen
for bar in (b"loading", b"prompt"):
    assert b"[" in seen and bar in seen, (bar, seen)
    last = seen.rindex(bar)
    rest = seen[last + len(bar):]
    assert rest.startswith(b"\r\x1b[K"), (bar, rest)  # wiped, or drawn anew
    assert b"\n" not in seen[:last], (bar, seen)      # before any text
print(seen[last + len(b"prompt"):].decode().replace("\r", ""), end="")
END
python3 watch.py "'$LINNET' generate says.gguf --prompt-file long.txt --tokens 3 --temperature 0" >seen.txt ||
    wrong "no bars on a terminal"
succeeds "$LINNET" generate says.gguf --prompt-file long.txt --tokens 3 --temperature 0
tr -d '\n' <stdout.txt >plain.txt
tr -d '\n' <seen.txt | grep -qF "$(cat plain.txt)" || wrong "the text is another on a terminal: $(cat seen.txt)"
python3 watch.py "'$LINNET' chat says.gguf --temperature 0 <long.txt" >seen.txt || wrong "no bars in a conversation"
grep -q "Hi, you." seen.txt || wrong "no answer on a terminal: $(cat seen.txt)"
