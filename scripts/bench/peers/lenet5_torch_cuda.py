#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""LeNet-5 in PyTorch on one GPU: the network, data and step of `dptrain train --model lenet5`, for comparison.

Three ways: eager, as one writes it; graph, the whole step recorded once as a CUDA graph; compile, torch.compile with
its own graphs. The data lie on the GPU from the start, and nothing waits for the GPU within a block of steps: both
favour PyTorch. See --help.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from lenet5_torch import Dataset, LeNet5


def batches(n_samples, batch, seed, device):
    """Yields indices of each batch forever, shuffled at each epoch."""
    generator = torch.Generator(device=device).manual_seed(seed)
    while True:
        order = torch.randperm(n_samples, generator=generator, device=device)
        for first in range(0, n_samples - batch + 1, batch):
            yield order[first : first + batch]


class Step:
    """One training step on fixed buffers, x and label; run() does everything except fetching the batch."""

    def __init__(self, args, device):
        self.args = args
        memory_format = torch.channels_last if args.channels_last else torch.contiguous_format
        self.model = LeNet5().to(device=device, memory_format=memory_format)
        self.net = self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9, fused=True)
        self.x = torch.zeros(args.batch, 1, 28, 28, device=device).contiguous(memory_format=memory_format)
        self.label = torch.zeros(args.batch, dtype=torch.long, device=device)
        self.loss = torch.zeros((), device=device)
        if args.way == "compile":
            self.net = torch.compile(self.model, mode="max-autotune" if args.autotune else "reduce-overhead")

    def eager(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.args.precision == "bf16"):
            loss = F.cross_entropy(self.net(self.x), self.label)
        loss.backward()
        self.optimizer.step()
        self.loss.copy_(loss.detach())

    def record(self):
        """Captures the step as a CUDA graph, after warm-up on a side stream, as PyTorch's documentation requires."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.eager()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.eager()
        self.run = graph.replay

    run = eager


def train(args):
    device = torch.device("cuda")
    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = args.precision != "fp32"
    torch.backends.cudnn.allow_tf32 = args.precision != "fp32"
    torch.backends.cudnn.benchmark = True
    data = Dataset(args.data, "train")
    images, labels = data.images.to(device), data.labels.to(device)
    mean, inverse = data.scale[0], 1 / data.scale[1]
    step, indices = Step(args, device), batches(len(labels), args.batch, args.seed, device)
    if args.way == "graph":
        step.record()

    def one():
        index = next(indices)
        step.x.copy_(images[index].float().sub_(mean).mul_(inverse))
        step.label.copy_(labels[index])
        step.run()

    for _ in range(args.warmup):
        one()
    torch.cuda.synchronize()
    block_sec = []
    for _ in range(max(1, args.steps // args.block)):
        begin = time.perf_counter()
        for _ in range(args.block):
            one()
        torch.cuda.synchronize()
        block_sec.append((time.perf_counter() - begin) / args.block)
    sec = statistics.median(block_sec)
    return {
        "record": "end",
        "images_per_sec": args.batch / sec,
        "step_sec": sec,
        "loss": step.loss.item(),
        "peak_memory_bytes": [torch.cuda.max_memory_allocated()],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=False, help="folder with MNIST's IDX files, plain or .gz")
    parser.add_argument("--way", choices=["eager", "graph", "compile"], default="eager")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="fp32")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--warmup", type=int, default=100, help="steps before the clock runs [%(default)s]")
    parser.add_argument("--block", type=int, default=50, help="steps between two readings of the clock [%(default)s]")
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--channels-last", action="store_true", help="NHWC instead of NCHW")
    parser.add_argument("--autotune", action="store_true", help="compile: mode max-autotune, which takes minutes")
    parser.add_argument("--describe", action="store_true", help="print versions and exit; code 4 without a GPU")
    parser.add_argument("--out", help="file for the record, which is also printed")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("PyTorch found no GPU", file=sys.stderr)
        sys.exit(4)
    if args.describe:
        print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, "
              f"{torch.cuda.get_device_name()}")
        return
    if not args.data:
        parser.error("--data is needed")
    line = json.dumps(train(args))
    print(line, flush=True)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
