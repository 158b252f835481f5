#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares weights of dptrain's detectors with torchvision's after 20 steps of SGD on the same images, and prints the table in
results/detection_parity.md. Needs PyTorch, torchvision and build/scripts/bench/detector_train. See --help."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import detection_formula as formula
import detector_train as peer
import numpy as np
import torch
from torchvision.models.detection import _utils

IMAGES, STEPS, SEED = 4, 20, 1
SGD = (1e-4, 0.9, 1e-4)
LIMIT = 1e-4
STREAM_ANCHORS, STREAM_REGIONS = 8, 9  # RNG_SAMPLE, RNG_REGION of src/base/rng.h
# Network, canvas, the part of it that the image fills, anchors and regions of an image; whether regions are given.
EVERYTHING = (1 << 30, 2048)
CASES = (("resnet18", (480, 640), (480, 640), EVERYTHING, False), ("resnet50", (480, 640), (480, 640), EVERYTHING, False),
         ("resnet50", (800, 1088), (800, 1066), EVERYTHING, False),
         ("resnet18", (480, 640), (480, 640), (256, 512), True), ("resnet50", (480, 640), (480, 640), (256, 512), True))


class Draw:
    """torchvision's BalancedPositiveNegativeSampler with the draws of src/compute/boxes/boxes.c."""

    def __init__(self, stream, n, share):
        words = formula.philox(SEED, stream + 1)[stream]  # rng_key of src/base/rng.c
        self.key, self.n, self.share = int(words[1]) << 32 | int(words[0]), n, share
        self.image = self.epoch = 0

    def keep(self, chosen, label, most):
        index = np.flatnonzero(chosen)
        words = formula.philox(self.key, len(chosen), (self.image, self.epoch, label))[index, 0]
        out = np.zeros(len(chosen), np.uint8)
        out[index[np.lexsort((index, words))[:most]]] = 1
        return out

    def __call__(self, labels):
        (label,) = labels
        positive = self.keep(label.numpy() >= 1, 1, int(self.n * self.share))
        negative = self.keep(label.numpy() == 0, 0, self.n - int(positive.sum()))
        return [torch.from_numpy(positive)], [torch.from_numpy(negative)]


def write_inputs(folder, canvas, size, sample, given):
    """One image with its objects per file."""
    files = []
    for i in range(IMAGES):
        truth = peer.objects(size, name=f"objects{i}")
        content = {"image": formula.image(*size, *canvas, name=f"image{i}"), "size": np.float32(size),
                   "sample": np.float32(sample), "sgd": np.float32(SGD)}
        content |= {f"objects.{key}": value.numpy().astype(np.float32) for key, value in truth.items()}
        if given:
            content["proposals"] = peer.proposals(truth, size, 160, 1000).numpy()
        files.append(folder / f"in{i}.npz")
        np.savez(files[-1], **content)
    return files


def train_torch(name, files, sample, channels_last=False):
    """Losses of every step, and the weights."""
    model = peer.build(name)
    contents = [dict(np.load(file)) for file in files]
    step = peer.Step(model, contents[0], channels_last)
    draws = model.rpn.fg_bg_sampler, model.roi_heads.fg_bg_sampler = (
        Draw(STREAM_ANCHORS, sample[0], 0.5), Draw(STREAM_REGIONS, sample[1], min(0.25, 128 / sample[1])))
    losses = []
    for number in range(STEPS):
        for draw in draws:
            draw.epoch, draw.image = number, number % IMAGES
        step.read(contents[number % IMAGES])
        losses.append(step.whole())
    return np.array(losses), {key: value.numpy() for key, value in model.state_dict().items()}


def run_case(program, algorithms, folder, net, canvas, size, sample, given):
    """The largest relative difference of the first and the last losses, and of a weight's norm, and whether it is within
    the limit."""
    name, weights, out = f"maskrcnn_{net}_fpn", folder / f"{net}.npz", folder / "out.npz"
    before = {key: value.numpy() for key, value in peer.build(name).state_dict().items()}
    np.savez(weights, **before)
    files = write_inputs(folder, canvas, size, sample, given)
    losses, theirs = train_torch(name, files, sample)
    rows = []
    for algorithm in algorithms:
        if algorithm == "channels_last":
            again, ours = train_torch(name, files, sample, True)
            result = {"losses": again, "counts": [0]}
        else:
            subprocess.run([program, name, weights, algorithm, "2", str(STEPS), out, folder / "export.npz", *files],
                           check=True, stdout=subprocess.DEVNULL)
            ours, result = np.load(folder / "export.npz"), np.load(out)
        off = {key: np.linalg.norm(ours[key].astype(np.float64) - value) / np.linalg.norm(value)
               for key, value in theirs.items() if value.size > 0}
        moved = max(np.linalg.norm(value.astype(np.float64) - before[key]) / np.linalg.norm(value)
                    for key, value in theirs.items())
        worst = max(off, key=off.get)
        relative = np.abs(result["losses"].sum(1) - losses.sum(1)) / losses.sum(1)
        print(f"{net} {canvas} {algorithm} {sample}: first loss {relative[0]:.1e}, last {relative[-1]:.1e}, weights "
              f"{off[worst]:.1e} ({worst}), moved {moved:.1e}; loss {losses[0].sum():.3f} to {losses[-1].sum():.3f}; regions, "
              f"positives {result['counts'][-1]}", file=sys.stderr)
        rows.append((relative[-1], off[worst], worst, moved))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/scripts/bench/detector_train")
    parser.add_argument("--cases", type=int, nargs="*", help="numbers of the cases [all]")
    parser.add_argument("--algorithms", nargs="*", default=("rule", "default"))
    options = parser.parse_args()
    passed = True
    print("| network, canvas | anchors and regions | algorithms | last loss | weights | that weight | moved |\n"
          "|---|---|---|---:|---:|---|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, (net, canvas, size, sample, given) in enumerate(CASES):
            if options.cases is not None and number not in options.cases:
                continue
            rows = run_case(options.program, options.algorithms, pathlib.Path(folder), net, canvas, size, sample, given)
            passed &= all(row[1] <= LIMIT for row in rows)
            how = "256 and 512 drawn" if given else "all"
            for algorithm, (loss, off, worst, moved) in zip(options.algorithms, rows):
                print(f"| `maskrcnn_{net}_fpn`, {canvas[0]}×{canvas[1]} | {how} | {algorithm} | {loss:.1e} | {off:.1e} | "
                      f"`{worst}` | {moved:.1e} |", flush=True)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
