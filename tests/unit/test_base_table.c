/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Tables as people see them: columns line up by what a screen shows, no line ends with blanks, and long text
 * gives way. */
#include "tests/tap.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/table.h"

static char text[4096];

static const char *printed(table_t *table)
{
    memset(text, 0, sizeof text);
    FILE *file = fmemopen(text, sizeof text - 1, "w");
    OK(file && table_print(table, file) == ERR_OK, "a table is printed");
    if (file) fclose(file);
    return text;
}

static void check(table_t *table, const char *expected, const char *what)
{
    bool same = strcmp(printed(table), expected) == 0;
    OK(same, "%s", what);
    if (!same) printf("# %s\n# is not\n# %s\n", text, expected);
}

static void test_columns(void)
{
    table_t t = {
        .columns = {{"name", true}, {"time", .unit = "us"}, {"note", true}}, .n_columns = 3, .indent = 2};
    table_cell(&t, "é×");
    table_cell(&t, "%d", 123456789);
    table_cell(&t, "%s", "");
    table_cell(&t, "longer");
    table_cell(&t, "1");
    table_cell(&t, "\x1b\xff");
    check(&t,
          "  name      time us  note\n"
          "  é×      123456789\n"
          "  longer          1  ??\n",
          "text to the left, numbers to the right, units, no blanks at ends, nothing that moves the cursor");
    table_cell(&t, "next");
    table_cell(&t, "7");
    table_cell(&t, "x");
    check(&t, "  next            7  x\n", "rows that come later keep the widths, without headings");
    table_free(&t);
}

static void test_sections(void)
{
    table_t t = {.columns = {{NULL, true}, {NULL, true, .max_width = 4}, {NULL, true}},
                 .n_columns = 3,
                 .indent = 2,
                 .max_width = 30};
    table_section(&t, "a section whose title is longer than any of its cells");
    table_cell(&t, "ok");
    table_cell(&t, "abcd");
    table_cell(&t, "one two three four five six");
    table_cell(&t, "ok");
    table_cell(&t, "abcdefgh");
    table_cell(&t, "anunbreakablewordofmanyletters");
    check(&t,
          "a section whose title is longer than any of its cells\n"
          "  ok  abcd  one two three four\n"
          "            five six\n"
          "  ok  abcdefgh\n"
          "            anunbreakablewordo\n"
          "            fmanyletters\n",
          "sections, wrapped text, a cell longer than its column");
    table_free(&t);
}

static void test_cut(void)
{
    table_t t = {.columns = {{"path", true}, {"bytes"}}, .n_columns = 2, .max_width = 24};
    table_cell(&t, "/a/rather/long/path/to/a/file");
    table_cell(&t, "123");
    check(&t, "path               bytes\n/a/rather/long/p…    123\n", "text before other columns is cut");
    table_free(&t);
}

static void test_comment(void)
{
    table_t t = {.columns = {{"size", .unit = "(B)", .min_width = 6},
                             {"time", .unit = "(us)", .min_width = 6, .group = "in-place"},
                             {"#wrong"}},
                 .n_columns = 3,
                 .comment = true,
                 .units_below = true};
    table_cell(&t, "8");
    table_cell(&t, "1.5");
    table_cell(&t, "0");
    check(&t, "#       in-place\n# size    time  #wrong\n#  (B)    (us)\n     8     1.5       0\n",
          "headings as comments, units below them, groups above");
    table_free(&t);
}

int main(void)
{
    tap_plan(11);
    test_columns();
    test_sections();
    test_cut();
    test_comment();
    OK(mem_live() == 0, "no memory is left");
    return tap_done();
}
