#!/usr/bin/env python3
"""`linnet train` beside the same model in PyTorch, on this CPU, in one run.

    pip install torch && bench/train_peers.py [build/linnet]

A decoder (4 layers, 8 heads, pre-norm, gelu, learned positions, f32) over random tokens; a step is
forward, backward, clipping and AdamW. PyTorch's softmax is scaled_dot_product_attention, its linear
attention the chunked form written with torch's own products, which is what users of it write. Both
use the same number of threads and take turns; figures are medians. "products" is what linnet's dense
layers alone would allow (`linnet bench --study training`). Never part of the tests.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit("train_peers.py: PyTorch is not installed; 'pip install torch' installs it")

from peers import TOOL, torch_linear, torch_softmax

THREADS = len(os.sched_getaffinity(0))
LAYERS, HEADS, WORDS = 4, 8, 256
ROUNDS, STEPS = 3, 3


class Block(nn.Module):
    def __init__(self, dim, attend):
        super().__init__()
        self.attend = attend
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, n, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, HEADS, dim // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).reshape(b, n, dim))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self, dim, length, attend):
        super().__init__()
        self.embed, self.position = nn.Embedding(WORDS, dim), nn.Embedding(length, dim)
        self.blocks = nn.Sequential(*(Block(dim, attend) for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, WORDS)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


class Torch:
    def __init__(self, dim, length, batch, attend):
        self.model = Decoder(dim, length, attend)
        self.adam = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.shape = (batch, length + 1)
        self.step()  # the first one allocates

    def step(self):
        text = torch.randint(WORDS, self.shape)
        start = time.perf_counter()
        logits = self.model(text[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, WORDS), text[:, 1:].reshape(-1))
        self.adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1)
        self.adam.step()
        return time.perf_counter() - start

    def parameters(self):
        return sum(p.numel() for p in self.model.parameters())


def write_config(path, dim, length, batch):
    config = {"model": {"dim": dim, "layers": LAYERS, "heads": HEADS, "length": length,
                        "position": "learned", "activation": "gelu", "norm_place": "pre"},
              "train": {"steps": STEPS + 1, "batch": batch, "optimizer": "adamw", "clip": 1,
                        "eval_batches": 1},
              "task": {"tokenizer": "bytes", "held_out": 0}}
    with open(path, "w") as file:
        json.dump(config, file)


def task_arguments(config, mechanism):
    """Random bytes for a text: every sequence is as long as the model's."""
    return ["--task", "text", "--data", config + ".txt", "--config", config,
            "--mechanism", mechanism, "--threads", str(THREADS)]


def linnet_steps(config, mechanism):
    """Seconds of each step but the first."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([TOOL, "train", "--out", out] + task_arguments(config, mechanism),
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "log.jsonl")) as log:
            lines = [json.loads(line) for line in log]
    return [line["seconds"] for line in lines if "seconds" in line][1:]


def linnet_bound(config, mechanism):
    line = subprocess.run(
        [TOOL, "bench", "--json", "--study", "training"] + task_arguments(config, mechanism),
        check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(line)


def compare(config, mechanism, attend, dim, length, batch):
    peer = Torch(dim, length, batch, attend)
    theirs, ours = [], []
    for _ in range(ROUNDS):
        theirs += [peer.step() for _ in range(STEPS)]
        ours += linnet_steps(config, mechanism)
    bound = linnet_bound(config, mechanism)
    if bound["parameters"] != peer.parameters():
        sys.exit(f"train_peers.py: linnet has {bound['parameters']} parameters, "
                 f"torch {peer.parameters()}: not the same model")
    tokens = batch * length
    torch_speed, speed = (tokens / statistics.median(x) for x in (theirs, ours))
    print(f"{mechanism:8} {dim:5} {length:7} {batch:6}  {torch_speed:9.0f}  {speed:9.0f}  "
          f"{speed / torch_speed:7.2f}  {bound['products_tokens_per_second']:9.0f}  "
          f"{bound['products_tokens_per_second'] / speed:7.2f}", flush=True)


def main():
    torch.set_num_threads(THREADS)
    print(f"training, tokens/s: {LAYERS} layers, {HEADS} heads, {WORDS} words, f32, "
          f"{THREADS} threads, torch {torch.__version__}")
    print(f"{'':8} {'dim':>5} {'length':>7} {'batch':>6}  {'torch':>9}  {'linnet':>9}  "
          f"{'faster':>7}  {'products':>9}  {'bound':>7}")
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.json")
        with open(config + ".txt", "wb") as text:
            text.write(os.urandom(1 << 18))
        for dim, length, batch in ((64, 128, 64), (128, 256, 8), (256, 256, 4), (256, 1024, 1)):
            write_config(config, dim, length, batch)
            compare(config, "softmax", torch_softmax, dim, length, batch)
            compare(config, "linear", torch_linear, dim, length, batch)


if __name__ == "__main__":
    main()
