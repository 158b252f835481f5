# SPDX-License-Identifier: MIT
"""The network of tests/unit/test_graph_toy.c in PyTorch: toy_torch.py FILE. FILE is an .npz of its inputs, parameters,
running values, losses and gradients. Prints the largest difference of each from PyTorch's in double precision, relative
to the largest value of the tensor; ends with 1 when one is above 1e-5."""
import sys

import numpy as np
import torch
from torch.nn.functional import avg_pool2d, batch_norm, conv2d, cross_entropy, max_pool2d, relu

LIMIT = 1e-5

file = np.load(sys.argv[1])
head = next(name for name in file.files if name.startswith("roi_heads") and name.endswith("/weight"))[: -len("/weight")]
trained = {}


def tensor(name, is_trained=True):
    """A parameter; convolutions from OHWI to PyTorch's OIHW."""
    if name not in trained:
        value = torch.from_numpy(file[name].astype(np.float64))
        value = value.permute(0, 3, 1, 2).contiguous() if value.dim() == 4 else value
        trained[name] = value.requires_grad_(is_trained)
    return trained[name]


def conv(x, name, is_trained=True):
    return conv2d(x, tensor(name + "/weight", is_trained), tensor(name + "/bias", is_trained), padding=1)


def frozen_norm(x, name):
    state = [tensor(f"{name}/{which}", False) for which in ("running_mean", "running_var", "gamma", "beta")]
    return batch_norm(x, *state, training=False, eps=1e-5)


def linear(x, name):
    # Ours flattens [n, h, w, c].
    flat = x.permute(0, 2, 3, 1).flatten(1) if x.dim() == 4 else x
    return flat @ tensor(name + "/weight").T + tensor(name + "/bias")


image = torch.from_numpy(file["image"].astype(np.float64)).permute(0, 3, 1, 2)
label = torch.from_numpy(file["label"]).long()
target = torch.from_numpy(file["target"].astype(np.float64))
vector = torch.from_numpy(file["vector"].astype(np.float64))

x = relu(frozen_norm(conv(image, "stem.conv", False), "stem.norm"))
x = relu(frozen_norm(conv(x, "body.conv"), "body.norm"))
large, small = relu(conv(x, head)), relu(conv(max_pool2d(x, 2), head))
logits = linear(avg_pool2d(large, 2), "fc")
targets = linear(avg_pool2d(small, 2), "fc.small")
losses = {
    "loss.label": cross_entropy(logits, label, label_smoothing=0.1, reduction="none"),
    "loss.target": torch.nn.functional.binary_cross_entropy_with_logits(targets, target, reduction="none").mean(1),
    "loss.mix": cross_entropy(linear(vector, "fc.vector") + logits, label, reduction="none"),
}
weights = {"loss.label": 0.5, "loss.target": 2, "loss.mix": 1}
sum(weight * losses[name].sum() for name, weight in weights.items()).backward()

worst = 0


def compare(what, ours, theirs):
    global worst
    difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
    print(f"# {what}: {difference:.2e}")
    worst = max(worst, difference)


for name, loss in losses.items():
    compare(name, file[name], loss.detach().numpy())
for name, value in trained.items():
    if value.grad is None:
        assert "grad:" + name not in file.files, name
        continue
    gradient = value.grad.permute(0, 2, 3, 1) if value.dim() == 4 else value.grad
    compare("gradient of " + name, file["grad:" + name], gradient.numpy())
sys.exit(int(worst > LIMIT))
