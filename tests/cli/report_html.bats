#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain report html: a self-contained page that shows the records, and never interprets their text.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

bats_require_minimum_version 1.5.0

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/terminal.bash
load terminal

setup() {
    common_setup
    cd "$BATS_TEST_TMPDIR" || return
}

point() { # RUN CASE TEST KEY METRICS P50
    printf '{"record":"bench","schema":1,"run":"%s","case":"%s","test":"%s","key":{%s},"metrics":{%s},' "${@:1:5}"
    printf '"unit":"s",'
    printf '"verdict":"ok","n":7,"per_sample":1,"n_disturbed":0,"disturbances":"","min":%s,"p50":%s,"p95":%s,"p99":%s,' \
        "$6" "$6" "$6" "$6"
    printf '"max":%s,"mean":%s,"cv":0,"ci95":[%s,%s],"slowest_rank":0,"slowest_share":1,' "$6" "$6" "$6" "$6"
    printf '"samples":[%s,%s,%s,%s,%s,%s,%s]}\n' "$6" "$6" "$6" "$6" "$6" "$6" "$6"
}

head_of() { # RUN HARDWARE CPU
    printf '{"record":"bench_run","schema":1,"id":"%s","time":"2026-11-21T08:0%d:00Z",' "$1" $((0x$1 % 10))
    printf '"ranks":2,"threads":1,"options":{},"fingerprint":{"hardware_id":"%s","fabric_id":"2b","software_id":"3c",' "$2"
    printf '"hardware":{"cpu":"%s","cpus":2},"fabric":{"hosts":1},"software":{"git":"abc"}}}\n' "$3"
}

comm() { # RUN FACTOR
    local bytes
    for bytes in 1024 65536 1048576; do
        point "$1" comm all_reduce "\"bytes\":$bytes,\"communicator\":\"mpi\",\"in_place\":false" \
            "\"busbw_gbs\":$bytes.5e-5" "$2$bytes.0e-9"
    done
}

end_of() { # RUN
    printf '{"record":"bench_end","schema":1,"run":"%s","reason":"finished","n_points":3,"seconds":1,' "$1"
    printf '"recording_sec":0.1}\n'
}

bench() { # FACTOR: a digit in front of the times; RUN…
    local run
    for run in "${@:2}"; do
        head_of "$run" 1a "X <b>9</b>"
        comm "$run" "$1"
        end_of "$run"
    done
}

training() { # STEPS
    printf '{"record":"run","schema":1,"time":"2026-11-21T09:00:00Z","software":{"dptrain":"0.1.0"},'
    printf '"options":{"model":"lenet5","precision":"fp32","seed":1},'
    printf '"topology":{"ranks":2,"hosts":1,"threads":1,"device":"cpu"},"n_parameters":9,'
    printf '"global_batch":64,"n_steps":%d,"first_step":0,"resumed_from":null}\n' "$1"
    awk -v n="$1" 'BEGIN {
        for (i = 0; i < n; i++) {
            printf "{\"record\":\"step\",\"step\":%d,\"epoch\":0,\"loss\":%g,\"accuracy\":0.5,", i, 2 / (1 + i)
            printf "\"lr\":0.1,\"step_sec\":0.01,\"data_wait_sec\":0.001,\"forward_sec\":0.003,"
            printf "\"backward_sec\":0.005,\"exposed_comm_sec\":0.0005,\"optimizer_sec\":0.0003}\n"
        }
    }'
    printf '{"record":"epoch","epoch":0,"step":%d,"train_loss":0.5,"train_accuracy":0.8,' "$(($1 - 1))"
    printf '"val_loss":0.4,"val_accuracy":0.9,"images_per_sec":6400,"train_sec":1}\n'
    printf '{"record":"end","reason":"finished","step":%d,"images_per_sec":6400,"peak_memory_bytes":[1]}\n' "$1"
}

# Well-formed, as XML and as HTML; loads nothing; each link has its section; no figure is NaN.
check_page() { # PAGE
    python3 - "$1" <<'EOF'
import html.parser, re, sys, xml.etree.ElementTree as tree
text = open(sys.argv[1], encoding="utf-8").read()
page = tree.fromstring(text)
ids, links = [], []
for element in page.iter():
    tag = element.tag.split("}")[1]
    if tag in ("script", "link", "img", "iframe", "object", "embed", "base", "form", "use", "image"):
        sys.exit("the page has a <%s>" % tag)
    for name, value in element.attrib.items():
        if name.startswith("on") or name in ("src", "srcset", "style"):
            sys.exit("<%s %s=%s>" % (tag, name, value))
        if name == "href": links.append(value)
        if name == "id": ids.append(value)
        if tag == "path" and name == "d" and re.search("nan|inf", value): sys.exit("no number: " + value)
    if tag == "svg" and not element.get("aria-hidden") and not (element.get("role") == "img" and element.get("aria-label")):
        sys.exit("a drawing says nothing to who cannot see it")
if len(set(ids)) != len(ids): sys.exit("an id twice: %s" % ids)
for link in links:
    if link[0] != "#" or link[1:] not in ids: sys.exit("a link to nothing: " + link)
if re.search(r"url\(|@import|https?:", text.replace('xmlns="http://www.w3.org/1999/xhtml"', "")):
    sys.exit("the page looks elsewhere")
html.parser.HTMLParser().feed(text)
EOF
}

sections() { # PAGE
    grep -o '<section id="[a-z]*"' "$1" | cut -d '"' -f 2 | paste -sd ' '
}

@test "a bench alone: its title, and no section without data" {
    bench 1 a1 a2 >new.jsonl
    run -0 "$dptrain" report html --title 'Ours & "theirs"' --out page.html new.jsonl
    [ "$output" = "wrote page.html" ]
    check_page page.html
    [ "$(sections page.html)" = "where comm" ]
    grep -q '<title>Ours &amp; &quot;theirs&quot;</title>' page.html
    grep -q '<h3>all_reduce</h3>' page.html
    grep -q '2 starts of dptrain bench: comm' page.html
    grep -q '2026-11-21 08:01 to 08:02 UTC' page.html
    grep -q 'Medians of 2 starts' page.html
    # The table next to the chart has the figure.
    grep -q '<td class="t">1 MiB</td><td>10.5</td>' page.html
    # Efficiency over an unknown number of ranks has no chart.
    { head_of b1 1a X; point b1 step weak '"batch":64' '"efficiency":0.875' 0.001; end_of b1; } >unknown.jsonl
    "$dptrain" report html --out page.html unknown.jsonl
    check_page page.html
    [ "$(sections page.html)" = "where rest" ]
}

@test "every section, with data for each; a folder stands for its files" {
    mkdir runs fast slow
    bench 1 a1 >base.jsonl
    bench 2 b1 >new.jsonl
    local shares='"data_wait_share":0.125,"compute_share":0.5,"exposed_comm_share":0.25,"optimizer_share":0.125'
    {
        point b1 mem copy '"level":"L1","bytes":4096,"dtype":"float64"' '"gbs":3,"gbs_all":6.25' 0.001
        point b1 gemm gemm '"shape":"square","m":64,"n":32,"k":16,"dtype":"float32"' '"gflops_all":77.25' 0.001
        point b1 step weak '"model":"lenet5","ranks":2,"batch":64' \
            "\"efficiency\":0.875,\"efficiency_low\":0.75,\"efficiency_high\":0.9,$shares" 0.001
        point b1 other thing '"a":1' '"b":2' 0.001
    } >>new.jsonl
    training 300 >fast/metrics.jsonl
    training 30 >slow/metrics.jsonl
    for i in 1 2 3 4 5 6 7; do bench 1 "c$i" >runs/$i.jsonl; done
    "$dptrain" report html --out page.html --base base.jsonl --force --history runs new.jsonl fast slow
    check_page page.html
    [ "$(sections page.html)" = "where verdict comm speed training steps history rest" ]
    grep -q 'Memory bandwidth, all ranks' page.html
    grep -q '>64×32×16</text>' page.html
    grep -q '>87.5 %</td>' page.html
    grep -q '>weak, 2 ranks, batch 64</text>' page.html
    grep -q 'fast<span class="said">lenet5, fp32, batch 64, 2 ranks, cpu<' page.html
    grep -q 'other thing' page.html
    grep -q 'all_reduce: 64 KiB' page.html
}

@test "a base: the verdicts are those of dptrain report compare; without one the reason is shown" {
    bench 1 a1 a2 a3 >base.jsonl
    bench 3 b1 b2 b3 >new.jsonl
    "$dptrain" report html --out page.html --base base.jsonl new.jsonl
    check_page page.html
    "$dptrain" report compare --format json base.jsonl new.jsonl >said.json || true
    for verdict in worse better same inconclusive; do
        [ "$(grep -c "<b class=\"tag $verdict\">$verdict</b>" page.html)" -eq \
            "$(jq "[.metrics[] | select(.verdict == \"$verdict\")] | length" said.json)" ]
    done
    [ "$(jq '.metrics | length' said.json)" -eq 3 ]
    sed -i 's/"hardware_id":"1a"/"hardware_id":"ff"/' base.jsonl
    "$dptrain" report html --out other.html --base base.jsonl new.jsonl 2>said
    check_page other.html
    grep -q 'No verdict: ' other.html
    grep -q 'force' said
    [ "$(sections other.html)" = "where verdict comm" ]
}

product() { # RUN GFLOPS P50 ok|disturbed
    point "$1" gemm gemm '"shape":"square","m":64,"n":32,"k":16' "\"gflops_all\":$2" "$3" | sed "s/\"verdict\":\"ok\"/\"verdict\":\"$4\"/"
}

@test "a single message size has a chart, with whiskers, as wide as the page" {
    for run in a1 a2 a3; do
        head_of "$run" 1a X
        comm "$run" 1 | grep '"bytes":65536' | sed "s/65536.5e-5/0.${run#a}/"
        end_of "$run"
    done >new.jsonl
    "$dptrain" report html --out page.html new.jsonl
    check_page page.html
    [ "$(sections page.html)" = "where comm" ]
    grep -q '>all_reduce, 64 KiB</text>' page.html
    grep -q 'class="wh"' page.html
    grep -q '<div class="figures of1">' page.html
    grep -q '<div class="wide"><svg viewBox="0 0 900 ' page.html
    # Several sizes: lines, and no bars.
    bench 1 b1 >several.jsonl
    "$dptrain" report html --out lines.html several.jsonl
    run grep -c 'class="b c0"' lines.html
    [ "$output" -eq 0 ]
}

@test "disturbed points are marked, in the chart and in its table" {
    {
        head_of a1 1a X
        product a1 10 0.001 disturbed
        comm a1 1 | sed '2s/"verdict":"ok"/"verdict":"disturbed"/'
        end_of a1
    } >new.jsonl
    "$dptrain" report html --out page.html new.jsonl
    check_page page.html
    grep -q '>10.0 !</text>' page.html
    grep -q '<td>10.0 !</td>' page.html
    grep -q '<path class="x" ' page.html
    grep -q 'Crossed out: other load disturbed' page.html
    grep -q '>disturbed</text>' page.html
}

@test "bars and verdicts show the same: work divided by the compared times" {
    # A start that the comparison leaves out would make the medians of all starts slower.
    for run in a1 a2 a3 a4; do head_of "$run" 1a X; product "$run" 10 0.001 ok; end_of "$run"; done >base.jsonl
    for run in b1 b2 b3; do head_of "$run" 1a X; product "$run" 8 0.00125 ok; end_of "$run"; done >new.jsonl
    for run in b4 b5; do head_of "$run" 1a X; product "$run" 2 0.005 disturbed; end_of "$run"; done >>new.jsonl
    "$dptrain" report html --out page.html --base base.jsonl new.jsonl
    check_page page.html
    grep -q '1.000 ms → 1.250 ms' page.html
    grep -q '>8.00</text>' page.html
    grep -q '<td>8.00</td><td>10.0</td>' page.html
}

@test "losses: as many points as can be drawn, and a run that diverged" {
    training 5000 | sed 's/"step":4000,"epoch":0,"loss":[^,]*/"step":4000,"epoch":0,"loss":null/' >metrics.jsonl
    "$dptrain" report html --out page.html metrics.jsonl
    check_page page.html
    [ "$(sections page.html)" = "training steps where" ]
    grep -q 'steps without a finite loss: 1' page.html
    # 100 each of the loss, the learning rate and the rate of images, and both ends of the loss in the legend.
    [ "$(grep -o 'class="l c0" d="[^"]*"' page.html | tr -cd 'ML' | wc -c)" -eq 302 ]
    [ "$(wc -c <page.html)" -lt 60000 ]
}

@test "training: the result first, validation apart, values under the mouse, confusions; the machine folded at the end" {
    make_tiny 80 50
    on_ranks 2 train --data "$tiny" --model mlp --batch 20 --threads 1 --algorithms fixed --epochs 4 --eval-every 3s --out run --quiet >/dev/null
    sed -i 's/"record":"profile",/&"slowest_ranks":[{"phase":"compute","rank":1,"host":"h","sec":0.2,"usual_sec":0.1}],/' run/metrics.jsonl
    "$dptrain" report --check run/metrics.jsonl
    "$dptrain" report html --out page.html run
    check_page page.html
    [ "$(sections page.html)" = "training steps where" ]
    grep -q "<h1>mlp on $(basename "$tiny")</h1>" page.html
    best=$(printf '%.1f' "$(jq -s 'map(.val_accuracy // empty) | max * 100' run/metrics.jsonl)")
    grep -q "<b class=\"big\">$best %</b><span class=\"said\">validation accuracy, epoch " page.html
    # Evaluations inside epochs, too; training and validation differ in colour, dash and marker.
    [ "$(grep -o 'class="l c1 v" d="[^"]*"' page.html | head -n 1 | tr -cd ML | wc -c)" -eq 6 ]
    grep -q '>validation</text>' page.html
    grep -A2 '<title>epoch 1' page.html | grep -q '^validation: '
    grep -q '<h3>Confusions after step 16</h3>' page.html
    [ "$(grep -o '<td class="[eh][0-8]">[0-9]*' page.html | grep -o '[0-9]*$' | paste -sd + | bc)" -eq 50 ]
    for folded in Epochs 'Slowest ranks' Layers Options 'Files, ranks, machine'; do grep -q "<summary>$folded</summary>" page.html; done
    grep -q '<td class="t">eval-every</td><td class="t">3s</td>' page.html
    # Names of classes that are no text, and counts that are none, are left out.
    sed 's/"confusion":\[\[[0-9]*/"confusion":[["x"/; s/"n_classes":10/"classes":[1,2],&/' run/metrics.jsonl >odd.jsonl
    "$dptrain" report html --out odd.html odd.jsonl
    check_page odd.html
    [ "$(grep -c '<h3>Confusions' odd.html)" -eq 0 ]
    # Numbers of epochs that cannot be are unusable.
    sed 's/"record":"epoch","epoch":0/"record":"epoch","epoch":9223372036854775807/' run/metrics.jsonl >far.jsonl
    "$dptrain" report html --out far.html far.jsonl
    grep -q 'Unusable lines: 1' far.html
    # Names of another number of classes, as of a run resumed with other data, are not those of the matrix.
    sed 's/"n_classes":10/"classes":["a","b"],&/' run/metrics.jsonl >other.jsonl
    "$dptrain" report html --out other.html other.jsonl
    grep -q '<th scope="col">9</th>' other.html
    [ "$(grep -o '<td class="[eh][0-8]">' other.html | wc -l)" -eq 100 ]
}

@test "training runs of unequal length are drawn by epochs; a run that diverged hides nothing" {
    long=$(training 300 | sed 's/"epoch":0,"step":299/"epoch":1,"step":300/')
    epoch=$(grep '"record":"epoch"' <<<"$long")
    { grep -v '"epoch"\|"end"' <<<"$long"; grep '"record":"step"' <<<"$long"; sed 's/"epoch":1,"step":300/"epoch":0,"step":150/' <<<"$epoch"
        printf '%s\n' "$epoch"; } >long.jsonl
    training 20 | sed 's/"n_steps":20,/&"data":{"source":"x","n_train":1280},/; s/"seed":1/"seed":2/
        s/"step":15,"epoch":0,"loss":[^,]*/"step":15,"epoch":0,"loss":3e30/; s/"step":19,"epoch":0,"loss":[^,]*/"step":19,"epoch":0,"loss":5e30/' >short.jsonl
    "$dptrain" report html --out page.html long.jsonl short.jsonl
    check_page page.html
    [ "$(sections page.html)" = "training steps where" ]
    grep -q '>epoch</text>' page.html
    [ "$(grep -c '>step</text>' page.html)" -eq 0 ]
    grep -q 'class="warns">diverged: loss 5e+30' page.html
    grep -q '>loss, logarithmic, cut at 40</text>' page.html
    grep -q '<td class="t">seed</td><td class="t">1</td><td class="t">2</td>' page.html
    grep -q 'still running or killed' page.html
    # Nothing is cut of a fine-tuned network, whose validation is far from its training.
    training 300 | sed 's/"loss":[^,]*/"loss":0.001/; s/"val_loss":0.4/"val_loss":0.05/' >tuned.jsonl
    "$dptrain" report html --out tuned.html tuned.jsonl
    [ "$(grep -c 'cut at\|diverged' tuned.html)" -eq 0 ]
    grep -q '^validation: 0.05000<' tuned.html
}

@test "a detector's metrics are three charts; what is neither better nor worse is in no chart" {
    metric() { # NAME LABEL UNIT BETTER REST
        printf '{"name":"%s","label":"%s","unit":"%s","better":"%s","main":false%s},' "$@"
    }
    table=$(metric loss loss number lower ',"training":true,"training_only":true'
        metric recall 'proposal recall' fraction higher ',"training":true,"training_only":true'
        metric box box number lower ',"training":true,"training_only":true'
        metric positives positives number neither ',"training":true,"training_only":true'
        metric ap_box 'box AP' fraction higher '' | sed 's/"main":false/"main":true/'
        metric ap50_box 'box AP50' fraction higher ''
        metric ap_small 'small AP' fraction higher ',"detail":true')
    training 20 | sed "s/\"n_parameters\":9,/&\"metrics\":[${table%,}],/
        s/\"train_loss\":0.5,/&\"train_recall\":1,\"train_box\":1,\"train_positives\":9,\"val_ap_box\":0.5,\"val_ap50_box\":0.75,\"val_ap_small\":0.1,/
        /\"record\":\"epoch\"/{ h; s/\"step\":19/\"step\":9/; p; g; s/\"epoch\":0/\"epoch\":1/; }" >metrics.jsonl
    "$dptrain" report html --out page.html metrics.jsonl
    check_page page.html
    [ "$(grep -o '<h3>[^<]*' page.html | cut -c 5- | paste -sd ,)" = \
        "Loss,Average precision,Proposal recall,Learning rate,Throughput,Step time: training" ]
    grep -q '<b class="big">50.0 %</b><span class="said">validation box AP' page.html
    for drawn in 'box AP' 'box AP50' box; do grep -q ">$drawn</text>" page.html; done
    for not in positives 'small AP'; do [ "$(grep -c ">$not</text>" page.html)" -eq 0 ]; done
    grep -q '>train positives</th>' page.html
}

@test "text from records is shown as text everywhere" {
    # As JSON, as a replacement for sed.
    evil='<script>alert(1)</script>]]>\&amp;\\"'"'"' onload=x \\u202e'
    # Each text in the records, from the machine's name to the names of keys.
    {
        bench 1 a1
        point a1 comm all_gather '"bytes":8,"communicator":"EVIL","EVIL":"EVIL"' '"busbw_gbs":1,"EVIL":2' 0.001
        point a1 comm all_gather '"bytes":16,"communicator":"mpi","EVIL":"b"' '"busbw_gbs":1' 0.001
        point a1 mem EVIL '"level":"EVIL"' '"gbs_all":1' 0.001
        point a1 step EVIL '"model":"EVIL","ranks":1,"batch":64' '"efficiency":1,"compute_share":1' 0.001
        point a1 EVIL EVIL '"EVIL":"EVIL"' '"EVIL":1,"b":"EVIL"' 0.001
        training 20
    } | sed -e 's/X <b>9/EVIL/; s/lenet5/EVIL/; s/"git":"abc"/"git":"EVIL"/; /bench_end/!s/"finished"/"EVIL"/' >clean.jsonl
    sed "s^EVIL^$evil^g" clean.jsonl >'<b onload=x>.jsonl'
    sed 's/"a1"/"a2"/' '<b onload=x>.jsonl' >base.jsonl
    "$dptrain" report html --title "<script>]]>" --out page.html --base base.jsonl --force \
        '<b onload=x>.jsonl' 2>said
    run ! grep -qE '(was|were) left out' said
    check_page page.html
    [ "$(grep -c 'alert(1)' page.html)" -gt 20 ]
    [ "$(sections page.html)" = "where verdict comm speed training steps rest" ]
    run ! grep -qE '<script|<b onload|]]>' page.html
    grep -q '&lt;script&gt;alert(1)&lt;/script&gt;]]&gt;&amp;amp;&quot;&#39; onload=x ?' page.html
    # Characters that change the writing direction are removed.
    run ! grep -q $'\u202e' page.html
}

@test "bad input: exit codes, no partial page, and valid parts are shown" {
    bench 1 a1 >new.jsonl
    : >empty.jsonl
    head_of a1 1a X >bare.jsonl
    run -2 "$dptrain" report html --out page.html
    run -2 "$dptrain" report html --out page.html --base new.jsonl
    for file in empty.jsonl bare.jsonl missing.jsonl; do
        run -3 "$dptrain" report html --out page.html "$file"
        [ ! -e page.html ]
    done
    echo old >page.html
    run -3 "$dptrain" report html --out page.html empty.jsonl
    [ "$(cat page.html)" = old ]
    run -3 "$dptrain" report html --out page.html --history missing
    [ "$(cat page.html)" = old ]
    # An unusable history, a partly unreadable base: the valid parts are shown, and the reason.
    run -3 "$dptrain" report html --out page.html --history missing new.jsonl
    check_page page.html
    [ "$(sections page.html)" = "where comm history" ]
    grep -q 'No history of missing: no usable recording' page.html
    mkdir base
    bench 1 b1 b2 >base/1.jsonl
    ln -s nowhere base/2.jsonl
    run -3 "$dptrain" report html --out page.html --base base new.jsonl
    check_page page.html
    grep -q 'No verdict: base could not be read completely' page.html
    run -4 "$dptrain" report html --out missing/page.html new.jsonl
    # One file is unreadable: the other is shown, and the code reports it.
    printf '{"half' >>new.jsonl
    run -3 "$dptrain" report html --out page.html missing.jsonl new.jsonl
    [[ $output == *missing.jsonl* ]]
    check_page page.html
    grep -q 'Unusable lines: 1' page.html
    # A truncated run is shown, and marked.
    grep -v bench_end new.jsonl >cut.jsonl
    "$dptrain" report html cut.jsonl >page.html
    grep -q 'Incomplete runs: 1' page.html
}

@test "a whole suite: the same bytes every time, and a small page" {
    on_ranks 2 bench gemm conv mem step comm --device cpu --quick --budget 0.001 --ci 1 --threads 1 --gemm-max 64 --mem-bytes 64K \
        --conv-net lenet5 --conv-batch 1 --step-batch 4 --step-data synthetic --step-algorithms fixed --no-step-scaling \
        --minbytes 1K --maxbytes 64K --stepfactor 64 --test all --out all.jsonl >/dev/null
    "$dptrain" report html --out 1.html all.jsonl
    "$dptrain" report html all.jsonl >2.html
    cmp 1.html 2.html
    check_page 1.html
    [ "$(wc -c <1.html)" -lt 300000 ]
    # All collectives, a net, all levels.
    [ "$(grep -c '<figure>' 1.html)" -ge 13 ]
}

@test "page_png.sh reports what is missing" {
    local tool
    mkdir bin
    for tool in bash readlink dirname; do ln -s "$(command -v "$tool")" bin/; done
    : >page.html
    run -4 env CHROMIUM= PATH="$PWD/bin" bash "$root/scripts/dev/page_png.sh" page.html page.png
    [[ $output == *"chromium is not installed"* ]]
    run -3 "$root/scripts/dev/page_png.sh" missing.html p.png
    run -2 "$root/scripts/dev/page_png.sh" one
}

@test "on a terminal without --out the page is report.html, which replaces no file of another kind" {
    need_terminal
    cd "$BATS_TEST_TMPDIR"
    training 20 >new.jsonl
    on_terminal() { script -qec "'$dptrain' report html new.jsonl" /dev/null </dev/null; }
    for _ in once again; do
        run -0 on_terminal
        [[ "$output" == *report.html* && "$output" != *"<html"* ]]
        "$dptrain" report html new.jsonl | cmp - report.html
    done
    echo mine >report.html
    run -2 on_terminal
    [[ "$output" == *report.html*--out* ]]
    [ "$(cat report.html)" = mine ]
    mkdir empty && cd empty && "$dptrain" report html ../new.jsonl >page
    [ "$(ls)" = page ]
}
