#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws consecutive steps of a trace (dptrain train --trace FILE) as a timeline, with one row group per rank and
layers coloured by operator. Needs matplotlib (Debian: python3-matplotlib)."""
import argparse
import json
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch
except ImportError:
    sys.exit("trace_png: matplotlib is missing; Debian has it as python3-matplotlib")

# The colour-blind-safe palette of Okabe and Ito.
OPERATORS = {
    "conv2d": "#0072B2",
    "linear": "#56B4E9",
    "relu": "#E69F00",
    "pool2d": "#F0E442",
    "dropout": "#D55E00",
    "batch_norm": "#CC79A7",
    "add": "#999933",
    "softmax_xent": "#882255",
    "sigmoid_bce": "#882255",
}
PHASES = {
    "data wait": "#F3C9C4",
    "forward": "#E3E6EA",
    "backward": "#C9CED6",
    "allreduce": "#009E73",
    "optimizer": "#B8A9D9",
    "evaluation": "#D8CDB8",
    "checkpoint": "#D8CDB8",
    "fill": "#BFD8D2",
    "copy": "#E8D5A8",
    "write": "#D6B97B",
}
ROWS = ("phases", "layers", "loader", "checkpoint")
ROW_HEIGHT = {"phases": 1.0, "layers": 1.35, "loader": 0.62, "checkpoint": 0.62}
RANK_GAP = 0.55
INK = "#22262B"


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", help="file written by --trace")
    parser.add_argument("png", help="the image to write")
    parser.add_argument("--first", type=int, help="first step to draw [the middle of the trace]")
    parser.add_argument("--steps", type=int, default=2, help="number of steps [2]")
    parser.add_argument("--ranks", type=int, default=4, help="maximum number of ranks, from rank 0 [4]")
    return parser.parse_args()


def row_of(span, thread):
    if thread != "training":
        return thread
    return "phases" if span["cat"] == "phase" else "layers"


def load(path):
    """Names of ranks, and spans as (rank, row, name, category, step, start in ms, end in ms)."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    ranks = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = []
    for e in events:
        if e["ph"] == "X":
            row = row_of(e, threads[e["pid"], e["tid"]])
            start = e["ts"] / 1000
            spans.append((e["pid"], row, e["name"], e["cat"], e["args"]["step"], start, start + e["dur"] / 1000))
    return trace["otherData"], ranks, spans


def window(spans, first, n_steps):
    steps = sorted({s[4] for s in spans if s[2] == "step"})
    if not steps:
        sys.exit("trace_png: the trace has no steps")
    if first is None:
        first = steps[max(0, (len(steps) - n_steps) // 2)]
    shown = [s for s in spans if s[2] == "step" and first <= s[4] < first + n_steps]
    if not shown:
        sys.exit(f"trace_png: the trace has steps {steps[0]} to {steps[-1]}")
    return first, min(s[5] for s in shown), max(s[6] for s in shown)


def layout(spans, ranks):
    """Top of each non-empty (rank, row); y grows downwards."""
    tops, y = {}, 0.0
    for rank in ranks:
        for row in ROWS:
            if any(s[0] == rank and s[1] == row for s in spans):
                tops[rank, row] = y
                y += ROW_HEIGHT[row] + 0.08
        y += RANK_GAP
    return tops, y - RANK_GAP


def text_width(axes, text, size):
    """Estimated width in data units: letters are about 0.6 times as wide as high."""
    pixels = axes.figure.dpi * size / 72 * 0.6 * len(text)
    left, right = axes.get_xlim()
    return pixels * (right - left) / axes.get_window_extent().width


def label(axes, span, y, height, start, end, dark):
    """Draws the span's name if it fits, upright for narrow layers. Returns whether it did."""
    size = 7.5 if span[1] == "layers" else 8
    room = end - start
    color = "white" if dark else INK
    where = ((start + end) / 2, y + height / 2)
    if text_width(axes, span[2], size) < 0.92 * room:
        axes.text(*where, span[2], ha="center", va="center", fontsize=size, color=color)
        return True
    if span[1] == "layers" and text_width(axes, "M", size) * 1.75 < room:
        # Fused layers are labelled by the first.
        first = span[2].split("+")[0]
        axes.text(*where, first, ha="center", va="center", fontsize=size - 0.5, color=color, rotation=90)
        return True
    return False


def is_dark(color):
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140


def draw_spans(axes, spans, tops, begin, end):
    """Returns the phases that have their name in the image."""
    named = set()
    for span in spans:
        if span[2] == "step" or (span[0], span[1]) not in tops:
            continue
        colors = PHASES if span[3] == "phase" else OPERATORS
        color = colors.get(span[2] if span[3] == "phase" else span[3], "#AAAAAA")
        y, height = tops[span[0], span[1]], ROW_HEIGHT[span[1]]
        left, right = max(span[5], begin) - begin, min(span[6], end) - begin
        axes.add_patch(
            plt.Rectangle((left, y), right - left, height, facecolor=color, edgecolor="white", linewidth=0.4))
        if label(axes, span, y, height, left, right, is_dark(color)):
            named.add(span[2])
    return named


def draw_steps(axes, spans, tops, begin, end, ranks):
    """Marks the start and number of each rank's steps."""
    for rank in ranks:
        top = tops[rank, "phases"]
        bottom = top + ROW_HEIGHT["phases"] + 0.08 + ROW_HEIGHT["layers"]
        for span in spans:
            if span[0] != rank or span[2] != "step" or span[6] > end:
                continue
            axes.plot([span[5] - begin] * 2, [top - 0.3, bottom], color=INK, linewidth=0.9, zorder=3, clip_on=False)
            axes.text(span[5] - begin, top - 0.12, f" step {span[4]}", fontsize=7.5, color=INK, va="bottom", ha="left")


def draw_names(axes, tops, names, ranks):
    for (rank, row), top in tops.items():
        axes.text(-0.006, top + ROW_HEIGHT[row] / 2, row, transform=axes.get_yaxis_transform(), ha="right",
                  va="center", fontsize=8, color="#5A616B")
    for rank in ranks:
        rows = [top for (r, _), top in tops.items() if r == rank]
        middle = (min(rows) + max(top + ROW_HEIGHT[row] for (r, row), top in tops.items() if r == rank)) / 2
        axes.text(-0.1, middle, names[rank].split(" on ")[0], transform=axes.get_yaxis_transform(), ha="right",
                  va="center", fontsize=10, fontweight="bold", color=INK)


def draw_legend(axes, spans, named, width):
    """Operators, and phases whose bars are too narrow for their name; invisible ones are left out."""
    seen = [s for s in spans if s[6] - s[5] > 0.002 * width]
    used = [(name, OPERATORS[name]) for name in OPERATORS if any(s[3] == name for s in seen)]
    used += [(name, PHASES[name]) for name in PHASES if name not in named and any(s[2] == name for s in seen)]
    patches = [Patch(facecolor=color, label=name) for name, color in used]
    axes.legend(handles=patches, ncol=len(patches), loc="lower right", bbox_to_anchor=(1.005, 1.0), frameon=False,
                fontsize=7.5, handlelength=1, handleheight=1, columnspacing=1, handletextpad=0.4, borderaxespad=0.2)


def main():
    args = parse_args()
    other, names, spans = load(args.trace)
    ranks = sorted(names)[: args.ranks]
    first, begin, end = window(spans, args.first, args.steps)
    spans = [s for s in spans if s[0] in ranks and s[5] < end and s[6] > begin]
    tops, height = layout(spans, ranks)

    figure, axes = plt.subplots(figsize=(10.5, 1.05 + 0.36 * height), dpi=140)
    figure.subplots_adjust(left=0.145, right=0.985, top=1 - 0.66 / figure.get_figheight(),
                           bottom=0.5 / figure.get_figheight())
    axes.set_xlim(0, end - begin)
    axes.set_ylim(height, -0.45)
    named = draw_spans(axes, spans, tops, begin, end)
    draw_steps(axes, spans, tops, begin, end, ranks)
    draw_names(axes, tops, names, ranks)
    draw_legend(axes, spans, named, end - begin)
    last = first + args.steps - 1
    axes.set_title(f"{other['model']}, {other['ranks']} ranks, steps {first}–{last}", loc="left", fontsize=11,
                   fontweight="bold", color=INK, pad=23)
    axes.set_xlabel("ms", fontsize=8, color="#5A616B", labelpad=2)
    axes.set_yticks([])
    axes.tick_params(axis="x", labelsize=8, colors="#5A616B")
    axes.grid(axis="x", color="#E4E7EB", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#C9CED6")
    figure.savefig(args.png)


if __name__ == "__main__":
    main()
