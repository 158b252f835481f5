/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * What /proc/cpuinfo says of a CPU: generations that hypervisors give one name, two sockets, other architectures,
 * missing fields. What control groups leave of memory. */
#include "tests/folder.h"
#include "tests/tap.h"

#include "cluster/hosts/machine.h"

static machine_cpu_t read_text(const char *text)
{
    machine_cpu_t cpu;
    FILE *file = fmemopen((void *)(size_t)text, strlen(text) + !text[0], "r");
    machine_cpu_read(file, &cpu);
    fclose(file);
    return cpu;
}

#define EPYC(n, family, model, stepping, socket, flags)                                                      \
    "processor\t: " n "\nvendor_id\t: AuthenticAMD\ncpu family\t: " family "\nmodel\t\t: " model             \
    "\nmodel name\t: AMD EPYC\nstepping\t: " stepping                                                        \
    "\nmicrocode\t: 0x1000065\ncpu MHz\t\t: 2596.134\ncache size\t: 1024 KB\nphysical id\t: " socket         \
    "\nflags\t\t: fpu sse2 " flags " rdpid avx512_bf16x\nbugs\t\t: spectre_v1\n\n"

static bool is(const char *text, const char *expected)
{
    if (strcmp(text, expected) != 0) printf("# wanted: %s\n# got:    %s\n", expected, text);
    return strcmp(text, expected) == 0;
}

static void check_generations(void)
{
    const machine_cpu_t zen3 = read_text(EPYC("0", "25", "1", "1", "0", "avx avx2 fma")),
                        zen4 = read_text(EPYC("0", "25", "17", "1", "0", "avx avx2 fma avx512f avx512_bf16"));
    OK(is(zen3.name, "AMD EPYC") && is(zen4.name, "AMD EPYC"), "two generations of one name");
    OK(is(zen3.type, "AuthenticAMD family 25 model 1 stepping 1") &&
           is(zen4.type, "AuthenticAMD family 25 model 17 stepping 1"),
       "have other types");
    OK(is(zen3.instructions, "avx avx2 fma") && is(zen4.instructions, "avx avx2 fma avx512f avx512_bf16"),
       "and other instruction sets, of which only those that matter are named, each as a whole word");
    OK(is(zen3.caches, "1024 KB") && zen3.sockets == 1, "the cache that the kernel names, one socket");
}

static void check_several(void)
{
    const machine_cpu_t two = read_text(EPYC("0", "25", "1", "1", "0", "avx2") EPYC(
                            "1", "25", "1", "1", "0", "avx2") EPYC("2", "25", "1", "1", "1", "avx2")),
                        mixed = read_text(EPYC("0", "25", "1", "10", "0", "avx2")
                                              EPYC("1", "25", "1", "1", "1", ""));
    OK(two.sockets == 2 && is(two.type, "AuthenticAMD family 25 model 1 stepping 1"),
       "two sockets of one type");
    OK(mixed.sockets == 2 &&
           is(mixed.type, "AuthenticAMD family 25 model 1 stepping 10, AuthenticAMD family 25 model 1 "
                          "stepping 1") &&
           is(mixed.instructions, "avx2"),
       "and of two; the first processor's instruction sets");
}

static void check_others(void)
{
    const machine_cpu_t arm = read_text(
        "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes fphp asimdhp asimddp sve\n"
        "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
        "processor\t: 1\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd05\nCPU revision\t: 1\n\n"
        "Hardware\t: board\nRevision\t: 0000\n");
    OK(is(arm.name, "unknown CPU") && arm.sockets == 0 && is(arm.caches, "") &&
           is(arm.type,
              "implementer 0x41 part 0xd0c variant 0x3 revision 1, implementer 0x41 part 0xd05 variant "
              "0x3 revision 1") &&
           is(arm.instructions, "asimd asimdhp asimddp sve"),
       "aarch64, with cores of two kinds");
    const machine_cpu_t power =
        read_text("processor\t: 0\ncpu\t\t: POWER9, altivec supported\nrevision\t: 2.2 (pvr "
                  "004e 1202)\n\ntimebase\t: 512000000\nmodel\t\t: 8335-GTH\n");
    OK(is(power.name, "POWER9, altivec supported") && is(power.type, ""),
       "another; the board's model is not the CPU's");
    const machine_cpu_t riscv =
        read_text("processor\t: 0\nhart\t: 2\nisa\t: rv64imafdc\nuarch\t: sifive,u74-mc\n"
                  "mvendorid\t: 0x489\n\n");
    OK(is(riscv.type, "vendor 0x489 sifive,u74-mc"), "and another");
}

static void check_missing(void)
{
    const machine_cpu_t nothing = read_text(""),
                        little = read_text("processor : 0\nmodel name : X\n\n\nno colon\n:\n");
    OK(is(nothing.name, "unknown CPU") && is(nothing.type, "") && is(nothing.instructions, "") &&
           is(nothing.caches, ""),
       "an empty file");
    OK(is(little.name, "X") && is(little.type, "") && little.sockets == 0,
       "missing fields and lines of no form");
    static char text[40000];
    snprintf(text, sizeof text,
             "processor : 0\nvendor_id : %0300d\nmodel name : %0400d\nflags : avx2 %030000d\nstepping : 7\n",
             1, 2, 3);
    const machine_cpu_t large = read_text(text);
    OK(strlen(large.name) == sizeof large.name - 1 && large.type[0] && is(large.instructions, "avx2"),
       "lines of any length");
}

static void put_text(const char *name, const char *text)
{
    folder_put(name, text, strlen(text));
}

static int64_t group_free(void)
{
    return machine_group_free_bytes(folder_path("groups"), folder_path("fs"));
}

static void check_groups(void)
{
    OK(group_free() == INT64_MAX, "no control groups");
    put_text("groups", "1:name=systemd:/job\n0::/job/step\n");
    put_text("fs/job/memory.max", "3000\n");
    put_text("fs/job/memory.current", "2500\n");
    put_text("fs/job/memory.stat", "anon 100\ninactive_file 700\nactive_file 1000\n");
    put_text("fs/job/step/memory.max", "max\n");
    OK(group_free() == 1200, "the limit of a group above, whose file caches can be dropped");
    put_text("fs/job/step/memory.max", "100\n");
    put_text("fs/job/step/memory.current", "200\n");
    OK(group_free() == 0, "more used than allowed");
    folder_clear();
    put_text("groups", "5:cpu,cpuacct:/\n4:memory:/job\n0::/\n");
    put_text("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put_text("fs/memory/job/memory.limit_in_bytes", "5000\n");
    put_text("fs/memory/job/memory.usage_in_bytes", "4000\n");
    put_text("fs/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 50\n");
    OK(group_free() == 1050, "version 1");
    folder_clear();
    put_text("groups", "0::/../elsewhere\n");
    put_text("fs/memory.max", "70\n");
    OK(group_free() == 70, "a container sees its own group at the root");
    folder_clear();
}

static void check_caches(void)
{
    static const char *const files[] = {"type", "level", "size", "shared_cpu_list"};
    static const char *const text[4][4] = {{"Data\n", "1\n", "48K\n", "0,64\n"},
                                           {"Instruction\n", "1\n", "32K\n", "0,64\n"},
                                           {"Unified\n", "2\n", "2M\n", "0,64\n"},
                                           {"Unified\n", "3\n", "36608K\n", "0-31,64-95\n"}};
    machine_cache_t caches[MACHINE_MAX_CACHES];
    OK(machine_caches(folder_path("cache"), caches) == 0, "without sysfs caches are unknown");
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            char name[64];
            snprintf(name, sizeof name, "cache/index%d/%s", i, files[k]);
            put_text(name, text[i][k]);
        }
    OK(machine_caches(folder_path("cache"), caches) == 3 && caches[0].n_bytes == 48 << 10 &&
           caches[1].n_bytes == 2 << 20 && caches[2].level == 3 && caches[2].n_bytes == 36608 << 10 &&
           caches[2].n_sharers == 64 && caches[1].n_sharers == 2,
       "sizes from sysfs, without the instruction cache");
    folder_clear();
}

static void check_lists(void)
{
    cpu_set_t set;
    const size_t n = sizeof set;
    OK(machine_cpu_list("0-3,8,10-11\n", &set, n) == 7 && CPU_COUNT(&set) == 7 && CPU_ISSET(8, &set) &&
           !CPU_ISSET(9, &set) && machine_cpu_list("", &set, n) == 0 && CPU_COUNT(&set) == 0 &&
           machine_cpu_list("0-2047", NULL, 0) == 2048,
       "the kernel's lists");
    OK(machine_cpu_list("3-1", &set, n) < 0 && machine_cpu_list("0-99999", &set, n) < 0 &&
           machine_cpu_list("x", &set, n) < 0 && machine_cpu_list("1-", &set, n) < 0 &&
           machine_cpu_list("0-99999999999999999999", NULL, 0) < 0,
       "malformed lists");
}

int main(void)
{
    tap_plan(23);
    ASSERT(folder_begin());
    check_groups();
    check_caches();
    check_lists();
    check_generations();
    check_several();
    check_others();
    check_missing();
    machine_cpu_t here;
    char here_text[MACHINE_CPU_TEXT];
    machine_cpu(&here);
    machine_cpu_text(here_text);
    OK(here.name[0] && strstr(here_text, here.name) == here_text && strstr(here_text, here.type),
       "this machine: %s", here_text);
    const int64_t one = machine_cache_bytes(1, 1), shared = machine_cache_bytes(1, 1000);
    OK(here.caches[0] == '\0' ||
           (one > 0 && shared > 0 && shared < one && machine_cache_bytes(4096, 1) >= one),
       "caches of a rank: %lld bytes, of one of many %lld", (long long)one, (long long)shared);
    rmdir(folder);
    return tap_done();
}
