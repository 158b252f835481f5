#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables of scripts/bench/detector_train.sh in Markdown: reads tab-separated lines `case, program, round, value, part`.
Round 0 has only chosen torchvision's memory format. Exit code 1: the programs' losses differ."""

import collections
import statistics
import sys

PARTS = ("trunk", "pyramid", "proposal head", "box RoIAlign", "box head", "mask RoIAlign", "mask head", "boxes", "mask targets",
         "optimizer")
BARS = {"time": (1.3, 1.6), "memory": (0.6, 0.45), "rest": (12, 8)}  # wanted, hoped for


def read(path):
    """case → program → part → values in the order of the rounds; the same of round 0; case → losses that differ."""
    out, trial, losses = ({}, {}, {})
    with open(path, encoding="utf-8") as file:
        for line in file:
            case, program, number, value, part = line.rstrip("\n").split("\t")
            if part.startswith("loss"):
                losses.setdefault((case, part), []).append(float(value))
            else:
                to = trial if number == "0" else out
                to.setdefault(case, {}).setdefault(program, collections.defaultdict(list))[part].append(float(value))
    differ = [f"{case}, {part}: {values}" for (case, part), values in losses.items()
              if max(values) - min(values) > 1e-4 * max(values)]
    return out, trial, differ


def range_of(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def ratio(theirs, ours):
    return range_of([a / b for a, b in zip(theirs, ours)])


def title(case):
    model, height, width, positives = case.split(",")
    return f"`{model}`, {height} × {width}, {positives} with an object"


def peer_of(programs):
    return next(name for name in programs if name != "dptrain")


def sum_up(cases, trial):
    median = statistics.median
    yield ("| median (lowest to highest) | dptrain, s | torchvision, s | torchvision's time / ours | of CPU time | "
           "peak memory, MiB | of torchvision's | neither convolution nor linear |\n|---|---:|---:|---:|---:|---:|---:|---:|")
    for case, programs in cases.items():
        ours, theirs = programs["dptrain"], programs[peer_of(programs)]
        memory = [median(p["peak memory"]) / 1024 for p in (ours, theirs)]
        rest = [100 * (1 - a / b) for a, b in zip(ours["products"], ours["all"])]
        yield (f"| {title(case)} | {range_of(ours['all'])} | {range_of(theirs['all'])} | {ratio(theirs['all'], ours['all'])} | "
               f"{ratio(theirs['CPU time'], ours['CPU time'])} | {memory[0]:.0f} | {memory[0] / memory[1]:.2f} | "
               f"{median(rest):.1f} % |")
    (must, hoped), (least, less), (most, better) = BARS["time"], BARS["memory"], BARS["rest"]
    yield f"| wanted | | | {must} | | | {least} | {most} % |\n| hoped for | | | {hoped} | | | {less} | {better} % |\n"
    for case, programs in trial.items():
        tried = ", ".join(f"{name} {median(parts['all']):.2f} s" for name, parts in programs.items())
        yield f"- Trial of torchvision, {title(case)}: {tried}."
    yield from rates(cases)


def rates(cases):
    every = {name: [v for programs in cases.values() for v in programs["dptrain"][name]] for name in ("matrix product", "copy")}
    yield (f"- This core, in the same processes: matrix product {range_of(every['matrix product'], 0)} GFLOP/s, copy "
           f"{range_of(every['copy'], 1)} GB/s.")


def by_part(case, programs):
    name, median = peer_of(programs), statistics.median
    ours, theirs = programs["dptrain"], programs[name]
    yield (f"\n| {title(case)} | GFLOP | floor, s | dptrain, s | of the floor | torchvision ({name}), s | ratio |\n"
           "|---|---:|---:|---:|---:|---:|---:|")
    total = work = 0
    for part in PARTS:
        if part not in theirs and part not in ("boxes", "optimizer"):
            continue
        floor, flop, own = min(ours["floor " + part]), median(ours["work " + part]), median(ours[part])
        total, work = total + floor, work + flop
        peer = f"{median(theirs[part]):.3f} | {median(theirs[part]) / own:.2f}" if part in theirs else " | "
        times = f"{own / floor:.2f}" if floor > 0.0005 else ""
        shown = f"{flop:.0f}" if flop > 0 else "", f"{floor:.3f}" if floor > 0 else ""
        yield f"| {part} | {shown[0]} | {shown[1]} | {own:.3f} | {times} | {peer} |"
    own, peer = median(ours["all"]), median(theirs["all"])
    yield f"| all | {work:.0f} | {total:.3f} | {own:.3f} | {own / total:.2f} | {peer:.3f} | {peer / own:.2f} |"


def main():
    cases, trial, differ = read(sys.argv[1])
    if differ:
        sys.exit("the programs' losses differ: " + "; ".join(differ))
    print("\n".join(sum_up(cases, trial)))
    for case, programs in cases.items():
        print("\n".join(by_part(case, programs)))


if __name__ == "__main__":
    main()
