# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # variables of aws.sh
# Copies the program and data to S3. Sourced by aws.sh.

aws_put() {
    local folder
    ask_region
    ask_bucket
    abort_uploads
    put_program
    for folder in "${data[@]}"; do put_data "$(cd "$folder" && pwd)"; done
    note "s3://$bucket/$prefix is complete"
}

# Parts of files that an interrupted put left are not visible, and are billed.
abort_uploads() {
    local file_key id n=0
    ask_or_die s3api list-multipart-uploads --bucket "$bucket" --prefix "$prefix/" --query 'Uploads[].[Key, UploadId]'
    while IFS=$'\t' read -r file_key id; do
        [[ -n $id && $file_key != None ]] || continue
        ask_or_die s3api abort-multipart-upload --bucket "$bucket" --key "$file_key" --upload-id "$id"
        n=$((n + 1))
    done <<<"$said"
    ((n == 0)) || note "aborted $n unfinished uploads of an earlier put"
}

# Runs aws s3, with its progress on a terminal; a log would be full of it.
s3() { # cp|sync FROM TO
    local quiet=(--only-show-errors)
    [[ ! -t 2 ]] || quiet=()
    timeout --foreground 864000 aws --region "$region" s3 "$1" "${quiet[@]}" "$2" "$3" >&2 2>"$work/error" </dev/null
}

copy_to() { # FILE PLACE
    s3 cp "$1" "s3://$bucket/$2" ||
        die 4 "cannot copy $1 to s3://$bucket/$2: $(hide <"$work/error" | tail -n 1); give the same command to go on"
}

# Writes the list of sums that the bucket holds to FILE, empty without one.
remote_sums() { # LIST FILE
    timeout --foreground 300 aws --region "$region" s3 cp --only-show-errors "s3://$bucket/$1" "$2" >/dev/null 2>"$work/error" </dev/null ||
        : >"$2"
}

put_program() {
    local source
    remote_sums "$prefix/SHA256SUMS" "$work/before"
    : >"$work/SHA256SUMS"
    for source in "$bundle" "$here/aws/node.sh"; do
        (cd "$(dirname "$source")" && sha256sum "$(basename "$source")") >>"$work/SHA256SUMS"
        if grep -qxFf <(tail -n 1 "$work/SHA256SUMS") "$work/before"; then
            note "${source##*/} is there"
        else
            note "copying ${source##*/}, $(du -hL "$source" | cut -f 1)"
            copy_to "$source" "$prefix/${source##*/}"
        fi
    done
    cmp -s "$work/SHA256SUMS" "$work/before" || copy_to "$work/SHA256SUMS" "$prefix/SHA256SUMS"
}

# The files by size and time, as `aws s3 sync` does; those of equal size with other bytes too, which the list of sums tells. The
# list comes last: nodes read what it names, so an unfinished copy is not taken for a complete one.
put_data() { # FOLDER
    local name=${1##*/} line
    local list=$prefix/data/$name.SHA256SUMS
    note "data/$name: $(du -shL "$1" | cut -f 1), computing SHA-256 sums"
    (cd "$1" && find -L . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 -r sha256sum) >"$work/sums" ||
        die 3 "cannot read $1"
    # sha256sum marks such lines.
    ! grep -q '^[\]' "$work/sums" || die 2 "--data $1: a file's name has a newline or a backslash: $(grep -m 1 '^[\]' "$work/sums")"
    remote_sums "$list" "$work/before"
    s3 sync "$1" "s3://$bucket/$prefix/data/$name" ||
        die 4 "copying $1 stopped: $(hide <"$work/error" | tail -n 1); give the same command to go on with the missing files"
    # Files that the list before names with another sum.
    while IFS= read -r line; do
        copy_to "$1/$line" "$prefix/data/$name/$line"
    done < <(LC_ALL=C join -j 1 -t $'\t' -o 1.1,1.2,2.2 <(sums_by_name "$work/sums") <(sums_by_name "$work/before") |
        awk -F '\t' '$2 != $3 { print $1 }')
    cmp -s "$work/sums" "$work/before" || copy_to "$work/sums" "$list"
    note "data/$name: $(wc -l <"$work/sums") files are in s3://$bucket/$prefix/data/$name"
}

sums_by_name() { # FILE
    sed -E 's/^([0-9a-f]{64})  (.*)$/\2\t\1/' "$1" | LC_ALL=C sort -t $'\t' -k 1,1
}
