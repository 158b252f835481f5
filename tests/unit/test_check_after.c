/* SPDX-License-Identifier: MIT */
/* dptrain check --history and --drain-command on hosts of a fictitious job: what is read of earlier checks, and which hosts are
 * drained, with which words. RUN np=0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "tests/tap.h"
#include "tools/check/lines.h"

enum { N_HOSTS = 4 };
static check_options_t options = {.history = "h.jsonl"};
static check_rank_t ranks[N_HOSTS];
static comm_t comm = {.size = N_HOSTS};
static check_t check = {.options = &options, .comm = &comm, .ranks = ranks, .n_hosts = N_HOSTS};

static check_line_t line_of(int host, check_status_t status, const char *name, const char *found)
{
    return (check_line_t){.scope = host % 2 ? CHECK_RANK : CHECK_HOST, /* rank h is on host h */
                          .index = host,
                          .status = status,
                          .check = "network",
                          .name = name,
                          .item = "",
                          .found = found,
                          .advice = ""};
}

/* ---- History ---- */
static void append(int fd, const char *text)
{
    if (fs_write_all(fd, FS_HERE, text, strlen(text)) != 0) exit(1);
}

/* The notes, one per line, about what the file says. */
static const char *notes(int fd)
{
    static char text[4096];
    check_lines_t lines = {0};
    text[0] = '\0';
    if (check_history_read(&check, fd, &lines) != ERR_OK) return err_message();
    for (int i = 0; i < lines.n_notes; i++) {
        strcat(text, lines.note[i]);
        strcat(text, "\n");
    }
    check_lines_free(&lines);
    return text;
}

static bool notes_are(int fd, const char *expected)
{
    const char *text = notes(fd);
    if (strcmp(text, expected) != 0) printf("# %s", text);
    return strcmp(text, expected) == 0;
}

static int new_file(void)
{
    return open("h.jsonl", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
}

/* As if a check had ended with these lines. */
static void run_check(int fd, check_line_t *line, int64_t n)
{
    const check_lines_t lines = {.line = line, .n = n};
    check_after(&check, &lines, fd);
}

static void test_history(void)
{
    int fd = new_file();
    check_line_t bad[] = {
        line_of(0, CHECK_OK, "bandwidth", "1 GB/s"),     line_of(1, CHECK_FAIL, "bandwidth", "48 MB/s"),
        line_of(1, CHECK_FAIL, "bandwidth", "47 MB/s"),  line_of(1, CHECK_FAIL, "latency", "1 s"),
        line_of(2, CHECK_WARN, "bandwidth", "900 MB/s"), line_of(3, CHECK_OK, "bandwidth", "1 GB/s"),
    };
    bad[5].scope = CHECK_JOB;
    OK(notes_are(fd, ""), "an empty file says nothing");
    run_check(fd, bad, 6);
    OK(notes_are(fd, "node2 failed the check before this one (network bandwidth 1, network latency 1)\n"),
       "a check with a host that failed: each of its lines counts once, and a warning does not");
    options.strict = true;
    OK(strstr(notes(fd), "node3 failed the check"), "with --strict a warning does");
    options.strict = false;
    run_check(fd, bad, 3);
    for (int i = 0; i < 6; i++) run_check(fd, bad, 1);
    OK(notes_are(fd,
                 "node2 failed 2 of the 8 checks before this one (network bandwidth 2, network latency 1)\n"),
       "the most frequent reason is the first");
    for (int i = 0; i < 3; i++) run_check(fd, bad, 1);
    OK(strstr(notes(fd), "node2 failed 1 of the 10 checks"), "only the last ten checks count");
    run_check(fd, bad, 1);
    OK(notes_are(fd, ""), "an older failure is forgotten");
    check_line_t both[] = {line_of(0, CHECK_FAIL, "latency", "1 s"),
                           line_of(3, CHECK_FAIL, "latency", "2 s")};
    run_check(fd, both, 2);
    OK(strstr(notes(fd), "node1, node4 failed 1 of the 10 checks before this one (network latency 1)"),
       "hosts of which the same is said share a note");
    close(fd);
}

#define RECORD(name, reason)                                                                                 \
    "{\"record\":\"check_history\",\"time\":\"t\",\"ready\":false,\"hosts\":[{\"host\":\"" name              \
    "\",\"status\":\"fail\",\"lines\":[{\"check\":\"gpu\",\"name\":\"" reason                                \
    "\",\"status\":\"fail\"}]}]}\n"

static void test_strangers(void)
{
    int fd = new_file();
    append(fd, "{\"record\":\"step\"}\n\nnot JSON\n[[[[\n\"x\"\n{\"record\":\"check_history\"}\n");
    append(fd, "{\"record\":\"check_history\",\"time\":\"t\",\"ready\":true,\"hosts\":[1]}\n");
    append(fd, RECORD("node9", "x"));
    OK(notes_are(fd, "6 lines of h.jsonl are not read: damaged, or not written by --history\n"),
       "lines that are no records of a check are counted, other hosts are passed over");
    close(fd);
    fd = new_file();
    append(fd, RECORD("node1", "a\\u001b[2J\\nready\\u0007 \\u0000"));
    append(fd, RECORD("node1", "a\\u001b[2J\\nready"));
    append(fd, "{\"record\":\"check_history\",\"time\":\"t\",\"ready\":tr"); /* a full disk */
    check_line_t good = line_of(0, CHECK_OK, "bandwidth", "1 GB/s");
    run_check(fd, &good, 1);
    OK(notes_are(fd, "node1 failed 1 of the 2 checks before this one (gpu a?[2J ready 1)\n"
                     "2 lines of h.jsonl are not read: damaged, or not written by --history\n"),
       "after a line that was cut off a new one begins; control characters are not shown");
    close(fd);
    fd = new_file();
    char *many;
    if (mem_new_array(1 << 20, 1, "text", &many) != ERR_OK) return;
    append(fd, RECORD("node1", "old"));
    memset(many, 'x', (1 << 20) - 1);
    for (int i = 0; i < 5; i++) append(fd, many);
    mem_free(&many);
    append(fd, "\n" RECORD("node1", "new"));
    OK(notes_are(fd, "node1 failed the check before this one (gpu new 1)\n"),
       "only the end of a long file is read");
    close(fd);
    unlink("h.jsonl");
}

/* ---- Draining ---- */
static char said[8192]; /* what the command got: a line per word */

/* Judges the lines; standard output goes to a file. */
static void drain(const char *command, check_line_t *line, int64_t n)
{
    char *text = NULL;
    unlink("words");
    fflush(stdout);
    const int out = dup(1), file = open("out", O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(file, 1);
    options.drain_command = command;
    run_check(-1, line, n);
    fflush(stdout);
    dup2(out, 1);
    close(out);
    close(file);
    said[0] = '\0';
    if (fs_exists("words") && fs_read_text("words", sizeof said - 1, &text) == ERR_OK) strcpy(said, text);
    mem_free(&text);
}

static bool said_is(const char *expected)
{
    if (strcmp(said, expected) != 0) printf("# %s", said);
    return strcmp(said, expected) == 0;
}

static bool printed(const char *part)
{
    char *text = NULL;
    const bool is = fs_read_text("out", 4096, &text) == ERR_OK && strstr(text, part);
    mem_free(&text);
    return is;
}

static void test_drain(void)
{
    check_line_t one[] = {
        line_of(0, CHECK_OK, "bandwidth", "1 GB/s"), line_of(2, CHECK_WARN, "latency", "1 s"),
        line_of(2, CHECK_FAIL, "bandwidth", "48 MB/s; `date` $(touch x) \"'\n* the others")};
    drain("./record", one, 3);
    OK(said_is("node3\ndptrain check: network bandwidth: 48 MB/s; `date` $(touch x) \"' * the others\n"),
       "host and reason are two words, which no shell reads");
    OK(!fs_exists("x") && printed("drained node3: network bandwidth: 48 MB/s;"), "what was drained is said");
    drain("  ./record NodeName={host}\tState=DRAIN Reason={reason} {host}{host}", one, 2);
    OK(said_is(""), "a warning drains nothing");
    one[2].found = "slow";
    drain("  ./record NodeName={host}\tState=DRAIN Reason={reason} {host}{host}", one, 3);
    OK(said_is("NodeName=node3\nState=DRAIN\nReason=dptrain check: network bandwidth: slow\nnode3node3\n"),
       "{host} and {reason} inside words");
    one[2].found =
        "ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä ä "
        "ä ä ä ä ä ä ä ä ä";
    drain("./record {reason}", one, 3);
    OK(strlen(said) <= 201 && strlen(said) > 190 && strstr(said, "ä"), "a reason has at most 200 bytes");
    drain("./fail {host}", one, 3);
    OK(said_is("node3\n") && !printed("drained"), "a command that fails drains nothing");
    strcpy(ranks[2].host_name, "-x;y");
    drain("./record {host}", one, 3);
    OK(said_is(""), "a host that calls itself oddly is not drained");
    strcpy(ranks[2].host_name, "node3#1");
    ranks[2].twin = 1;
    drain("./record {host}", one, 3);
    OK(said_is(""), "nor is one of two with the same name");
    strcpy(ranks[2].host_name, "node3");
    ranks[2].twin = 0;
    check_line_t two[] = {line_of(0, CHECK_FAIL, "a", "b"), line_of(1, CHECK_FAIL, "a", "b"),
                          line_of(3, CHECK_FAIL, "a", "b")};
    drain("./record {host}", two, 2);
    OK(said_is("node1\nnode2\n"), "half of the hosts are drained");
    drain("./record {host}", two, 3);
    OK(said_is(""), "not more than half");
    two[0].scope = CHECK_JOB;
    drain("./record {host}", two, 1);
    OK(said_is(""), "nor is any for a fault of the whole job");
}

static void write_script(const char *name, const char *end)
{
    FILE *file = fopen(name, "w");
    if (!file) return;
    fprintf(file, "#!/bin/sh\nprintf '%%s\\n' \"$@\" >>words\n%s\n", end);
    fclose(file);
    chmod(name, 0700);
}

int main(void)
{
    char folder[] = "/tmp/dptrain-test-XXXXXX";
    for (int h = 0; h < N_HOSTS; h++) {
        ranks[h].host = h;
        snprintf(ranks[h].host_name, sizeof ranks[h].host_name, "node%d", h + 1);
    }
    options.runtime.timeout_sec = 300;
    tap_plan(22);
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1;
    write_script("record", "exit 0");
    write_script("fail", "echo it does not; exit 3");
    test_history();
    test_strangers();
    test_drain();
    for (int i = 0; i < 4; i++) unlink((const char *[]){"record", "fail", "words", "out"}[i]);
    OK(chdir("/") == 0 && rmdir(folder) == 0 && mem_live() == 0, "nothing is left");
    return tap_done();
}
