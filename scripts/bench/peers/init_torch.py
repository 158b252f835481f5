#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Initial weights and first steps of dptrain's models in PyTorch and torchvision. `weights` compares an .npz of
build/scripts/bench/initial_weights with a model's own initial weights and prints a row of a table; `images` writes coloured
digits as a folder of PNGs; `train` prints the loss of each step; `table` compares losses of both programs. See --help."""

import argparse
import json
import math
import pathlib
import statistics
import sys

import lenet5_torch
import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from PIL import Image
from torch import nn
from torchvision.models.detection import FasterRCNN, MaskRCNN
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

SMALL_SIDE = 64  # src/compute/models/resnet.c
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
KS_LIMIT = 2.6  # p = 3e-6


class Cnn(nn.Module):
    """src/compute/models/mnist_cnn.c."""

    def __init__(self, norm):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, bias=not norm), nn.Conv2d(32, 64, 3, bias=not norm)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)
        if norm:
            self.norm1, self.norm2, self.norm3 = nn.BatchNorm2d(32), nn.BatchNorm2d(64), nn.BatchNorm1d(128)
        else:
            self.norm1 = self.norm2 = self.norm3 = nn.Identity()

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        x = torch.flatten(F.dropout(x, 0.25, self.training), 1)
        x = F.dropout(F.relu(self.norm3(self.fc1(x))), 0.5, self.training)
        return self.fc2(x)


class Mlp(nn.Module):
    """src/compute/models/mlp.c."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 256), nn.Linear(256, 128), nn.Linear(128, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))))


def build(name, side, classes, zero=False):
    """With dptrain's changes for small images, which follow the rules of the layers that they replace."""
    if name in ("resnet18", "resnet50"):
        model = getattr(torchvision.models, name)(num_classes=classes, zero_init_residual=zero)
        if side <= SMALL_SIDE:
            model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
            nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
        return model
    if name == "vgg16":
        model = torchvision.models.vgg16(num_classes=classes)
        if side < 224:
            model.avgpool, model.classifier[0] = nn.Identity(), nn.Linear(512 * (side // 32) ** 2, 4096)
            nn.init.normal_(model.classifier[0].weight, 0, 0.01)
            nn.init.zeros_(model.classifier[0].bias)
        return model
    if "rcnn" in name:
        backbone = resnet_fpn_backbone(backbone_name=name.split("_")[1], weights=None, norm_layer=nn.BatchNorm2d,
                                       trainable_layers=5)
        sizes = {"min_size": 96, "max_size": 128, "rpn_batch_size_per_image": 64, "box_batch_size_per_image": 64}
        return (MaskRCNN if name.startswith("mask") else FasterRCNN)(backbone, num_classes=classes, **sizes)
    return {"lenet5": lenet5_torch.LeNet5, "mlp": Mlp, "mnist-cnn": lambda: Cnn(False),
            "mnist-cnn-bn": lambda: Cnn(True)}[name]()


def moments(x):
    x = x.astype(np.float64)
    variance = x.var()
    return math.sqrt(variance), ((x - x.mean()) ** 4).mean() / variance**2


def ks(a, b):
    """Two samples' Kolmogorov-Smirnov statistic, scaled: above 1.63 with a probability of 0.01 each."""
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    distance = np.abs(np.searchsorted(a, both, "right") / len(a) - np.searchsorted(b, both, "right") / len(b)).max()
    return distance * math.sqrt(len(a) * len(b) / (len(a) + len(b)))


def compare_weights(options):
    torch.manual_seed(1)
    ours = np.load(options.file)
    theirs = {key: value for key, value in build(options.model, options.side, options.classes).state_dict().items()
              if not key.endswith("num_batches_tracked")}
    if set(ours.files) != set(theirs):
        sys.exit(f"{options.model}: other tensors: {sorted(set(ours.files) ^ set(theirs))}")
    most, n_constant, n_large, wrong = dict.fromkeys(("std", "fourth", "bound", "ks"), 0.0), 0, 0, []
    for key, value in theirs.items():
        a, b = ours[key], value.numpy()
        if a.shape != b.shape:
            sys.exit(f"{options.model}, {key}: {a.shape}, torchvision's {b.shape}")
        a, b = a.ravel()[:200000], b.ravel()[:200000]
        if b.min() == b.max():
            n_constant += 1
            if not (a == b).all():
                wrong.append(key)
            continue
        distance = ks(a, b)
        most["ks"] = max(most["ks"], distance)
        if distance > KS_LIMIT:
            wrong.append(key)
        if len(a) < 10000:
            continue
        n_large += 1
        (std, fourth), (want, want_fourth) = moments(a), moments(b)
        most["std"] = max(most["std"], abs(std / want - 1))
        most["fourth"] = max(most["fourth"], abs(fourth / want_fourth - 1))
        if want_fourth < 2.4:  # uniform
            most["bound"] = max(most["bound"], abs(np.abs(a).max() / np.abs(b).max() - 1))
    bound = f"{100 * most['bound']:.2f} %" if most["bound"] else ""
    print(f"| {options.model} | {options.side}, {options.classes} | {len(theirs)} | {n_constant} | {most['ks']:.2f} | {n_large} "
          f"| {100 * most['std']:.1f} % | {100 * most['fourth']:.1f} % | {bound} | {', '.join(wrong) or 'none'} |")


def write_images(options):
    """Digits in a light colour on a dark one, with noise."""
    data, random = lenet5_torch.Dataset(options.data, "train"), np.random.default_rng(1)
    for i in range(options.n):
        ink, paper = random.uniform(150, 255, (1, 1, 3)), random.uniform(0, 100, (1, 1, 3))
        share = np.pad(data.images[i, 0].numpy() / 255.0, 2)[:, :, None]
        pixels = (share * ink + (1 - share) * paper + random.normal(0, 16, (32, 32, 3))).clip(0, 255).astype(np.uint8)
        folder = pathlib.Path(options.out) / "train" / str(data.labels[i].item())
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{i:05d}.png")


class Pngs:
    """All images of the folder in memory, normalized as dptrain does."""

    def __init__(self, folder):
        files = sorted(pathlib.Path(folder).glob("train/*/*.png"))
        pixels = torch.from_numpy(np.stack([np.asarray(Image.open(file)) for file in files])).permute(0, 3, 1, 2)
        mean, std = (torch.tensor(x).view(3, 1, 1) for x in IMAGENET)
        self.images, self.labels = (pixels / 255 - mean) / std, torch.tensor([int(file.parent.name) for file in files])

    def batch(self, index, _):
        return self.images[index], self.labels[index]


class Coco:
    """Images with their boxes, classes in the order of categories; without crowds and what is thinner than a pixel."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        content = json.loads((folder / "annotations/instances_train2017.json").read_text())
        classes = {c["id"]: i + 1 for i, c in enumerate(sorted(content["categories"], key=lambda c: c["id"]))}
        found = {}
        for a in content["annotations"]:
            x, y, width, height = a["bbox"]
            if not a.get("iscrowd") and width > 1 and height > 1:
                found.setdefault(a["image_id"], []).append(([x, y, x + width, y + height], classes[a["category_id"]]))
        self.samples = []
        for image in content["images"]:
            if image["id"] in found:
                pixels = np.asarray(Image.open(folder / "train2017" / image["file_name"]).convert("RGB"))
                boxes, labels = zip(*found[image["id"]])
                target = {"boxes": torch.tensor(boxes), "labels": torch.tensor(labels)}
                self.samples.append((torch.from_numpy(pixels.copy()).permute(2, 0, 1) / 255, target))
        self.labels = self.samples


def train(options):
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    detects = "rcnn" in options.model
    if detects:
        data = Coco(options.data)
    else:
        data = Pngs(options.data) if options.side != 28 else lenet5_torch.Dataset(options.data, "train")
    model = build(options.model, options.side, options.classes, options.zero_init_residual).train()
    if options.optimizer == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    indices = lenet5_torch.batches(len(data.labels), options.batch, 0, 1, options.seed)
    for _ in range(options.steps):
        optimizer.zero_grad()
        index = next(indices)
        if detects:
            images, targets = zip(*(data.samples[i] for i in index))
            loss = sum(model(list(images), list(targets)).values())
        else:
            x, label = data.batch(index, torch.contiguous_format)
            loss = F.cross_entropy(model(x), label)
        loss.backward()
        optimizer.step()
        print(loss.item(), flush=True)


def table(options):
    """From files CASE.PROGRAM.SEED, a loss a line."""
    def cell(runs, first, end):
        means = [[statistics.mean(run[first:end]) for run in runs[program]] for program in ("dptrain", "torch")]
        ours, theirs = (statistics.mean(x) for x in means)
        error = math.sqrt(sum(statistics.variance(x) / len(x) for x in means))
        spread = " ± ".join(f"{x:.3f}" for x in (ours, statistics.stdev(means[0])))
        wanted = " ± ".join(f"{x:.3f}" for x in (theirs, statistics.stdev(means[1])))
        return f"{spread}; {wanted}; {(ours - theirs) / error:+.1f}"

    for case in options.cases:
        runs = {"dptrain": [], "torch": []}
        for program, found in runs.items():
            for file in sorted(pathlib.Path(options.folder).glob(f"{case}.{program}.*")):
                found.append([float(line) for line in file.read_text().split()])
        n = min(len(run) for found in runs.values() for run in found)
        print(f"| {case} | {cell(runs, 0, 1)} | {cell(runs, 0, n)} | {cell(runs, n - 20, n)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("weights")
    command.set_defaults(run=compare_weights)
    command.add_argument("file")
    command.add_argument("--model", required=True)
    command.add_argument("--side", type=int, required=True)
    command.add_argument("--classes", type=int, required=True)
    command = commands.add_parser("images")
    command.set_defaults(run=write_images)
    command.add_argument("--data", required=True, help="MNIST's files")
    command.add_argument("--out", required=True)
    command.add_argument("--n", type=int, default=1600)
    command = commands.add_parser("train")
    command.set_defaults(run=train)
    command.add_argument("--model", required=True)
    command.add_argument("--data", required=True, help="MNIST's files (--side 28), a folder of PNGs, or COCO's")
    command.add_argument("--side", type=int, required=True)
    command.add_argument("--classes", type=int, default=10)
    command.add_argument("--zero-init-residual", action="store_true")
    command.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
    command.add_argument("--lr", type=float, required=True)
    command.add_argument("--batch", type=int, required=True)
    command.add_argument("--steps", type=int, default=100)
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--threads", type=int, default=1)
    command = commands.add_parser("table")
    command.set_defaults(run=table)
    command.add_argument("folder")
    command.add_argument("cases", nargs="+")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
