#!/bin/bash
# Sampling as `generate` offers it: min-p, the repetition penalty, texts that end the text.
. "$(dirname "$0")/support.sh"

python3 "$here/gguf.py" tiny.gguf
python3 "$here/gguf.py" says.gguf --says "Hi, you."
tiny() { "$LINNET" generate tiny.gguf --prompt hello --tokens 60 "$@"; }
says() { "$LINNET" generate says.gguf --prompt-file line.txt --temperature 0 "$@"; }
printf '\n' >line.txt

succeeds tiny --temperature 0
cp stdout.txt cold.txt
succeeds tiny --min-p 1 --seed 4
cmp cold.txt stdout.txt || wrong "--min-p 1 leaves others than the likeliest"
succeeds tiny --seed 4
cp stdout.txt all.txt
succeeds tiny --seed 4 --min-p 0 --repetition-penalty 1 --penalty-tokens 9
cmp all.txt stdout.txt || wrong "what changes nothing changes the draws"
succeeds tiny --seed 4 --min-p 0.5
! cmp -s all.txt stdout.txt || wrong "--min-p changes nothing"

# Greedy stays what it is from run to run.
succeeds tiny --temperature 0 --repetition-penalty 100 --penalty-tokens 8
! cmp -s cold.txt stdout.txt || wrong "--repetition-penalty changes nothing"
cp stdout.txt penalty.txt
succeeds tiny --temperature 0 --repetition-penalty 100 --penalty-tokens 8
cmp penalty.txt stdout.txt || wrong "greedy with a penalty writes another text"
# A saved session remembers what the penalty counts, and what is in its window.
python3 "$here/gguf.py" window.gguf --window 8
long=$(printf 'abcd %.0s' $(seq 30)) # more than the room of that window
for model in tiny.gguf window.gguf; do
    for penalty in 1 3; do
        greedy() { "$LINNET" generate $model --temperature 0 --repetition-penalty $penalty --json "$@"; }
        succeeds greedy --prompt "$long" --tokens 15 --save-state s.safetensors
        cp stdout.txt first.json
        succeeds greedy --tokens 15 --load-state s.safetensors
        cp stdout.txt second.json
        succeeds greedy --prompt "$long" --tokens 30
        npy expect stdout.txt 'm["tokens"] == 30'
        python3 - <<'END' || wrong "$model goes on otherwise with a penalty of $penalty"
import json
first, second, whole = (json.load(open(f))["text"] for f in ("first.json", "second.json", "stdout.txt"))
clean = lambda text: text.replace("\ufffd", "") # a character may be cut where the file was
assert clean(first + second) == clean(whole), (first, second, whole)
END
    done
done

stops() { # TEXT, what is printed
    succeeds says --stop "$1"
    [ "$(cat stdout.txt)" = "$2" ] || wrong "--stop '$1' gives '$(cat stdout.txt)'"
}
stops nothing "Hi, you."
stops "Hi" ""
stops ", y" "Hi"          # of three tokens
stops "you!" "Hi, you."   # held back, and printed at the end
stops "u." "Hi, yo"
succeeds says --stop "you" --stop "i," --json
npy expect stdout.txt 'm["text"] == "H" and m["tokens"] == 3'
succeeds says --stop ", youX" --stop "yo"
[ "$(cat stdout.txt)" = "Hi, " ] || wrong "one text hides another: $(cat stdout.txt)"
succeeds says --tokens 5 --stop "you"
[ "$(cat stdout.txt)" = "Hi, y" ] || wrong "what was held back is lost: $(cat stdout.txt)"

fails 2 "--min-p: '1.5' is not a number from 0 to 1" tiny --min-p 1.5
fails 2 "--min-p: '-1' is not a finite number of at least 0" tiny --min-p -1
fails 2 "--repetition-penalty: '0'" tiny --repetition-penalty 0
fails 2 "--repetition-penalty: '101' is not a number from 0.01 to 100" tiny --repetition-penalty 101
fails 2 "--penalty-tokens: '1025' is too large" tiny --penalty-tokens 1025
fails 2 "--stop: the value is empty" tiny --stop ""
# shellcheck disable=SC2046
fails 2 "--stop: given more than 16 times" tiny $(printf -- '--stop x%.0s ' $(seq 17))
