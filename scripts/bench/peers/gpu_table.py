#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables of scripts/bench/gpu_steps.sh and gpu_suite.sh. gpu_table.py steps FILE: lines `round, batch, precision,
program, end record`, between tabs, to Markdown. gpu_table.py gaps FILE: nsys' cuda_gpu_trace as CSV to the share of time
in which the GPU did nothing. gpu_table.py clocks FILE: nvidia-smi's samples (gpu_steps.sh has the columns) to a sentence.
Of ncu's CSV, with --print-units base: gpu_table.py kernels FILE: each kernel's time and bytes, gpu_table.py costliest
FILE: the place of the longest launch among the kernel's own, and the name, of the three kernels that take most time,
gpu_table.py counters FILE: the sections of one launch. Of a run's metrics.jsonl: gpu_table.py algorithms FILE: the
algorithms of each pass, and the layers that have them."""

import collections
import csv
import json
import statistics
import sys

# Bits of clocks_throttle_reasons.active that slow a busy GPU down.
REASONS = {4: "the power limit", 8: "the hardware", 0x10: "another GPU", 0x20: "temperature", 0x40: "temperature (hardware)",
           0x80: "the power supply"}


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def spread(values):
    low, _, high = quartiles(values)
    return f"{min(values):.2f}, {low:.2f} to {high:.2f}, {max(values):.2f}"


def print_table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


def steps(path):
    runs, memory = collections.defaultdict(dict), collections.defaultdict(int)
    with open(path, encoding="utf-8") as file:
        for line in file:
            turn, batch, precision, name, record = line.split("\t")
            record = json.loads(record)
            rate = record.get("median_images_per_sec") or record["images_per_sec"]  # inference of dptrain has one figure
            runs[int(batch), precision, name][turn] = int(batch) / rate
            memory[int(batch), precision, name] = max(memory[int(batch), precision, name], record.get("gpu_bytes", 0))
    rows = []
    for (batch, precision, name), seconds in sorted(runs.items(), key=lambda item: item[0][:2]):
        low, middle, high = quartiles(list(seconds.values()))
        cells = [str(batch), precision, name, f"{1e6 * middle:.1f}", f"{1e6 * low:.1f} to {1e6 * high:.1f}",
                 f"{batch / middle:.0f}", "", ""]
        ours, ours_memory = runs.get((batch, precision, "dptrain"), {}), memory[batch, precision, "dptrain"]
        ratios = [sec / ours[turn] for turn, sec in seconds.items() if turn in ours]
        if name != "dptrain" and ratios:
            cells[6:] = [f"**{quartiles(ratios)[1]:.2f}**", spread(ratios)]
        own = memory[batch, precision, name]
        cells.append(f"{own / 1e6:.0f} MB" + (f" ({ours_memory / own:.2f})" if name != "dptrain" and ours_memory else "")
                     if own else "")
        rows.append(cells)
    head = ["batch", "precision", "program", "µs a step", "middle half", "images/s", "ratio", "over rounds"]
    if any(memory.values()):
        head.append("GPU memory (dptrain's share of it)")
    print_table(head, [cells[:len(head)] for cells in rows])


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


def describe(sample):
    sm, most, memory, power, limit, temperature = (value.split(".")[0] for value in sample[:6])
    return f"{sm} of {most} MHz, memory {memory} MHz, {power} of {limit} W, {temperature} °C"


def clocks(path):
    """Before the first run, while the GPU was busy, and after the last."""
    with open(path, encoding="utf-8") as file:
        samples = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 9]
    busy = [row for row in samples if row[7].isdigit() and int(row[7]) >= 50]
    parts = [f"before: {describe(samples[0])}"]
    if busy:
        low, middle, _ = quartiles(sorted(float(row[0]) for row in busy))
        reasons = {text for row in busy for bit, text in REASONS.items() if int(row[6], 16) & bit}
        parts.append(f"busy ({len(busy)} samples): median {middle:.0f}, lower quartile {low:.0f} MHz, slowed down by "
                     f"{', '.join(sorted(reasons)) or 'nothing'}")
    print("; ".join([*parts, f"after: {describe(samples[-1])}"]))


def algorithms(path):
    """Layers with the same algorithms in one row; the most common first."""
    with open(path, encoding="utf-8") as file:
        chosen = next((record["algorithms"] for record in map(json.loads, file) if record.get("algorithms")), {})
    rows = collections.defaultdict(list)
    for layer, of in chosen.items():
        rows[tuple(of.get(key) or "" for key in ("forward", "backward_data", "backward_weights"))].append(layer)
    print_table(["forward", "backward data", "backward weights", "layers", ""],
                [[*by, str(len(layers)), " ".join(layers)] for by, layers in sorted(rows.items(), key=lambda row: -len(row[1]))])


def profiled(path):
    """Each launch in ncu's CSV: its kernel and its metrics."""
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if line.startswith('"')]  # ncu and the program print lines of their own
    launches = {}
    for row in csv.DictReader(lines):
        name, metrics = launches.setdefault(row["ID"], (row["Kernel Name"], {}))
        metrics[row["Metric Name"]] = row["Metric Value"].replace(",", ""), row["Metric Unit"]
    if not launches:
        sys.exit(f"{path}: no launch was profiled")
    return list(launches.values())


def by_kernel(path):
    """Nanoseconds, bytes and launches of each kernel, those that take most time first; the whole time."""
    sums = collections.defaultdict(lambda: [0.0, 0.0, []])
    for name, metrics in profiled(path):
        value = {key: float(number) for key, (number, _) in metrics.items() if number}
        kernel = sums[name]
        kernel[0] += value["gpu__time_duration.sum"]
        kernel[1] += value.get("dram__bytes_read.sum", 0) + value.get("dram__bytes_write.sum", 0)
        kernel[2].append(value["gpu__time_duration.sum"])
    return sorted(sums.items(), key=lambda item: -item[1][0]), sum(kernel[0] for kernel in sums.values())


def kernels(path):
    rows, whole = by_kernel(path)
    print(f"{sum(len(each) for _, (_, _, each) in rows)} launches, {1e-6 * whole:.2f} ms, one by one\n")
    print_table(["kernel", "launches", "ms", "of all", "GB to and from memory", "GB/s"],
                [[f"`{name}`", str(len(each)), f"{1e-6 * ns:.3f}", f"{100 * ns / whole:.1f} %", f"{1e-9 * n_bytes:.2f}",
                  f"{n_bytes / ns:.0f}"] for name, (ns, n_bytes, each) in rows[:24]])


def costliest(path):
    for name, (_, _, each) in by_kernel(path)[0][:3]:
        print(each.index(max(each)), name)


COUNTERS = ("Duration", "Memory Throughput", "DRAM Throughput", "L1/TEX Cache Throughput", "L2 Cache Throughput",
            "Compute (SM) Throughput", "L1/TEX Hit Rate", "L2 Hit Rate", "Registers Per Thread", "Block Size", "Grid Size",
            "Theoretical Occupancy", "Achieved Occupancy", "Block Limit Registers", "Block Limit Shared Mem",
            "Warp Cycles Per Issued Instruction")


def counters(path):
    name, metrics = profiled(path)[0]
    print_table([f"`{name}`, its longest launch", ""],
                [[key, " ".join(metrics[key]).rstrip()] for key in COUNTERS if key in metrics])


def main():
    tables = {"steps": steps, "gaps": lambda path: print(f"{100 * gaps(path):.1f}"), "clocks": clocks, "kernels": kernels,
              "costliest": costliest, "counters": counters, "algorithms": algorithms}
    if len(sys.argv) != 3 or sys.argv[1] not in tables:
        sys.exit(f"usage: gpu_table.py {'|'.join(tables)} FILE")
    tables[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    main()
