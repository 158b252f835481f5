#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of scripts/bench/peers.sh: converts tab-separated lines `round, ranks, program, end record` to Markdown."""

import collections
import json
import statistics
import sys


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def spread(values):
    low, _, high = quartiles(values)
    return f"{min(values):.2f}, {low:.2f} to {high:.2f}, {max(values):.2f}"


def read(path):
    """(ranks, program) → the end records in the order of the rounds."""
    ends = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            _, n_ranks, name, record = line.split("\t")
            ends[int(n_ranks), name].append(json.loads(record))
    return ends


def rates(ends, n_ranks, name):
    return [end["median_images_per_sec"] for end in ends[n_ranks, name]]


def peak_mb(records):
    return statistics.median(max(record["peak_memory_bytes"]) for record in records) / 1e6


def ours_beside(name):
    return "dptrain-bf16" if name.endswith("bf16") else "dptrain"


def row(ends, n_ranks, name):
    theirs, base = rates(ends, n_ranks, name), ours_beside(name)
    low, middle, high = quartiles(theirs)
    cells = [str(n_ranks), name, f"{middle:.0f}", f"{low:.0f} to {high:.0f}", "", "", f"{peak_mb(ends[n_ranks, name]):.0f}", ""]
    if name != base:
        ours = rates(ends, n_ranks, base)
        cells[4] = f"**{statistics.median(ours) / middle:.2f}**"
        cells[5] = spread([a / b for a, b in zip(ours, theirs)])
        cells[7] = f"{peak_mb(ends[n_ranks, base]) / peak_mb(ends[n_ranks, name]):.2f}"
    return cells


def scaling_rows(ends):
    for n_ranks, name in ends:
        if n_ranks == 1 or (1, name) not in ends:
            continue
        one, many = rates(ends, 1, name), rates(ends, n_ranks, name)
        ratio = statistics.median(many) / (n_ranks * statistics.median(one))
        pairs = [b / (n_ranks * a) for a, b in zip(one, many)]
        yield [name, f"{n_ranks} ranks / {n_ranks} × 1 rank", f"**{ratio:.2f}**", spread(pairs)]


def print_table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: table.py FILE")
    ends = read(sys.argv[1])
    head = ["ranks", "program", "images/s", "middle half", "ratio", "over rounds", "memory, MB", "dptrain's share"]
    print_table(head, (row(ends, n_ranks, name) for n_ranks, name in list(ends)))
    scaling = list(scaling_rows(ends))
    if scaling:
        print()
        print_table(["program", "scaling", "ratio", "over rounds"], scaling)


if __name__ == "__main__":
    main()
