#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of scripts/bench/best.sh in Markdown, from its records. Exit code 1: losses of the programs differ."""

import json
import statistics
import sys

WAYS = [("dptrain", "fp32", "rule"), ("dptrain", "bf16", "rule")]
WAYS += [("torch", precision, way) for precision in ("fp32", "bf16") for way in ("contiguous", "channels_last", "compile")]
TITLES = {"maskrcnn:train": "Mask R-CNN ResNet-50-FPN, a training step at 512×704",
          "maskrcnn:infer": "Mask R-CNN ResNet-50-FPN, inference at 800×1088"}
MODELS = {"lenet5": "LeNet-5", "resnet18": "ResNet-18, 224×224", "resnet50": "ResNet-50, 224×224"}
# Largest relative differences of the first losses. bf16: of the heads alone, as PyTorch sums the proposals' in bfloat16.
LIMITS = {"fp32": 1e-4, "bf16": 1e-2}

NOTES = """
- images/s: images of all ranks by the time of a whole step (fetching the batch, forward, backward, allreduce, optimizer) on
  rank 0: the median step of a run, of detectors its fastest. Steps to warm up, torch.compile's compilation among them, are left
  out. The candidates alternate in rounds, with the order reversed in every other round: medians over rounds, in brackets the
  lowest and the highest. ratio: dptrain's median over PyTorch's, in brackets the lowest and the highest ratio within a round.
- Best: the faster precision of dptrain beside the fastest candidate of PyTorch. CPU time: PyTorch's by dptrain's for a step
  on rank 0; on 2 ranks dptrain waits for the other rank by polling, PyTorch by sleeping. memory: `ru_maxrss` of the largest rank,
  in 10⁶ bytes.
- Trial: one shorter run of each candidate. PyTorch's fastest in each precision goes on to the rounds, and the second one if it
  takes at most a tenth longer. A case without a trial has the candidates of its model's.
- PyTorch: the programs in `scripts/bench/peers` with one thread per rank, the fused optimizer, and glibc set to keep freed pages
  (`{pages}`); bf16:
  torch.autocast; compile: channels_last with torch.compile, of detectors the layers with weights; in inference with frozen
  weights. 2 ranks are DistributedDataParallel over gloo.
- Mask R-CNN: one image; a step has 512 given regions, 128 of them with an object, inference 1000 regions and 100 masks. First
  losses of a step agree within {fp32:.0e} in fp32, and in bf16, those of the heads, within {bf16:.0e}; but for the objectness, for
  which each program draws its own anchors.
"""


def table(head, rows):
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for cells in rows:
        print("| " + " | ".join(cells) + " |")
    print()


def title(case):
    if case in TITLES:
        return TITLES[case]
    model, batch, ranks = case.split(":")
    return f"{MODELS[model]}, batch {batch}, {ranks} rank{'s' if int(ranks) > 1 else ''}"


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def span(values, show=number):
    middle = show(statistics.median(values))
    return f"{middle} ({show(min(values))} to {show(max(values))})" if len(values) > 1 else middle


def rate(run):
    return run["images"] / run["sec"]


class Case:
    """Runs of a case: by phase and way, by round."""

    def __init__(self, name, runs):
        self.name, self.phases = name, {"trial": {}, "round": {}}
        for run in runs:
            self.phases[run["phase"]].setdefault((run["who"], run["precision"], run["way"]), {})[run["round"]] = run

    def values(self, way, of):
        return [of(run) for run in self.phases["round"][way].values()]

    def best(self, who, precision=None):
        """The fastest way of a program, or None."""
        ways = [w for w in self.phases["round"] if w[0] == who and precision in (None, w[1])]
        return max(ways, key=lambda way: statistics.median(self.values(way, rate)), default=None)

    def ratio(self, ours, theirs):
        """The ratio of medians with that within rounds, and the ratio of medians of CPU times."""
        if ours is None or theirs is None:
            return "", ""
        rounds = self.phases["round"]
        pairs = [rate(run) / rate(rounds[theirs][n]) for n, run in rounds[ours].items() if n in rounds[theirs]]
        both = [[statistics.median(self.values(way, of)) for way in (ours, theirs)] for of in (rate, lambda r: r["cpu_sec"])]
        within = f" ({min(pairs):.2f} to {max(pairs):.2f})" if pairs else ""
        return f"**{both[0][0] / both[0][1]:.2f}**{within}", f"{both[1][1] / both[1][0]:.2f}"

    def row(self):
        cells = [title(self.name)]
        for who in ("dptrain", "torch"):
            for precision in ("fp32", "bf16"):
                way = self.best(who, precision)
                text = span(self.values(way, rate)) if way else ""
                cells.append(f"{text}, {way[2]}" if way and who == "torch" else text)
        cells += [self.ratio(self.best("dptrain", p), self.best("torch", p))[0] for p in ("fp32", "bf16")]
        ours, theirs = self.best("dptrain"), self.best("torch")
        cells += self.ratio(ours, theirs)
        memory = [statistics.median(self.values(way, lambda r: r["memory_bytes"])) / 1e6 for way in (ours, theirs) if way]
        return cells + [", ".join(f"{m:.0f}" for m in memory), f"{memory[0] / memory[1]:.2f}" if len(memory) == 2 else ""]

    def details(self):
        for way in (w for w in WAYS if w in self.phases["round"]):
            runs = self.phases["round"][way].values()
            yield [title(self.name), " ".join(way[:2] if way[0] == "dptrain" else way), str(len(runs)),
                   span([rate(r) for r in runs]), number(1e3 * statistics.median(r["sec"] for r in runs)),
                   number(1e3 * statistics.median(r["cpu_sec"] for r in runs)),
                   f"{statistics.median(r['memory_bytes'] for r in runs) / 1e6:.0f}"]

    def trial(self):
        runs = self.phases["trial"]
        return [title(self.name)] + [number(rate(runs[way][0])) if way in runs else "" for way in WAYS]

    def differing(self):
        """Losses of the first step that differ more than the limit, in words."""
        for precision, limit in LIMITS.items():
            runs = [r for ways in self.phases.values() for way, found in ways.items() if way[1] == precision
                    for r in found.values() if r.get("losses")]
            first = 0 if precision == "fp32" else 1
            for k, values in enumerate(zip(*(r["losses"][first:] for r in runs))):
                if max(values) - min(values) > limit * max(values):
                    yield f"{self.name}, {precision}, loss {first + k + 2}: {sorted(set(values))}"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: best_page.py FILE")
    with open(sys.argv[1], encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    runs = [r for r in records if r["record"] == "run"]
    machines = [r for r in records if r["record"] == "machine"]
    cases = [Case(name, [r for r in runs if r["case"] == name]) for name in dict.fromkeys(r["case"] for r in runs)]
    differ = [words for case in cases for words in case.differing()]
    if differ:
        print("the programs' losses differ: " + "; ".join(differ), file=sys.stderr)
    print("# dptrain compared with PyTorch's best\n\n## Best beside best, images/s\n")
    table(["case", "dptrain, fp32", "dptrain, bf16", "PyTorch, fp32", "PyTorch, bf16", "fp32: ratio", "bf16: ratio",
           "best: ratio", "CPU time", "best: memory, MB", "share"], (case.row() for case in cases if case.phases["round"]))
    print("## Rounds\n")
    table(["case", "candidate", "rounds", "images/s", "step, ms", "CPU, ms", "memory, MB"],
          (cells for case in cases for cells in case.details()))
    print("## Trial of all candidates, images/s\n")
    table(["case"] + [" ".join(way[:2] if way[0] == "dptrain" else way) for way in WAYS], (case.trial() for case in cases if case.phases["trial"]))
    loads = [r["load"] for r in runs]
    pages = machines[-1]["keep_pages"] if machines else ""
    print(NOTES.format(pages=pages, **LIMITS).strip() + "\n" +
          f"- Load average while these runs ended: {min(loads)} to {max(loads)}.\n" if loads else "- No runs.\n")
    print(machines[-1]["table"] if machines else "", end="")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
