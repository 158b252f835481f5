#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cifar10.conf in PyTorch, to compare: cifar10_pytorch.py DATA [--epochs N] [--batch N] [--lr X] [--seed N]

DATA has train/ and test/, each with a folder per class. Needs torch and torchvision, a GPU or patience."""
import argparse
import math

import torch
import torchvision
from torchvision import transforms

options = argparse.ArgumentParser()
options.add_argument("data")
options.add_argument("--epochs", type=int, default=30)
options.add_argument("--batch", type=int, default=128)
options.add_argument("--lr", type=float, default=0.1)
options.add_argument("--seed", type=int, default=1)
options.add_argument("--workers", type=int, default=4)
o = options.parse_args()

torch.manual_seed(o.seed)
device = "cuda" if torch.cuda.is_available() else "cpu"
as_input = [transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
moved = [transforms.RandomHorizontalFlip(), transforms.RandomCrop(32, padding=4, padding_mode="edge")]
train = torchvision.datasets.ImageFolder(f"{o.data}/train", transforms.Compose(moved + as_input))
test = torchvision.datasets.ImageFolder(f"{o.data}/test", transforms.Compose(as_input))
batches = torch.utils.data.DataLoader(train, o.batch, shuffle=True, num_workers=o.workers, persistent_workers=o.workers > 0)
tests = torch.utils.data.DataLoader(test, 500, num_workers=o.workers, persistent_workers=o.workers > 0)

model = torchvision.models.resnet18(num_classes=len(train.classes))
model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)  # --stem small
torch.nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
model.maxpool = torch.nn.Identity()
model.to(device)
sgd = torch.optim.SGD(model.parameters(), o.lr, momentum=0.9, weight_decay=5e-4)
n_steps = o.epochs * len(batches)
cosine = torch.optim.lr_scheduler.LambdaLR(sgd, lambda step: (1 + math.cos(math.pi * step / n_steps)) / 2)

for epoch in range(1, o.epochs + 1):
    model.train()
    total = 0.0
    for images, labels in batches:
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        cosine.step()
        total += loss.item() * len(labels)
    model.eval()
    with torch.no_grad():
        right = sum((model(images.to(device)).argmax(1).cpu() == labels).sum().item() for images, labels in tests)
    print(f"epoch {epoch}  train loss {total / len(train):.4f}  validation accuracy {right / len(test):.4f}", flush=True)
