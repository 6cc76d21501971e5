#!/bin/bash
# Generation: streams text, the same for the same seed; goes on from a saved state; images as .png; bad
# input.
. "$(dirname "$0")/support.sh"

for _ in $(seq 60); do echo "the cat sat on the mat and the dog sat on the log."; done >text.txt
cat >text.json <<'END'
{"model": {"dim": 32, "layers": 2, "heads": 4, "length": 32, "position": "rotary",
           "attention": {"mechanism": "linear"}},
 "train": {"steps": 60, "batch": 8, "rate": 0.01}}
END
succeeds "$LINNET" train --task text --config text.json --data text.txt --out text
model=text/model.safetensors
generate() { "$LINNET" generate "$model" "$@"; }

succeeds generate --prompt "the cat" --tokens 40 --seed 3
cp stdout.txt first.txt
[ "$(head -c 7 first.txt)" = "the cat" ] || wrong "the prompt is not there: $(cat first.txt)"
[ "$(wc -c <first.txt)" = 48 ] || wrong "not 40 bytes more and a line end"
succeeds generate --prompt "the cat" --tokens 40 --seed 3 --threads 1
cmp first.txt stdout.txt || wrong "the same seed writes something else"
succeeds generate --prompt "the cat" --tokens 40 --seed 4
! cmp -s first.txt stdout.txt || wrong "the seed changes nothing"
succeeds generate --prompt "the cat" --tokens 40 --temperature 0
cp stdout.txt cold.txt
succeeds generate --prompt "the cat" --tokens 40 --top-k 1 --seed 8
cmp cold.txt stdout.txt || wrong "one candidate is not the likeliest"
succeeds generate --prompt "the cat" --tokens 40 --top-p 0.000001 --seed 9
cmp cold.txt stdout.txt || wrong "the smallest share is not the likeliest"
grep -q 'the\|sat\|on' cold.txt || wrong "nothing was learned: $(cat cold.txt)"

printf 'the cat' >prompt.txt
# An empty prompt is none: a text of its own, or on from a state.
succeeds generate --prompt "the cat" --tokens 15 --save-state begun.safetensors
for options in "" "--json" "--load-state begun.safetensors" "--prompt-file prompt.txt"; do
    # shellcheck disable=SC2086
    succeeds generate --tokens 20 $options
    sed 's/"prompt_tokens.*//' stdout.txt >none.txt
    # shellcheck disable=SC2086
    succeeds generate --tokens 20 $options --prompt ""
    cmp none.txt <(sed 's/"prompt_tokens.*//' stdout.txt) || wrong "an empty prompt, $options: $(cat stdout.txt)"
done

# A prompt from a file or a pipe is gone on from and not repeated; a long one is fed in portions.
tail -c +8 first.txt >rest.txt
succeeds generate --prompt-file prompt.txt --tokens 40 --seed 3
cmp rest.txt stdout.txt || wrong "a prompt from a file is another one: $(cat stdout.txt)"
generate --prompt-file - --tokens 40 --seed 3 <prompt.txt | cmp rest.txt - || wrong "nor is one from a pipe"
for _ in $(seq 200); do cat text.txt; done | head -c 9000 >long.txt
succeeds generate --prompt-file long.txt --tokens 30 --temperature 0
cp stdout.txt whole.txt
succeeds generate --prompt-file <(head -c 5000 long.txt) --tokens 0 --save-state half.safetensors
succeeds generate --load-state half.safetensors --prompt-file <(tail -c +5001 long.txt) --tokens 30 \
    --temperature 0 --json
npy expect stdout.txt 'm["text"] + "\n" == open("whole.txt").read() and m["session_tokens"] == 9030'
: >nothing.txt
fails 1 "--prompt-file: 'nothing.txt' is empty" generate --prompt-file nothing.txt
fails 1 "cannot read 'missing.txt'" generate --prompt-file missing.txt
fails 1 "cannot read '.'" generate --prompt-file .
fails 2 "--prompt and --prompt-file cannot both be given" generate --prompt x --prompt-file prompt.txt

# In two parts: the same text.
succeeds generate --prompt "the cat" --tokens 15 --seed 3 --save-state s.safetensors
head -c -1 stdout.txt >parts.txt
succeeds generate --tokens 25 --seed 3 --load-state s.safetensors
cat stdout.txt >>parts.txt
cmp first.txt parts.txt || wrong "a saved state goes on otherwise"

succeeds generate --tokens 300 --json
python3 - <<'END'
import json
r = json.load(open("stdout.txt"))
assert r["tokens"] == 300 and r["session_tokens"] == 301 and r["state_bytes"] > 0, r
assert r["cache_bytes"] == 2 * 4 * 2 * 32 * 301, r
END
small=$(python3 -c 'import json; print(json.load(open("stdout.txt"))["state_bytes"])')
succeeds generate --tokens 2000 --json
python3 -c "import json; assert json.load(open('stdout.txt'))['state_bytes'] == $small" ||
    wrong "the state grows"

# On a terminal the text is what it is elsewhere, and the figures stand below it once.
succeeds generate --prompt "the cat" --tokens 600 --seed 3
mv stdout.txt plain.txt
python3 "$here/terminal.py" 8 40 "$LINNET" generate "$model" --prompt "the cat" --tokens 600 --seed 3 \
    >seen.txt || wrong "on a terminal: exit $?"
python3 "$here/terminal.py" 8 200 sh -c "'$LINNET' generate '$model' --prompt 'the cat' --tokens 600 \
    --seed 3 >into.txt" >aside.txt || wrong "with text into a file: exit $?"
cmp plain.txt into.txt || wrong "another text beside a terminal"
python3 - <<'END'
text = open("plain.txt", errors="replace").read()
seen, aside = open("seen.txt").read(), open("aside.txt").read()
lines = [line[at:at + 40].rstrip() for line in text.split("\n")[:-1] for at in range(0, max(len(line), 1), 40)]
assert "\n".join(lines) + "\n[607 tokens, " in seen, seen
assert seen.count(" tokens/s") == 1 and aside.count("tokens/s, state") == 1, (seen, aside)
END

# --forever ends when it is interrupted, and keeps what it had.  A script starts what is in its background
# with SIGINT ignored: then it stays ignored.  Two signals at once, as `timeout` sends them, are one: they wait
# for it side by side, one for the process, one for its first thread.
grows() { # at least 500 more bytes
    local before
    before=$(wc -c <forever.txt)
    until [ "$(wc -c <forever.txt)" -gt $((before + 500)) ]; do
        kill -0 "$child" 2>/dev/null || wrong "it ended: $(cat stderr.txt)"
        sleep 0.05
    done
}
for case in INT:SIG_DFL TERM:SIG_DFL HUP:SIG_DFL TERM:SIG_IGN TWICE:SIG_DFL; do
    signal=${case%:*}
    rm -f forever.safetensors
    : >forever.txt
    python3 -c 'import os, signal, sys
for number in signal.SIGTERM, signal.SIGHUP: signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, getattr(signal, sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])' "${case#*:}" "$LINNET" generate "$model" --forever \
        --save-state forever.safetensors >forever.txt 2>stderr.txt &
    child=$!
    grows
    if [ "${case#*:}" = SIG_IGN ]; then
        kill -INT "$child"
        grows
    fi
    if [ "$signal" = TWICE ]; then
        kill -STOP "$child"
        kill -TERM "$child"
        python3 -c 'import ctypes, signal, sys
child = int(sys.argv[1])
sys.exit(ctypes.CDLL(None).tgkill(child, child, signal.SIGTERM))' "$child"
        kill -CONT "$child"
    else
        kill -"$signal" "$child"
    fi
    wait "$child" || wrong "interrupted by $signal: exit $?"
    [ -s forever.safetensors ] || wrong "no state after an interruption by $signal"
done

# So it does when nobody reads on: without a word, by SIGPIPE, but where that is ignored.
unread() { # SIG_DFL|SIG_IGN OPTION...: what is written goes into a pipe that is closed at the other end
    python3 -c 'import os, signal, sys
signal.signal(signal.SIGPIPE, getattr(signal, sys.argv[1]))
reads, writes = os.pipe()
os.dup2(writes, 1)
os.close(reads)
os.execv(sys.argv[2], sys.argv[2:])' "$1" "$LINNET" generate "$model" --save-state unread.safetensors "${@:2}"
}
for options in --forever "--tokens 9 --json"; do
    rm -f unread.safetensors
    status=0
    # shellcheck disable=SC2086
    unread SIG_DFL $options 2>stderr.txt || status=$?
    [ "$status" = 141 ] && [ ! -s stderr.txt ] || wrong "a closed pipe: exit $status: $(cat stderr.txt)"
    succeeds generate --load-state unread.safetensors --tokens 1
done
fails 1 "cannot write to standard output: Broken pipe" unread SIG_IGN --forever
succeeds generate --load-state unread.safetensors --tokens 1

# A terminal has all its rows again when the keyboard ends it.
ulimit -c 0
QUIT_AT=2000 python3 "$here/terminal.py" 8 40 "$LINNET" generate "$model" --forever >seen.txt || true
grep -q "^rows 1 to 8 scroll" seen.txt || wrong "after SIGQUIT: $(tail -n 1 seen.txt)"

fails 1 "cannot write 'no/such/s'" generate --tokens 5 --save-state no/such/s # and nothing is written
mkdir taken
fails 1 "cannot write 'taken': it is not a regular file" generate --tokens 5 --save-state taken
fails 2 "--tokens and --forever cannot both be given" generate --tokens 5 --forever

# A byte may be any, also one that ends a string in C.
python3 -c 'open("zeros.txt", "wb").write(b"a\0" * 200)'
echo '{"model": {"dim": 8, "layers": 1, "heads": 2, "length": 8}, "train": {"steps": 60, "batch": 8,
 "rate": 0.02, "warmup": 0}, "task": {"tokenizer": "bytes", "held_out": 0}}' >zeros.json
succeeds "$LINNET" train --task text --data zeros.txt --config zeros.json --out zeros
succeeds "$LINNET" generate zeros/model.safetensors --prompt a --tokens 9 --temperature 0 --json
python3 -c 'import json; assert json.load(open("stdout.txt"))["text"] == "\0a\0a\0a\0a\0"' ||
    wrong "bytes of 0: $(cat stdout.txt)"

# A session of two sequences is none that one token at a time can go on with.
python3 - <<'END'
import json, struct
data = open("s.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, at, parts = json.loads(data[8:8 + size]), 0, []
for key in [k for k in header["__metadata__"] if k.startswith("linnet.checksum")]:
    del header["__metadata__"][key]
for name in sorted((k for k in header if k != "__metadata__"), key=lambda k: header[k]["data_offsets"]):
    e = header[name]
    first, last = e["data_offsets"]
    parts.append(2 * data[8 + size + first:8 + size + last])
    e["shape"][0] *= 2
    e["data_offsets"] = [at, at + len(parts[-1])]
    at += len(parts[-1])
text = json.dumps(header).encode()
open("two.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + b"".join(parts))
END
fails 1 "'two.safetensors': holds 2 sequences, must hold 1" generate --load-state two.safetensors

fails 1 "missing.safetensors" "$LINNET" generate missing.safetensors
# A run is as good a name as the file in it.
mkdir -p hollow
fails 1 "cannot read 'hollow/model.safetensors'" "$LINNET" generate hollow
for command in "generate --tokens 9" "eval --data text.txt --json"; do
    # shellcheck disable=SC2086
    "$LINNET" ${command/ / text } >of-run.txt
    "$LINNET" ${command/ / text/model.safetensors } >of-file.txt
    cmp <(sed 's/"seconds.*//' of-run.txt) <(sed 's/"seconds.*//' of-file.txt) ||
        wrong "$command of a run is not that of its model"
done
succeeds "$LINNET" bench --study generation --model text --tokens 1024 --json
fails 1 "is not a model" "$LINNET" generate s.safetensors
fails 1 "is not a session" generate --load-state "$model"
fails 2 "--top-p: '1.5' is not a number above 0 and at most 1" generate --top-p 1.5
fails 2 "--temperature: '-1' is not a finite number of at least 0" generate --temperature -1
fails 2 "--top-k: '0' is not a whole number of at least 1" generate --top-k 0
fails 2 "--images is for models that draw images" generate --images 4
fails 2 "--each is for models that draw images" generate --each 4
status=0
generate --tokens 9 >/dev/full 2>stderr.txt || status=$?
[ "$status" = 1 ] || wrong "standard output full: exit $status"

# Positions that are learned have an end: all of a word can be written, and what was asked for beyond is told.
echo '{"model": {"dim": 16, "layers": 1, "heads": 2, "length": 21}, "train": {"steps": 1}}' >end.json
succeeds "$LINNET" train --task copy --config end.json --out end
succeeds "$LINNET" generate end/model.safetensors --prompt 0,1,2,3,4,5,6,7,8,9,10,0 --tokens 10
[ "$(wc -w <stdout.txt)" = 10 ] || wrong "a word that fits is cut off: $(cat stdout.txt)"
succeeds "$LINNET" generate end/model.safetensors --prompt 0,1,0 # as many as there can be
[ "$(wc -w <stdout.txt)" = 19 ] || wrong "it does not go to the end: $(cat stdout.txt)"
cp stdout.txt word.txt
succeeds "$LINNET" generate end --prompt-file <(printf '0,1\n0 \n')
cmp word.txt stdout.txt || wrong "symbols from a file are others: $(cat stdout.txt)"
cp -r end own
for to in own/model.safetensors ./own/../own/model.safetensors; do
    fails 2 "--save-state: '$to' is the model itself" "$LINNET" generate own --tokens 1 --save-state $to
done
echo 0,1 >symbols.txt
fails 2 "--save-state and --prompt-file are the same file" \
    "$LINNET" generate end --prompt-file symbols.txt --tokens 1 --save-state symbols.txt
cmp own/model.safetensors end/model.safetensors || wrong "a model was written over"
fails 2 "--held-out is for models of text; this one is of task copy" "$LINNET" eval end --held-out
fails 2 "--prompt: token 11 is not one of the model's, which are 0 to 10" "$LINNET" generate end --prompt 0,11
fails 2 "--prompt-file: '0;1' is not a list of tokens" "$LINNET" generate end --prompt-file <(printf '0;1')
status=0
"$LINNET" generate end/model.safetensors --prompt 0,1,0 --tokens 20 --save-state end.state --json \
    >stdout.txt 2>stderr.txt || status=$?
[ "$status" = 1 ] || wrong "fewer tokens than were asked for: exit $status"
grep -q -e "--tokens: 19 tokens were written and no more: the model has learned 21 positions" stderr.txt ||
    wrong "$(cat stderr.txt)"
python3 -c 'import json; d = json.load(open("stdout.txt"))
assert d["tokens"] == 19 and len(d["text"].split()) == 19, d' || wrong "what was written is lost"
[ -s end.state ] || wrong "the state at the end is not saved"
fails 1 "'end.state': is at the last of the 21 positions that the model has learned" \
    "$LINNET" generate end/model.safetensors --load-state end.state --tokens 1
"$LINNET" generate end/model.safetensors --prompt 0,1,0 --forever >stdout.txt 2>stderr.txt &&
    wrong "for ever ends in silence"
[ "$(wc -w <stdout.txt)" = 19 ] || wrong "for ever ends early: $(cat stdout.txt)"
grep -q -e "--forever: 19 tokens were written" stderr.txt || wrong "$(cat stderr.txt)"

# A state that cannot be gone on with does not replace a good one.
python3 - <<'END'
import json, struct
data = bytearray(open("end/model.safetensors", "rb").read())
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
for key in [k for k in header["__metadata__"] if k.startswith("linnet.checksum")]:
    del header["__metadata__"][key]
begin = 8 + size + header["embed.weight"]["data_offsets"][0]
for i in range(16):  # token 3
    data[begin + 4 * (3 * 16 + i):begin + 4 * (3 * 16 + i + 1)] = struct.pack("<f", (-1) ** i * 3e38)
text = json.dumps(header).encode()
open("bad.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
END
succeeds "$LINNET" generate bad.safetensors --prompt 0,1,2 --tokens 1 --temperature 0 --save-state good.state
cp good.state before.state
fails 1 "not finite" "$LINNET" generate bad.safetensors --load-state good.state --prompt 3 --save-state good.state
cmp good.state before.state || wrong "a damaged state replaces a good one"

# Images: a directory of idx files of our own, 8 x 8.
python3 - <<'END'
import gzip, os, struct
os.mkdir("idx")
for name, count in (("train", 64), ("t10k", 20)):
    images = b"".join(bytes(255 if (x + i) % 8 < 4 else 0 for y in range(8) for x in range(8))
                      for i in range(count))
    gzip.open(f"idx/{name}-images-idx3-ubyte.gz", "wb").write(
        struct.pack(">IIII", 0x803, count, 8, 8) + images)
    open(f"idx/{name}-labels-idx1-ubyte", "wb").write(
        struct.pack(">II", 0x801, count) + bytes(i % 8 for i in range(count)))
END
cat >image.json <<'END'
{"model": {"dim": 32, "layers": 1, "heads": 2}, "train": {"steps": 3, "batch": 4}}
END
succeeds "$LINNET" train --task mnist --config image.json --data idx --out image
grep -q 'bits per dim' stdout.txt || wrong "no bits per dim: $(cat stdout.txt)"
succeeds "$LINNET" generate image/model.safetensors --images 5 -o sheet.png
python3 - <<'END'
import struct, zlib
data = open("sheet.png", "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n"
at, parts = 8, {}
while at < len(data):
    size, name = struct.unpack(">I4s", data[at:at + 8])
    body = data[at + 8:at + 8 + size]
    assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(name + body)
    parts[name] = body
    at += 12 + size
width, height = struct.unpack(">II", parts[b"IHDR"][:8])
assert (width, height) == (224, 154), (width, height)  # 7 x 7 points a pixel, 14 between images
assert len(zlib.decompress(parts[b"IDAT"])) == height * (width + 1)
END
succeeds "$LINNET" generate image/model.safetensors --images 4 --each 2 --first 3 -o complete.png \
    --data idx --keep 0.25
python3 - <<'END'
import struct, zlib
data = open("complete.png", "rb").read()
width, height = struct.unpack(">II", data[16:24])
at = data.index(b"IDAT")
rows = zlib.decompress(data[at + 4:at + 4 + struct.unpack(">I", data[at - 4:at])[0]])
assert (width, height) == (322, 294), (width, height)
left = [14, 98, 168, 252]  # what is given, two completions, the image; wider apart at both ends
def pixel(i, column, x, y):
    points = {rows[(14 + 70 * i + 7 * y + v) * (width + 1) + 1 + left[column] + 7 * x + u]
              for u in range(7) for v in range(7)}
    assert len(points) == 1, points
    return points.pop()
differ = 0
for i in range(4):
    for x in range(8):
        true = 255 if (x + 3 + i) % 8 < 4 else 0
        for y in range(2):  # the quarter that is given stays in all of them
            assert [pixel(i, c, x, y) for c in range(4)] == [true] * 4
        for y in range(2, 8):
            assert pixel(i, 0, x, y) == 128 and pixel(i, 3, x, y) == true
            differ += pixel(i, 1, x, y) != pixel(i, 2, x, y)
assert differ > 20, differ  # each completion has its own draws
assert all(rows[y * (width + 1) + 1 + x] == 255 for y in range(14) for x in range(width))
END
fails 2 "--keep: '1.5' is not a number from 0 to 1" \
    "$LINNET" generate image/model.safetensors -o x.png --data idx --keep 1.5
for option in "--keep 0.5" "--each 3" "--first 1"; do
    # shellcheck disable=SC2086
    fails 2 "${option% *} needs --data" "$LINNET" generate image/model.safetensors -o x.png $option
done
fails 1 "there are 20 for testing" \
    "$LINNET" generate image/model.safetensors --images 21 -o x.png --data idx
fails 1 "there are 20 for testing" \
    "$LINNET" generate image/model.safetensors --images 2 --first 19 -o x.png --data idx
fails 2 "-o/--output is missing" "$LINNET" generate image/model.safetensors
for name in sheet.jpg sheet.JPEG sheet.svg; do
    fails 2 "-o/--output: '$name' must end in .png" \
        "$LINNET" generate image/model.safetensors --data missing -o $name # before the data is read
    absent $name
done
for name in SHEET.PNG sheet; do succeeds "$LINNET" generate image/model.safetensors --images 1 -o $name; done
fails 2 "--save-state is not for models that draw images" \
    "$LINNET" generate image/model.safetensors --save-state x.safetensors -o x.png
fails 2 "--prompt is not for models that draw images" \
    "$LINNET" generate image/model.safetensors --prompt x -o x.png
fails 1 "cannot write" "$LINNET" generate image/model.safetensors -o no/such.png
sed -i 's/"layers": 1/"layers": 1, "length": 9/' image.json
for again in "" --resume; do # which knows that not the config but the images say how long they are
    succeeds "$LINNET" train --task mnist-class --config image.json --data idx --out class $again
done
fails 1 "an encoder, which does not generate" "$LINNET" generate class/model.safetensors
succeeds "$LINNET" eval class/model.safetensors --data idx
grep -q '20 targets' stdout.txt || wrong "eval does not see every image once: $(cat stdout.txt)"
fails 1 "cannot write 'no/such.png'" \
    "$LINNET" generate image/model.safetensors --data missing -o no/such.png # before the data is read
mkdir tests && cp idx/t10k-* tests # no images to train on: none are needed
succeeds "$LINNET" eval class/model.safetensors --data tests
grep -q '20 targets' stdout.txt || wrong "eval upon the tests alone: $(cat stdout.txt)"
printf 'x' >>idx/t10k-labels-idx1-ubyte
fails 1 "another size than its header says" "$LINNET" eval class/model.safetensors --data idx

# The model in the repository writes, and goes on from what it remembers.
model=$here/../../models/default.safetensors
[ "$(wc -c <"$model")" -le 5000000 ] || wrong "the default model is larger than 5 MB"
succeeds generate --prompt "Fellow citizens," --tokens 300 --temperature 0 --save-state page.safetensors
[ "$(grep -ow 'the\|of\|and\|to' stdout.txt | wc -l)" -ge 20 ] || wrong "soup: $(cat stdout.txt)"
succeeds generate --load-state page.safetensors --tokens 20
