#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times cuDNN, through PyTorch, on the 3×3 convolutions timed by build/scripts/bench/gpu_products: reads its
JSON lines, prints a Markdown table with the ratios. NHWC, with the fastest algorithm of cuDNN's benchmark mode."""

import json
import statistics
import sys

import torch


def seconds(call, budget=0.2):
    """Median of batches of calls, each long enough for the GPU's clock."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    n, samples = 1, []
    while len(samples) < 7:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(n):
            call()
        end.record()
        end.synchronize()
        sec = 1e-3 * begin.elapsed_time(end)
        if sec < 2e-3 and n < 4096:
            n *= 2
        else:
            samples.append(sec / n)
    return statistics.median(samples)


def cudnn_seconds(case):
    dtype = torch.bfloat16 if case["type"] == "bfloat16" else torch.float32
    torch.backends.cudnn.allow_tf32 = case["type"] == "tfloat32"
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype).contiguous(memory_format=torch.channels_last)
    x = make(case["batch"], case["in"], case["side"], case["side"])
    w = make(case["out"], case["in"], 3, 3)
    stride, padding, dilation = [case["stride"]] * 2, [1, 1], [1, 1]
    y = torch.ops.aten.convolution(x, w, None, stride, padding, dilation, False, [0, 0], 1)
    if case["pass"] == "forward":
        return seconds(lambda: torch.ops.aten.convolution(x, w, None, stride, padding, dilation, False, [0, 0], 1))
    mask = [case["pass"] == "backward_data", case["pass"] == "backward_weights", False]
    dy = torch.randn_like(y)
    backward = torch.ops.aten.convolution_backward
    return seconds(lambda: backward(dy, x, w, None, stride, padding, dilation, False, [0, 0], 1, mask))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: torch_conv.py FILE")
    if not torch.cuda.is_available():
        print("PyTorch found no GPU", file=sys.stderr)
        sys.exit(4)
    torch.backends.cudnn.benchmark = True
    print("| 3×3 convolution | type | pass | dptrain, µs | by | cuDNN, µs | cuDNN / dptrain |")
    print("|---|---|---|---|---|---|---|")
    with open(sys.argv[1], encoding="utf-8") as file:
        for case in map(json.loads, file):
            theirs = cudnn_seconds(case)
            print(f"| {case['layer']} | {case['type']} | {case['pass']} | {1e6 * case['sec']:.1f} | {case['by']} | {1e6 * theirs:.1f} "
                  f"| **{theirs / case['sec']:.2f}** |", flush=True)
    print("\nbfloat16: cuDNN reads and writes bfloat16, dptrain float32, which it rounds while loading.")


if __name__ == "__main__":
    main()
