#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""LeNet-5 under torchrun --max-restarts, for scripts/bench/goodput.sh.

Restarts as PyTorch's example of fault-tolerant training does: rank 0 saves a snapshot from time to time, and a worker that
starts loads the newest one. A snapshot takes its name when it is complete. See --help.
"""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

from lenet5_torch import Dataset, LeNet5, batches


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", required=True, help="folder with MNIST's IDX files, plain or .gz")
    parser.add_argument("--out", required=True, help="folder of the snapshot and of metrics.jsonl")
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--every", type=int, default=250, help="steps from one snapshot to the next [%(default)s]")
    parser.add_argument("--batch", type=int, default=64, help="samples per step and rank [%(default)s]")
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def save(path, model, optimizer, step):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path + ".new")
    os.replace(path + ".new", path)


def main():
    args = options()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    data = Dataset(args.data, "train")
    model = LeNet5().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, fused=True)
    snapshot, first = os.path.join(args.out, "snapshot.pt"), 0
    if os.path.exists(snapshot):
        saved = torch.load(snapshot)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    net = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    indices = batches(len(data.labels), args.batch, rank, size, args.seed)
    for _ in range(first):
        next(indices)
    records = open(os.path.join(args.out, "metrics.jsonl"), "a", encoding="utf-8") if rank == 0 else None
    if records:
        records.write(json.dumps({"record": "run", "first_step": first}, separators=(",", ":")) + "\n")
    for step in range(first, args.steps):
        begin = time.perf_counter()
        x, label = data.batch(next(indices), torch.channels_last)
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(net(x), label)
        loss.backward()
        optimizer.step()
        value = loss.item()
        if records:
            sec = time.perf_counter() - begin
            record = {"record": "step", "step": step, "step_sec": sec, "loss": value}
            records.write(json.dumps(record, separators=(",", ":")) + "\n")
            records.flush()
            if (step + 1) % args.every == 0:
                save(snapshot, model, optimizer, step + 1)


if __name__ == "__main__":
    main()
