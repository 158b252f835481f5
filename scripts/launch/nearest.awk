# SPDX-License-Identifier: MIT
# Prints the option in a script's help that is nearest to `word`, by the rule of opt_nearest (src/base/opt.c); nothing if none is near.
function distance(a, b,   row, n, i, j, diagonal, best) {
    n = length(b)
    for (j = 0; j <= n; j++) row[j] = j
    for (i = 1; i <= length(a); i++) {
        diagonal = row[0]
        row[0] = i
        for (j = 1; j <= n; j++) {
            best = diagonal + (substr(a, i, 1) != substr(b, j, 1))
            if (row[j] + 1 < best) best = row[j] + 1
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1
            diagonal = row[j]
            row[j] = best
        }
    }
    return row[n]
}

# Whether one word is the other with parts added: --batch-size and --batch.
function extends(a, b) { return index(a "-", b "-") == 1 || index(b "-", a "-") == 1 }

BEGIN {
    sub(/=.*/, "", word)
    sub(/^-*/, "", word)
    near = int(length(word) / 3) + 2 # anything farther is not a typing error
    if (near > 3) near = 3
    far = 1000
}
/^ +-/ {
    for (i = 1; i <= NF; i++) {
        if (!match($i, /^--?[a-z][a-z0-9-]*/)) continue
        option = substr($i, 1, RLENGTH)
        name = option
        sub(/^-*/, "", name)
        d = distance(word, name)
        if (d < near) { near = d; nearest = option }
        if (d < far && extends(word, name)) { far = d; longer = option }
    }
}
END { print nearest ? nearest : longer }
