#!/bin/bash
# Models of llama2.c: the logits are those of the formulas, a text's tokens those of merging by scores, and a file that
# is none, or lies, is refused with one sentence.
. "$(dirname "$0")/support.sh"

llama2c() { python3 "$here/llama2c.py" "$@"; }
logits() { "$LINNET" eval "$1" --token-ids "shared/ids.npy" --logits got.npy "${@:2}"; }

for name in shared separate; do
    llama2c "$name" "$name"
    for model in "$name" "$name/model.bin"; do
        succeeds "$LINNET" eval "$model" --token-ids "$name/ids.npy" --logits got.npy
        npy same got.npy "$name/expected.npy" 2e-5 || wrong "$model answers something else"
    done
    succeeds "$LINNET" tokenize "$name" --file "$name/text.txt" --json
    python3 - "$here" "$name" <<'END' || wrong "$name: other tokens: $(cat stdout.txt)"
import json, sys
sys.path.insert(0, sys.argv[1])
import npy
_, _, wanted = npy.read(f"{sys.argv[2]}/text_ids.npy")
got = json.load(open("stdout.txt"))["tokens"]
assert got == [int(t) for t in wanted], (got, wanted)
END
done

# A model runs wherever it lies; a tokenizer is beside it, or is said.
mkdir -p alone many
cp shared/model.bin alone/stories.bin
cp shared/tokenizer.bin alone/tok273.bin
(cd alone && succeeds "$LINNET" generate stories.bin --prompt "ab" --tokens 5 --temperature 0) 
"$LINNET" generate alone --prompt "ab" --tokens 5 --temperature 0 >first.txt
succeeds "$LINNET" generate shared/model.bin --prompt "ab" --tokens 5 --temperature 0
cmp first.txt stdout.txt || wrong "another tokenizer beside it"
cp shared/model.bin many/a.bin
fails 1 "it has no tokenizer" "$LINNET" generate many --prompt "ab" --tokens 5
succeeds logits many # which needs none
succeeds "$LINNET" generate many --prompt "ab" --tokens 5 --temperature 0 --tokenizer shared/tokenizer.bin
cmp first.txt stdout.txt || wrong "--tokenizer is not heard"
cp shared/tokenizer.bin many/tok1.bin
cp shared/tokenizer.bin many/tok2.bin
fails 1 "2 tokenizers are beside it, among them 'tok1.bin' and 'tok2.bin'" logits many
succeeds "$LINNET" tokenize many --tokenizer many/tok2.bin --text ab
cp shared/tokenizer.bin many/tokenizer.bin
succeeds logits many # its name settles it
cp shared/model.bin many/b.bin
fails 1 "has 2 models of llama2.c, among them 'a.bin' and 'b.bin'" logits many
succeeds logits many/b.bin
llama2c damage shared/tokenizer.bin long.bin 'b += b"x"'
fails 1 "1 bytes are left after its 273 tokens" logits shared --tokenizer long.bin
llama2c damage shared/tokenizer.bin short.bin 'b = b[:-1]'
fails 1 "short.bin" logits shared --tokenizer short.bin
fails 1 "missing.bin" logits shared --tokenizer missing.bin
python3 "$here/gguf.py" tiny.gguf
fails 1 "has its tokenizer with it, and takes no other" "$LINNET" tokenize tiny.gguf --text x --tokenizer long.bin

# One file of it, with the tokenizer, says the same.
succeeds "$LINNET" import separate -o one.safetensors --tokenizer separate/tokenizer.bin
for model in separate one.safetensors; do
    succeeds "$LINNET" generate "$model" --prompt "ab" --tokens 5 --temperature 0
    cp stdout.txt "$model.said"
    succeeds "$LINNET" eval "$model" --token-ids shared/ids.npy --logits "$model.logits.npy"
done
cmp separate.said one.safetensors.said || wrong "an imported model writes something else"
cmp separate.logits.npy one.safetensors.logits.npy || wrong "an imported model answers something else"

# What is no such model, or lies.
refused() { # COMMAND of Python on the bytes b, and a part of the sentence
    llama2c damage shared/model.bin broken.bin "$1"
    fails 1 "$2" logits broken.bin
}
refused 'b = b[:20]' "has 20 bytes, less than the header"
refused 'b += bytes(4)' "by its header a model of llama2.c has"
refused 'b = b[:-4]' "by its header a model of llama2.c has"
refused 'struct.pack_into("<i", b, 0, 0)' "it has dim 0, must be 1 to 65536"
refused 'struct.pack_into("<i", b, 4, -5)' "it has hidden_dim -5, must be 1 to 262144"
refused 'struct.pack_into("<i", b, 8, 0x7fffffff)' "it has n_layers 2147483647, must be 1 to 1024"
refused 'struct.pack_into("<i", b, 12, 5)' "which must divide each other"
refused 'struct.pack_into("<i", b, 16, 3)' "which must divide each other"
refused 'struct.pack_into("<i", b, 20, -0x80000000)' "it has vocab_size 2147483648, must be 1 to 16777216"
refused 'struct.pack_into("<7i", b, 0, 65536, 262144, 1024, 4096, 4096, 1 << 24, 1 << 24)' "a model of llama2.c has 285874634096668"
refused 'b[:4] = b"PK\3\4"' "a model that PyTorch has pickled is not read"
refused 'b[:4] = b"24ka"' "only those of version 0 are read"
refused 'struct.pack_into("<f", b, len(b) - 4 * 96, 0.5)' "is not that of rotary positions of base 10000"
refused 'struct.pack_into("<f", b, 28 + 4 * 273 * 24, float("nan"))' "not finite"
: >empty.bin
fails 1 "'empty.bin': the file is empty" logits empty.bin

# A file of another kind may be called so, and a folder with a model of another kind is of that kind.
"$LINNET" train --task copy --steps 1 --out run >/dev/null 2>&1
cp run/model.safetensors own.bin
"$LINNET" generate own.bin --prompt "1" --tokens 2 >/dev/null || wrong "our own model called .bin does not run"
cp shared/model.bin run/
"$LINNET" generate run --prompt "1" --tokens 2 >/dev/null || wrong "a .bin in the directory of a run is taken for it"
