#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""LeNet-5 and ResNet-50 in PyTorch on one GPU: the network, data and step of `dptrain train --model NAME`, for comparison.

Three ways: eager, as one writes it; graph, the whole step recorded once as a CUDA graph; compile, torch.compile with
its own graphs. The data lie on the GPU from the start, and nothing waits for the GPU within a block of steps: both
favour PyTorch. See --help.
"""

import argparse
import collections
import json
import statistics
import sys
import time

import resnet_torch
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


def turns(n_samples, batch, device):
    """Yields indices of each batch forever, in order: a batch may be larger than the pool of images."""
    index = torch.arange(batch, device=device)
    while True:
        yield index % n_samples
        index = index + batch


class Mnist:
    """Bytes of MNIST on the GPU."""

    def __init__(self, args, device):
        data = Dataset(args.data, "train")
        self.images, self.labels = data.images.to(device), data.labels.to(device)
        self.mean, self.inverse = data.scale[0], 1 / data.scale[1]
        self.indices = batches(len(self.labels), args.batch, args.seed, device)


class Pool:
    """The random images of `--data synthetic` on the GPU (src/data/dataset/memory.c)."""

    def __init__(self, args, device):
        shape = (resnet_torch.POOL, 3, args.side, args.side)
        self.images = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
        self.labels = torch.randint(0, resnet_torch.CLASSES, shape[:1], device=device)
        self.mean, self.inverse = 127.5, 1 / 73.6
        self.indices = turns(resnet_torch.POOL, args.batch, device)


class Step:
    """One training step on fixed buffers, x and label; run() does everything except fetching the batch."""

    def __init__(self, args, data, device):
        self.args, self.data = args, data
        memory_format = torch.channels_last if args.channels_last else torch.contiguous_format
        model = LeNet5() if args.model == "lenet5" else resnet_torch.ResNet(*resnet_torch.MODELS[args.model], args.side)
        self.model = model.to(device=device, memory_format=memory_format)
        self.net = self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9, **args.fused)
        data.images = data.images.contiguous(memory_format=memory_format)
        self.x = torch.zeros(args.batch, *data.images.shape[1:], device=device).contiguous(memory_format=memory_format)
        self.label = torch.zeros(args.batch, dtype=torch.long, device=device)
        self.loss = torch.zeros((), device=device)
        if args.way == "compile":
            self.net = torch.compile(self.model, mode="max-autotune" if args.autotune else "reduce-overhead")

    def fetch(self):
        index = next(self.data.indices)
        self.x.copy_(self.data.images[index].float().sub_(self.data.mean).mul_(self.data.inverse))
        self.label.copy_(self.data.labels[index])

    def eager(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.x.device.type, dtype=torch.bfloat16, enabled=self.args.precision == "bf16"):
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
    device = torch.device(args.device)
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = args.precision != "fp32"
    torch.backends.cudnn.allow_tf32 = args.precision != "fp32"
    torch.backends.cudnn.benchmark = True
    step = Step(args, Mnist(args, device) if args.model == "lenet5" else Pool(args, device), device)
    if args.way == "graph":
        step.record()

    for _ in range(args.warmup):
        step.fetch()
        step.run()
    wait()
    block_sec = []
    for _ in range(max(1, args.steps // args.block)):
        begin = time.perf_counter()
        for _ in range(args.block):
            step.fetch()
            step.run()
        wait()
        block_sec.append((time.perf_counter() - begin) / args.block)
    sec = statistics.median(block_sec)
    return step, {
        "record": "end",
        "median_images_per_sec": args.batch / sec,
        "step_sec": sec,
        "loss": step.loss.item(),
        "peak_memory_bytes": [torch.cuda.max_memory_allocated() if args.device == "cuda" else 0],
    }


def write_kernels(step, path, n_steps=3):
    """The kernels of a step by name, the costliest first: ms and launches a step."""
    from torch.profiler import ProfilerActivity, profile  # slow to import

    ms, launches = collections.Counter(), collections.Counter()
    with profile(activities=[ProfilerActivity.CUDA]) as events:
        for _ in range(n_steps):
            step.fetch()
            step.run()
        torch.cuda.synchronize()
    for event in events.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            ms[event.name] += event.self_device_time_total / 1e3 / n_steps
            launches[event.name] += 1 / n_steps
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{sum(ms.values()):8.3f} ms {sum(launches.values()):6.0f}  kernels of a step\n")
        for name, value in ms.most_common(100):
            file.write(f"{value:8.3f} ms {launches[name]:6.0f}  {name}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=["lenet5", *sorted(resnet_torch.MODELS)], default="lenet5")
    parser.add_argument("--data", help="lenet5: folder with MNIST's IDX files, plain or .gz; ResNets have random images")
    parser.add_argument("--side", type=int, default=224, help="ResNets: pixels [%(default)s]")
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
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try this script; no figures")
    parser.add_argument("--describe", action="store_true", help="print versions and exit; code 4 without a GPU")
    parser.add_argument("--out", help="file for the record, which is also printed")
    parser.add_argument("--kernels", help="file for the kernels of a step, by name")
    args = parser.parse_args()
    args.fused = {"fused": True} if args.device == "cuda" else {}
    if args.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch found no GPU", file=sys.stderr)
        sys.exit(4)
    if args.describe:
        print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, "
              f"{torch.cuda.get_device_name()}")
        return
    if args.model == "lenet5" and not args.data:
        parser.error("--data is needed")
    step, record = train(args)
    line = json.dumps(record)
    print(line, flush=True)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(line + "\n")
    if args.kernels:
        write_kernels(step, args.kernels)


if __name__ == "__main__":
    main()
