#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables of scripts/bench/gpu_steps.sh. gpu_table.py steps FILE: lines `round, batch, precision, program, end
record`, between tabs, to Markdown. gpu_table.py gaps FILE: nsys' cuda_gpu_trace as CSV to the share of time in which
the GPU did nothing."""

import collections
import csv
import json
import sys

from table import print_table, quartiles, spread


def steps(path):
    runs = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            _, batch, precision, name, record = line.split("\t")
            runs[int(batch), precision, name].append(json.loads(record))
    rows = []
    for (batch, precision, name), records in runs.items():
        micro = [1e6 * batch / record["images_per_sec"] for record in records]
        low, middle, high = quartiles(micro)
        cells = [str(batch), precision, name, f"{middle:.1f}", f"{low:.1f} to {high:.1f}", "", ""]
        ours = runs.get((batch, precision, "dptrain"))
        if name != "dptrain" and ours and len(ours) == len(records):
            ratios = [a["images_per_sec"] / b["images_per_sec"] for a, b in zip(ours, records)]
            cells[5:] = [f"**{quartiles(ratios)[1]:.2f}**", spread(ratios)]
        rows.append(cells)
    print_table(["batch", "precision", "program", "µs a step", "middle half", "ratio", "over rounds"], rows)


def gaps(path):
    """Uses the second half of the trace, which excludes start-up and algorithm measurement."""
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if "," in line]
    head = next(i for i, line in enumerate(lines) if line.startswith("Start"))
    spans = sorted((int(row["Start (ns)"]), int(row["Duration (ns)"])) for row in csv.DictReader(lines[head:]))
    spans = spans[len(spans) // 2 :]
    busy, until = 0, spans[0][0]
    for start, duration in spans:
        end = start + duration
        busy += max(0, end - max(start, until))
        until = max(until, end)
    return 1 - busy / (until - spans[0][0])


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("steps", "gaps"):
        sys.exit("usage: gpu_table.py steps|gaps FILE")
    if sys.argv[1] == "steps":
        steps(sys.argv[2])
    else:
        print(f"{100 * gaps(sys.argv[2]):.1f}")


if __name__ == "__main__":
    main()
