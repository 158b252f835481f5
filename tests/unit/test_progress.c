/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * The progress line at every width: what it says, and that it fits. */
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/tap.h"
#include "text/progress.h"
#include "text/table.h"
#include "train/output/status.h"

static const status_t usual = {.epoch = 2,
                               .n_epochs = 3,
                               .step = 1250,
                               .n_steps = 2814,
                               .images_per_sec = 5166.2,
                               .values = {{"loss", NULL, 0.1205}, {"accuracy", "acc", 0.9629}},
                               .left_sec = 65};
static const status_t large = {.epoch = 1000,
                               .n_epochs = 1000,
                               .step = 123456789,
                               .n_steps = 123456790,
                               .images_per_sec = 1234567.8,
                               .values = {{"loss", NULL, 123.4567}, {"accuracy", "acc", 0.9629}},
                               .left_sec = 359999};

static const char *bar_of(const status_t *s, int columns)
{
    static char line[512];
    status_bar(s, columns, line, sizeof line);
    return line;
}

static bool has(const status_t *s, int columns, const char *words)
{
    bool found = strstr(bar_of(s, columns), words) != NULL;
    if (!found) printf("# at %d columns: no \"%s\" in \"%s\"\n", columns, words, bar_of(s, columns));
    return found;
}

static int cells_of(const char *line)
{
    const char *open = strchr(line, '['), *close = strchr(line, ']');
    return open && close ? (int)(close - open) - 1 : 0;
}

static int filled_of(const char *line)
{
    int n = 0;
    for (; *line; line++) n += *line == '#';
    return n;
}

static void test_widths(void)
{
    bool fits = true, accuracy = true, left = true, bar = true, label = true, grows = true;
    int before = 0;
    for (int columns = 39; columns < 200; columns++) {
        for (int i = 0; i < 2; i++) {
            const status_t *s = i ? &large : &usual;
            fits &= table_text_width(bar_of(s, columns)) <= columns;
            if (columns >= 79) accuracy &= has(s, columns, "0.9629");
            if (columns >= 79) left &= has(s, columns, i ? "99:59:59 left" : "1:05 left");
        }
        bar &= cells_of(bar_of(&usual, columns)) >= PROGRESS_MIN_CELLS;
        label &= has(&usual, columns, "2/3 [") && has(&usual, columns, "] 44 %");
        accuracy &= has(&usual, columns, "0.9629");
        left &= has(&usual, columns, "1:05 left");
        int n = 0; /* letters and digits */
        for (const char *c = bar_of(&usual, columns); *c; c++) n += *c != '#' && *c != '-';
        grows &= n >= before;
        before = n;
    }
    OK(fits, "the line fits every width from 39 to 199");
    OK(accuracy, "accuracy is always there");
    OK(left, "so is the time left");
    OK(label && bar, "so are epoch, bar and share of an ordinary run");
    OK(grows, "a wider line never says less");
}

static void test_words(void)
{
    OK(strcmp(bar_of(&usual, 199), "epoch 2/3 [########------------] 44 %  step 1250/2814   5166 images/s  "
                                   "loss 0.1205  accuracy 0.9629  1:05 left") == 0,
       "in full: %s", bar_of(&usual, 199));
    OK(strcmp(bar_of(&usual, 99), "epoch 2/3 [###------] 44 %  step 1250/2814   5166 images/s  "
                                  "loss 0.1205  accuracy 0.9629  1:05 left") == 0,
       "cells shrink first: %s", bar_of(&usual, 99));
    OK(strcmp(bar_of(&usual, 79),
              "epoch 2/3 [##----] 44 %  1250/2814   5166/s  loss 0.1205  acc 0.9629  1:05 left") == 0,
       "then words: %s", bar_of(&usual, 79));
    OK(strcmp(bar_of(&usual, 39), "2/3 [##---] 44 %  acc 0.9629  1:05 left") == 0, "at 40 columns: %s",
       bar_of(&usual, 39));
}

static void test_share(void)
{
    status_t s = usual;
    s.step = s.n_steps = 300; /* --steps 300 of longer epochs */
    OK(filled_of(bar_of(&s, 120)) == cells_of(bar_of(&s, 120)) && has(&s, 120, " 100 %"),
       "the last step fills the bar");
    s.step = 299;
    OK(filled_of(bar_of(&s, 120)) == cells_of(bar_of(&s, 120)) - 1 && has(&s, 120, " 99 %"),
       "the step before it does not");
    s.values[1].label = NULL;
    OK(!strstr(bar_of(&s, 120), "acc") && !strstr(bar_of(&s, 120), "nan"), "no accuracy of several labels");
}

static void test_layout(void)
{
    char line[64];
    const progress_part_t parts[] = {{"packing", NULL, 0}, {"± 5 \033[31m of 7", NULL, 1}};
    progress_layout(parts, 2, 0.5, 60, line, sizeof line);
    OK(strcmp(line, "packing [##########----------] ± 5 ?[31m of 7") == 0,
       "control characters do not reach the terminal: %s", line);
    progress_layout(parts, 2, 0.5, 3, line, sizeof line);
    OK(strcmp(line, "± 5") == 0, "a line of 3 columns: %s", line);
    progress_layout(parts, 1, 2, 60, line, 12);
    OK(strlen(line) == 11, "a small buffer: %s", line);
    progress_layout(parts, 1, NAN, 0, line, sizeof line);
    OK(line[0] == '\0', "no room");
}

static void test_line(void)
{
    char line[STATUS_MAX];
    status_line(&usual, line, sizeof line);
    OK(strcmp(line, "epoch 2/3  step 1250/2814  5166 images/s  loss 0.1205  accuracy 0.9629  1:05 left") == 0,
       "the plain line: %s", line);
}

/* What a beat `sec` after the last output prints; what `act` prints comes first. */
static const char *said_by(void (*act)(void), double sec)
{
    static char text[1024];
    char path[] = "/tmp/dptrain-progress-XXXXXX";
    fflush(stdout);
    const int before = dup(STDOUT_FILENO), file = mkstemp(path);
    if (before < 0 || file < 0 || dup2(file, STDOUT_FILENO) < 0) abort();
    if (act) act();
    progress_beat(log_last_sec() + sec);
    fflush(stdout);
    const ssize_t n = pread(file, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    if (dup2(before, STDOUT_FILENO) < 0 || unlink(path) != 0) abort();
    close(file), close(before);
    return text;
}

static const char *said_after(double sec)
{
    return said_by(NULL, sec);
}

static void draw_bar(void)
{
    progress_draw("epoch 1/3", 1, 4, "accuracy 0.9");
}

static bool silent_after(double sec)
{
    return said_after(sec)[0] == '\0';
}

static void test_beats(void)
{
    log_set_rank(0, 1, "host");
    progress_set_mode(PROGRESS_LINES);
    log_note("# a line");
    OK(silent_after(100), "without knowing what, nothing is told");
    progress_doing("computing step 3");
    OK(silent_after(4.9) && strstr(said_after(5.1), "computing step 3, "), "a line after 5 s of silence");
    OK(silent_after(9.9) && !silent_after(10.1) && silent_after(19.9) && !silent_after(20.1),
       "the next ones after twice as long");
    for (int i = 0; i < 5; i++) said_after(100);
    OK(silent_after(59) && !silent_after(61), "but not after more than a minute");
    progress_doing("computing step 3");
    OK(silent_after(59), "the same work goes on");
    progress_doing("evaluating");
    OK(strstr(said_after(5.1), "evaluating, "), "other work begins anew");
    progress_lines(30);
    OK(silent_after(29) && !silent_after(31), "a run with lines of its own needs fewer");
    log_hold_pause();
    OK(silent_after(1000), "nothing is told while others print");
    log_end_pause();
    progress_set_mode(PROGRESS_NONE);
    OK(silent_after(1000), "nor with --progress none");
    progress_set_mode(PROGRESS_BAR);
    setenv("COLUMNS", "100", 1);
    const char *own = said_after(3);
    OK(strstr(own, "evaluating [----") && !strchr(own, '\n'), "a bar of its own");
    const char *added = said_by(draw_bar, 3);
    OK(strstr(added, "epoch 1/3 [#####---") && strstr(added, "accuracy 0.9  evaluating: 0:"),
       "or added to the last one");
    OK(silent_after(1.9), "not while the bar moves");
    said_by(progress_clear_line, 0);
    progress_set_mode(PROGRESS_AUTO);
}

int main(void)
{
    tap_plan(17 + 12);
    test_beats();
    test_widths();
    test_words();
    test_share();
    test_layout();
    test_line();
    return tap_done();
}
