#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""LeNet-5 in PyTorch on the CPU: the network, data and step of `dptrain train --model lenet5`, for comparison.

One process, or one of several under torchrun or mpirun with --ddp (DistributedDataParallel over gloo). A step is
all of one: fetch the batch, forward, loss, backward, allreduce, optimizer. See --help.
"""

import argparse
import gzip
import json
import math
import os
import resource
import statistics
import struct
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.optim import ZeroRedundancyOptimizer


class LeNet5(torch.nn.Module):
    """src/compute/models/lenet5.c."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 20, 5)
        self.conv2 = torch.nn.Conv2d(20, 50, 5)
        self.fc1 = torch.nn.Linear(800, 500)
        self.fc2 = torch.nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def read_idx(folder, name):
    """One of MNIST's files, plain or .gz, as a tensor of bytes."""
    path = os.path.join(folder, name)
    opener = open
    if not os.path.exists(path):
        path, opener = path + ".gz", gzip.open
    with opener(path, "rb") as file:
        zeros, kind, n_dims = struct.unpack(">HBB", file.read(4))
        if zeros != 0 or kind != 8:
            sys.exit(f"{path}: not an IDX file of bytes")
        dims = struct.unpack(f">{n_dims}I", file.read(4 * n_dims))
        content = bytearray(math.prod(dims))
        if file.readinto(content) != len(content):
            sys.exit(f"{path}: shorter than its header states")
        return torch.frombuffer(content, dtype=torch.uint8).reshape(dims)


class Dataset:
    """Bytes in memory, normalised per batch with the training set's mean and standard deviation, as in dptrain."""

    def __init__(self, folder, part, scale=None):
        self.images = read_idx(folder, f"{part}-images-idx3-ubyte").unsqueeze(1)
        self.labels = read_idx(folder, f"{part}-labels-idx1-ubyte").long()
        self.scale = scale or self.moments()

    def moments(self):
        # In parts, because bincount makes 8-byte integers, which would determine peak memory.
        count = sum(torch.bincount(part.flatten(), minlength=256) for part in self.images.split(1000)).double()
        value = torch.arange(256, dtype=torch.double)
        mean = (count * value).sum() / count.sum()
        variance = (count * (value - mean) ** 2).sum() / count.sum()
        return mean.item(), variance.sqrt().item()

    def batch(self, index, memory_format):
        x = self.images[index].float().sub_(self.scale[0]).mul_(1 / self.scale[1])
        return x.contiguous(memory_format=memory_format), self.labels[index]


def batches(n_samples, batch, rank, size, seed):
    """Yields this rank's indices of each global batch forever, with the same shuffle per epoch on every rank."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(n_samples, generator=generator)
        for first in range(0, n_samples - batch * size + 1, batch * size):
            yield order[first + rank * batch : first + (rank + 1) * batch]


def join(args):
    """Rank and number of ranks; with --ddp from torchrun's variables, or mpirun's under torchrun's names."""
    if not args.ddp:
        return 0, 1
    for theirs, ours in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")):
        if theirs not in os.environ and ours in os.environ:
            os.environ[theirs] = os.environ[ours]
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29555")
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def evaluate(model, data, memory_format, batch):
    n_right = 0
    with torch.no_grad():
        for index in torch.arange(len(data.labels)).split(batch):
            x, label = data.batch(index, memory_format)
            n_right += (model(x).argmax(1) == label).sum().item()
    return n_right / len(data.labels)


def tuned(args, model):
    """The model as it is trained: on several ranks, compiled."""
    net = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if args.ddp else model
    return torch.compile(net) if args.compile else net


def optimizer(args, model, lr):
    kind, more = (torch.optim.AdamW, {}) if args.adamw else (torch.optim.SGD, {"momentum": 0.9})
    if args.fused:
        more["fused"] = True
    if args.zero:
        return ZeroRedundancyOptimizer(model.parameters(), kind, parameters_as_bucket_view=True, lr=lr, **more)
    return kind(model.parameters(), lr=lr, **more)


def timed(args, fetch, net, update):
    """Runs args.steps steps. Yields after each the lists so far: seconds, CPU seconds, page faults, losses."""
    costs = {"sec": [], "cpu_sec": [], "faults": [], "loss": []}
    for _ in range(args.steps):
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        begin, begin_cpu = time.perf_counter(), time.process_time()
        x, label = fetch()
        update.zero_grad(set_to_none=not args.ddp)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
            loss = F.cross_entropy(net(x), label)
        loss.backward()
        update.step()
        costs["loss"].append(loss.item())
        costs["sec"].append(time.perf_counter() - begin)
        costs["cpu_sec"].append(time.process_time() - begin_cpu)
        costs["faults"].append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)
        yield costs


def end_record(args, size, costs):
    """Of the steps after the warm-up."""
    steady = {name: values[args.warmup :] for name, values in costs.items()}
    return {
        "record": "end",
        "step": args.steps,
        "median_images_per_sec": args.batch * size / statistics.median(steady["sec"]),
        "images_per_sec": args.batch * size / statistics.mean(steady["sec"]),
        "step_sec": statistics.median(steady["sec"]),
        "step_cpu_sec": statistics.median(steady["cpu_sec"]),
        "steady_steps": len(steady["sec"]),
        "faults_per_step": statistics.median(steady["faults"]),
        "loss": costs["loss"][-1],
        "peak_memory_bytes": [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024],
        "software": f"PyTorch {torch.__version__}",
    }


def train(args, rank, size):
    torch.manual_seed(args.seed)
    memory_format = torch.channels_last if args.channels_last else torch.contiguous_format
    data = Dataset(args.data, "train")
    model = LeNet5().to(memory_format=memory_format)
    indices = batches(len(data.labels), args.batch, rank, size, args.seed)
    steps = timed(args, lambda: data.batch(next(indices), memory_format), tuned(args, model), optimizer(args, model, args.lr))
    for step, costs in enumerate(steps, 1):
        if rank == 0 and step % args.log_every == 0:
            block = slice(step - args.log_every, step)
            rate, loss = args.batch * size / statistics.median(costs["sec"][block]), statistics.mean(costs["loss"][block])
            print(f"step {step}/{args.steps}  {rate:.0f} images/s  loss {loss:.4f}", flush=True)
    # Before evaluation, which is not timed.
    end = end_record(args, size, costs)
    end["loss"] = statistics.mean(costs["loss"][-args.log_every :])
    if rank == 0 and not args.no_eval:
        end["val_accuracy"] = evaluate(model, Dataset(args.data, "t10k", data.scale), memory_format, args.batch)
    return end


def parse(parser):
    """Adds the options that all peers share."""
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ddp", action="store_true", help="several ranks: DistributedDataParallel over gloo")
    parser.add_argument("--channels-last", action="store_true", help="NHWC instead of NCHW")
    parser.add_argument("--bf16", action="store_true", help="torch.autocast with bfloat16")
    parser.add_argument("--fused", action="store_true", help="the fused optimizer of PyTorch 2.4 and later")
    parser.add_argument("--adamw", action="store_true", help="AdamW instead of SGD")
    parser.add_argument("--zero", action="store_true", help="with --ddp: ZeroRedundancyOptimizer")
    parser.add_argument("--compile", action="store_true", help="torch.compile, PyTorch 2 and later; needs g++ and Python.h")
    parser.add_argument("--describe", action="store_true", help="print versions and exit")
    parser.add_argument("--out", help="file for the last record, which is also printed")
    args = parser.parse_args()
    if args.steps <= args.warmup:
        parser.error("--steps must be more than --warmup")
    return args


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    folder = os.path.join(os.environ.get("DPTRAIN_DATA", "data"), "mnist")
    parser.add_argument("--data", default=folder, help="folder with MNIST's IDX files, plain or .gz [%(default)s]")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--warmup", type=int, default=10, help="first steps, excluded from the median [%(default)s]")
    parser.add_argument("--batch", type=int, default=64, help="samples per step and rank [%(default)s]")
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--no-eval", action="store_true", help="no accuracy at the end")
    return parse(parser)


def describe():
    found = [line.strip() for line in torch.__config__.show().splitlines() if "MKL-DNN" in line or "oneDNN" in line]
    version = found[0].lstrip("- ").split(" (")[0].replace("Intel(R) ", "") if found else "oneDNN unknown"
    print(f"PyTorch {torch.__version__}, {version}, Python {sys.version.split()[0]}")


def leave(args, rank, end):
    """Prints the last record, once for all ranks."""
    if rank == 0:
        line = json.dumps(end)
        print(line, flush=True)
        if args.out:
            with open(args.out, "w", encoding="utf-8") as file:
                file.write(line + "\n")
    if args.ddp:
        dist.barrier()
        dist.destroy_process_group()


def main():
    args = options()
    if args.describe:
        return describe()
    torch.set_num_threads(args.threads)
    rank, size = join(args)
    leave(args, rank, train(args, rank, size))


if __name__ == "__main__":
    main()
