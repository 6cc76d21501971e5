#!/usr/bin/env python3
"""Linnet beside what a user would pick instead, on this CPU, in one run: PyTorch.

    pip install torch && bench/peers.py [build/linnet]

softmax is held against torch's scaled_dot_product_attention, causal linear attention against the
chunked form written with torch's own products, which is what users of it write. Both libraries use
the same number of threads. Never part of the tests.
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
THREADS = len(os.sched_getaffinity(0))


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
    q, k, v = (x.view(b, h, n // chunk, chunk, -1) for x in (q, k, v))
    states = (k.transpose(-1, -2) @ v).cumsum(2)
    before = torch.cat([torch.zeros_like(states[:, :, :1]), states[:, :, :-1]], 2)
    out = q @ before + torch.tril(q @ k.transpose(-1, -2)) @ v
    return (out[..., :-1] / (out[..., -1:] + 1e-6)).view(b, h, n, -1)


def linnet_seconds(mechanism, heads, dim, length):
    line = subprocess.run(
        [TOOL, "bench", "--json", "--causal", "--mechanism", mechanism, "--heads", str(heads),
         "--dim", str(dim), "--length", str(length), "--threads", str(THREADS)],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(line)["seconds"]


def main():
    torch.set_num_threads(THREADS)
    print(f"{'forward, causal, f32':32}  {'torch':>10}  {'linnet':>10}  ratio   ({THREADS} threads)")
    for mechanism, peer, heads, dim, length in (
            ("softmax", torch_softmax, 4, 64, 4096),
            ("softmax", torch_softmax, 8, 128, 2048),
            ("linear", torch_linear, 8, 64, 16384),
            ("linear", torch_linear, 8, 128, 8192)):
        q, k, v = (torch.randn(1, heads, length, dim) for _ in range(3))
        with torch.no_grad():
            theirs = median_seconds(lambda: peer(q, k, v))
        ours = linnet_seconds(mechanism, heads, dim, length)
        name = f"{mechanism} {heads} x {dim}, {length} tokens"
        print(f"{name:32}  {theirs * 1e3:7.1f} ms  {ours * 1e3:7.1f} ms  {theirs / ours:5.2f}")


if __name__ == "__main__":
    main()
