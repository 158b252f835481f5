#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares dptrain's detectors with torchvision's, layer by layer, on weights and images by a formula, and prints
results/detection_parity.md. Needs PyTorch, torchvision, pycocotools, dptrain and
build/scripts/bench/detection_graph. See --help."""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

import detection_formula as formula
import numpy as np
import pycocotools.mask
import torch
import torchvision
from PIL import Image
from torchvision.models.detection import MaskRCNN
from torchvision.models.detection._utils import BalancedPositiveNegativeSampler
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.roi_heads import fastrcnn_loss, maskrcnn_loss, project_masks_on_boxes
from torchvision.models.detection.rpn import concat_box_prediction_layers
from torchvision.ops import box_iou
from torchvision.ops.misc import FrozenBatchNorm2d

CLASSES, MASKS = 91, 16
LIMIT = 1e-4  # of a map's largest value
# Network, canvas, the part of it that the image fills. P6's stride is 61 on 800×1088.
CASES = (("resnet18", (800, 1088), (800, 1066)), ("resnet50", (800, 1088), (800, 1066)),
         ("resnet18", (480, 640), (480, 640)), ("resnet50", (480, 640), (480, 640)),
         ("resnet18", (640, 448), (640, 427)), ("resnet50", (640, 448), (640, 427)))


def build(net):
    backbone = resnet_fpn_backbone(backbone_name=net, weights=None, norm_layer=FrozenBatchNorm2d, trainable_layers=5)
    model = MaskRCNN(backbone, num_classes=CLASSES).eval()
    state = {name: torch.from_numpy(formula.weight(name, tuple(value.shape)))
             for name, value in model.state_dict().items()}
    model.load_state_dict(state, strict=True)
    return model


def input_of(canvas, size):
    x = torch.from_numpy(formula.image(*size, *canvas))
    return x, ImageList(x.permute(2, 0, 1)[None].contiguous(), [size])


def nhwc(x):
    return x.permute(0, 2, 3, 1).contiguous().numpy()


@torch.no_grad()
def run_torch(model, images):
    """All maps by dptrain's names, on torchvision's own proposals and detections."""
    features = model.backbone(images.tensors)
    out = {f"fpn.{i}": nhwc(x) for i, x in enumerate(features.values())}
    for i, (logits, deltas) in enumerate(zip(*model.rpn.head(list(features.values())))):
        out[f"rpn.{i}.logits"], out[f"rpn.{i}.deltas"] = nhwc(logits), nhwc(deltas)
    proposals, _ = model.rpn(images, features)
    heads, sizes = model.roi_heads, images.image_sizes
    logits, deltas = heads.box_predictor(heads.box_head(heads.box_roi_pool(features, proposals, sizes)))
    found = heads(features, proposals, sizes)[0][0]
    out |= {"box.logits": logits.numpy(), "box.deltas": deltas.numpy(), "proposals": proposals[0].numpy()}
    out["detections"] = torch.cat([found["boxes"], found["scores"][:, None], found["labels"][:, None]], 1).numpy()
    boxes = found["boxes"][:MASKS]
    out["mask.boxes"] = boxes.numpy()
    if heads.has_mask():
        pooled = heads.mask_roi_pool(features, [boxes], sizes)
        out["mask.logits"] = nhwc(heads.mask_predictor(heads.mask_head(pooled)))
    return out


def regions(boxes):
    """Boxes of image 0, as the graph reads them."""
    return np.concatenate([np.zeros((len(boxes), 1), np.float32), boxes], 1)


def run_dptrain(program, model, weights, folder, inputs):
    np.savez(folder / "in.npz", **inputs)
    files = [folder / f"{name}.npz" for name in ("in", "out", "export")]
    subprocess.run([program[0], model, weights, *files, *program[1:]], check=True)
    return dict(np.load(folder / "out.npz")), dict(np.load(folder / "export.npz"))


def difference(ours, theirs):
    return float(np.abs(ours.reshape(theirs.shape).astype(np.float64) - theirs).max() / np.abs(theirs).max())


def missing_proposals(ours, theirs):
    """Of theirs, those without one of ours within 0.01 pixels."""
    distance = np.abs(ours[:, None] - theirs[None]).max(2)
    return int((distance.min(0) > 0.01).sum()) + abs(len(ours) - len(theirs))


def missing_detections(ours, theirs):
    """Of theirs, those without one of ours of the same class, within 1e-4 in score and above 0.999 in IoU."""
    iou = box_iou(torch.from_numpy(ours[:, :4]), torch.from_numpy(theirs[:, :4])).numpy()
    same = ours[:, None, 5] == theirs[None, :, 5]
    near = np.abs(ours[:, None, 4] - theirs[None, :, 4]) < 1e-4
    return int((~((iou > 0.999) & same & near).any(0)).sum()) + abs(len(ours) - len(theirs))


def same_weights(model, exported):
    """Whether torchvision takes the exported weights, and they are those of the model."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict({name: torch.from_numpy(value) for name, value in exported.items()}, strict=True)
    return all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def objects(size, n=8):
    """Boxes, classes and masks (ellipses) of objects by the formula."""
    height, width = size
    u = (formula.uniform("objects", 5 * n).reshape(n, 5) + 1) / 2
    side = (16 + 0.5 * min(size) * u[:, 2] ** 2) * np.exp(0.4 * (u[:, 3:4] - 0.5) * [1, -1]).T
    x, y = u[:, 0] * (width - side[0]), u[:, 1] * (height - side[1])
    boxes = torch.from_numpy(np.stack([x, y, x + side[0], y + side[1]], 1).clip(0)).float()
    columns, rows = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    across = [((columns - x[i]) / side[0, i] - 0.5) ** 2 for i in range(n)]
    down = [((rows - y[i]) / side[1, i] - 0.5) ** 2 for i in range(n)]
    masks = np.stack(across) + np.stack(down) < 0.25
    return {"boxes": boxes, "labels": torch.from_numpy(1 + (u[:, 4] * (CLASSES - 1)).astype(np.int64)),
            "masks": torch.from_numpy(masks.astype(np.uint8))}


def jittered(boxes, per_box):
    """Regions near the boxes."""
    u = torch.from_numpy(formula.uniform("regions", 4 * per_box * len(boxes))).float().reshape(-1, 4)
    boxes = boxes.repeat(per_box, 1)
    return boxes + 0.15 * u * (boxes[:, 2:] - boxes[:, :2]).repeat(1, 2)


def per_level(values, canvas, each):
    """Values of all anchors as [rows, columns, 3 · each] of every level."""
    out, first = [], 0
    for level in range(5):
        rows, columns = (-(-side // (4 << level)) for side in canvas)
        n = rows * columns * 3
        out.append(values[first:first + n].reshape(rows, columns, 3 * each).numpy())
        first += n
    return out


def rpn_losses(model, images, features, truth, canvas, inputs):
    """torchvision's, with all anchors that match or are background; adds dptrain's inputs."""
    rpn = model.rpn
    objectness, deltas = concat_box_prediction_layers(*rpn.head(features))
    anchors = rpn.anchor_generator(images, features)
    labels, matched = rpn.assign_targets_to_anchors(anchors, [truth])
    targets = rpn.box_coder.encode(matched, anchors)
    rpn.fg_bg_sampler = BalancedPositiveNegativeSampler(1 << 30, 0.5)
    sampled = labels[0] >= 0
    for level, (label, target) in enumerate(zip(per_level(labels[0], canvas, 1), per_level(targets[0], canvas, 4))):
        inputs[f"rpn.{level}.label"], inputs[f"rpn.{level}.target"] = label, target
        inputs[f"rpn.{level}.weight"] = np.full_like(label, 1 / float(sampled.sum()))
    return rpn.compute_loss(objectness, deltas, labels, targets)


def head_losses(model, images, features, truth, inputs):
    """torchvision's, of regions near the objects and anywhere; adds dptrain's inputs."""
    heads, sizes = model.roi_heads, images.image_sizes
    with torch.no_grad():
        anywhere = model.rpn.eval()(images, features)[0][0][:300]
    boxes = torch.cat([jittered(truth["boxes"], 10), anywhere])
    (matched,), (labels,) = heads.assign_targets_to_proposals([boxes], [truth["boxes"]], [truth["labels"]])
    targets = heads.box_coder.encode([truth["boxes"][matched]], [boxes])[0]
    logits, deltas = heads.box_predictor(heads.box_head(heads.box_roi_pool(features, [boxes], sizes)))
    positive = torch.where(labels > 0)[0][:128]
    near, index = boxes[positive], matched[positive]
    masks = heads.mask_predictor(heads.mask_head(heads.mask_roi_pool(features, [near], sizes)))
    mask_targets = project_masks_on_boxes(truth["masks"], near, index, 28)
    inputs |= {"box.regions": regions(boxes.numpy()), "box.label": labels.numpy().astype(np.float32),
               "box.target": targets.numpy(), "box.weight": np.full(len(boxes), 1 / len(boxes), np.float32),
               "mask.regions": regions(near.numpy()), "mask.label": labels[positive].numpy().astype(np.float32),
               "mask.target": mask_targets.numpy(),
               "mask.weight": np.full(len(near), 1 / (28 * 28 * len(near)), np.float32)}
    return *fastrcnn_loss(logits, deltas, [labels], [targets]), \
        maskrcnn_loss(masks, [near], [truth["masks"]], [truth["labels"]], [index])


LOSSES = ("objectness_loss", "box_loss", "box.class_loss", "box.box_loss", "mask.loss")


def train_torch(model, images, canvas, size):
    """Losses and gradients of torchvision on given targets, and the inputs with which dptrain has the same."""
    inputs, truth = {}, objects(size)
    model.zero_grad()
    features = model.backbone(images.tensors)
    losses = (*rpn_losses(model, images, list(features.values()), truth, canvas, inputs),
              *head_losses(model, images, features, truth, inputs))
    sum(losses).backward()
    return [float(x.detach()) for x in losses], gradients(model), inputs


def train_torch_whole(model, images, size):
    """torchvision's training pass, on its own proposals, with all anchors and regions."""
    truth = objects(size)
    model.zero_grad()
    model.rpn.train()
    model.roi_heads.train()
    model.rpn.fg_bg_sampler = BalancedPositiveNegativeSampler(1 << 30, 0.5)
    model.roi_heads.fg_bg_sampler = BalancedPositiveNegativeSampler(2048, 1 / 16)
    features = model.backbone(images.tensors)
    proposals, first = model.rpn(images, features, [truth])
    _, second = model.roi_heads(features, proposals, images.image_sizes, [truth])
    losses = (first["loss_objectness"], first["loss_rpn_box_reg"], second["loss_classifier"], second["loss_box_reg"],
              second["loss_mask"])
    sum(losses).backward()
    model.eval()
    return [float(x.detach()) for x in losses], gradients(model), {
        "objects.boxes": truth["boxes"].numpy(), "objects.labels": truth["labels"].numpy().astype(np.float32),
        "objects.masks": truth["masks"].numpy().astype(np.float32)}


def gradients(model):
    return {name: value.grad.numpy() for name, value in model.named_parameters() if value.grad is not None}


def our_losses(ours):
    """In the order of LOSSES."""
    return [sum(float(value.sum()) for name, value in ours.items()
                if (name.startswith("rpn") and name.endswith(loss)) or name == loss) for loss in LOSSES]


GROUPS = (("P2 to P6", "fpn."), ("RPN logits", "logits"), ("RPN deltas", "deltas"), ("class logits", "box.logits"),
          ("box deltas", "box.deltas"), ("masks", "mask.logits"))


def compare(ours, theirs):
    """Largest difference of each group of maps, and the sets."""
    row = []
    for _, part in GROUPS:
        names = [name for name in theirs if part in name and (name.startswith("rpn") or "." in part)]
        row.append(max(difference(ours[name], theirs[name]) for name in names))
    return row, missing_proposals(ours["proposals"], theirs["proposals"]), \
        missing_detections(ours["detections"], theirs["detections"])


def compare_forward(run, model, x, images, size):
    theirs = run_torch(model, images)
    ours, exported = run({"image": x.numpy(), "size": np.float32(size), "box.regions": regions(theirs["proposals"]),
                          "mask.regions": regions(theirs["mask.boxes"])})
    if not same_weights(model, exported):
        sys.exit("exported weights differ")
    row, proposals, detections = compare(ours, theirs)
    n, n_found = len(theirs["proposals"]), len(theirs["detections"])
    return [f"{v:.1e}" for v in row] + [f"{proposals} of {n} differ", f"{detections} of {n_found} differ"], \
        max(row) <= LIMIT and proposals <= n / 100 and detections <= max(1, n_found / 100)


def compare_training(run, x, size, results):
    losses, grads, inputs = results
    ours, our_grads = run({"image": x.numpy(), "size": np.float32(size)} | inputs)
    loss = [abs(a - b) / abs(b) for a, b in zip(our_losses(ours), losses)]
    distances = [float(np.linalg.norm(our_grads[name] - grad) / np.linalg.norm(grad)) for name, grad in grads.items()]
    counts = ["{2:.0f} of {1:.0f}".format(*ours["counts"])] if "counts" in ours else []
    return [f"{max(loss):.1e}", f"{max(distances):.1e}", *counts], max(loss) <= 1e-5 and max(distances) <= 1e-3


COLUMNS = [title for title, _ in GROUPS] + ["proposals", "detections", "losses", "gradients", "losses, own targets",
                                           "gradients, own targets", "regions with an object"]
NOTES = """
- Weights, γ, β, running values and images are by a formula (`scripts/bench/peers/detection_formula.py`); 91 classes, frozen
  norms. dptrain imports the weights from an .npz; `load_state_dict(strict=True)` takes its export, with the same values.
- Maps: largest difference divided by the largest value, of all levels. Boxes are torchvision's 1000 proposals, masks its
  first 16 detections, for both programs. Limit: 1e-4.
- Proposals and detections: of each program from its own maps. Different: a proposal without one of the other program within
  0.01 pixels; a detection without one of the same class with an IoU above 0.999 and a score within 1e-4.
- Losses: the largest relative difference of the five, on given targets: all labelled anchors, 380 regions, their masks.
  Own targets: a whole training pass (`train_image_run`), each program with its own proposals and targets of 8 objects;
  samples are larger than the candidates, so that neither draws. Limit: 1e-5.
- Gradients: of all parameters, the largest norm of the difference divided by the gradient's norm. Limit: 1e-3. They differ
  where the input of a ReLU is within rounding of 0: PyTorch with noise of 2e-6 of the mean added to each convolution differs
  from itself by 1.7e-3 (ResNet-18, 480×640).
- CI compares ResNet-18 on 160×224 with numbers that torchvision computed (`tests/unit/test_rcnn_parity.c`).
"""


def run_case(program, folder, net, canvas, size):
    """The columns of a case, and whether they are within the limits."""
    model = build(net)
    weights = folder / f"{net}.npz"
    if not weights.exists():
        np.savez(weights, **{name: value.numpy() for name, value in model.state_dict().items()})
    x, images = input_of(canvas, size)

    def run(inputs):
        return run_dptrain(program, f"maskrcnn_{net}_fpn", weights, folder, inputs)

    row, right = compare_forward(run, model, x, images, size)
    for results in (train_torch(model, images, canvas, size), train_torch_whole(model, images, size)):
        more, also_right = compare_training(run, x, size, results)
        row, right = row + more, right and also_right
    return row, right


# Of the image, and what it is resized to: as it is, enlarged, and reduced.
IMAGES = ({}, {"size": (333, 517), "min_size": 480, "max_size": 700}, {"size": (1100, 901), "min_size": 320, "max_size": 640})


def compare_predict(dptrain, folder, net="resnet18", size=(480, 640), min_size=480, max_size=640):
    """A line about `dptrain predict` and torchvision's model on a PNG, which both resize unless the sizes are its own."""
    pixels = np.clip(formula.image(*size, *size) * 40 + 128, 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(folder / "image.png")
    model = build(net)
    model.transform.min_size, model.transform.max_size = (min_size,), max_size
    np.savez(folder / "predict.npz", **{name: value.numpy() for name, value in model.state_dict().items()})
    with torch.no_grad():
        found = model([torch.from_numpy(pixels).permute(2, 0, 1) / 255])[0]
    theirs = torch.cat([found["boxes"], found["scores"][:, None], found["labels"][:, None]], 1).numpy()
    subprocess.run([dptrain, "predict", folder / "predict.npz", folder / "image.png", "--model", f"maskrcnn_{net}_fpn",
                    "--min-size", str(min_size), "--max-size", str(max_size), "--resize", "torchvision", "--canvas", "exact",
                    "--json", folder / "predict.json"],
                   check=True, stdout=subprocess.DEVNULL)
    listed = json.loads((folder / "predict.json").read_text(encoding="utf-8"))["objects"]
    ours = np.array([[x, y, x + w, y + h, o["score"], o["category_id"]] for o in listed for x, y, w, h in [o["bbox"]]],
                    np.float32)
    missing, wrong, n_pixels = missing_detections(ours, theirs), 0, 0
    for mask, box in zip(found["masks"][:, 0].numpy() > 0.5, theirs):
        same = listed[np.abs(ours[:, :4] - box[:4]).max(1).argmin()]
        wrong += int((pycocotools.mask.decode(same["segmentation"]) != mask).sum())
        n_pixels += int(mask.sum())
    how = "that neither program resizes" if min_size == min(size) else f"resized to a shorter side of {min_size}"
    return f"- `dptrain predict --resize torchvision`, `maskrcnn_{net}_fpn`, a PNG of {size[0]}×{size[1]} {how}:\n" \
        f"  {missing} of {len(theirs)} detections and {wrong} of {n_pixels} pixels of masks differ."


def cpu():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))


def print_page(program, dptrain, folder):
    rule = program[1:] == ["rule"]
    print("# Detectors beside torchvision\n\n| network, canvas | " + " | ".join(COLUMNS) + " |\n|---|" +
          "---:|" * len(COLUMNS))
    passed = True
    for net, canvas, size in CASES:
        row, right = run_case(program, folder, net, canvas, size)
        print(f"| `maskrcnn_{net}_fpn`, {canvas[0]}×{canvas[1]} | " + " | ".join(row) + " |", flush=True)
        passed &= right
    revision = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    algorithms = "by rule (Winograd for large 3×3 convolutions), as in training and evaluation" if rule else \
        "the backend's defaults"
    print(NOTES + f"- Algorithms: {algorithms}.\n" + "\n".join(compare_predict(dptrain, folder, **sizes) for sizes in IMAGES) + f"""

| | |
|---|---|
| machine | {cpu()} |
| software | dptrain {revision.stdout.strip()}; PyTorch {torch.__version__}, torchvision {torchvision.__version__} |
| date | {datetime.date.today()} |
| command | `python scripts/bench/peers/detection_parity.py{" --rule" * rule}` |""")
    return 0 if passed else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/scripts/bench/detection_graph")
    parser.add_argument("--dptrain", default="./dptrain")
    parser.add_argument("--folder", type=pathlib.Path, help="folder for the weights [a temporary folder]")
    parser.add_argument("--rule", action="store_true", help="with the algorithms by rule, Winograd among them")
    options = parser.parse_args()
    program = [options.program] + ["rule"] * options.rule
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(print_page(program, options.dptrain, options.folder or pathlib.Path(temporary)))


if __name__ == "__main__":
    main()
