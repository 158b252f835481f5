#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A picture of a page, as a browser shows it. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/dev/page_png.sh PAGE.html OUT.png [options]

Takes a picture of a whole page, as that of `dptrain report html`, by headless Chromium.

  --width N   width of the window in pixels: 1280 for a laptop, 390 for a phone [1280]
  --height N  maximum height [that of the page, at most 16000]
  --dark      use the dark colour scheme
  --scale X   pixels of the picture for each of the page [1]

Finds Chromium in PATH; set CHROMIUM to use another. Exit code 4: Chromium is missing or failed.
EOF
}

width=1280 height=0 scheme=1 scale=1
words=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --width) need_value "$@"; whole_number --width "$2" 100; width=$2; shift 2 ;;
    --height) need_value "$@"; whole_number --height "$2" 100; height=$2; shift 2 ;;
    --scale) need_value "$@"; scale=$2; shift 2 ;;
    --dark) scheme=0; shift ;;
    -*) common_option "$1" ;;
    *) words+=("$1"); shift ;;
    esac
done
[[ ${#words[@]} -eq 2 ]] || die 2 "expected a page and an image file: PAGE.html OUT.png"
[[ $scale =~ ^[1-4](\.[0-9])?$ ]] || die 2 "invalid --scale '$scale': expected a number from 1 to 4.9"
page=$(readlink -f "${words[0]}") || page=${words[0]}
picture=${words[1]}
[[ -f $page ]] || die 3 "no such page: ${words[0]}"

browser=${CHROMIUM:-}
if [[ -z $browser ]]; then
    for candidate in chromium chromium-browser google-chrome; do
        if command -v "$candidate" >/dev/null; then browser=$candidate; break; fi
    done
fi
[[ -n $browser ]] || die 4 "chromium is not installed (apt-get install chromium); or set CHROMIUM"

make_work page_png
# A window cannot be as narrow as a phone, so the page is shown in a frame. The frame reports its height through the document's
# title, which requires file access from files.
flags=(--headless --disable-gpu --hide-scrollbars --no-first-run --user-data-dir="$work/profile"
    --force-device-scale-factor="$scale" --blink-settings="preferredColorScheme=$scheme" --allow-file-access-from-files)
[[ $(id -u) -ne 0 ]] || flags+=(--no-sandbox)

frame() { # HEIGHT
    local ground=white
    ((scheme)) || ground='#0d1218'
    cat <<EOF
<!DOCTYPE html><meta charset="utf-8"><title></title>
<style>html,body{margin:0;background:$ground;overflow:hidden}
iframe{border:0;width:${width}px;height:${1}px;display:block}</style>
<iframe src="file://$page" onload="document.title='height '+this.contentDocument.documentElement.scrollHeight"></iframe>
EOF
}

chromium_run() { # ARGUMENTS...
    timeout 120 "$browser" "${flags[@]}" "$@" 2>"$work/log" ||
        die 4 "$browser failed: $(tail -n 1 "$work/log")"
}

frame 600 >"$work/frame.html"
chromium_run --virtual-time-budget=5000 --dump-dom "file://$work/frame.html" >"$work/dom"
full=$(sed -n 's/.*<title>height \([0-9]*\)<.*/\1/p' "$work/dom" | head -n 1)
[[ -n $full ]] || die 4 "$browser did not report the height of the page: $(tail -n 1 "$work/log")"
((full <= 16000)) || full=16000
((height == 0 || full < height)) || full=$height
frame "$full" >"$work/frame.html"
chromium_run --virtual-time-budget=5000 --window-size="$width,$full" \
    --screenshot="$work/page.png" "file://$work/frame.html"
[[ -s $work/page.png ]] || die 4 "$browser made no picture: $(tail -n 1 "$work/log")"
mv "$work/page.png" "$picture" || die 4 "cannot write $picture"
