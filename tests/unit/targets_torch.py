# SPDX-License-Identifier: MIT
"""Prints the numbers of tests/unit/test_targets.c: what torchvision 0.29.2's own functions make of the inputs that the
test makes with the same hash, with samples larger than the candidates. targets_torch.py"""
import torch
from torchvision.models.detection import roi_heads, rpn
from torchvision.models.detection._utils import BoxCoder
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import roi_align

from torch_inputs import values


def boxes(first, n, side):
    corner = values(first, n * 2, 0, 128).reshape(n, 2)
    return torch.cat([corner, corner + values(first + 2 * n, n * 2, 2, side).reshape(n, 2)], 1)


def sums(name, labels, targets):
    weight = torch.arange(1, len(labels) + 1, dtype=torch.float64)
    print(name, [int((labels == k).sum()) for k in (1, 0, -1)], f"{float((weight * labels.double()).sum()):.0f}",
          [f"{v:.6f}" for v in (targets.double().abs() * (labels >= 1)[:, None]).sum(0).tolist()])


def anchors(objects):
    cells = [(40, 56), (20, 28), (10, 14), (5, 7), (3, 4)]
    features = [torch.zeros(1, 1, h, w) for h, w in cells]
    generator = AnchorGenerator(((32,), (64,), (128,), (256,), (512,)), ((0.5, 1.0, 2.0),) * 5)
    grid = generator(ImageList(torch.zeros(1, 3, 160, 224), [(150, 213)]), features)[0]
    top = {"training": 300, "testing": 300}
    network = rpn.RegionProposalNetwork(generator, None, 0.7, 0.3, 256, 0.5, top, top, 0.7)
    labels, matched = network.assign_targets_to_anchors([grid], [{"boxes": objects}])
    targets = BoxCoder((1.0, 1.0, 1.0, 1.0)).encode(matched, [grid])
    sums(f"anchors, {len(objects)} objects", labels[0].long(), targets[0])


def regions(objects, classes):
    heads = roi_heads.RoIHeads(None, None, None, 0.5, 0.5, 100000, 1.0, None, 0.05, 0.5, 100)
    proposals = boxes(500, 300, 80)
    target = [{"boxes": objects, "labels": classes}]
    found, _, labels, targets = heads.select_training_samples([proposals], target)
    sums(f"regions, {len(objects)} objects", labels[0].clamp(max=1), targets[0])
    print("  classes", int(labels[0].sum()))


def masks():
    image, scaled = (90, 128), (150, 213)
    mask = torch.zeros(1, *image)
    y, x = torch.meshgrid(torch.arange(90), torch.arange(128), indexing="ij")
    mask[0] = ((x - 60) ** 2 + 2 * (y - 40) ** 2 < 30 ** 2).float()
    resized = torch.nn.functional.interpolate(mask[:, None], size=scaled)[:, 0].byte()
    rois = torch.tensor([[40.0, 20.5, 150.25, 120.0], [100.0, 60.0, 108.0, 140.0], [0.0, 0.0, 213.0, 150.0],
                         [150.3, 70.1, 151.0, 70.9], [-20.0, 50.0, 80.0, 170.0]])
    for roi, aligned in ((roi, aligned) for aligned in (False, True) for roi in rois):
        out = roi_align(resized[None].float(), torch.cat([torch.zeros(1, 1), roi[None]], 1), (28, 28), 1.0, -1, aligned)
        out = out[0, 0].double()
        weight = torch.arange(1, 28 * 28 + 1, dtype=torch.float64).reshape(28, 28)
        print("mask", roi.tolist(), f"{float(out.sum()):.6f} {float((out * weight).sum()):.4f} "
              f"{float((out * out).sum()):.6f}")


torch.manual_seed(0)
objects = boxes(0, 6, 90)
classes = torch.tensor([3, 1, 5, 2, 2, 7])
anchors(objects)
anchors(torch.zeros(0, 4))
regions(objects, classes)
regions(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long))
masks()
