#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of scripts/bench/detector.sh: reads tab-separated lines `program, round, value, part`, and prints the name of
torchvision's faster memory format and the rows in Markdown, with line breaks as \\n."""

import collections
import statistics
import sys


def main():
    values = collections.defaultdict(dict)  # (program, part) → round → value
    parts = []
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            program, number, value, part = line.rstrip("\n").split("\t")
            values[program, part][number] = float(value)
            if program == "contiguous" and part not in parts:
                parts.append(part)
    best = min(("contiguous", "channels_last"), key=lambda name: statistics.median(values[name, "all"].values()))
    rows = []
    for part in parts:
        ours, theirs = values["dptrain", part], values[best, part]
        ratios = [theirs[number] / ours[number] for number in ours]
        memory = part == "peak memory"
        cells = [statistics.median(side.values()) for side in (ours, theirs)]
        shown = [f"{cell / 1024:.0f} MiB" if memory else f"{cell:.3f}" for cell in cells]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        rows.append(f"| {part} | {shown[0]} | {shown[1]} | {ratio} |")
    print(best, "\\n".join(rows))


if __name__ == "__main__":
    main()
