#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ResNet-18 and ResNet-50 in PyTorch on the CPU: the networks of `dptrain train --model resnet18`, on the same kind of
random images and with the same step, to be timed beside it.

One process, or one of several under torchrun or mpirun with --ddp (DistributedDataParallel over gloo). A step is
all of one: fetch the batch, forward, loss, backward, allreduce, optimizer. See --help.
"""

import argparse
import itertools

import lenet5_torch
import torch
from torch import nn

POOL, CLASSES, SMALL_SIDE = 64, 10, 64  # src/data/dataset/memory.c, src/compute/models/resnet.c


def conv(n_in, n_out, kernel, stride=1):
    return nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    """Convolutions with batch norm, parallel to a shortcut; the stride is in the first 3×3 convolution."""

    def __init__(self, n_in, kernels, widths, stride):
        super().__init__()
        channels = [n_in, *widths]
        at = kernels.index(3)
        self.convs = nn.ModuleList(
            conv(channels[i], channels[i + 1], kernel, stride if i == at else 1) for i, kernel in enumerate(kernels))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths)
        self.shortcut = None
        if stride != 1 or n_in != widths[-1]:
            self.shortcut = nn.Sequential(conv(n_in, widths[-1], 1, stride), nn.BatchNorm2d(widths[-1]))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = x
        for i, (convolve, norm) in enumerate(zip(self.convs, self.norms)):
            y = norm(convolve(y))
            if i + 1 < len(self.convs):
                y = self.relu(y)
        y += x if self.shortcut is None else self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Sequential):
    """src/compute/models/resnet.c."""

    def __init__(self, n_blocks, bottleneck, side):
        stem = [conv(3, 64, 3) if side <= SMALL_SIDE else conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
        if side > SMALL_SIDE:
            stem.append(nn.MaxPool2d(3, 2, 1))
        blocks, n_in = [], 64
        for stage, count in enumerate(n_blocks):
            width = 64 << stage
            for i in range(count):
                kernels, widths = ([1, 3, 1], [width, width, 4 * width]) if bottleneck else ([3, 3], [width, width])
                blocks.append(Block(n_in, kernels, widths, 2 if stage > 0 and i == 0 else 1))
                n_in = widths[-1]
        super().__init__(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, CLASSES))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


MODELS = {"resnet18": ([2, 2, 2, 2], False), "resnet50": ([3, 4, 6, 3], True)}


def fetch(pool, labels, step, args, memory_format):
    """Bytes in memory, converted to floats per batch, as in dptrain."""
    index = (torch.arange(args.batch) + step * args.batch) % POOL
    x = pool[index].float().sub_(127.5).mul_(1 / 73.6)
    return x.contiguous(memory_format=memory_format), labels[index]


def train(args, size):
    torch.manual_seed(1)
    memory_format = torch.channels_last if args.channels_last else torch.contiguous_format
    pool = torch.randint(0, 256, (POOL, 3, args.side, args.side), dtype=torch.uint8)
    pool = pool.contiguous(memory_format=memory_format)
    labels = torch.randint(0, CLASSES, (POOL,))
    model = ResNet(*MODELS[args.model], args.side).to(memory_format=memory_format)
    numbers = itertools.count()
    for costs in lenet5_torch.timed(args, lambda: fetch(pool, labels, next(numbers), args, memory_format),
                                    lenet5_torch.tuned(args, model), lenet5_torch.optimizer(args, model, 0.01)):
        pass
    return lenet5_torch.end_record(args, size, costs)


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet18")
    parser.add_argument("--side", type=int, default=224, help="pixels [%(default)s]")
    parser.add_argument("--steps", type=int, default=13)
    parser.add_argument("--warmup", type=int, default=3, help="first steps, excluded from the median [%(default)s]")
    parser.add_argument("--batch", type=int, default=8, help="samples per step and rank [%(default)s]")
    return lenet5_torch.parse(parser)


def main():
    args = options()
    if args.describe:
        lenet5_torch.describe()
        return
    torch.set_num_threads(args.threads)
    rank, size = lenet5_torch.join(args)
    lenet5_torch.leave(args, rank, train(args, size))


if __name__ == "__main__":
    main()
