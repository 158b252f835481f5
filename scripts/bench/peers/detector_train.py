#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training steps of torchvision's Faster and Mask R-CNN on one image, to be compared with scripts/bench/detector_train.c:
writes weights and an input for both (make), and prints seconds by part, the fastest step each, and the peak memory
(time). See --help."""

import argparse
import pathlib
import resource
import time

import detection_formula as formula
import numpy as np
import torch
from torchvision.models.detection import FasterRCNN, MaskRCNN
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.roi_heads import fastrcnn_loss, maskrcnn_loss
from torchvision.ops import box_iou
from torchvision.ops.misc import FrozenBatchNorm2d

CLASSES, OBJECTS, REGIONS, ANCHORS = 91, 8, 512, 256
SGD = (1e-4, 0.9, 1e-4)  # learning rate, momentum, weight decay
MODELS = {"maskrcnn_resnet50_fpn": MaskRCNN, "fasterrcnn_resnet50_fpn": FasterRCNN,
          "maskrcnn_resnet18_fpn": MaskRCNN, "fasterrcnn_resnet18_fpn": FasterRCNN}


def build(name, weights=None):
    """The model in training mode, conv1 and layer1 frozen; weights by the formula unless an .npz has them."""
    net = name.split("_")[1]
    backbone = resnet_fpn_backbone(backbone_name=net, weights=None, norm_layer=FrozenBatchNorm2d, trainable_layers=3)
    model = MODELS[name](backbone, num_classes=CLASSES)
    file = np.load(weights) if weights else None
    state = {key: torch.from_numpy(file[key] if weights else formula.weight(key, tuple(value.shape)))
             for key, value in model.state_dict().items()}
    model.load_state_dict(state, strict=True)
    return model.train()


def compile_parts(model):
    """torch.compile of all layers with weights. The rest of a detector has shapes that depend on the data."""
    heads = model.roi_heads
    for part in (model.backbone, model.rpn.head, heads.box_head, heads.box_predictor):
        part.compile()
    if heads.has_mask():
        heads.mask_head.compile()
        heads.mask_predictor.compile()


def objects(size, n=OBJECTS, name="objects"):
    """Boxes of 64 to 256 pixels, classes, and ellipses as masks."""
    height, width = size
    u = (formula.uniform(name, 5 * n).reshape(n, 5) + 1) / 2
    side = 64 * 4 ** u[:, 2:4]
    x, y = u[:, 0] * (width - side[:, 0]), u[:, 1] * (height - side[:, 1])
    boxes = np.stack([x, y, x + side[:, 0], y + side[:, 1]], 1)
    across = [((np.arange(width) + 0.5 - x[i]) / side[i, 0] - 0.5) ** 2 for i in range(n)]
    down = [((np.arange(height) + 0.5 - y[i]) / side[i, 1] - 0.5) ** 2 for i in range(n)]
    masks = np.stack([across[i][None, :] + down[i][:, None] < 0.25 for i in range(n)])
    return {"boxes": torch.from_numpy(boxes).float(), "labels": torch.from_numpy(1 + (u[:, 4] * 90).astype(np.int64)),
            "masks": torch.from_numpy(masks.astype(np.uint8))}


def proposals(truth, size, positives, n=REGIONS):
    """n regions of which, the objects themselves among both, `positives` overlap an object by half: with REGIONS, nothing
    is drawn."""
    height, width = size
    boxes, near = truth["boxes"], positives - len(truth["boxes"])
    u = torch.from_numpy(formula.uniform("near", 4 * near)).float().reshape(-1, 4)
    chosen = boxes.repeat(-(-near // len(boxes)), 1)[:near]
    out = [chosen + 0.08 * u * (chosen[:, 2:] - chosen[:, :2]).repeat(1, 2)]
    u = torch.from_numpy((formula.uniform("far", 40 * n) + 1) / 2).float().reshape(-1, 4)
    side = 16 * (height / 32) ** u[:, 2:]
    x, y = u[:, 0] * (width - side[:, 0]), u[:, 1] * (height - side[:, 1])
    far = torch.stack([x, y, x + side[:, 0], y + side[:, 1]], 1)
    far = far[box_iou(boxes, far).max(0).values < 0.45]
    out = torch.cat([*out, far[:n - positives]])
    out[:, 0::2].clamp_(0, width)
    out[:, 1::2].clamp_(0, height)
    found = box_iou(boxes, out).max(0).values >= 0.5
    assert len(out) == n - len(boxes) and found.sum() == near, "the boxes do not match as they should"
    return out


def make(options):
    size = (options.height, options.width)
    truth = objects(size)
    np.savez(options.folder / "weights.npz",
             **{name: value.numpy() for name, value in build(options.model).state_dict().items()})
    np.savez(options.folder / "in.npz", image=formula.image(*size, *size), size=np.float32(size),
             proposals=proposals(truth, size, options.positives).numpy(), sample=np.float32((ANCHORS, REGIONS)),
             sgd=np.float32(SGD),
             **{f"objects.{key}": value.numpy().astype(np.float32) for key, value in truth.items()})


class Step:
    """A step on one image, whole or part by part. Regions may be given, after those of the network are computed. bf16,
    torch.autocast, and fused, the fused SGD, are for whole steps."""

    def __init__(self, model, file, channels_last=False, bf16=False, fused=False):
        self.model, self.channels_last, self.bf16 = model, channels_last, bf16
        if channels_last:
            model.to(memory_format=torch.channels_last)
        self.read(file)
        lr, momentum, decay = (float(x) for x in file["sgd"])
        trained = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=lr, momentum=momentum, weight_decay=decay, **({"fused": True} if fused else {}))
        self.propose = model.rpn.filter_proposals
        model.rpn.filter_proposals = self.replace
        self.best = {}

    def read(self, file):
        """Takes another image."""
        image = torch.from_numpy(file["image"]).permute(2, 0, 1)[None].contiguous()
        if self.channels_last:
            image = image.to(memory_format=torch.channels_last)
        self.images = ImageList(image, [tuple(int(x) for x in file["size"])])
        self.truth = [{"boxes": torch.from_numpy(file["objects.boxes"]),
                       "labels": torch.from_numpy(file["objects.labels"]).long(),
                       "masks": torch.from_numpy(file["objects.masks"]).byte()}]
        self.given = torch.from_numpy(file["proposals"]) if "proposals" in file else None

    def replace(self, *args):
        own, scores = self.propose(*args)
        return own if self.given is None else [self.given], scores

    def whole(self):
        model = self.model
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            features = model.backbone(self.images.tensors)
            regions, first = model.rpn(self.images, features, self.truth)
            _, second = model.roi_heads(features, regions, self.images.image_sizes, self.truth)
        losses = {**first, **second}
        sum(losses.values()).backward()
        self.optimizer.step()
        return [float(losses[name].detach()) for name in
                ("loss_objectness", "loss_rpn_box_reg", "loss_classifier", "loss_box_reg", "loss_mask")
                if name in losses]

    def part(self, name, run):
        start = time.perf_counter()
        out = run()
        self.times[name] = self.times.get(name, 0) + time.perf_counter() - start
        return out

    def cut(self, values):
        """The same values as leaves, so that backward stops there."""
        if isinstance(values, dict):
            return type(values)((name, self.cut(value)) for name, value in values.items())
        return values.detach().requires_grad_()

    def back(self, name, values, leaves):
        """Backward of a part, whose output the leaves replaced."""
        pairs = [(v, leaf.grad) for v, leaf in zip(values, leaves) if leaf.grad is not None]
        self.part(name, lambda: torch.autograd.backward(*zip(*pairs)))

    def by_part(self):
        """Each part's forward and backward on its own; the sums of gradients between parts are in none."""
        model, heads, sizes, self.times = self.model, self.model.roi_heads, self.images.image_sizes, {}
        self.part("optimizer", self.optimizer.zero_grad)
        stages = self.part("trunk", lambda: model.backbone.body(self.images.tensors))
        inputs = type(stages)((k, self.cut(v) if v.requires_grad else v) for k, v in stages.items())
        pyramid = self.part("pyramid", lambda: model.backbone.fpn(inputs))
        features, near, masked = self.cut(pyramid), self.cut(pyramid), self.cut(pyramid)
        maps = self.part("proposal head", lambda: model.rpn.head(list(features.values())))
        head = [self.cut(x) for x in maps[0]], [self.cut(x) for x in maps[1]]
        model.rpn.head.forward = lambda _: head
        regions, losses = self.part("boxes", lambda: model.rpn(self.images, features, self.truth))
        del model.rpn.head.forward
        self.part("boxes", sum(losses.values()).backward)
        regions, matched, labels, targets = self.part("boxes", lambda: heads.select_training_samples(regions, self.truth))
        pooled = self.part("box RoIAlign", lambda: heads.box_roi_pool(near, regions, sizes))
        box = self.cut(pooled)
        loss = self.part("box head", lambda: sum(fastrcnn_loss(*heads.box_predictor(heads.box_head(box)), labels, targets)))
        self.part("box head", loss.backward)
        self.back("box RoIAlign", [pooled], [box])
        if heads.has_mask():
            positive = torch.where(labels[0] > 0)[0]
            regions, matched = [regions[0][positive]], [matched[0][positive]]
            pooled = self.part("mask RoIAlign", lambda: heads.mask_roi_pool(masked, regions, sizes))
            mask = self.cut(pooled)
            logits = self.part("mask head", lambda: heads.mask_predictor(heads.mask_head(mask)))
            leaf = self.cut(logits)
            truth = self.truth[0]
            loss = self.part("mask targets", lambda: maskrcnn_loss(leaf, regions, [truth["masks"]], [truth["labels"]], matched))
            self.part("mask targets", loss.backward)
            self.back("mask head", [logits], [leaf])
            self.back("mask RoIAlign", [pooled], [mask])
        self.back("proposal head", [*maps[0], *maps[1]], [*head[0], *head[1]])
        for name, leaf in features.items():
            for other in (near, masked):
                if other[name].grad is not None:
                    leaf.grad += other[name].grad
        self.back("pyramid", pyramid.values(), features.values())
        trained = [k for k, v in stages.items() if v.requires_grad]
        self.back("trunk", [stages[k] for k in trained], [inputs[k] for k in trained])
        self.part("optimizer", self.optimizer.step)
        for name, sec in self.times.items():
            self.best[name] = min(self.best.get(name, float("inf")), sec)


def run(options):
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = build(options.model, options.folder / "weights.npz")
    step = Step(model, np.load(options.folder / "in.npz"), options.channels_last, options.bf16, options.fused)
    if options.compile:
        compile_parts(model)
    total = cpu = float("inf")
    for number in range(options.steps):
        start, cpu_start = time.perf_counter(), time.process_time()
        losses = step.whole()
        total = min(total, time.perf_counter() - start)
        cpu = min(cpu, time.process_time() - cpu_start)
        print(f"step {number}: losses", *(f"{x:.6f}" for x in losses), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(options.parts):
        step.by_part()
    for name, sec in step.best.items():
        print(f"{name:16} {sec:8.3f} s")
    print(f"{'all':16} {total:8.3f} s\n{'CPU time':16} {cpu:8.3f} s\n{'peak memory':16} {peak:8} KiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "time"))
    parser.add_argument("folder", type=pathlib.Path, help="of weights.npz and in.npz")
    parser.add_argument("--model", default="maskrcnn_resnet50_fpn", choices=MODELS)
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--width", type=int, default=704)
    parser.add_argument("--positives", type=int, default=128)
    parser.add_argument("--steps", type=int, default=3, help="whole steps")
    parser.add_argument("--parts", type=int, default=2, help="steps by part, after those")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="torch.autocast with bfloat16; needs --parts 0")
    parser.add_argument("--fused", action="store_true", help="the fused SGD of PyTorch 2.4 and later")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the layers; needs --parts 0, g++, Python.h")
    options = parser.parse_args()
    if options.parts > 0 and (options.bf16 or options.compile):
        parser.error("--bf16 and --compile are for whole steps: add --parts 0")
    make(options) if options.what == "make" else run(options)


if __name__ == "__main__":
    main()
