/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Lines of JSON as a stream, and what is no such thing: every bad line is named and the others arrive, in
 * order, whatever the block, the longest line and the threads are. */
#include "tests/tap.h"

#include <math.h>
#include <omp.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "report/records/jsonl.h"
#include "text/json.h"

/* What arrived, as text: "1:{} 3!it is …" */
static char seen[1 << 16];
static int64_t last_line, n_good, n_bad;
static bool in_order;

static err_t note(void *context, const jsonl_line_t *line)
{
    (void)context;
    size_t used = strlen(seen);
    in_order &= line->number > last_line;
    last_line = line->number;
    n_good += line->value != NULL;
    n_bad += line->value == NULL;
    if (line->value)
        snprintf(seen + used, sizeof seen - used, "%s%lld", used ? " " : "", (long long)line->number);
    else
        snprintf(seen + used, sizeof seen - used, "%s%lld!%s", used ? " " : "", (long long)line->number,
                 line->problem);
    return ERR_OK;
}

static err_t stop(void *context, const jsonl_line_t *line)
{
    (void)context;
    if (line->number == 2) RAISE(ERR_GATE, "enough");
    return ERR_OK;
}

static err_t read_bytes(const char *bytes, size_t n, jsonl_options_t options)
{
    int fd = memfd_create("jsonl", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0) exit(4);
    seen[0] = '\0';
    last_line = n_good = n_bad = 0;
    in_order = true;
    if (!options.visit) options.visit = note;
    err_t err = jsonl_read(fd, "file.jsonl", &options, NULL);
    close(fd);
    return err;
}

static void check_lines(const char *text, const char *expected, const char *what)
{
    err_t err = read_bytes(text, strlen(text), (jsonl_options_t){0});
    OK(err == ERR_OK && strcmp(seen, expected) == 0, "%s", what);
    if (strcmp(seen, expected) != 0) printf("# %s\n", seen);
}

static void check_bad_lines(void)
{
    check_lines("{}\n[]\n1\n\"x\"\nnull\n", "1 2 3 4 5", "every JSON value is a line");
    check_lines("{}\n\n  \t\n{}", "1 4",
                "empty lines are passed over and counted; the last needs no line break");
    check_lines("{}\r\n{\"a\":1}\r\n\r\n", "1 2", "lines may end with CR LF");
    check_lines("\xEF\xBB\xBF{}\n{}\n", "1 2", "a byte order mark in front is passed over");
    check_lines("", "", "an empty file has no lines");
    check_lines("{}\n{\"a\":[1,2", "1 2!truncated: the file ends within the line",
                "a last line that is cut off");
    check_lines("{\"a\":1}{\"b\":2}\n{}\n", "1!it is not JSON: parse error: trailing garbage 2",
                "two values in a line are none");
    check_lines("{\"a\":\"x\\u0000y\"}\n{}\n", "1!a string in it has a zero character 2",
                "a zero character in a string");
    check_lines("{\"a\":\"\xED\xA0\x80\"}\n{}\n", "1!a string in it is not valid UTF-8 2", "a surrogate");
    check_lines("{\"\xC0\xAF\":1}\n{}\n", "1!a string in it is not valid UTF-8 2", "an overlong key");
    static const char mixed[] = "{}\n{\"a\":\"\xFF\"}\nhello\n{}\n{'a':1}\n{\"a\":01}\n{\"a\":1,}\n{}\n";
    err_t err = read_bytes(mixed, sizeof mixed - 1, (jsonl_options_t){0});
    OK(err == ERR_OK && n_good == 3 && n_bad == 5 && in_order,
       "bad lines are visited among the good ones: %s", seen);
    err = read_bytes("{}\n{\"a\":\0}\n{\"b\":\"\0\"}\n{}\n", 24, (jsonl_options_t){0});
    OK(err == ERR_OK && n_good == 2 && n_bad == 2, "a zero byte spoils its line only");
}

static void check_other_files(void)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } cases[] = {
        {"\x1f\x8b\x08\0\0\0", 6, "gzip -dc"},
        {"\x28\xb5\x2f\xfd\0\0", 6, "zstd -dc"},
        {"\xfd"
         "7zXZ\0",
         6, "xz -dc"},
        {"\x7f"
         "ELF\x02\x01\x01\0\0\0\n{}\n",
         14, "binary file"},
        {"\x89HDF\r\n\x1a\n\0\0", 10, "it is"},
        {"{\0\"\0a\0\n", 7, "it is"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err_t err = read_bytes(cases[i].bytes, cases[i].n, (jsonl_options_t){0});
        const char *said = err == ERR_OK ? seen : err_message();
        OK(strstr(said, cases[i].words) && n_good == 0, "no text: %s", said);
    }
}

/* Lines of many lengths, every seventh broken, in blocks and with longest lines of every size. */
static void check_blocks(void)
{
    static char text[20000], expected[1 << 16];
    size_t n = 0;
    int64_t n_lines = 0;
    while (n < sizeof text - 200) {
        int length = (int)(n_lines * 37 % 150);
        n += (size_t)sprintf(text + n, n_lines % 7 == 3 ? "{\"a\":%0*d\n" : "{\"a\":\"%0*d\"}\n", length, 0);
        n_lines++;
    }
    read_bytes(text, n, (jsonl_options_t){0});
    strcpy(expected, seen);
    int64_t expected_good = n_good;
    OK(n_good + n_bad == n_lines && n_bad == (n_lines + 3) / 7 && in_order, "%lld lines", (long long)n_lines);
    int n_other = 0;
    for (int64_t block = 1; block < 400; block += 7) {
        err_t err = read_bytes(text, n, (jsonl_options_t){.block = block});
        n_other += err != ERR_OK || strcmp(seen, expected) != 0;
    }
    OK(n_other == 0, "blocks of any size give the same (%d do not)", n_other);
    omp_set_num_threads(7);
    err_t err = read_bytes(text, n, (jsonl_options_t){0});
    OK(err == ERR_OK && strcmp(seen, expected) == 0 && n_good == expected_good,
       "and so does any team of threads");
}

static void check_limits(void)
{
    char text[400];
    int n = sprintf(text, "{\"a\":1}\n{\"a\":\"%0100d\"}\n{\"b\":2}\n{\"c\":\"%0200d\"", 0, 0);
    int n_other = 0;
    for (int64_t block = 1; block < 300; block += 13) {
        err_t err = read_bytes(text, (size_t)n, (jsonl_options_t){.block = block, .max_line = 50});
        n_other += err != ERR_OK || strcmp(seen, "1 2!longer than 50 bytes 3 4!longer than 50 bytes") != 0;
    }
    OK(n_other == 0, "a line that is too long is named, the one behind it arrives (%d times not): %s",
       n_other, seen);
    err_t err = read_bytes("{}\n{}\n{}\n", 9, (jsonl_options_t){.visit = stop});
    OK(err == ERR_GATE && strcmp(err_message(), "enough") == 0, "a visitor's error ends the reading");

    size_t n_deep = 4 << 20;
    char *deep;
    if (mem_new(n_deep + 4, "a deep line", &deep) != ERR_OK) exit(4);
    memset(deep, '[', n_deep);
    memcpy(deep + n_deep, "\n{}\n", 4);
    err = read_bytes(deep, n_deep + 4, (jsonl_options_t){0});
    OK(err == ERR_OK && strcmp(seen, "1!it is nested deeper than 64 levels 2") == 0, "deep nesting: %s",
       seen);
    for (size_t i = 0; i < n_deep; i++) deep[i] = i % 2 ? ',' : '1';
    deep[0] = '[';
    deep[n_deep - 1] = ']';
    deep[n_deep - 2] = '1';
    deep[n_deep - 3] = ',';
    for (size_t i = 1; i < n_deep - 3; i++) deep[i] = i % 2 ? '1' : ',';
    err = read_bytes(deep, n_deep + 4, (jsonl_options_t){0});
    OK(err == ERR_OK && strcmp(seen, "1!it holds more than 1048576 values 2") == 0, "many values: %s", seen);
    mem_free(&deep);
}

static void check_values(void)
{
    static const char text[] =
        "{\"t\":\"é\\n\\\"\",\"i\":-7,\"x\":2.5e3,\"huge\":1e999,\"tiny\":1e-999,\"long\":"
        "123456789012345678901234567890,\"n\":null,\"y\":true,\"a\":[1,[2],{\"i\":9}],"
        "\"i\":8,\"bad\":NaN,\"inf\":-Infinity,\"quoted\":\"NaN\"}";
    json_reader_t reader = {0};
    const json_value_t *v = NULL;
    const char *t = "";
    int64_t i = 0;
    double x = 0;
    OK_CALL(json_read(&reader, text, sizeof text - 1, &v), "a text with NaN in it is read");
    OK(json_get_text(v, "t", &t) && strcmp(t, "é\n\"") == 0, "text is decoded");
    OK(json_get_int(v, "i", &i) && i == 8, "of two members of a name the last counts");
    OK(json_get_real(v, "x", &x) && fabs(x - 2500) < 1e-9 && !json_get_int(v, "x", &i), "a real is no int");
    OK(!json_get_real(v, "huge", &x) && json_get_real(v, "tiny", &x) && !(x > 0),
       "what no double holds is none");
    OK(!json_get_int(v, "long", &i) && json_get_real(v, "long", &x) && x > 1e29, "nor what no int64_t holds");
    OK(!json_get_real(v, "n", &x) && !json_get_real(v, "bad", &x) && json_get(v, "inf")->kind == JSON_NULL,
       "null, NaN and Infinity are no numbers");
    OK(json_get_text(v, "quoted", &t) && strcmp(t, "NaN") == 0, "in a string NaN is text");
    const json_value_t *a = json_get(v, "a");
    OK(a && a->n == 3 && a->first->next->kind == JSON_ARRAY && json_get_int(a->first->next->next, "i", &i) &&
           i == 9,
       "arrays and objects nest");
    OK(!json_get(v, "none") && !json_get(a, "i") && !json_get(NULL, "i"), "what is not there is NULL");
    json_reader_free(&reader);
}

static void check_skipping(void)
{
    static const char *const skip[] = {"samples", NULL};
    static const char text[] =
        "{\"in\":{\"samples\":[1,2]},\"samples\":[1,-2.5,1e-05,1E+300,1e999,null,NaN,\"x\",[1,[2,3]],"
        "{\"a\":{}},-1e+400,0.00000000000123,1e0999,1e-999],\"n\":3}";
    json_reader_t reader = {.skip = skip};
    const json_value_t *v = NULL;
    int64_t n = 0;
    OK_CALL(json_read(&reader, text, sizeof text - 1, &v), "an array is skipped");
    const json_value_t *s = json_get(v, "samples");
    OK(s && s->n == 14 && !s->first, "its values are counted, not kept");
    OK(s && s->n_missing == 8, "and so are those that are no finite number: %d", s ? (int)s->n_missing : -1);
    OK(json_get_int(v, "n", &n) && n == 3, "what follows is kept");
    OK(json_get(json_get(v, "in"), "samples")->first != NULL,
       "an array of that name further in is none of them");
    json_reader_free(&reader);
}

int main(void)
{
    tap_plan(41);
    check_bad_lines();
    check_other_files();
    check_blocks();
    check_limits();
    check_values();
    check_skipping();
    OK(mem_live() == 0, "everything is given back");
    return tap_done();
}
