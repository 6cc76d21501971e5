#!/usr/bin/env python3
"""Linnet beside what a user would pick instead, on this CPU, in one run: PyTorch.

    pip install torch && bench/peers.py [build/linnet]

Two tables. The next token of 8 heads of 64 with so many tokens before it: its time, the least of
three medians, and the size of the cache or state. And whole passes: softmax is held against torch's
scaled_dot_product_attention, causal linear attention against the chunked form written with torch's
own products, which is what users of it write. Both libraries use the same number of threads,
OMP_NUM_THREADS or all. Never part of the tests.
"""
import json
import os
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("peers.py: PyTorch is not installed; 'pip install torch' installs it")

TOOL = sys.argv[1] if len(sys.argv) > 1 else "build/linnet"
THREADS = int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0))))
HEADS, DIM, BEFORE = 8, 64, (1000, 100000)  # of the next token


def median_seconds(run, repeats=7):
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]


def torch_softmax(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def torch_linear(q, k, v, chunk=64):
    """Chunked causal linear attention, elu + 1, denominator included."""
    q, k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
    b, h, n, d = q.shape
    v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    q, k, v = (x.reshape(b, h, n // chunk, chunk, -1) for x in (q, k, v))
    states = (k.transpose(-1, -2) @ v).cumsum(2)
    before = torch.cat([torch.zeros_like(states[:, :, :1]), states[:, :, :-1]], 2)
    out = q @ before + torch.tril(q @ k.transpose(-1, -2)) @ v
    return (out[..., :-1] / (out[..., -1:] + 1e-6)).reshape(b, h, n, -1)


def linnet(command, mechanism, heads, dim, length, *more):
    line = subprocess.run(
        [TOOL, command, "--json", "--causal", "--mechanism", mechanism, "--heads", str(heads),
         "--dim", str(dim), "--length", str(length), "--threads", str(THREADS), *more],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(line)


def torch_token(before):
    q, k, v = (torch.randn(1, HEADS, n, DIM) for n in (1, before, before))
    step = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return min(median_seconds(step, 17) for _ in range(3)), 2 * 4 * HEADS * before * DIM


def linnet_token(before, mechanism, *more):
    took = [linnet("bench", mechanism, HEADS, DIM, before, "--pass", "step", *more)["seconds"]
            for _ in range(3)]
    return min(took), linnet("plan", mechanism, HEADS, DIM, before, *more)["state_bytes"]


def tokens():
    print(f"next token, {HEADS} heads x {DIM}, f32" + "".join(
        f"  {n:>10} before {'memory':>10}" for n in BEFORE) + f"   ({THREADS} threads)")
    for name, measure in (
            ("PyTorch, softmax", torch_token),
            ("softmax", lambda n: linnet_token(n, "softmax")),
            ("taylor, 3 terms", lambda n: linnet_token(n, "taylor", "--terms", "3")),
            ("hybrid", lambda n: linnet_token(n, "hybrid", "--far", "linear", "--window", "64")),
            ("linear", lambda n: linnet_token(n, "linear"))):
        row = [measure(n) for n in BEFORE]
        print(f"{name:32}" + "".join(f"  {t * 1e6:14.1f} us {b / 1e6:7.3f} MB" for t, b in row))


def passes():
    print(f"\n{'forward, causal, f32':32}  {'torch':>10}  {'linnet':>10}  ratio")
    for mechanism, peer, heads, dim, length in (
            ("softmax", torch_softmax, 4, 64, 4096),
            ("softmax", torch_softmax, 8, 128, 2048),
            ("linear", torch_linear, 8, 64, 16384),
            ("linear", torch_linear, 8, 128, 8192)):
        q, k, v = (torch.randn(1, heads, length, dim) for _ in range(3))
        theirs = median_seconds(lambda: peer(q, k, v))
        ours = linnet("bench", mechanism, heads, dim, length)["seconds"]
        name = f"{mechanism} {heads} x {dim}, {length} tokens"
        print(f"{name:32}  {theirs * 1e3:7.1f} ms  {ours * 1e3:7.1f} ms  {theirs / ours:5.2f}")


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    with torch.no_grad():
        tokens()
        passes()
