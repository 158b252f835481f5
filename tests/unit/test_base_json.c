/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * JSON text: structure, escapes, UTF-8, and numbers that read back as the same number. */
#include "tests/tap.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "text/json.h"

static json_t j;

static const char *string_text(const char *value)
{
    json_reset(&j);
    json_string(&j, NULL, value);
    return j.text;
}

static void check_structure(void)
{
    json_object_begin(&j, NULL);
    json_string(&j, "record", "run");
    json_int(&j, "n", -3);
    json_array_begin(&j, "list");
    json_int(&j, NULL, 1);
    json_object_begin(&j, NULL);
    json_object_end(&j);
    json_array_begin(&j, NULL);
    json_array_end(&j);
    json_bool(&j, NULL, true);
    json_array_end(&j);
    json_bool(&j, "off", false);
    json_string(&j, "none", NULL);
    json_object_end(&j);
    const char *expected =
        "{\"record\":\"run\",\"n\":-3,\"list\":[1,{},[],true],\"off\":false,\"none\":null}";
    OK(strcmp(j.text, expected) == 0 && j.status == ERR_OK, "objects and arrays nest: %s", j.text);
    OK(j.n_bytes == strlen(expected), "n_bytes is the text's length");

    json_reset(&j);
    OK(j.n_bytes == 0 && strcmp(j.text, "") == 0, "json_reset empties");
    json_object_begin(&j, NULL);
    json_int(&j, "min", INT64_MIN);
    json_int(&j, "max", INT64_MAX);
    json_object_end(&j);
    OK(strcmp(j.text, "{\"min\":-9223372036854775808,\"max\":9223372036854775807}") == 0,
       "no comma is left over, and int64 is exact: %s", j.text);
}

static void check_strings(void)
{
    OK(strcmp(string_text("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"") == 0, "quote and backslash are escaped");
    OK(strcmp(string_text("\n\t\x01\x1f\x7f\xc2\x9b\xc2\xa0"),
              "\"\\u000a\\u0009\\u0001\\u001f\\u007f\\u009b\xc2\xa0\"") == 0,
       "control characters are escaped");
    OK(strcmp(string_text("é €\xF0\x9F\x98\x80"), "\"é €\xF0\x9F\x98\x80\"") == 0,
       "UTF-8 of two, three and four bytes stays");
    OK(strcmp(string_text("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"),
              "\"\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF\"") == 0,
       "so do the neighbours of the surrogates and the last code point");
    json_reset(&j);
    json_object_begin(&j, NULL);
    json_int(&j, "k\"\n", 1);
    json_object_end(&j);
    OK(strcmp(j.text, "{\"k\\\"\\u000a\":1}") == 0, "keys are escaped too");
}

static void check_invalid_utf8(void)
{
    static const struct {
        const char *text, *expected, *what;
    } cases[] = {
        {"a\x80z", "\"a?z\"", "a continuation byte alone"},
        {"\xC3", "\"?\"", "a sequence cut by the end"},
        {"\xE2\x82", "\"??\"", "a longer one cut by the end"},
        {"\xC3(", "\"?(\"", "a sequence broken by a character"},
        {"\xC0\xAF", "\"??\"", "an overlong slash"},
        {"\xE0\x80\xAF", "\"???\"", "an overlong slash of three bytes"},
        {"\xED\xA0\x80", "\"???\"", "a surrogate"},
        {"\xF0\x80\x80\xAF", "\"????\"", "an overlong slash of four bytes"},
        {"\xF4\x90\x80\x80", "\"????\"", "a code point beyond the last"},
        {"\xFF\xFE", "\"??\"", "bytes that UTF-8 does not know"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        OK(strcmp(string_text(cases[i].text), cases[i].expected) == 0, "%s is replaced", cases[i].what);
}

static const char *real_text(double value)
{
    json_reset(&j);
    json_real(&j, NULL, value);
    return j.text;
}

static bool round_trip(double value)
{
    char *end;
    double back = strtod(real_text(value), &end);
    return *end == '\0' && memcmp(&back, &value, sizeof back) == 0;
}

static void check_reals(void)
{
    OK(strcmp(real_text(NAN), "null") == 0, "NaN is null");
    OK(strcmp(real_text(INFINITY), "null") == 0 && strcmp(real_text(-INFINITY), "null") == 0,
       "the infinities are null");
    OK(strcmp(real_text(0.1), "0.1") == 0, "0.1 is short: %s", real_text(0.1));
    OK(strcmp(real_text(3), "3") == 0, "3 is short: %s", real_text(3));
    OK(round_trip(-0.0) && round_trip(4.9e-324) && round_trip(1.7976931348623157e308) && round_trip(1.0 / 3),
       "negative zero, the smallest, the largest and a third read back");
    rng_t rng = rng_new(1, RNG_TEST, 0);
    int bad = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = (uint64_t)rng_u32(&rng) << 32 | rng_u32(&rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) bad += !round_trip(value);
    }
    OK(bad == 0, "random doubles read back as the same bits (%d do not)", bad);
}

static void check_growth(void)
{
    json_reset(&j);
    json_array_begin(&j, NULL);
    for (int i = 0; i < 5000; i++) json_int(&j, NULL, i % 10);
    json_array_end(&j);
    OK(j.n_bytes == 10001 && j.text[10000] == ']' && j.text[9998 + 1] == '9', "the buffer grows");
    int64_t count = mem_count();
    for (int i = 0; i < 100; i++) real_text(1.0 / (i + 1));
    OK(mem_count() == count, "and is reused without allocation");
}

int main(void)
{
    tap_plan(28);
    check_structure();
    check_strings();
    check_invalid_utf8();
    check_reals();
    check_growth();
    json_free(&j);
    OK(mem_live() == 0 && !j.text, "json_free gives everything back");
    return tap_done();
}
