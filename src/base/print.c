/* SPDX-License-Identifier: MIT */
/* Formats, masks, writes. */
#include "base/log.h"

#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

void print_mask(char *text)
{
    for (size_t n; *text; text += n) {
        n = utf8_length(text);
        const unsigned char c = (unsigned char)*text;
        const bool masked = n == 0 ? c < 0xA0 : utf8_is_control(text, n) && !strchr("\n\t", *text);
        if (n == 0) n = 1;
        if (masked) memset(text, '?', n);
    }
}

const char *print_next_line(const char **rest, int *n)
{
    const char *line = *rest;
    if (!line || !*line) return NULL;
    *n = (int)strcspn(line, "\n");
    *rest = line + *n + (line[*n] == '\n');
    return line;
}

static void print_list(FILE *out, const char *format, va_list args)
{
    char room[1024], *text = room;
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(room, sizeof room, format, args);
    if (n >= (int)sizeof room && mem_new((size_t)n + 1, "a text", &text) == ERR_OK)
        vsnprintf(text, (size_t)n + 1, format, again);
    else
        text = room; /* without memory it is cut */
    va_end(again);
    print_mask(text);
    fputs(text, out);
    if (text != room) mem_free(&text);
}

void print_out(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_list(stdout, format, args);
    va_end(args);
}

void print_to(FILE *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_list(out, format, args);
    va_end(args);
}
