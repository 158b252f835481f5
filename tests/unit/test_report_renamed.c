/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Records under the field names of earlier versions give the same report, check and comparison as under the
 * present ones. */
#include "tests/tap.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "report/records/print.h"
#include "report/regress/compare.h"

enum { MAX_TEXT = 16384 };

static const char *const names[][2] = {
    /* present, earlier */
    {"\"transform\":", "\"views\":"},
    {"\"gpu_unavailable\":", "\"no_gpu_why\":"},
    {"\"corrupt_samples\":", "\"bad_pictures\":"},
    {"\"reason\":", "\"why\":"},
    {"\"share_of_peak\":", "\"of_peak\":"},
    {"\"interleaved_with\":", "\"in_turn_with\":"},
    {"\"disturbances\":", "\"loads\":"},
    {"\"active_ranks\":", "\"ranks_at_it\":"},
    {"\"resident_pages\":", "\"pages_left\":"},
};
enum { N_NAMES = sizeof names / sizeof *names };

/* With the comma of N, apostrophes for quotes. */
static const char training[] =
    "{'record':'run','schema':1,'time':'t','options':{},'data':{'kind':'d','source':'s','xxh3':'1a','n_train':9,"
    "'n_val':1,'n_classes':2,'transform':'classify','shuffle_block':1},'software':{},'topology':{'ranks':1,"
    "'hosts':1,'host_of_rank_0':'h','threads':1,'loader_threads':1,'device':'cpu','comm':'self',"
    "'gradients_shared':true,'allreduce':{'gradients':null,'measured':[]},'gpu_unavailable':'none found'},"
    "'algorithms_from':'fixed','algorithms_sec':0,'algorithms':{},'n_parameters':5,'global_batch':4,"
    "'n_steps':12,'activation_bytes':1,'first_step':0,'resumed_from':null}\n"
    "{'record':'end','reason':'finished','step':12,'images_per_sec':4,'steady_steps':2,'steady_allocations':0,"
    "'steady_page_faults':0,'steady_cpu_sec':1,'corrupt_samples':0,'peak_memory_bytes':[5]}\n"
    "{'record':'profile','steps':2,'ranks':1,'step_sec':1,'data_wait_sec':0,'forward_sec':0.5,'backward_sec':0.5,"
    "'exposed_comm_sec':0,'optimizer_sec':0,'other_sec':0,'peak_gflops':9,'layers':["
    "{'name':'a','operator':'conv2d','forward_sec':1,'backward_sec':1,'share':0.5,'gflops':4,'share_of_peak':0.4},"
    "{'name':'b','operator':'linear','forward_sec':1,'backward_sec':1,'share':0.5,'gflops':4,'share_of_peak':0.4}"
    "],'hints':[]}\n";
static const char bench[] =
    "{'record':'bench_run','schema':1,'id':'%s','time':'t','ranks':2,'threads':1,'interleaved_with':'%s',"
    "'options':{},'fingerprint':{'hardware_id':'1a','fabric_id':'2b','software_id':'3c','hardware':{},"
    "'fabric':{},'software':{}}}\n"
    "{'record':'bench','schema':1,'run':'%s','case':'io','test':'raw_read','key':{'bytes':8},"
    "'metrics':{'active_ranks':2,'resident_pages':7},'unit':'s','verdict':'ok','n':8,'per_sample':1,"
    "'n_disturbed':0,'disturbances':'steal','min':1,'p50':2,'p95':3,'p99':3,'max':3,'mean':2,'cv':0.1,"
    "'ci95':[1.5,2.5],'slowest_rank':0,'slowest_share':1,'clock_sec':1,'batch_n':[4,4],"
    "'samples':[1,2,2,2,2,2,2,3]}\n"
    "{'record':'bench_end','schema':1,'run':'%s','reason':'finished','n_points':1,'seconds':1,"
    "'recording_sec':0}\n";

/* The records with quotation marks and, where `old`, every field's earlier name. */
static const char *spell(const char *records, bool old, char out[MAX_TEXT])
{
    char *end = out;
    for (const char *at = records; *at; at++) *end++ = *at == '\'' ? '"' : *at;
    *end = '\0';
    for (int i = 0; old && i < N_NAMES; i++)
        for (char *at = out; (at = strstr(at, names[i][0]));) {
            size_t n_now = strlen(names[i][0]), n_old = strlen(names[i][1]);
            memmove(at + n_old, at + n_now, strlen(at + n_now) + 1);
            memcpy(at, names[i][1], n_old);
        }
    return out;
}

static int open_text(const char *text)
{
    size_t n = strlen(text);
    int fd = memfd_create("records", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0) exit(4);
    return fd;
}

/* Reads one recording and appends tables and CSV to `out`. */
static err_t read_and_print(report_t *report, const char *text, FILE *out)
{
    int fd = open_text(text);
    report->keep_samples = true;
    err_t err = report_read(report, fd, "recording");
    if (err == ERR_OK) err = report_print(report, &render_text, out);
    if (err == ERR_OK) err = report_print_csv(report, out);
    close(fd);
    return err;
}

/* What report, report --check and compare print of the records. */
static char *print_all(bool old, int *n_faults)
{
    char records[2][MAX_TEXT], text[MAX_TEXT], *printed = NULL;
    size_t n_bytes;
    FILE *out = open_memstream(&printed, &n_bytes);
    const compare_options_t options = {.min_effect = 0.03, .alpha = 0.01, .n_resamples = 99, .seed = 1};
    report_t runs[2] = {0}, train = {0};
    comparison_t comparison = {0};
    check_counts_t counts = {0};
    if (!out) exit(4);
    snprintf(records[0], MAX_TEXT, bench, "aa", "bb", "aa", "aa");
    snprintf(records[1], MAX_TEXT, bench, "bb", "aa", "bb", "bb");
    for (int i = 0; i < 3; i++) {
        int fd = open_text(spell(i < 2 ? records[i] : training, old, text));
        OK_CALL(report_check_file(fd, "recording", out, &counts), "records are checked");
        close(fd);
        OK_CALL(read_and_print(i < 2 ? &runs[i] : &train, text, out), "and read");
    }
    *n_faults = (int)counts.n_bad;
    OK_CALL(compare_reports(&runs[0], &runs[1], &options, &comparison), "two recordings are compared");
    OK(comparison.metrics && comparison.metrics->interleaved, "as interleaved");
    OK_CALL(compare_print_json(&comparison, &options, out), "and printed");
    compare_free(&comparison);
    report_free(&train);
    for (int i = 0; i < 2; i++) report_free(&runs[i]);
    fclose(out);
    return printed;
}

int main(void)
{
    int n_faults[2];
    char text[MAX_TEXT];
    tap_plan(9 * 2 + 4);
    char *now = print_all(false, &n_faults[0]), *old = print_all(true, &n_faults[1]);
    OK(n_faults[0] == 0 && n_faults[1] == 0, "no record is faulty: %d, %d", n_faults[0], n_faults[1]);
    OK(strcmp(now, old) == 0, "everything printed is the same");
    spell(training, true, text);
    spell(bench, true, text + strlen(text));
    int n_missing = 0;
    for (int i = 0; i < N_NAMES; i++) n_missing += !strstr(text, names[i][1]);
    OK(n_missing == 0, "every earlier name was there");
    free(now);
    free(old);
    OK(mem_live() == 0, "everything is given back");
    return tap_done();
}
