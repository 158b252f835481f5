#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# checkpoint export --out FILE.onnx: onnxruntime computes what dptrain predict does.
# shellcheck disable=SC2154 # common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    python=${DPTRAIN_VENV:-$root/build/venv}/bin/python
    cd "$BATS_TEST_TMPDIR"
}

need_onnxruntime() {
    "$python" -c 'import onnxruntime' 2>/dev/null ||
        skip "onnxruntime is not in ${python%/bin/python}; scripts/install_deps.sh --test installs it"
}

# Trains a step, exports, and compares the probabilities of random images, in a batch with others.
same() { # MODEL SIDE CHANNELS OPTIONS...
    local model=$1 side=$2 channels=$3
    "$dptrain" train --model "$model" "${@:4}" --lr 1e-5 --steps 1 --threads 1 --algorithms fixed --no-eval --out run --overwrite >/dev/null
    "$dptrain" checkpoint export run --out net.onnx >said
    "$dptrain" checkpoint export run --out net.npz >/dev/null
    local with=(--data digits)
    ((channels == 1)) || with=(--eval-crop warp --input-size "$side")
    [[ " $* " != *" multilabel "* ]] || with+=(--task multilabel)
    PYTHONPATH=$BATS_TEST_DIRNAME "$python" - "$dptrain" "$model" "$side" "$channels" "${with[@]}" <<'EOF'
import json, subprocess, sys
import numpy as np
import onnxruntime
from foreign_detector import write_png
dptrain, model, side, channels = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
images = np.random.default_rng(1).integers(0, 256, (3, side, side, channels), dtype=np.uint8)
network = onnxruntime.InferenceSession("net.onnx")
logits, probabilities = network.run(["logits", "probabilities"], {"image": images.transpose(0, 3, 1, 2).astype(np.float32)})
assert logits.shape == probabilities.shape and len(logits) == 3
assert (logits.argmax(1) == probabilities.argmax(1)).all() and probabilities.std() > 1e-6
for i, image in enumerate(images):
    write_png(f"{i}.png", np.broadcast_to(image, (side, side, 3)))
subprocess.run([dptrain, "predict", "net.npz", "0.png", "1.png", "2.png", "--model", model, "--top", "99", "--json", "said.jsonl",
                *sys.argv[5:]], check=True, stdout=subprocess.DEVNULL)
for line, theirs in zip(open("said.jsonl"), probabilities):
    ours = np.zeros_like(theirs)
    for row in json.loads(line)["classes"]:
        ours[row["class"]] = row["probability"]
    assert np.abs(ours - theirs).max() < 1e-5, (ours, theirs)
classes = network.get_modelmeta().custom_metadata_map.get("classes")
assert (json.loads(classes) if classes else None) == ([r["name"] for r in sorted(json.loads(line)["classes"], key=lambda r: r["class"])]
                                                      if channels == 3 else None)
EOF
}

@test "onnxruntime computes what predict does: batch norm, dropout, matrices, residual blocks" {
    need_onnxruntime
    same mnist-cnn-bn 28 1 --data digits --batch 8
    grep '^input  *image, float32 \[batch, 1, 28, 28\]: gray values of 0 to 255$' said
    "$dptrain" data synth shapes --out photos --train 8 --val 4 >/dev/null
    same resnet18 24 3 --data photos --input-size 24 --batch 4
    grep '^classes  *net.classes.txt' said
}

@test "onnxruntime computes what predict does: all models" {
    only_slow "takes a minute"
    need_onnxruntime
    "$dptrain" data synth shapes --out photos --train 8 --val 4 >/dev/null
    for model in lenet5 mlp mnist-cnn; do same "$model" 28 1 --data digits --batch 8; done
    for model in lenet5 resnet18 resnet34 resnet50 resnet101 resnet152; do same "$model" 72 3 --data photos --input-size 72 --batch 2; done
    for side in 32 72 250; do same vgg16 "$side" 3 --data photos --input-size "$side" --batch 2; done
    same resnet50 40 3 --data photos --input-size 40 --batch 2
    [[ -n ${DPTRAIN_DATA:-} ]] || skip "DPTRAIN_DATA is not set: no samples with several classes"
    same resnet18 40 3 --data "$DPTRAIN_DATA/coco_tiny" --task multilabel --input-size 40 --batch 2
}

@test "the lines of Python that an export prints run it; bad input is refused" {
    need_onnxruntime
    "$dptrain" train --data digits --batch 8 --steps 1 --threads 1 --algorithms fixed --no-eval --out run >/dev/null
    "$dptrain" checkpoint export run --out net.onnx | tee said
    cp net.onnx first.onnx && "$dptrain" checkpoint export run --out net.onnx >/dev/null && cmp net.onnx first.onnx
    # Pillow is no dependency of the tests: an Image that has what the lines need.
    mkdir PIL && cat >PIL/Image.py <<'EOF'
import numpy


class open(numpy.ndarray):
    def __new__(cls, path):
        assert path == "image.png"
        return numpy.zeros((28, 28), numpy.uint8).view(cls)

    def convert(self, mode):
        assert mode == "L"
        return self

    def resize(self, size):
        assert size == (28, 28)
        return self
EOF
    grep -A9 '^import' said >lines.py
    PYTHONPATH=$PWD "$python" lines.py | grep -E 'array\(\[\[[0-9]'
    run "$dptrain" checkpoint export run --out net.onnx --names dptrain
    [ "$status" -eq 2 ]
    [[ $output == *"--names dptrain"*ONNX* ]]
    run "$dptrain" checkpoint export run --out no/such/folder/net.onnx
    [ "$status" -eq 4 ]
    run "$dptrain" predict net.onnx "$root/docs/digit.png"
    [ "$status" -eq 3 ]
    [[ $output == *ONNX*onnx.load* ]]
    run "$dptrain" eval net.onnx --model lenet5 --data digits
    [ "$status" -eq 3 ]
    [[ $output == *ONNX*onnx.load* ]]
}
