#!/usr/bin/env python3
"""What a user would pick instead, on this GPU: PyTorch's scaled_dot_product_attention, causal, bf16.

    bench/gpu_peers.py

One line a shape: nanoseconds a token over all heads, the median of several runs by events.
"""
import sys

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    sys.exit("gpu_peers.py: PyTorch is not installed; 'pip install torch' installs it")


def median_ms(run, repeats=5):
    run()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def main():
    n = 65536
    for heads, dim in ((16, 64), (32, 32), (64, 16), (128, 8)):
        q, k, v = (torch.randn(1, heads, n, dim, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            try:
                with sdpa_kernel(backend):
                    ms = median_ms(lambda: torch.nn.functional.scaled_dot_product_attention(
                        q, k, v, is_causal=True))
            except RuntimeError:
                continue
            print(f"PyTorch {torch.__version__} {name} softmax causal {heads} x {dim}: {ms * 1e6 / n:.1f} ns/token")


if __name__ == "__main__":
    main()
