# SPDX-License-Identifier: MIT
# Writes IDX digits of 7x7 pixels, the means of 4x4: perl shrink.pl FROM TO
use strict; use warnings;
my ($from, $to) = @ARGV;
mkdir $to;
for my $name (qw(train t10k)) {
    open my $in, '<:raw', "$from/$name-images-idx3-ubyte" or die "$from/$name: $!";
    open my $out, '>:raw', "$to/$name-images-idx3-ubyte" or die;
    local $/; my $all = <$in>; my ($magic, $n) = unpack 'N2', $all;
    my @p = unpack 'C*', substr $all, 16; my $text = pack 'N4', $magic, $n, 7, 7;
    for my $i (0 .. $n - 1) { for my $y (0 .. 6) { for my $x (0 .. 6) {
        my $s = 0; for my $v (0 .. 3) { for my $u (0 .. 3) { $s += $p[$i * 784 + (4 * $y + $v) * 28 + 4 * $x + $u] } }
        $text .= pack 'C', $s / 16; } } }
    print $out $text; close $out;
    system "cp $from/$name-labels-idx1-ubyte $to/";
}
