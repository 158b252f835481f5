/* SPDX-License-Identifier: MIT */
/* UTF-8 from untrusted sources. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the sequence at `text`, which is NUL-terminated; 0 if it is invalid. */
static inline size_t utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2 : s[0] >= 0xE0 && s[0] < 0xF0 ? 3 : 0;
    if (s[0] >= 0xF0 && s[0] < 0xF5) n = 4;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    /* Overlong forms, surrogates, and values beyond the last code point. */
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F)) return 0;
    if ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F)) return 0;
    return n;
}

/* Whether the valid sequence of n bytes at s must not be printed: a control character, one that changes the
 * writing direction, or U+FFFE and U+FFFF, which XML forbids. */
static inline bool utf8_is_control(const char *s, size_t n)
{
    unsigned char a = (unsigned char)s[0], b = n > 1 ? (unsigned char)s[1] : 0;
    if (n == 1) return a < 0x20 || a == 0x7F;
    if (n == 2) return a == 0xC2 && b < 0xA0;
    if (n != 3) return false;
    unsigned char c = (unsigned char)s[2];
    if (a == 0xEF) return b == 0xBF && c >= 0xBE;
    if (a != 0xE2) return false;
    return (b == 0x80 && (c == 0x8E || c == 0x8F || (c >= 0xA8 && c <= 0xAE))) ||
           (b == 0x81 && c >= 0xA6 && c <= 0xA9);
}

/* Whether a text is valid UTF-8; whether it has no character, either, that must not be printed. */
bool utf8_is_valid(const char *text);
bool utf8_is_printable(const char *text);

/* Characters of valid UTF-8: also its width on a screen, for the scripts that the program prints. */
static inline int utf8_count(const char *text)
{
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* Letters with marks become letters and marks (NFD; the most usual scripts), so that texts that differ only in that are
 * equal. Invalid bytes stay. What exceeds n_bytes, with the NUL, is cut. */
void utf8_decompose(const char *text, char *out, size_t n_bytes);

#endif
