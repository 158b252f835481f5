#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Weights from and for other programs: checkpoint export, train --weights; numpy and safetensors read and write the files.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() {
    make_tiny 200 100
    common_setup
    # Batch norm has running statistics, dropout has none.
    "$dptrain" train --model mnist-cnn-bn --data "$tiny" --batch 20 --steps 10 --threads 1 --algorithms fixed \
        --out "$BATS_FILE_TMPDIR/trained" >/dev/null
    export RUN=$BATS_FILE_TMPDIR/trained
}

setup() {
    common_setup
    python=${DPTRAIN_VENV:-$root/build/venv}/bin/python
    archive=$BATS_TEST_TMPDIR/weights.npz
}

need_numpy() {
    "$python" -c 'import numpy, safetensors' 2>/dev/null ||
        skip "numpy or safetensors is not in ${python%/bin/python}; scripts/install_deps.sh --test installs it"
}

# Resumes the trained model, or the given one, with a learning rate of nearly zero.
begin_with() { # RANKS ARGUMENTS...
    on_ranks "$1" train --model mnist-cnn-bn --data "$tiny" --batch 20 --steps 1 --lr 1e-12 --threads 1 \
        --algorithms fixed --sync-bn --out "$out" --overwrite "${@:2}"
}

@test "exported weights start a run, on any number of ranks" {
    "$dptrain" checkpoint export "$RUN" --out "$archive"
    begin_with 0 --weights "$archive" 2>&1 | tee "$BATS_TEST_TMPDIR/said"
    grep -q 'weights .*weights.npz, 18 arrays, name table torchvision$' "$BATS_TEST_TMPDIR/said"
    cp -r "$out" "$BATS_TEST_TMPDIR/alone"
    begin_with 2 --weights "$archive"
    close_curves "$BATS_TEST_TMPDIR/alone" "$out" 1e-4
    # With its own initial weights the loss differs.
    begin_with 0
    between 0.1 "$(distance "$BATS_TEST_TMPDIR/alone" "$out")" 100
    "$dptrain" checkpoint export "$RUN" --out "$BATS_TEST_TMPDIR/own.npz" --names dptrain
    begin_with 0 --weights "$BATS_TEST_TMPDIR/own.npz" --weights-names dptrain
    close_curves "$BATS_TEST_TMPDIR/alone" "$out" 0
}

@test "numpy reads exported weights in torchvision's layout, and its archives are read" {
    need_numpy
    "$dptrain" checkpoint export "$RUN" --out "$archive"
    "$dptrain" checkpoint export "$RUN" --out "$BATS_TEST_TMPDIR/own.npz" --names dptrain
    "$python" - "$archive" "$BATS_TEST_TMPDIR/own.npz" "$BATS_TEST_TMPDIR/back.npz" <<'EOF'
import sys
import numpy as np
theirs, ours = np.load(sys.argv[1]), np.load(sys.argv[2])
assert len(theirs.files) == len(ours.files) == 18, theirs.files
assert theirs["conv2.weight"].shape == (64, 32, 3, 3) and theirs["conv2.weight"].dtype == np.float32
assert (theirs["conv2.weight"].transpose(0, 2, 3, 1) == ours["conv2/weight"]).all()
# The first linear layer reads 12×12 cells of 64 channels; in torchvision, channels come first.
wide = theirs["fc1.weight"].reshape(128, 64, 12, 12).transpose(0, 2, 3, 1).reshape(128, -1)
assert (wide == ours["fc1/weight"]).all()
assert (theirs["norm1.running_var"] == ours["norm1/running_var"]).all() and theirs["norm1.weight"].shape == (32,)
# In Fortran order, deflated, one in double precision, with an additional array, as numpy can write.
back = {name: np.asfortranarray(value) for name, value in theirs.items()}
back["fc2.weight"] = back["fc2.weight"].astype(np.float64)
back["norm1.num_batches_tracked"] = np.array(10)
np.savez_compressed(sys.argv[3], **back)
EOF
    begin_with 0 --weights "$archive"
    cp -r "$out" "$BATS_TEST_TMPDIR/alone"
    begin_with 0 --weights "$BATS_TEST_TMPDIR/back.npz"
    close_curves "$BATS_TEST_TMPDIR/alone" "$out" 0
}

@test "safetensors' reader takes an export, and its files are read: half precision, a prefix, a cut file" {
    need_numpy
    local tensors=$BATS_TEST_TMPDIR/weights.safetensors back=$BATS_TEST_TMPDIR/back.safetensors
    "$dptrain" checkpoint export "$RUN" --out "$archive"
    "$dptrain" checkpoint export "$RUN" --out "$tensors"
    "$python" - "$archive" "$tensors" "$back" <<'EOF'
import sys
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
theirs, ours = np.load(sys.argv[1]), load_file(sys.argv[2])
assert set(ours) == set(theirs.files), ours.keys()
assert all((ours[name] == theirs[name]).all() and ours[name].shape == theirs[name].shape for name in ours)
with safe_open(sys.argv[2], "np") as file:
    assert file.metadata()["format"] == "pt", file.metadata()
# Integers are nobody's weights. 1/8 is exact in half precision.
half = {"module." + name: np.round(value * 8).astype(np.float16) / 8 for name, value in ours.items()}
save_file(half | {"module.norm1.num_batches_tracked": np.array(10)}, sys.argv[3], metadata={"by": "hand"})
np.savez(sys.argv[1] + ".half.npz", **{name: value.astype(np.float32) for name, value in half.items()})
EOF
    begin_with 0 --weights "$archive"
    cp -r "$out" "$BATS_TEST_TMPDIR/alone"
    begin_with 2 --weights "$tensors"
    close_curves "$BATS_TEST_TMPDIR/alone" "$out" 1e-4
    begin_with 0 --weights "$archive.half.npz"
    mv "$out" "$BATS_TEST_TMPDIR/half"
    begin_with 0 --weights "$back" | grep "weights .*back.safetensors, 18 arrays.*module\."
    close_curves "$BATS_TEST_TMPDIR/half" "$out" 0
    "$dptrain" predict "$tensors" "$root/docs/digit.png" --model mnist-cnn-bn --data "$tiny"
    head -c 200000 "$tensors" >"$BATS_TEST_TMPDIR/cut.safetensors"
    for command in "eval cut.safetensors" "train --weights cut.safetensors --steps 1"; do
        # shellcheck disable=SC2086
        cd "$BATS_TEST_TMPDIR" && run "$dptrain" $command --model mnist-cnn-bn --data "$tiny"
        [ "$status" -eq 3 ]
        [[ $output == *"cut.safetensors: its end is missing"* ]]
    done
}

@test "an export names the classes beside it, and the lines of PyTorch that load it" {
    local photos=$BATS_TEST_TMPDIR/photos image=$BATS_TEST_TMPDIR/photos/train/a/1.png said=$BATS_TEST_TMPDIR/said
    for class in a b 'the last'; do
        mkdir -p "$photos/train/$class" && cp "$root/docs/digit.png" "$photos/train/$class/1.png"
    done
    "$dptrain" train --model resnet18 --data "$photos" --input-size 24 --batch 3 --steps 1 --threads 1 --algorithms fixed --no-eval \
        --out "$out"
    "$dptrain" checkpoint export "$out" --out "$BATS_TEST_TMPDIR/own.safetensors" | tee "$said"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/own.classes.txt")" -eq 3 ]
    grep -q 'torchvision.models.resnet18(num_classes=3); model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False); model.maxpool' "$said"
    grep -q 'load_state_dict.*own\.safetensors' "$said"
    predict() { "$dptrain" predict "$BATS_TEST_TMPDIR/own.safetensors" "$image" --model resnet18 --threads 1; }
    predict >"$said"
    grep -q '^classes  *.*own.classes.txt$' "$said"
    diff <("$dptrain" predict "$out" "$image" --threads 1 | grep '^  [01]\.') <(grep '^  [01]\.' "$said")
    grep -q ' the last' "$said"
    # As Windows and a person write them, with what a terminal would obey; and another number of them.
    printf 'x\r\ny\e[31m\r\nz' >"$BATS_TEST_TMPDIR/own.classes.txt"
    predict >"$said"
    [ "$(grep -cE '^  [01]\.[0-9]+  (x|y.*|z)$' "$said")" -eq 3 ]
    [ "$(grep -c $'\e' "$said")" -eq 0 ]
    echo only >"$BATS_TEST_TMPDIR/own.classes.txt"
    predict 2>&1 >"$said" | grep 'own.classes.txt does not have .*3 classes'
    [ "$(grep -cE '^  [01]\.[0-9]+  [012]$' "$said")" -eq 3 ]
    # A folder without one of the classes: labels are matched by the names.
    printf '%s\n' b a c >"$BATS_TEST_TMPDIR/own.classes.txt"
    rm -r "$photos/train/"the*
    mkdir "$photos/train/c" && cp "$image" "$photos/train/c"
    "$dptrain" eval "$BATS_TEST_TMPDIR/own.safetensors" --model resnet18 --data "$photos" --split train --threads 1
    echo a >"$BATS_TEST_TMPDIR/names" && printf 'b\nd\n' >>"$BATS_TEST_TMPDIR/names"
    mv "$BATS_TEST_TMPDIR/names" "$BATS_TEST_TMPDIR/own.classes.txt"
    run "$dptrain" eval "$BATS_TEST_TMPDIR/own.safetensors" --model resnet18 --data "$photos" --split train --threads 1
    [ "$status" -eq 3 ]
    [[ $output == *"has the class c"* ]]
}

@test "PyTorch loads models of every kind by the lines that export prints" {
    only_slow "needs PyTorch, and a minute"
    local torch=${DPTRAIN_TORCH_PYTHON:-python3} name
    "$torch" -c 'import torch, torchvision, safetensors, h5py' ||
        skip "DPTRAIN_TORCH_PYTHON=$torch has no torch, torchvision, safetensors, h5py"
    "$dptrain" data synth shapes --out "$BATS_TEST_TMPDIR/photos" --train 8 --val 4
    cd "$BATS_TEST_TMPDIR"
    local small=(--data photos --input-size 32 --batch 4) large=(--data photos --input-size 72 --batch 4)
    local detector=(--data "$DPTRAIN_DATA/coco_tiny" --min-size 64 --max-size 64 --batch 1)
    while read -r name set; do
        local -n options=$set
        "$dptrain" train --model "$name" "${options[@]}" --lr 1e-6 --steps 1 --algorithms fixed --no-eval --out run --overwrite
        for format in npz safetensors h5; do
            "$dptrain" checkpoint export run --out w.$format | tail -3 | grep . >load.py
            "$torch" load.py
        done
        [[ $set != small && $set != large ]] || "$torch" - "$dptrain" "$name" "$set" <<'EOF'
import json, subprocess, sys
import numpy as np
import torch
from PIL import Image
model, side = None, 32 if sys.argv[3] == "small" else 72
lines = subprocess.run([sys.argv[1], "checkpoint", "export", "run", "--out", "w.npz"], capture_output=True, text=True).stdout
exec("\n".join(lines.split("\n")[-4:]))
image = np.random.default_rng(1).integers(0, 256, (side, side, 3), dtype=np.uint8)
Image.fromarray(image).save("image.png")
subprocess.run([sys.argv[1], "predict", "w.npz", "image.png", "--model", sys.argv[2], "--eval-crop", "warp", "--input-size", str(side),
                "--json", "said.jsonl"], check=True, stdout=subprocess.DEVNULL)
pixels = (image / 255 - np.array([.485, .456, .406])) / np.array([.229, .224, .225])
with torch.no_grad():
    want = torch.softmax(model.eval()(torch.tensor(pixels.transpose(2, 0, 1)[None], dtype=torch.float32)), 1)[0].numpy()
for row in json.load(open("said.jsonl"))["classes"]:
    assert abs(row["probability"] - want[row["class"]]) < 1e-5, (row, want)
EOF
    done <<'EOF'
resnet18 small
resnet34 large
resnet50 large
resnet101 small
resnet152 small
vgg16 small
vgg16 large
mlp small
lenet5 small
mnist-cnn-bn small
fasterrcnn_resnet50_fpn detector
maskrcnn_resnet101_fpn detector
EOF
}

@test "HDF5's tools read an export" {
    command -v h5dump >/dev/null || skip "h5dump is not here"
    "$dptrain" checkpoint export "$RUN" --out "$BATS_TEST_TMPDIR/weights.h5"
    h5dump -H -d /conv2.weight "$BATS_TEST_TMPDIR/weights.h5" | grep -q '( 64, 32, 3, 3 )'
    "$dptrain" checkpoint verify "$BATS_TEST_TMPDIR/weights.h5"
}

@test "invalid archives and names are reported with the right code" {
    check() { # CODE WORDS ARGUMENTS...
        run "$dptrain" "${@:3}"
        echo "expected $1 \"$2\", got $status: $output"
        [ "$status" -eq "$1" ]
        [[ $output == *"$2"* ]]
    }
    "$dptrain" checkpoint export "$RUN" --out "$archive"
    local train=(train --data "$tiny" --steps 1 --out "$out" --overwrite)
    check 2 "--out FILE" checkpoint export "$RUN"
    check 2 "expected a name that ends in" checkpoint export "$RUN" --out "$BATS_TEST_TMPDIR/weights.pth"
    # It would be lost, except for its weights.
    mkdir -p "$BATS_TEST_TMPDIR/copy"
    cp "$RUN"/ckpt-*.h5 "$BATS_TEST_TMPDIR/copy"
    copies=("$BATS_TEST_TMPDIR"/copy/ckpt-*.h5)
    only=${copies[-1]}
    check 2 "is the checkpoint itself" checkpoint export "$BATS_TEST_TMPDIR/copy" --out "$only"
    cmp "$only" "$RUN/${only##*/}"
    check 2 "unknown name table 'keras'" checkpoint export "$RUN" --out "$archive" --names keras
    # γ would also be read as β.
    printf '%s\n' '%/gamma %.weight' '%/beta %.weight' '% %' >"$BATS_TEST_TMPDIR/names"
    check 2 "the name table maps both " checkpoint export "$RUN" --out "$archive" --names "$BATS_TEST_TMPDIR/names"
    check 2 "the name table maps both " "${train[@]}" --model mnist-cnn-bn --weights "$archive" --weights-names "$BATS_TEST_TMPDIR/names"
    check 2 "apply only to dptrain checkpoint export" checkpoint show "$RUN" --names dptrain
    check 3 "No such file" checkpoint export "$BATS_TEST_TMPDIR/absent.h5" --out "$archive"
    check 2 "--weights-names requires --weights" "${train[@]}" --weights-names dptrain
    check 3 "No such file" "${train[@]}" --weights "$BATS_TEST_TMPDIR/absent.npz"
    check 3 "has no array 'conv1/weight'" "${train[@]}" --weights "$archive" --weights-names dptrain
    # lenet5's conv1 has 20 channels.
    check 3 "array 'conv1.weight' is 32×1×3×3, but conv1/weight of lenet5 requires 20×1×5×5" "${train[@]}" \
        --weights "$archive"
    head -c 2000 "$archive" >"$BATS_TEST_TMPDIR/cut.npz"
    check 3 "cut.npz: it cannot be read as .npz" "${train[@]}" --weights "$BATS_TEST_TMPDIR/cut.npz"
    echo '<html><title>404 Not Found</title></html>' >"$BATS_TEST_TMPDIR/page.npz"
    check 3 "web page" "${train[@]}" --weights "$BATS_TEST_TMPDIR/page.npz"
    check 3 "dptrain checkpoint export" "${train[@]}" --weights "$RUN"
    check 3 "dptrain checkpoint export" "${train[@]}" --weights "$RUN/${only##*/}"
    # As torch.save wrote it until 2020; the case of a zip is in tests/unit/test_weights.c.
    printf '\200\2\212\nl\374\234F\371 j\250P\031.' >"$BATS_TEST_TMPDIR/model.pth"
    check 3 "torch.load(" "${train[@]}" --weights "$BATS_TEST_TMPDIR/model.pth"
    check 3 "torch.load(" eval "$BATS_TEST_TMPDIR/model.pth" --data "$tiny"
    check 3 "torch.load(" predict "$BATS_TEST_TMPDIR/model.pth" "$BATS_TEST_DIRNAME/../../docs/digit.png"
    check 3 "torch.load(" checkpoint export "$BATS_TEST_TMPDIR/model.pth" --out "$archive"
}

@test "eval evaluates weights like the checkpoint they come from" {
    "$dptrain" checkpoint export "$RUN" --out "$archive"
    "$dptrain" checkpoint export "$RUN" --out "$BATS_TEST_TMPDIR/own.npz" --names dptrain
    with=(--data "$tiny" --threads 1)
    "$dptrain" eval "$RUN" "${with[@]}" --json "$BATS_TEST_TMPDIR/want.json"
    for n in 0 2; do
        on_ranks "$n" eval "$archive" --model mnist-cnn-bn "${with[@]}" --json "$BATS_TEST_TMPDIR/$n.json" | grep '^weights  .*weights.npz$'
        jq -es '.[0].accuracy == .[1].accuracy and .[0].loss == .[1].loss and (.[1] | has("matches_training_data") | not)' \
            "$BATS_TEST_TMPDIR"/{want,"$n"}.json
    done
    "$dptrain" eval "$BATS_TEST_TMPDIR/own.npz" --model mnist-cnn-bn --weights-names dptrain "${with[@]}" |
        grep "^accuracy *$(printf %.4f "$(jq .accuracy "$BATS_TEST_TMPDIR/want.json")")"
    refuse() { # CODE PART-OF-THE-MESSAGE ARGUMENTS...
        run "$dptrain" eval "${@:3}"
        echo "expected $1 \"$2\", got $status: $output"
        [ "$status" -eq "$1" ]
        [[ $output == *"$2"* ]]
    }
    refuse 2 "needs --model" "$archive" "${with[@]}"
    refuse 2 "--model applies to weights" "$RUN" --model mlp "${with[@]}"
    refuse 2 "did you mean mnist-cnn" "$archive" --model mnist-cn "${with[@]}"
    refuse 3 "mlp requires" "$archive" --model mlp --data "$tiny"
    refuse 3 "--weights-names dptrain" "$BATS_TEST_TMPDIR/own.npz" --model mnist-cnn-bn "${with[@]}"
}

@test "--stem: the network is kept by checkpoints, takes weights that have it, and no resumed run changes it" {
    begin=(--model resnet18 --data "$tiny" --batch 4 --steps 1 --threads 1 --algorithms fixed --no-eval --out "$out" --overwrite)
    said=$BATS_TEST_TMPDIR/said
    "$dptrain" train "${begin[@]}" --stem imagenet >"$said"
    grep -q '^          stem imagenet: 7×7' "$said"
    "$dptrain" checkpoint show "$out" | grep -q '^stem  *imagenet$'
    "$dptrain" predict "$out" "$root/docs/digit.png"
    "$dptrain" checkpoint export "$out" --out "$archive"
    "$dptrain" train --resume auto --out "$out" --steps 2 | grep '^          stem imagenet: '
    run "$dptrain" train --resume auto --out "$out" --stem small --steps 3
    [ "$status" -eq 2 ]
    [[ $output == *"cannot change --stem small (it was imagenet)"* ]]
    # Images of 28 pixels get the small stem by default.
    run "$dptrain" train "${begin[@]}" --weights "$archive"
    [ "$status" -eq 3 ]
    [[ $output == *"conv1.weight"*"--stem imagenet"* ]]
    "$dptrain" train "${begin[@]}" --weights "$archive" --stem imagenet | grep 'arrays, name table torchvision$'
    "$dptrain" train "${begin[@]}" | grep '^          stem small: 3×3'
    for model in lenet5 vgg16 fasterrcnn_resnet18_fpn; do
        run "$dptrain" train --model "$model" --stem small
        [ "$status" -eq 2 ]
        [[ $output == *"--stem "*"resnet18, resnet34, resnet50"*"$model"* ]]
        run "$dptrain" info --model "$model" --stem small
        [ "$status" -eq 2 ]
    done
    "$dptrain" info --model resnet18 --input-size 32 --stem imagenet | grep '^maxpool '
}

@test "exported weights take images of training's size; a copy without the note needs --input-size where 224 is wrong" {
    need_numpy
    mkdir -p "$BATS_TEST_TMPDIR/photos/train/"{a,b}
    for class in a b; do
        for i in 1 2; do cp "$root/docs/digit.png" "$BATS_TEST_TMPDIR/photos/train/$class/$i.png"; done
    done
    image=$root/docs/digit.png bare=$BATS_TEST_TMPDIR/bare.npz
    data=(--data "$BATS_TEST_TMPDIR/photos")
    "$dptrain" train --model resnet18 "${data[@]}" --input-size 24 --batch 2 --steps 1 --threads 1 --algorithms fixed --no-eval \
        --out "$out"
    "$dptrain" checkpoint export "$out" --out "$archive"
    "$python" -c 'import sys, numpy; numpy.savez(sys.argv[2], **numpy.load(sys.argv[1]))' "$archive" "$bare"
    scores() { "$dptrain" predict "$@" --threads 1 | grep -Eo '^  [01]\.[0-9]+' | sort; }
    diff <(scores "$out" "$image") <(scores "$archive" "$image" --model resnet18)
    "$dptrain" predict "$archive" "$image" --model resnet18 | grep '^images  *24×24×3, from the file; stem small$'
    on_ranks 2 eval "$archive" --model resnet18 "${data[@]}" --split train | grep '^images  *24×24×3, from the file'
    "$dptrain" predict "$archive" "$image" --model resnet18 --input-size 32 | grep '^images  *32×32×3, --input-size'
    for command in "predict $bare $image" "eval $bare ${data[*]} --split train"; do
        # shellcheck disable=SC2086
        run "$dptrain" $command --model resnet18
        [ "$status" -eq 2 ]
        [[ $output == *bare.npz*"stem small"*--input-size* ]]
    done
    diff <(scores "$out" "$image") <(scores "$bare" "$image" --model resnet18 --input-size 24)
}

# Prints the distinct γ of a norm.
scales() { # NORM
    h5dump -y -d "/params/$1/gamma" "$out"/ckpt-*1.h5 | awk '/^ *[-0-9.]/' | tr -s ' ,' '\n' | grep . | LC_ALL=C sort -u | paste -sd ' '
}

# Adam divides gradients by their size: each weight changes by the rate at most.
@test "--zero-init-residual: blocks begin as the identity; recorded, kept on resume, refused for other models" {
    begin=(--data "$tiny" --batch 4 --steps 1 --optimizer adamw --lr 1e-12 --device cpu --threads 1 --algorithms fixed --no-eval --out "$out")
    "$dptrain" train "${begin[@]}" --model resnet18 >/dev/null
    [ "$(scales layer1.0.bn1) $(scales layer4.1.bn2)" = "1 1" ]
    jq -es 'map(select(.record == "run"))[0].options["zero-init-residual"] == false' "$out/metrics.jsonl"
    "$dptrain" train "${begin[@]}" --model resnet18 --zero-init-residual --overwrite >/dev/null
    [ "$(scales layer1.0.bn1) $(scales layer2.0.downsample.1)" = "1 1" ]
    scales layer4.1.bn2 | tr ' ' '\n' | awk '{ bad = bad || $1 > 1e-11 || $1 < -1e-11 } END { exit bad || !NR }'
    jq -es 'map(select(.record == "run"))[0].options["zero-init-residual"]' "$out/metrics.jsonl"
    run "$dptrain" train --out "$out" --resume auto --steps 2 --no-zero-init-residual
    [ "$status" -eq 2 ]
    [[ $output == *"cannot change --zero-init-residual false (it was true)"* ]]
    "$dptrain" train --out "$out" --resume auto --steps 2 --device cpu >/dev/null
    for model in mnist-cnn-bn maskrcnn_resnet18_fpn; do
        run "$dptrain" train --model "$model" --zero-init-residual
        [ "$status" -eq 2 ]
        [[ $output == *"--zero-init-residual "*"resnet18, resnet34, resnet50"*"$model"* ]]
    done
    run "$dptrain" train --out "$BATS_TEST_TMPDIR/none" --resume auto --zero-init-residual
    [ "$status" -eq 2 ]
    [[ $output == *"--zero-init-residual "*lenet5* ]]
    "$dptrain" checkpoint export "$out" --out "$archive"
    "$dptrain" train "${begin[@]}" --model resnet18 --zero-init-residual --weights "$archive" --overwrite 2>&1 >/dev/null |
        grep -e "--zero-init-residual changes nothing"
}
