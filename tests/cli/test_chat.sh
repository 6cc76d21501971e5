#!/bin/bash
# A conversation: what the template makes of it is read once, saved and loaded, and stopped by Ctrl-C.
. "$(dirname "$0")/support.sh"

python3 "$here/gguf.py" says.gguf --says "Hi, you."
python3 "$here/gguf.py" tiny.gguf
chat() { "$LINNET" chat says.gguf --temperature 0 "$@"; }

lines() { printf '%s\n' "$@"; }

# A line is a message; the end of the input ends it, with or without a line end before it.
succeeds chat < <(lines hello "and again" "")
[ "$(cat stdout.txt)" = "$(lines "Hi, you." "Hi, you.")" ] || wrong "two messages give: $(cat stdout.txt)"
succeeds chat < <(printf 'hello\r\n\n  \nagain')
[ "$(wc -l <stdout.txt)" = 2 ] || wrong "empty lines are messages, or the last one is lost"
succeeds chat </dev/null
[ ! -s stdout.txt ] || wrong "an answer to nothing"
succeeds chat < <(lines hello /exit hello)
[ "$(cat stdout.txt)" = "Hi, you." ] || wrong "/exit does not end it"
succeeds chat --stop "you" --tokens 5 < <(lines hello)
[ "$(cat stdout.txt)" = "Hi, y" ] || wrong "--tokens is not heard: $(cat stdout.txt)"
fails 1 "cannot read standard input" chat <.

# The session has read the conversation as the template writes it, each token once.
lines "/system Be kind." "one two" "three é" "/save talk.safetensors" >script.txt
succeeds chat --json <script.txt
cp stdout.txt answers.txt
printf '<|im_start|>%s\n%s<|im_end|>\n' system "Be kind." user "one two" assistant "Hi, you." user "three é" >whole.txt
printf '<|im_start|>assistant\nHi, you.' >>whole.txt
succeeds "$LINNET" generate says.gguf --prompt-file whole.txt --tokens 0 --save-state whole.safetensors --json
cat >logits.py <<'END'
import json, struct, sys


def read(path, name):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + size])[name]["data_offsets"]
    return [x for x, in struct.iter_unpack("<f", data[8 + size + begin:8 + size + end])]


a, b = (read(path, "logits") for path in sys.argv[1:3])
assert len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < 1e-3
END
python3 logits.py talk.safetensors whole.safetensors || wrong "the session has read something else"
python3 - <<'END'
import json
first, second = (json.loads(line) for line in open("answers.txt"))
whole = json.load(open("stdout.txt"))
assert first["text"] == second["text"] == "Hi, you." and first["tokens"] == second["tokens"] == 9, first
assert second["session_tokens"] == whole["session_tokens"] == first["session_tokens"] + second["prompt_tokens"] + 8
assert second["state_bytes"] > 0 and second["cache_bytes"] == 2 * 4 * 2 * 32 * second["session_tokens"], second
END

# What was saved goes on, in another process, as if it had not ended.
lines "four" /stats >more.txt
succeeds chat --json < <(cat script.txt more.txt)
tail -n 2 stdout.txt | sed 's/_per_second": [^,]*//g; s/"seconds": [^,]*//' | head -n 1 >expected.txt
for begin in "--load-state talk.safetensors" ""; do
    # shellcheck disable=SC2086
    succeeds chat --json $begin < <([ -n "$begin" ] || lines "/load talk.safetensors"; cat more.txt)
    sed 's/_per_second": [^,]*//g; s/"seconds": [^,]*//' stdout.txt | head -n 1 | cmp - expected.txt ||
        wrong "it goes on otherwise with '$begin'"
    npy expect stdout.txt 'lines[1]["messages"] == 7 and lines[1]["session_tokens"] == m["session_tokens"]'
done
succeeds chat --save-state end.safetensors < <(lines hello)
succeeds chat --load-state end.safetensors --json < <(lines /stats)
npy expect stdout.txt 'm["messages"] == 2'

# /reset forgets all but the system's message; a past that changes is read again, which is said once.
succeeds chat --json --system "Be kind." < <(lines "one two" "three" /reset "one two")
npy expect stdout.txt 'lines[0]["session_tokens"] == lines[2]["session_tokens"] and lines[0]["prompt_tokens"] > lines[1]["prompt_tokens"]'
chat --json < <(lines one two "/system Be kind." three "/system Be brief." four) >stdout.txt 2>stderr.txt
[ "$(wc -l <stderr.txt)" = 1 ] && grep -q "reads it again" stderr.txt || wrong "not said once: $(cat stderr.txt)"
npy expect stdout.txt 'lines[2]["prompt_tokens"] > lines[1]["session_tokens"] and lines[3]["session_tokens"] > lines[2]["session_tokens"]'
python3 "$here/gguf.py" last.gguf --says "Hi, you." --template "{{ messages[-1].content + '\n' }}"
"$LINNET" chat last.gguf --temperature 0 --json < <(lines one two three) >stdout.txt 2>stderr.txt
[ "$(wc -l <stderr.txt)" = 1 ] || wrong "a template that forgets: $(cat stderr.txt)"
npy expect stdout.txt 'len(lines) == 3 and all(line["text"] == "Hi, you." for line in lines)'
npy expect stdout.txt 'lines[2]["session_tokens"] == lines[2]["prompt_tokens"] + 8'

# A text of --stop that one token completes is not read, nor what was said before again: the next turn reads no more
# than is new in it.  One that begins in a token before is read, and then all again.
answers() { chat --json "$@" < <(lines one two) >stdout.txt 2>stderr.txt || wrong "$(cat stderr.txt)"; }
answers
reads=$(python3 -c "import json; print([json.loads(l)['prompt_tokens'] for l in open('stdout.txt')])")
answers --stop ","
npy expect stdout.txt 'all(line["text"] == "Hi" for line in lines) and lines[0]["session_tokens"] == lines[0]["prompt_tokens"] + 2'
npy expect stdout.txt "[line['prompt_tokens'] for line in lines] == $reads"
[ ! -s stderr.txt ] || wrong "read again: $(cat stderr.txt)"
answers --stop "i,"
npy expect stdout.txt 'all(line["text"] == "H" for line in lines) and lines[1]["prompt_tokens"] > lines[0]["session_tokens"]'
grep -q "reads it again" stderr.txt || wrong "a text that was read is not read again"

# Space around an answer may be trimmed by the template, and is not read again.
python3 "$here/gguf.py" trim.gguf --says " Hi" --template \
    "{% for m in messages %}{{ m.role + ':\n' + (m.content | trim) + '<|im_end|>' }}{% endfor %}{{ 'assistant:\n' }}"
succeeds "$LINNET" chat trim.gguf --temperature 0 < <(lines one two)
[ "$(head -n 1 stdout.txt)" = " Hi" ] || wrong "the answer is: $(cat stdout.txt)"

# Whatever bytes come, the conversation is UTF-8; a long line is a message, longer than the model has learned.
chat --save-state bytes.safetensors >stdout.txt 2>stderr.txt \
    < <(printf 'a\xffb\0c\xc3\n'; head -c 5000 /dev/zero | tr '\0' x; echo) || wrong "bytes: $(cat stderr.txt)"
[ "$(grep -c "trained on no more than 512 at once" stderr.txt)" = 1 ] && [ "$(wc -l <stderr.txt)" = 1 ] ||
    wrong "a long conversation says: $(cat stderr.txt)"
[ "$(wc -l <stdout.txt)" = 2 ] || wrong "bytes or a long line give: $(cat stdout.txt)"
python3 - <<'END'
import json, struct
data = open("bytes.safetensors", "rb").read()
note = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])["__metadata__"]["note"]
assert "user 12\na\ufffdb\ufffdc\ufffd\n" in note and "user 5000\nxxx" in note, note[:300]
END

# Whatever the model writes, NUL too, is not read again.
nuls=0
for seed in 1 2 3 4 5 6 7 8; do
    succeeds "$LINNET" chat tiny.gguf --seed $seed --temperature 1 --min-p 0 --tokens 220 --json < <(lines hello more)
    ! grep -q 'u0000' stdout.txt || nuls=$((nuls + 1))
done
[ $nuls -gt 0 ] || wrong "no answer has a NUL"

# A message that begins with '/', and commands that fail: one sentence, and a script ends.
succeeds chat < <(lines //help)
[ "$(cat stdout.txt)" = "Hi, you." ] || wrong "'//' is no message"
fails 1 "'/sats' is not a command; did you mean '/stats'?" chat < <(lines /sats hello)
fails 1 "/load: FILE is missing" chat < <(lines /load hello)
fails 1 "/reset takes nothing, 'x' was given" chat < <(lines "/reset x")
fails 1 "session: nothing was fed yet to save" chat < <(lines "/save s.safetensors")
absent s.safetensors
fails 1 "missing.safetensors" chat < <(lines "/load missing.safetensors")
fails 1 "'whole.safetensors': holds no conversation" chat < <(lines "/load whole.safetensors")
fails 1 "'whole.safetensors': holds no conversation" chat --load-state whole.safetensors </dev/null
chat < <(lines hello "/save says.gguf") >stdout.txt 2>stderr.txt && wrong "the model was written over"
grep -q "/save: 'says.gguf' is the model itself" stderr.txt || wrong "$(cat stderr.txt)"
python3 - <<'END'
import json, struct
data = open("talk.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
for key in ("linnet.checksum", "linnet.checksum.kind"):
    del header["__metadata__"][key]
note = header["__metadata__"]["note"]
lies = [note[:40], note.replace("user 7", "user 70000"), note.replace("user 7", "user -1"),
        note.replace("user 7", "user 18446744073709551615"), note.replace("user 7", "nobody 7"),
        note.replace("read ", "dear "), note.replace("\nanswer ", "\nanswers "), note + "user", note + "user 0"]
assert len({note, *lies}) == 10
for i, lie in enumerate([note, *lies]):
    header["__metadata__"]["note"] = lie
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(f"lie{i}.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
END
succeeds chat --load-state lie0.safetensors < <(lines hello)
for i in 1 2 3 4 5 6 7 8 9; do
    fails 1 "holds no conversation" chat --load-state lie$i.safetensors </dev/null
done
fails 2 "--min-p" chat --min-p 2 </dev/null
cat >text.json <<'END'
{"model": {"dim": 16, "layers": 1, "heads": 2, "length": 16, "position": "rotary"}, "train": {"steps": 1}}
END
for _ in $(seq 60); do echo "the cat sat on the mat and the dog sat on the log."; done >text.txt
succeeds "$LINNET" train --task text --config text.json --data text.txt --out text
fails 1 "has no conversation in it" "$LINNET" chat text </dev/null

# Ctrl-C on a terminal: it stops the answer and keeps the session; twice at the prompt it ends.
cat >keys.py <<'END'
import os, pty, select, signal, sys, time

child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
seen = b""


def wait_for(condition):
    global seen
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, seen[-300:]
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:
                return


def send(text):
    global seen
    seen = b""
    os.write(terminal, text)


wait_for(lambda: b"> " in seen)
send(b"hello\n")
wait_for(lambda: len(seen) > 200)
send(b"\x03")
wait_for(lambda: seen.endswith(b"\n> "))
send(b"/stats\n")
wait_for(lambda: seen.endswith(b"\n> "))
assert b"messages  2" in seen, seen
send(b"/nothing\n")
wait_for(lambda: seen.endswith(b"\n> "))
assert b"not a command" in seen, seen
send(b"\x03")
wait_for(lambda: b"once more" in seen and seen.endswith(b"> "))
send(b"\x03")
wait_for(lambda: False if select.select([terminal], [], [], 0)[0] else os.waitid(
    os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert status == 0, (status, seen)
END
python3 keys.py "$LINNET" chat tiny.gguf --temperature 0 --tokens 1000000000 --save-state stopped.safetensors ||
    wrong "Ctrl-C"
"$LINNET" chat tiny.gguf --load-state stopped.safetensors --tokens 3 --json < <(lines "go on") >stdout.txt ||
    wrong "what was stopped does not go on" # it may be longer by then than the model has learned, which is said
npy expect stdout.txt 'm["prompt_tokens"] < 60 and m["session_tokens"] > m["prompt_tokens"] + 100'
