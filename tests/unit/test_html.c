/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Whatever a disk or a hand does to records: the page is made without a fault and is well-formed. */
#include "tests/tap.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "report/html/page.h"
#include "tests/unit/xml_check.h"

#define HEAD(id)                                                                                             \
    "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"" id                                                    \
    "\",\"time\":\"2026-11-21T08:00:00Z\",\"ranks\":2,"                                                      \
    "\"threads\":1,\"fingerprint\":{\"hardware_id\":\"1a\",\"fabric_id\":\"2b\",\"software_id\":\"3c\","     \
    "\"hardware\":{\"cpu\":\"X\"},\"fabric\":{\"hosts\":1},\"software\":{\"git\":\"abc\"}}}\n"
#define POINT(id, name, key, metrics)                                                                        \
    "{\"record\":\"bench\",\"schema\":1,\"run\":\"" id "\"," name ",\"key\":{" key "},\"metrics\":{" metrics \
    "},\"unit\":\"s\",\"verdict\":\"ok\",\"p50\":2e-3,\"samples\":[1,2,3],\"forward_samples\":[1,1,2],"      \
    "\"backward_samples\":[1,2,2]}\n"
#define END(id) "{\"record\":\"bench_end\",\"schema\":1,\"run\":\"" id "\",\"reason\":\"finished\"}\n"
#define STEP(i, loss)                                                                                        \
    "{\"record\":\"step\",\"step\":" #i ",\"loss\":" loss ",\"step_sec\":0.02,\"forward_sec\":0.01}\n"
#define EPOCH(i) "{\"record\":\"epoch\",\"epoch\":" #i ",\"step\":1,\"val_loss\":0.5,\"val_accuracy\":0.9}\n"

#define SUITE(id)                                                                                            \
    HEAD(id)                                                                                                 \
    POINT(id, "\"case\":\"comm\",\"test\":\"x\"", "\"bytes\":8,\"in_place\":true", "\"busbw_gbs\":1.5")      \
    POINT(id, "\"case\":\"comm\",\"test\":\"x\"", "\"bytes\":64,\"in_place\":true", "\"busbw_gbs\":2.5")     \
    POINT(id, "\"case\":\"gemm\",\"test\":\"gemm\"", "\"m\":8,\"n\":8,\"k\":9", "\"gflops_all\":2.5")        \
    POINT(id, "\"case\":\"step\",\"test\":\"weak\"", "\"ranks\":2,\"batch\":9",                              \
          "\"efficiency\":0.9,\"efficiency_low\":0.8,\"compute_share\":0.5")                                 \
    END(id)

static const char whole[] =
    SUITE("aa") SUITE("bb") "{\"record\":\"run\",\"schema\":1,\"topology\":{\"ranks\":2},\"options\":{"
                            "\"model\":\"m\"},\"first_step\":0}\n" STEP(0, "3") STEP(10, "2") STEP(11, "1e-3")
                                STEP(12, "null") EPOCH(0) EPOCH(1);

static err_t read_text(report_t *report, const char *text)
{
    size_t n = strlen(text);
    int fd = memfd_create("records", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0) exit(4);
    *report = (report_t){.keep_samples = true, .keep_curves = true};
    err_t err = report_read(report, fd, "m");
    close(fd);
    return err;
}

/* *n: bytes of the page; 0: there is nothing to show. */
static bool is_sound(const char *now_text, const char *base_text, size_t *n)
{
    const compare_options_t options = {.min_effect = 0.03, .alpha = 0.01, .force = true, .n_resamples = 100};
    report_t now, base;
    comparison_t comparison = {0};
    char *page = NULL;
    FILE *out = open_memstream(&page, n);
    if (!out) exit(4);
    bool sound = read_text(&now, now_text) == ERR_OK && read_text(&base, base_text) == ERR_OK;
    err_t compared = compare_reports(&base, &now, &options, &comparison);
    const html_input_t input = {.now = &now,
                                .base = &base,
                                .comparison = compared == ERR_OK ? &comparison : NULL,
                                .no_comparison = compared == ERR_OK ? NULL : err_message(),
                                .options = &options};
    err_t err = html_print(&input, out);
    fclose(out);
    sound &= err == ERR_OK || (err == ERR_DATA && *n == 0);
    /* Behind its first line, <!DOCTYPE html>. */
    sound &= *n == 0 || is_well_formed(strchr(page, '\n'));
    sound &= *n == 0 || !(strstr(page, "\"nan") || strstr(page, "Mnan") || strstr(page, " nan") ||
                          strstr(page, " inf\""));
    free(page);
    compare_free(&comparison);
    report_free(&now);
    report_free(&base);
    return sound;
}

static void check_damage(void)
{
    enum { N = UNDER_SANITIZER ? 40 : 120 };
    rng_t rng = rng_new(1, RNG_TEST, 0);
    int n_failed = 0, n_pages = 0;
    for (int i = 0; i < N; i++) {
        char text[sizeof whole];
        size_t n_bytes;
        memcpy(text, whole, sizeof whole);
        for (int k = 0; k <= i % 5; k++) {
            char *at = &text[1 + rng_u32(&rng) % (sizeof whole - 2)];
            /* Digits and punctuation do more harm than other bytes. */
            *at =
                i % 2 ? "0123456789-+.eE{}[],:\"\\n<>&"[rng_u32(&rng) % 28] : (char)(1 + rng_u32(&rng) % 255);
        }
        n_failed += !is_sound(text, i % 3 ? whole : text, &n_bytes);
        n_pages += n_bytes > 0;
    }
    OK(n_failed == 0, "%d damaged files are shown (%d are not)", N, n_failed);
    OK(n_pages > N / 2, "most of them as a page: %d", n_pages);
}

int main(void)
{
    size_t n;
    tap_plan(5);
    bool sound = is_sound(whole, whole, &n);
    OK(sound && n > 10000, "records are a page of %zu bytes", n);
    sound = is_sound(HEAD("aa"), "", &n);
    OK(sound && n == 0, "a head alone is nothing to show: %zu bytes", n);
    check_damage();
    OK(mem_live() == 0, "everything is given back");
    return tap_done();
}
