# SPDX-License-Identifier: MIT
"""Prints the numbers of tests/unit/test_detect.c: what torchvision 0.29.2's own functions make of the inputs that the
test makes with the same hash; of aligned masks, PyTorch's grid_sample. detect_torch.py"""
import torch
from torchvision.models.detection import rpn, roi_heads
from torchvision.models.detection._utils import BoxCoder
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.roi_heads import paste_masks_in_image
from torchvision.models.detection.transform import resize_boxes

from torch_inputs import values


def show(name, boxes):
    print(name, len(boxes))
    boxes = boxes.double()
    weight = torch.arange(1, len(boxes) + 1, dtype=torch.float64)
    print("  sums", [f"{v:.6f}" for v in (boxes * weight[:, None]).sum(0).tolist()])
    for i in (0, 1, len(boxes) // 2, len(boxes) - 1):
        print("  ", i, [f"{v:.6f}" for v in boxes[i].tolist()])


def proposals(scale):
    """Canvas 160 x 224, of which the image fills 150 x 213; P6 has 2 rows of stride 80."""
    cells = [(40, 56), (20, 28), (10, 14), (5, 7), (3, 4)]
    features = [torch.zeros(1, 1, h, w) for h, w in cells]
    first, logits, deltas = 0, [], []
    for h, w in cells:
        logits.append(values(first, h * w * 3, -scale, scale))
        first += h * w * 3
        deltas.append(values(first, h * w * 12, -1, 1).reshape(-1, 4))
        first += h * w * 12
    generator = AnchorGenerator(((32,), (64,), (128,), (256,), (512,)), ((0.5, 1.0, 2.0),) * 5)
    anchors = generator(ImageList(torch.zeros(1, 3, 160, 224), [(150, 213)]), features)
    boxes = BoxCoder((1.0, 1.0, 1.0, 1.0)).decode(torch.cat(deltas), anchors)
    top = {"training": 300, "testing": 300}
    head = rpn.RegionProposalNetwork(generator, None, 0.7, 0.3, 256, 0.5, top, {"training": 200, "testing": 200}, 0.7)
    head.eval()
    found, _ = head.filter_proposals(boxes.view(1, -1, 4), torch.cat(logits)[None, :, None], [(150, 213)],
                                     [len(x) for x in logits])
    show(f"proposals, logits to {scale}", found[0])


def detections(limit):
    n, classes = 60, 7
    corner = values(0, n * 4, 0, 128).reshape(n, 4)
    regions = torch.stack((corner[:, 0], corner[:, 1], corner[:, 0] + 1 + corner[:, 2] / 2, corner[:, 1] + 1 + corner[:, 3] / 2), 1)
    logits = values(240, n * classes, -4, 4).reshape(n, classes)
    deltas = values(660, n * classes * 4, -4, 4).reshape(n, classes * 4)
    heads = roi_heads.RoIHeads(None, None, None, 0.5, 0.5, 512, 0.25, None, 0.05, 0.5, limit)
    boxes, scores, labels = heads.postprocess_detections(logits, deltas, [regions], [(150, 213)])
    show(f"detections, {limit}", torch.cat((boxes[0], scores[0][:, None], labels[0][:, None].float()), 1))


def paste_aligned(mask, box, height, width):
    """The mask at the centres of the image's pixels, where 0 … 28 is the box."""
    x = (torch.arange(width) + 0.5 - box[0]) / (box[2] - box[0])
    y = (torch.arange(height) + 0.5 - box[1]) / (box[3] - box[1])
    grid = torch.stack(torch.meshgrid(2 * y - 1, 2 * x - 1, indexing="ij")[::-1], -1)
    return torch.nn.functional.grid_sample(mask, grid[None], align_corners=False)[0, 0] >= 0.5


def masks():
    logits = values(0, 28 * 28, -4, 4).reshape(1, 1, 28, 28)
    y, x = torch.meshgrid(torch.arange(28.0), torch.arange(28.0), indexing="ij")
    disc = (10.5 - ((y - 13.5) ** 2 + (x - 13.5) ** 2).sqrt())[None, None]
    for boxes in ([[10.25, 5.5, 90.75, 60.25]], [[-0.4, -0.4, 30, 30]], [[100, 60, 160, 120]], [[20, 20, 20.5, 90]],
                  [[0, 0, 160, 120]], [[3, 4, 31.9, 32.9]], [[40.5, 40.5, 41, 41]]):
        for kind in (logits, disc):
            probabilities = torch.sigmoid(kind)
            for pasted in (paste_masks_in_image(probabilities, torch.tensor(boxes), (120, 160))[0, 0] > 0.5,
                           paste_aligned(probabilities, boxes[0], 120, 160)):
                where = pasted.T.flatten().nonzero()[:, 0]  # column by column
                flips = int((pasted.T.flatten()[1:] != pasted.T.flatten()[:-1]).sum()) + int(pasted[0, 0])
                print("  {%5d, %9d, %3d}," % (len(where), int(where.sum()), flips), boxes)
    print(resize_boxes(torch.tensor([[10.5, 20.25, 700.125, 799]]), (800, 1066), (480, 640)))


proposals(4)
proposals(64)
detections(100)
detections(10)
masks()
