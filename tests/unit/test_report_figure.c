/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Numbers as people read them, and what text from a record becomes in a table, Markdown and CSV. */
#include "tests/tap.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "report/records/render.h"
#include "text/figure.h"

static void check(figure_t got, const char *expected)
{
    OK(strcmp(got.text, expected) == 0, "%s%s%s", expected, strcmp(got.text, expected) ? " is not " : "",
       strcmp(got.text, expected) ? got.text : "");
}

static void check_numbers(void)
{
    check(figure_number(0), "0");
    check(figure_number(-0.0), "0");
    check(figure_number(3), "3");
    check(figure_number(1e9), "1000000000");
    check(figure_number(3.14159265), "3.142");
    check(figure_number(-31.4159265), "-31.42");
    check(figure_number(3141.59265), "3142");
    check(figure_number(314159.265), "314159");
    check(figure_number(0.00314159), "0.003142");
    check(figure_number(0.0000314159), "3.142e-05");
    check(figure_number(31415926.5), "3.142e+07");
    check(figure_number(NAN), "-");
    check(figure_number(INFINITY), "-");
}

static void check_quantities(void)
{
    check(figure_time(0), "0 s");
    check(figure_time(2.7e-10), "0.2700 ns");
    check(figure_time(5.2134e-6), "5.213 us");
    check(figure_time(0.00099999), "1.000 ms");
    check(figure_time(0.00099), "990 us");
    check(figure_time(0.0128), "12.80 ms");
    check(figure_time(98.2), "98.20 s");
    check(figure_time(NAN), "-");
    check(figure_size(8), "8");
    check(figure_size(1024), "1 KiB");
    check(figure_size(8388608), "8 MiB");
    check(figure_size(8388612), "8388612");
    check(figure_size(1536), "1536");
    check(figure_size(3 * 1024.0 * 1024 * 1024), "3 GiB");
    check(figure_percent(0.98), "98.0 %");
    check(figure_percent(1), "100 %");
    check(figure_percent(0.00123), "0.12 %");
    check(figure_percent(NAN), "-");
    check(figure_bytes(0), "0 B");
    check(figure_bytes(1023), "1023 B");
    check(figure_bytes(1024), "1.0 KiB");
    check(figure_bytes(10.0 * (1 << 20)), "10 MiB");
    check(figure_bytes(1023.9 * (1 << 20)), "1.0 GiB");
    check(figure_bytes(-1), "unknown");
    check(figure_bytes(NAN), "-");
    check(figure_count(0), "0");
    check(figure_count(-999), "-999");
    check(figure_count(1000), "1,000");
    check(figure_count(-431080), "-431,080");
    check(figure_count(INT64_MIN), "-9,223,372,036,854,775,808");
    check(figure_share(0.06), "6 %");
    check(figure_change(0.02), "+2.0 %");
    check(figure_change(-0.003), "-0.3 %");
    check(figure_change(0.0001), "0.0 %");
    check(figure_change(NAN), "-");
    check(figure_rate(5166.2, "images/s"), "5166 images/s");
    check(figure_throughput(5166.2, 5500, "images/s"), "5166 images/s");
    check(figure_throughput(10077, 25079, "images/s"), "10077 images/s (median step: 25079)");
    check(figure_throughput(1000, 890, ""), "1000 (median step: 890)");
    check(figure_throughput(NAN, 25079, ""), "- (median step: 25079)");
    check(figure_throughput(5, NAN, ""), "5");
    check(figure_bandwidth(25e6), "25 MB/s");
    check(figure_bandwidth(999.99e6), "1.000 GB/s");
    check(figure_bandwidth(1.17e9), "1.170 GB/s");
    check(figure_duration(65), "1:05");
    check(figure_duration(7383.6), "2:03:04");
    check(figure_duration(-1), "0:00");
}

static void check_exact(void)
{
    check(figure_exact(0.1), "0.1");
    check(figure_exact(2.7e-05), "2.7e-05");
    check(figure_exact(NAN), "");
    int n_other = 0;
    for (int i = 1; i < 10000; i++) {
        double value = sqrt(i) * 1e-6, back = strtod(figure_exact(value).text, NULL);
        n_other += memcmp(&value, &back, sizeof value) != 0;
    }
    OK(n_other == 0, "numbers read back as the same (%d do not)", n_other);
}

static void check_names(void)
{
    static const struct {
        const char *name;
        quantity_t quantity;
        const char *unit, *heading; /* NULL: none */
    } names[] = {
        {"busbw_gbs", QUANTITY_NUMBER, "GB/s", "busbw GB/s"},
        {"gflops", QUANTITY_NUMBER, "GFLOP/s", "GFLOP/s"},
        {"gbs_all", QUANTITY_NUMBER, "GB/s", "GB/s all"},
        {"images_per_sec", QUANTITY_NUMBER, "images/s", "images/s"},
        {"rows_per_sec", QUANTITY_NUMBER, "1/s", "rows 1/s"},
        {"wait_sec", QUANTITY_TIME, "s", NULL},
        {"bytes", QUANTITY_SIZE, "B", NULL},
        {"n_bytes", QUANTITY_SIZE, "B", NULL},
        {"kilobytes", QUANTITY_NUMBER, "", NULL},
        {"data_wait_share", QUANTITY_PERCENT, "", NULL},
        {"efficiency_low", QUANTITY_PERCENT, "", NULL},
        {"ranks", QUANTITY_NUMBER, "", NULL},
        {"", QUANTITY_NUMBER, "", NULL},
        {"_low", QUANTITY_NUMBER, "", NULL},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *unit;
        char heading[32] = "";
        quantity_t quantity = figure_quantity(names[i].name, &unit);
        bool has_heading = figure_heading(names[i].name, heading, sizeof heading);
        OK(quantity == names[i].quantity && strcmp(unit, names[i].unit) == 0 &&
               (names[i].heading ? has_heading && strcmp(heading, names[i].heading) == 0 : !has_heading),
           "the name '%s' says what it is", names[i].name);
    }
}

static char *printed;
static size_t n_printed;

static FILE *begin(void)
{
    free(printed);
    FILE *out = open_memstream(&printed, &n_printed);
    if (!out) exit(4);
    return out;
}

static void check_printed(FILE *out, const char *expected, const char *what)
{
    fclose(out);
    OK(strcmp(printed, expected) == 0, "%s", what);
    if (strcmp(printed, expected) != 0) printf("# not %s\n# but %s\n", expected, printed);
}

static void check_text(void)
{
    const char *cells[] = {"8", "5.2 us", "", "ring", "1024", "1 ms", "~", "", "16", NULL, "!", "béé"};
    table_t table = {.title = "comm all_reduce",
                     .caption = "ranks 2",
                     .columns = {{"bytes", false}, {"p50", false}, {"", true}, {"algorithm", true}},
                     .n_columns = 4,
                     .n_rows = 3,
                     .cells = cells};
    FILE *out = begin();
    render_text.table(out, &table);
    check_printed(out,
                  "comm all_reduce: ranks 2\n"
                  "  bytes     p50     algorithm\n"
                  "      8  5.2 us     ring\n"
                  "   1024    1 ms  ~\n"
                  "     16          !  béé\n\n",
                  "a table's columns are aligned, no line ends with blanks");
    out = begin();
    render_markdown.table(out, &table);
    check_printed(out,
                  "### comm all_reduce\n\nranks 2\n\n| bytes | p50 |  | algorithm |\n|---:|---:|---|---|\n"
                  "| 8 | 5.2 us |  | ring |\n| 1024 | 1 ms | \\~ |  |\n| 16 |  | ! | béé |\n\n",
                  "a table of GitHub's Markdown");
    const fact_t facts[] = {{"file", "a.jsonl"}, {"hardware", "x\x1b[2Jy\n\xC2\x9Bz\xE2\x80\xAEw"}};
    out = begin();
    render_text.facts(out, facts, 2);
    check_printed(out, "  file      a.jsonl\n  hardware  x?[2Jy??z?w\n\n",
                  "no text of a record steers the terminal");
}

static void check_markdown(void)
{
    static const char *const texts[][2] = {
        {"a|b", "a\\|b"},
        {"a\\|b", "a\\\\\\|b"},
        {"a\nb", "a b"},
        {"<b>x</b> & y", "&lt;b>x&lt;/b> &amp; y"},
        {"*x* `y` [z](u)", "\\*x\\* \\`y\\` \\[z\\](u)"},
        {"all_reduce _x_", "all_reduce \\_x\\_"},
        {"~~x~~", "\\~\\~x\\~\\~"},
        {"# x", "\\# x"},
        {"- x", "\\- x"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char expected[100];
        FILE *out = begin();
        render_markdown.note(out, texts[i][0]);
        snprintf(expected, sizeof expected, "%s\n\n", texts[i][1]);
        check_printed(out, expected, texts[i][1]);
    }
}

static void check_csv(void)
{
    static const char *const texts[][2] = {
        {"plain", "plain"},   {"a,b", "\"a,b\""},   {"say \"x\"", "\"say \"\"x\"\"\""},
        {"a\nb", "\"a\nb\""}, {"a\rb", "\"a\rb\""}, {"", ""},
        {"a;b=c", "a;b=c"},   {"a\tµb", "a\tµb"},   {"x\x1b[2J,\xC2\x9Bz\xFF\x07", "\"x?[2J,?z??\""},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        FILE *out = begin();
        csv_field(out, texts[i][0]);
        check_printed(out, texts[i][1], "a field of CSV");
    }
}

int main(void)
{
    tap_plan(100);
    check_numbers();
    check_quantities();
    check_exact();
    check_names();
    check_text();
    check_markdown();
    check_csv();
    free(printed);
    return tap_done();
}
