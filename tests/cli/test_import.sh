#!/bin/bash
# One file of any model: it answers to the same bits as what it was made of, with its tokenizer and its chat template;
# turned weights are as near as is said; nothing is overwritten that should stay.
. "$(dirname "$0")/support.sh"

import() { "$LINNET" import "$@"; }

# Every architecture, as a directory: the same bits, and the same file again from the file.
for name in llama llama-tied llama-sharded llama-llama3 llama-mistral llama-qwen2 llama-qwen3 llama-gemma gpt2 neox \
    neox-serial; do
    python3 "$here/foreign.py" "$name" "$name"
    succeeds import "$name" -o "$name.safetensors"
    grep -q "^file       $name.safetensors, " stdout.txt || wrong "no summary: $(cat stdout.txt)"
    succeeds "$LINNET" eval "$name" --token-ids "$name/ids.npy" --logits want.npy
    succeeds "$LINNET" eval "$name.safetensors" --token-ids "$name/ids.npy" --logits got.npy
    cmp want.npy got.npy || wrong "$name answers something else from its file"
    succeeds import "$name.safetensors" -o again.safetensors
    cmp "$name.safetensors" again.safetensors || wrong "$name: the file of the file is another"
done

# Another mechanism in place of softmax.
succeeds "$LINNET" eval llama --token-ids llama/ids.npy --logits soft.npy
for m in "hybrid --window 4" "taylor --terms 3" linear; do
    for from in llama llama.safetensors; do
        # shellcheck disable=SC2086
        succeeds "$LINNET" eval "$from" --mechanism $m --token-ids llama/ids.npy --logits "$(basename "$from").npy"
    done
    cmp llama.npy llama.safetensors.npy || wrong "--mechanism $m does something else"
    if cmp -s llama.npy soft.npy; then wrong "--mechanism $m does nothing"; fi
done

# A GGUF file: its tokens, its template, its ends.
python3 "$here/gguf.py" says.gguf --says "Hi, you."
touch .linnet-999999999-0.tmp .linnet-$$-0.tmp # of a process that was killed, and of one that runs
succeeds import says.gguf -o says.safetensors --json
absent .linnet-999999999-0.tmp
rm .linnet-$$-0.tmp
python3 - <<'END'
import json, os
o = json.load(open("stdout.txt"))
assert o["architecture"] == "llama" and o["weights"] == "keep" and o["turned"] == 0 and o["relative_error"] == 0, o
assert o["file_bytes"] == os.path.getsize("says.safetensors") >= sum(s["bytes"] for s in o["storage"]), o
assert o["storage"] == sorted(o["storage"], key=lambda s: -s["bytes"]) and o["matrices"] > 4, o
END
printf 'hello\nand again\n' >said.txt
for _ in 1 2 3 4 5 6 7 8; do echo "the hello in the end"; done >read.txt
for from in says.gguf says.safetensors; do
    succeeds "$LINNET" chat "$from" --temperature 0 <said.txt
    cp stdout.txt "$from.chat"
    succeeds "$LINNET" tokenize "$from" --text "hello <|im_start|> thé end 🙂" --json
    cp stdout.txt "$from.tokens"
    succeeds "$LINNET" generate "$from" --prompt "the hello" --temperature 0 --tokens 12
    cp stdout.txt "$from.text"
    succeeds "$LINNET" eval "$from" --data read.txt --json
    sed 's/, "[a-z_]*second[a-z_]*": [^,}]*//g' stdout.txt >"$from.eval"
done
for what in chat tokens text eval; do
    cmp "says.gguf.$what" "says.safetensors.$what" || wrong "$what says something else from the file"
done
[ "$(cat says.gguf.chat)" = "$(printf 'Hi, you.\nHi, you.')" ] || wrong "the model does not say what it should"

# A session goes on with the file of the model, and with the model.
succeeds "$LINNET" generate says.gguf --prompt "the" --tokens 3 --temperature 0 --save-state state.safetensors
for from in says.gguf says.safetensors; do
    succeeds "$LINNET" generate "$from" --load-state state.safetensors --tokens 5 --temperature 0
    cp stdout.txt "$from.text"
done
cmp says.gguf.text says.safetensors.text || wrong "a session goes on otherwise"

# A run of our own: as it is a file that is the run's; in blocks another.
printf '{"model":{"dim":32,"layers":1,"heads":2,"ff":64,"length":16},"train":{"batch":2}}' >small.json
succeeds "$LINNET" train --task copy --config small.json --out run --steps 2
succeeds import run -o kept.safetensors
cmp run/model.safetensors kept.safetensors || wrong "a model of our own is written otherwise"
for how in "bf16 bf16" "q8 q8_0" "q4 q8_0"; do
    succeeds import run -o "run.safetensors" --weights "${how% *}" --json
    grep -q "\"name\": \"${how#* }\"" stdout.txt || wrong "--weights $how: $(cat stdout.txt)"
    succeeds "$LINNET" eval run.safetensors --batches 1 --json
done

# An encoder: pooling, length and tokenizer as sentence-transformers keep them.
python3 - "$here" <<'END'
import json, os, sys
sys.path.insert(0, sys.argv[1])
import foreign
w = foreign.Weights("bert")
config, _ = foreign.bert(w, [1, 2], "")
os.makedirs("bert/1_Pooling")
foreign.write_safetensors("bert/model.safetensors", w)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "king", "##s", "went", "home", "a", "b"]
tokens = {word: i for i, word in enumerate(words)}
special = [{"id": tokens[t], "content": t, "special": True} for t in words[:4]]
json.dump(config, open("bert/config.json", "w"))
json.dump({"added_tokens": special, "pre_tokenizer": {"type": "BertPreTokenizer"},
           "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
           "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": tokens}}, open("bert/tokenizer.json", "w"))
json.dump({"cls_token": "[CLS]", "pad_token": {"content": "[PAD]"}}, open("bert/tokenizer_config.json", "w"))
json.dump([{"type": "sentence_transformers.models.Transformer", "path": ""},
           {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
           {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}], open("bert/modules.json", "w"))
json.dump({"pooling_mode_cls_token": True}, open("bert/1_Pooling/config.json", "w"))
json.dump({"max_seq_length": 6}, open("bert/sentence_bert_config.json", "w"))
END
printf 'the kings went home\na b\nking\nthe king went home a b the king went home\n' >texts.txt
if "$LINNET" tokenize bert --text "the kings" --json >bert.tokens 2>stderr.txt; then
    succeeds import bert -o bert.safetensors
    succeeds "$LINNET" tokenize bert.safetensors --text "the kings" --json
    cmp stdout.txt bert.tokens || wrong "the encoder has other tokens from its file"
    for from in bert bert.safetensors; do
        "$LINNET" embed "$from" --file texts.txt -o "$from.npy" 2>stderr.txt >stdout.txt || wrong "$(cat stderr.txt)"
        grep -q "longer than the 6 tokens" stderr.txt || wrong "$from reads more than 6 tokens: $(cat stderr.txt)"
        "$LINNET" embed "$from" --file texts.txt -o "$from.cur.npy" --mechanism cur --landmarks 2 2>stderr.txt \
            >stdout.txt || wrong "$(cat stderr.txt)"
    done
    cmp bert.npy bert.safetensors.npy || wrong "the encoder gives other vectors from its file"
    cmp bert.cur.npy bert.safetensors.cur.npy || wrong "the encoder gives other vectors by cur from its file"
else
    grep -q "PCRE2\|utf8proc" stderr.txt || wrong "$(cat stderr.txt)"
    skip "WordPiece needs PCRE2 and utf8proc"
fi

# A decoder's directory, whose template and roles of tokens are in files of their own.
python3 - <<'END'
import json
letters = ["<unk>", "<s>", "</s>"] + [chr(ord("a") + i) for i in range(26)] + [" ", "ab", "the", "A", "B", "C", "D", "E"]
added = [{"id": i, "content": t, "special": True} for i, t in enumerate(letters[:3])]
model = {"type": "BPE", "unk_token": "<unk>", "vocab": {t: i for i, t in enumerate(letters)}, "merges": ["a b"]}
json.dump({"added_tokens": added, "model": model}, open("llama/tokenizer.json", "w"))
template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
json.dump({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": template},
          open("llama/tokenizer_config.json", "w"))
json.dump({"eos_token_id": [2, 30]}, open("llama/generation_config.json", "w"))
END
succeeds import llama -o talks.safetensors
for from in llama talks.safetensors; do
    succeeds "$LINNET" chat "$from" --temperature 0 --tokens 9 --json <said.txt
    sed 's/, "[a-z_]*second[a-z_]*": [^,}]*//g' stdout.txt >"$(basename "$from").talk"
done
grep -q '"prompt_tokens": 7, ' llama.talk || wrong "the template is not that of the model: $(cat llama.talk)"
cmp llama.talk talks.safetensors.talk || wrong "the conversation is another from the file"

# Models of images: what becomes of an image, and the names of classes.
python3 "$here/foreign.py" vit vit
"$LINNET" eval vit --data vit/image.png >/dev/null 2>library.txt || true
if grep -q 'without libpng' library.txt; then
    skip "this build reads no PNG files"
else
    for name in vit vit-resized deit-teacher; do
        python3 "$here/foreign.py" "$name" "$name"
        succeeds import "$name" -o "$name.safetensors"
        for from in "$name" "$name.safetensors"; do
            succeeds "$LINNET" eval "$from" --data "$name/image.png" --logits "$from.npy"
            sed 's/ in [0-9.]* .*//; /seconds\|tokens\/s/d' stdout.txt >"$from.txt"
        done
        cmp "$name.npy" "$name.safetensors.npy" || wrong "$name answers something else from its file"
        cmp "$name.txt" "$name.safetensors.txt" || wrong "$name names other classes from its file"
    done
    grep -q "class [0-9], other" vit.txt || wrong "the test sees no names of classes: $(cat vit.txt)"
    python3 "$here/foreign.py" vit-model vit-model
    succeeds import vit-model -o vit-model.safetensors --weights q8
    grep -q "linnet embed MODEL --file IMAGES\|^weights    f32" stdout.txt || wrong "$(cat stdout.txt)"
    succeeds import vit-model -o vit-model.safetensors
    for from in vit-model vit-model.safetensors; do
        succeeds "$LINNET" embed "$from" --file vit-model/image.png -o "$from.npy"
    done
    cmp vit-model.npy vit-model.safetensors.npy || wrong "vit-model gives another vector from its file"
fi

# Turned weights: of a model whose rows are blocks. f32 and bf16 hold what they are made of.
python3 "$here/gguf.py" tiny.gguf
succeeds "$LINNET" generate tiny.gguf --tokens 0 --json
python3 -c "
import sys; sys.path.insert(0, '$here'); import npy
npy.write('ids.npy', [12], [1, 9, 33, 64, 200, 4, 7, 100, 2, 11, 12, 13], '<i4')"
succeeds "$LINNET" eval tiny.gguf --token-ids ids.npy --logits want.npy
cat >apart.py <<'END'
import math, sys
sys.path.insert(0, sys.argv[1])
import npy
a, b = (npy.read(path)[2] for path in ("got.npy", "want.npy"))
error = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b))
assert len(a) == len(b) and error < float(sys.argv[2]), error
END
for how in "f32 1e-3" "bf16 3e-2" "q8 6e-2" "q4 5e-1"; do
    succeeds import tiny.gguf -o turned.safetensors --weights "${how% *}"
    if [ "${how% *}" != f32 ]; then
        grep -q "^turned .* relative error" stdout.txt || wrong "--weights $how says no error: $(cat stdout.txt)"
        grep -q "linnet eval MODEL --data TEXT" stdout.txt || wrong "--weights $how does not say how to measure"
    fi
    succeeds "$LINNET" eval turned.safetensors --token-ids ids.npy --logits got.npy
    python3 apart.py "$here" "${how#* }" || wrong "--weights $how answers something else"
done

# What is in the way.
cp says.gguf before.gguf
fails 1 "is the model itself" import says.gguf -o says.gguf
fails 1 "is the model itself" import says.gguf -o ./../"$(basename "$PWD")"/says.gguf
ln -s says.gguf link.gguf
fails 1 "is the model itself" import says.gguf -o link.gguf
cmp says.gguf before.gguf || wrong "the model was changed"
fails 1 "is the model itself" import run -o run/model.safetensors
fails 1 "among the files of the model" import llama-sharded -o llama-sharded/model.safetensors
fails 1 "among the files of the model" import llama -o llama/other.safetensors
absent llama-sharded/model.safetensors llama/other.safetensors
fails 1 "not a regular file" import says.gguf -o /dev/null
fails 1 "cannot write 'none/x.safetensors'" import says.gguf -o none/x.safetensors
fails 2 "-o FILE.safetensors must be given" import says.gguf
fails 2 "--weights" import says.gguf -o x.safetensors --weights q5
fails 1 "absent.gguf" import absent.gguf -o x.safetensors
fails 1 "is not a model of linnet" import llama/model.safetensors -o x.safetensors
absent x.safetensors

# Whole or not at all: the file that was there stays when the new one does not fit.
head -c 30000 /dev/zero >old.safetensors
cp old.safetensors keep.safetensors
fails 1 "cannot write 'old.safetensors'" bash -c "ulimit -f 20; exec '$LINNET' import says.gguf -o old.safetensors"
cmp old.safetensors keep.safetensors || wrong "a file that was not written has replaced another"
[ -z "$(find . -name '*.tmp*')" ] || wrong "a temporary is left: $(find . -name '*.tmp*')"

# Cut files, and one with a changed byte.
for bytes in 0 7 100 4000 20000; do
    head -c "$bytes" says.safetensors >cut.safetensors
    fails 1 "cut.safetensors" "$LINNET" generate cut.safetensors --tokens 1
done
size=$(stat -c %s says.safetensors)
cp says.safetensors cut.safetensors
printf '\xff\xff\xff' | dd of=cut.safetensors bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
fails 1 "the file is damaged" "$LINNET" generate cut.safetensors --tokens 1
