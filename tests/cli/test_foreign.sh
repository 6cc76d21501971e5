#!/bin/bash
# Models that others trained: the logits of each architecture are those of its formulas; what is broken or not known
# is refused with one sentence.
. "$(dirname "$0")/support.sh"

foreign() { python3 "$here/foreign.py" "$@"; }

# Every token's logits, all at once; then those of the last tokens alone.
for name in llama llama-tied llama-sharded llama-llama3 llama-mistral llama-qwen2 llama-qwen3 llama-phi3 llama-gemma gpt2 neox \
    neox-serial; do
    foreign "$name" "$name"
    succeeds "$LINNET" eval "$name" --token-ids "$name/ids.npy" --logits got.npy
    npy same got.npy "$name/expected.npy" 2e-5 || wrong "$name answers something else"
    succeeds "$LINNET" eval "$name" --token-ids "$name/ids.npy" --logits last.npy --last 3
    npy rows got.npy tail.npy 8 11
    npy same last.npy tail.npy 2e-6 || wrong "$name: the last 3 are others"
done
for isa in scalar $([ "$(uname -m)" = x86_64 ] && echo avx2); do
    LINNET_ISA=$isa succeeds "$LINNET" eval llama --token-ids llama/ids.npy --logits other.npy
    npy same other.npy llama/expected.npy 2e-5 || wrong "llama answers something else on $isa"
done
succeeds "$LINNET" eval llama --token-ids llama/ids.npy --logits one.npy --threads 1
succeeds "$LINNET" eval llama --token-ids llama/ids.npy --logits two.npy --threads 2
cmp one.npy two.npy || wrong "the number of threads changes bits"

# What is missing, of another shape, not known, or not finite.
damage() { # COMMAND of Python on the tensors w, and on the config c: llama with that change, in broken/
    rm -rf broken && mkdir broken
    python3 - "$here" "$1" <<'END'
import json, sys
sys.path.insert(0, sys.argv[1])
import foreign
w = foreign.Weights("x")
c, _ = foreign.llama(w, [1, 2], "")
exec(sys.argv[2])
foreign.write_safetensors("broken/model.safetensors", w)
json.dump(c, open("broken/config.json", "w"))
END
}
run() { "$LINNET" eval broken --token-ids llama/ids.npy --logits none.npy; }
damage 'del w["model.layers.1.mlp.up_proj.weight"]'
fails 1 "tensor 'layers.%d.mlp.up_proj.weight' of block 1 is missing" run
damage 'del w["model.norm.weight"]'
fails 1 "no tensor is its 'norm.gain'" run
damage 'w.make("model.layers.0.self_attn.q_proj.weight", 18, 24)'
fails 1 "'model.layers.0.self_attn.q_proj.weight' has another shape" run
damage 'w.make("model.layers.0.self_attn.router.weight", 4, 24)'
fails 1 "tensor 'model.layers.0.self_attn.router.weight' is not known" run
damage 'w["model.norm.weight"] = ((24,), [float("nan")] * 24)'
fails 1 "not finite" run
damage 'c["architectures"] = ["FlyingForCausalLM"]'
fails 1 "the architecture 'FlyingForCausalLM' is not known; known are LlamaForCausalLM" run
damage 'c["rope_scaling"] = {"rope_type": "longrope"}'
fails 1 "scaled by 'longrope'; known are linear, llama3 and yarn" run
damage 'c["hidden_size"] = 1 << 60'
fails 1 "hidden_size is 1152921504606846976, must be 1 to" run
damage 'c["num_hidden_layers"] = 0'
fails 1 "num_hidden_layers is 0, must be 1 to" run
damage 'c["num_attention_heads"] = "many"'
fails 1 "num_attention_heads must be a whole number" run
damage 'c["hidden_act"] = "relu"'
fails 1 "hidden_act is 'relu', known is 'silu'" run
damage 'del c["intermediate_size"]'
fails 1 "intermediate_size is missing" run
[ ! -e none.npy ] || wrong "a refused model has written logits"

# Tokens that are none of the model's, and arrays that are no tokens.
npy make floats.npy 5
fails 1 "dtype is <f4, must be i4 or i8" "$LINNET" eval llama --token-ids floats.npy --logits none.npy
python3 -c "
import sys; sys.path.insert(0, '$here'); import npy
npy.write('high.npy', [2], [1, 99], '<i4'); npy.write('wide.npy', [2], [1, 1 << 40], '<i8')
npy.write('pair.npy', [2, 3], [1, 2, 3, 4, 5, 6], '<i8'); npy.write('none_at_all.npy', [0], [], '<i4')"
fails 1 "token 1 is 99, must be 0 to 36" "$LINNET" eval llama --token-ids high.npy --logits none.npy
fails 1 "element 1 is 1099511627776, no token" "$LINNET" eval llama --token-ids wide.npy --logits none.npy
fails 1 "must be [n] or [B,n], with tokens" "$LINNET" eval llama --token-ids none_at_all.npy --logits none.npy
succeeds "$LINNET" eval llama --token-ids pair.npy --logits pair_logits.npy
npy shape pair_logits.npy '<f4' 2x3x37 || wrong "a batch of tokens has logits of another shape"
fails 2 "--token-ids needs --logits" "$LINNET" eval llama --token-ids pair.npy
fails 1 "has no tokenizer" "$LINNET" tokenize llama --text x
