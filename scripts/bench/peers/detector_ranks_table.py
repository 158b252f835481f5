#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of scripts/bench/detector_ranks.sh in Markdown. The folder has `times`, tab-separated lines `program, round, seconds
of a step, seconds waited for data`, and the records of dptrain's runs, RANKS-ROUND.jsonl."""

import collections
import json
import pathlib
import statistics
import sys

SKIPPED = 2  # steps


def images_of(path):
    """A run's images, by step."""
    with open(path, encoding="utf-8") as file:
        records = [r for r in map(json.loads, file) if r["record"] == "step"]
    return [r["images"] for r in records if r["step"] >= SKIPPED]


def balance(steps):
    """The mean of the ranks' seconds by the slowest rank's."""
    mean = slowest = 0
    for images in steps:
        by_rank = collections.Counter()
        for image in images:
            by_rank[image["rank"]] += image["sec"]
        mean += sum(by_rank.values()) / 2
        slowest += max(by_rank.values())
    return mean / slowest


def seconds(steps):
    return sum(image["sec"] for images in steps for image in images)


def row(what, values, must="", hoped=""):
    print(f"| {what} | {statistics.median(values):.3f} | {min(values):.3f} to {max(values):.3f} | {must} | {hoped} |")


def main():
    folder = pathlib.Path(sys.argv[1])
    steps, waited = collections.defaultdict(list), collections.defaultdict(list)
    for line in (folder / "times").read_text().splitlines():
        name, number, sec, wait = line.split("\t")
        steps[name, int(number)].append(float(sec))
        waited[name, int(number)].append(float(wait))
    rounds = sorted({number for _, number in steps if number > 0})
    one, two, torch = ([statistics.mean(steps[name, r]) for r in rounds] for name in ("dptrain1", "dptrain2", "torch2"))
    alone, both = ([images_of(folder / f"{n}-{r}.jsonl") for r in rounds] for n in (1, 2))
    print("| | median of rounds | lowest to highest | wanted | hoped for |\n|---|---:|---:|---:|---:|")
    row("dptrain, one rank, seconds per step", one)
    row("dptrain, two ranks", two)
    row("torchvision, two ranks", torch)
    row("torchvision's time / ours, two ranks", [t / d for t, d in zip(torch, two)], 1.5, 1.8)
    row("rate of two ranks / twice that of one", [a / b / 2 for a, b in zip(one, two)], "0.90", "0.95")
    row("— balance of the ranks' images", [balance(s) for s in both])
    row("— images alone / beside another rank", [seconds(a) / seconds(b) for a, b in zip(alone, both)])
    row("— the rest: gradients, optimizer, records",
        [a / b / 2 / balance(s) / (seconds(t) / seconds(s)) for a, b, s, t in zip(one, two, both, alone)])
    row("waiting for data, of a step", [sum(waited["dptrain2", r]) / sum(steps["dptrain2", r]) for r in rounds], 0.03)


if __name__ == "__main__":
    main()
