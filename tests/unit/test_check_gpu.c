/* SPDX-License-Identifier: MIT */
/* The check `gpu`: PCIe, ECC, NVLink and Xid errors, from recorded output of nvidia-smi and dmesg. RUN np=0 */
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "tools/check/host.h"
#include "tools/check/lines.h"

static const check_options_t options;
static check_rank_t ranks[1] = {{.host_name = "node1"}};
static comm_t comm = {.size = 1, .topo = {.size = 1, .local_size = 1}};
static check_t check;

static void begin(void)
{
    check = (check_t){.options = &options, .comm = &comm, .ranks = ranks, .n_hosts = 1, .current = "gpu"};
}

/* The number of lines with this name, status and text; -1: another line is worse than `status`, or lacks advice. */
static int says(const char *name, check_status_t status, const char *part)
{
    check_lines_t lines = {0};
    int n = 0;
    if (check.text) check_lines_unpack(check.text, check.n_text, &lines);
    check_facts_judge(&check, NULL, &lines);
    for (int64_t i = 0; n >= 0 && i < lines.n; i++) {
        const check_line_t *line = &lines.line[i];
        if ((line->status > CHECK_SKIP && line->status > status) ||
            (line->status > CHECK_SKIP) != (line->advice[0] != '\0')) {
            printf("# %s %s: %s\n", check_status_names[line->status], line->name, line->found);
            n = -1;
        } else {
            n += strcmp(line->name, name) == 0 && line->status == status && strstr(line->found, part);
        }
    }
    check_lines_free(&lines);
    return n;
}

static void end(void)
{
    mem_free(&check.text);
}

/* Eight GPUs; line `at` is another one. */
static const char *host_of_8(const char *rest, int at, const char *other)
{
    static char text[4096];
    size_t used = 0;
    for (int i = 0; i < 8; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%d, %s\n", i, i == at ? other : rest);
    return text;
}

static smi_detail_t details[SMI_MAX_GPUS];

static bool detail_says(const char *text, double hours, const char *name, check_status_t status,
                        const char *part)
{
    int n;
    bool parsed = smi_detail_parse(text, details, &n) == ERR_OK;
    begin();
    if (parsed) smi_judge_detail(&check, details, n, hours);
    bool right = parsed && says(name, status, part) == 1;
    end();
    return right;
}

#define H100 "NVIDIA H100 80GB HBM3, P0, "
#define A100 "NVIDIA A100-SXM4-40GB, P0, "

static void test_pcie(void)
{
    static const char good[] = H100 "5, 5, 16, 16, 0, 0, 0";
    OK(detail_says(host_of_8(good, -1, ""), 100, "GPU PCIe", CHECK_OK, "16 lanes, generation 5") &&
           detail_says(host_of_8(good, -1, ""), 100, "GPU ECC", CHECK_OK, "0 corrected errors, 0 rows"),
       "a healthy DGX H100");
    OK(detail_says(host_of_8(good, 3, H100 "5, 5, 8, 16, 0, 0, 0"), 100, "GPU PCIe", CHECK_FAIL,
                   "GPU 3: 8 of 16 lanes"),
       "lost lanes are a failure");
    OK(detail_says(host_of_8(good, 3, H100 "5, 5, 8, 8, 0, 0, 0"), 100, "GPU PCIe", CHECK_WARN,
                   "GPU 3: 8 of 16 lanes"),
       "a narrower slot than those of its peers is a warning");
    OK(detail_says(host_of_8(good, 5, H100 "3, 3, 16, 16, 0, 0, 0"), 100, "GPU PCIe", CHECK_WARN,
                   "GPU 5: generation 3 of 5"),
       "and so is a slower one");
    OK(detail_says(host_of_8(good, 5, H100 "1, 5, 16, 16, 0, 0, 0"), 100, "GPU PCIe", CHECK_WARN,
                   "GPU 5: generation 1 of 5"),
       "and one GPU that trained at a lower generation, at full clocks");
    OK(detail_says(host_of_8(good, 5, "NVIDIA H100 80GB HBM3, P8, 1, 5, 16, 16, 0, 0, 0"), 100, "GPU PCIe",
                   CHECK_OK, "16 lanes") &&
           detail_says(host_of_8("NVIDIA GB300, P0, 1, 6, 16, 16, 0, 0, 0", -1, ""), 100, "GPU PCIe",
                       CHECK_OK, "generation 6") &&
           detail_says("0, " H100 "5, 5, 16, 16, 0, 0, 0\n1, " H100 "1, 5, 16, 16, 0, 0, 0\n", 1, "GPU PCIe",
                       CHECK_OK, "generation 5"),
       "idle GPUs lower their generation");
    static const char geforce[] = "0, NVIDIA GeForce RTX 3090, P8, 1, 4, 16, 16, [N/A], [N/A], [N/A]\r\n"
                                  "1, NVIDIA T400 4GB, P8, 1, 3, 8, 8, [N/A], [N/A], [N/A]\r\n";
    OK(detail_says(geforce, 1, "GPU ECC", CHECK_SKIP, "not reported") &&
           detail_says(geforce, 1, "GPU PCIe", CHECK_OK, "16 lanes"),
       "consumer GPUs, of two models");
    OK(detail_says("0, GRID A100-10C, P0, [N/A], [N/A], [N/A], [N/A], [Not Supported], [Not Supported], "
                   "[Not Supported]\n",
                   1, "GPU PCIe", CHECK_SKIP, "not reported"),
       "a virtual GPU reports nothing");
}

static void test_ecc(void)
{
    static const char good[] = A100 "4, 4, 16, 16, 0, 0, 0", many[] = A100 "4, 4, 16, 16, 51200, 1, 1";
    int n;
    OK(detail_says(host_of_8(good, 2, many), 24, "GPU ECC", CHECK_WARN,
                   "GPU 2: 51200 corrected errors, 2133 an hour"),
       "many corrected errors are a warning, with their rate");
    OK(detail_says(host_of_8(good, 2, many), 10000, "GPU ECC", CHECK_OK,
                   "51200 corrected errors, 2 rows remapped"),
       "over a year they are not");
    OK(detail_says(host_of_8(good, 2, A100 "4, 4, 16, 16, 90, 0, 0"), 0.01, "GPU ECC", CHECK_OK,
                   "90 corrected"),
       "nor are few after a restart");
    OK(smi_detail_parse("Field \"pstate\" is not a valid field to query.\n", details, &n) == ERR_DATA &&
           smi_detail_parse("0, A100, P0, 4\n", details, &n) == ERR_DATA,
       "other output is an error");
}

/* A host with n GPUs, as `nvidia-smi nvlink --status` prints it; `down` of GPU 3 are inactive. */
static const char *links_of(int n, const char *name, int n_links, const char *speed, const char *down)
{
    static char text[16384];
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "GPU %d: %s (UUID: GPU-%d-1111)\n", i, name, i);
        for (int k = 0; k < n_links; k++) {
            char word[16];
            snprintf(word, sizeof word, " %d ", k);
            used += (size_t)snprintf(text + used, sizeof text - used, "\t Link %d: %s\n", k,
                                     i == 3 && strstr(down, word) ? "<inactive>" : speed);
        }
    }
    return text;
}

static bool nvlink_says(const char *text, int n_lines, check_status_t status, const char *part)
{
    smi_nvlink_t gpus[SMI_MAX_GPUS];
    int n;
    bool parsed = smi_nvlink_parse(text, gpus, &n) == ERR_OK;
    begin();
    if (parsed) smi_judge_nvlink(&check, gpus, n);
    bool right = parsed && says("NVLink", status, part) == n_lines;
    end();
    return right;
}

static void test_nvlink(void)
{
    smi_nvlink_t gpus[SMI_MAX_GPUS];
    int n;
    OK(nvlink_says(links_of(8, "NVIDIA H100 80GB HBM3", 18, "26.562 GB/s", ""), 1, CHECK_OK, "18 links"),
       "a DGX H100");
    OK(nvlink_says(links_of(8, "NVIDIA A100-SXM4-40GB", 12, "25 GB/s", " 4 7 "), 1, CHECK_FAIL,
                   "GPU 3: 10 of 12 links active, not 4, 7"),
       "inactive links are named");
    OK(nvlink_says(links_of(8, "NVIDIA H200", 18, "<inactive>", ""), 8, CHECK_FAIL, ": 0 of 18"),
       "a board without any, as when the fabric manager does not run");
    OK(nvlink_says(links_of(4, "NVIDIA H100 NVL", 18, "26.562 GB/s", " 12 13 14 15 16 17 "), 1, CHECK_WARN,
                   "GPU 3: 12 of 18 links") &&
           nvlink_says(links_of(3, "NVIDIA RTX A6000", 4, "<inactive>", ""), 1, CHECK_SKIP, "none"),
       "bridges: fewer than a peer is a warning, none at all is not");
    OK(nvlink_says("GPU 0: NVIDIA L40S (UUID: GPU-1) Device does not have or support Nvlink\n"
                   "GPU 1: NVIDIA L40S (UUID: GPU-2)\n"
                   "NVML: Unable to retrieve NVLink information as all links are inActive\n",
                   1, CHECK_SKIP, "none") &&
           nvlink_says("", 1, CHECK_SKIP, "none"),
       "GPUs without NVLink");
    OK(smi_nvlink_parse("GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB\n", gpus, &n) == ERR_DATA &&
           smi_nvlink_parse("\t Link 0: 25 GB/s\n", gpus, &n) == ERR_DATA,
       "another form of a link's line is an error");
}

/* Of kernels and drivers of several years. */
static const char dmesg[] =
    "[    0.000000] Linux version 5.15.0-1030-nvidia (buildd@lcy02) (gcc 11.3.0)\n"
    "[    9.512345] nvidia-nvlink: Nvlink Core is being initialized, major device number 235\n"
    "[  966.503025] NVRM: GPU at PCI:0000:3b:00: GPU-bc0fa0b9-cac2-f507-b715-9bebdb69c71e\n"
    "[  966.503030] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    "[  966.503031][ T9123] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    "[  970.100000] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot "
    "Required)\n"
    "[ 1021.000001] NVRM: Xid (PCI:0000:86:00): 31, pid=4242, name=python3, Ch 00000008, intr 00000000. MMU Fault\n"
    "[ 1022.000001] NVRM: Xid (PCI:0000:86:00): 63, pid=1896, Row Remapper: New row marked for remapping\n"
    "[ 1023.000001] NVRM: Xid (PCI:0000:86:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9).\n";
static const char programs[] =
    "[  100.000000] NVRM: Xid (0000:01:00): 31, Ch 0000000b, engmask 00000120, intr 10000000\n"
    "NVRM: Xid (PCI:0000:01:00): 13, pid=88, Graphics SM Warp Exception\r\n"
    "[  101.000000] NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 "
    "(None)\n";
/* Not the driver's own lines, or damaged ones. */
static const char others[] = "[  100.000000] systemd[1]: NVRM: Xid (PCI:0000:01:00): 79, said by a program\n"
                             "[  100.000000] NVRM: Xid (PCI:0000:01:00): 7900, long\n"
                             "[  100.000000] NVRM: Xid (PCI:0000:01:00): -9, odd\n"
                             "[  100.000000] NVRM: Xid (PCI:\033[31m01:00): 79, odd\n"
                             "[  100.000000] NVRM: Xid (PCI:0000:01:00\n): 79, cut\n"
                             "[  100.000000 NVRM: Xid (PCI:0000:01:00): 79, cut\n"
                             "NVRM: Xid (PCI:0000:0000:0000:0000:01:00): 79, long\n"
                             "NVRM: Xid (";

static bool xid_says(const char *text, int n_lines, check_status_t status, const char *part)
{
    xid_log_t log;
    begin();
    xid_parse(text, &log);
    xid_judge(&check, &log);
    bool right = says("Xid errors", status, part) == n_lines;
    end();
    return right;
}

static void test_xids(void)
{
    OK(xid_says(dmesg, 1, CHECK_FAIL, "0000:3b:00: 79 (fell off the bus, 2 times), 154 ("),
       "a GPU that fell off the bus");
    begin();
    xid_log_t log;
    xid_parse(dmesg, &log);
    xid_judge(&check, &log);
    OK(log.n == 5 && says("Xid errors", CHECK_FAIL, "0000:86:00") == 0,
       "programs' errors are not a fault of the other GPU");
    end();
    OK(xid_says(strstr(dmesg, "[ 1021"), 1, CHECK_WARN,
                "0000:86:00: 63 (bad memory remapped), 94 (contained ECC error)"),
       "memory that the GPU repaired is a warning");
    OK(xid_says(programs, 1, CHECK_OK, "programs: 2"), "errors of programs are shown");
    OK(xid_says(others, 1, CHECK_OK, "none since boot") && xid_says("", 1, CHECK_OK, "none"),
       "only lines of the driver count");
    OK(xid_says("NVRM: Xid (PCI:0001:00:00): 999, new\n", 1, CHECK_WARN, "0001:00:00: 999"),
       "an unknown number");
}

int main(void)
{
    tap_plan(8 + 4 + 6 + 6 + 1);
    test_pcie();
    test_ecc();
    test_nvlink();
    test_xids();
    OK(mem_live() == 0, "allocations balance");
    return tap_done();
}
