/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * PNG files: what is written is read back by libpng, whole or not at all, and errors say why. */
#include <dirent.h>
#include <fcntl.h>
#include <png.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/image/image.h"
#include "tests/tap.h"

enum { WIDTH = 37, HEIGHT = 23, N_BYTES = WIDTH * HEIGHT * 3, MAX_FILE = 8192 };

static char folder[] = "/tmp/dptrain-png-XXXXXX";
static char path[FS_PATH_MAX];
static uint8_t pixels[N_BYTES];
static const image_t image = {WIDTH, HEIGHT, pixels};

/* The file holds exactly this image, 8 bits a channel and no alpha. */
static bool holds(const image_t *want)
{
    static uint8_t read[N_BYTES];
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(&png, path)) return false;
    bool same = png.format == PNG_FORMAT_RGB && png.width == want->width && png.height == want->height &&
                PNG_IMAGE_SIZE(png) <= sizeof read && png_image_finish_read(&png, NULL, read, 0, NULL) &&
                memcmp(read, want->rgb, PNG_IMAGE_SIZE(png)) == 0;
    png_image_free(&png);
    return same;
}

static size_t get_file(uint8_t *out)
{
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(out, 1, MAX_FILE, file) : 0;
    if (file) fclose(file);
    return n;
}

static int count_files(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n - 2;
}

static int free_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY);
    close(fd);
    return fd;
}

/* The call failed like this, with both in its message. */
static bool failed(err_t err, err_t code, const char *where, const char *why)
{
    bool right = err == code && strstr(err_message(), where) && strstr(err_message(), why);
    if (!right) printf("# got %d: %s\n", err, err ? err_message() : "(no error)");
    return right;
}

static void test_good(void)
{
    static uint8_t first[MAX_FILE], second[MAX_FILE];
    uint8_t one[3] = {1, 128, 255};
    image_t pixel = {1, 1, one};
    OK_CALL(png_file_write(path, &pixel), "one pixel");
    OK(holds(&pixel), "reads back");
    OK_CALL(png_file_write(path, &image), "an image of odd sizes, over an older file");
    OK(holds(&image), "reads back");
    size_t n = get_file(first);
    OK(png_file_write(path, &image) == ERR_OK && n > 0 && get_file(second) == n &&
           memcmp(first, second, n) == 0,
       "the same pixels give the same bytes");
    OK(count_files() == 1, "nothing else is left in the folder");
    OK(chdir(folder) == 0 && png_file_write("here.png", &image) == ERR_OK && count_files() == 2 &&
           unlink("here.png") == 0,
       "a name without a folder");
}

static void test_bad_paths(void)
{
    static char longest[FS_PATH_MAX];
    memset(longest, 'x', sizeof longest - 1);
    OK(failed(png_file_write("/nonexistent/a.png", &image), ERR_SYSTEM, "/nonexistent/a.png", "No such file"),
       "a missing folder");
    OK(failed(png_file_write(folder, &image), ERR_USAGE, folder, "is a folder"), "a folder");
    OK(failed(png_file_write("/tmp/", &image), ERR_USAGE, "/tmp/", "is a folder"), "a path that ends in /");
    OK(failed(png_file_write(longest, &image), ERR_USAGE, "xxx", "longer than"), "a path that is too long");
    OK(failed(fs_check_target("/nonexistent/a.png"), ERR_SYSTEM, "/nonexistent", "No such file"),
       "asked before: a missing folder");
    OK(failed(fs_check_target(folder), ERR_USAGE, folder, "is a folder"), "a folder");
    OK(failed(fs_check_target(""), ERR_USAGE, "''", "is a folder"), "an empty name");
    OK_CALL(fs_check_target(path), "a file that is there");
    OK(holds(&image) && count_files() == 1, "asking changes nothing");
}

/* A disk that is full in mid-file, played by the limit of a file's size. */
static void test_full_disk(void)
{
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    static uint8_t other[N_BYTES];
    image_t next = {WIDTH, HEIGHT, other};
    for (size_t i = 0; i < N_BYTES; i++) other[i] = (uint8_t)~pixels[i];
    bool all = true;
    for (rlim_t limit = 0; limit < 2400; limit += 300) {
        small = (struct rlimit){limit, before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        err_t err = png_file_write(path, &next);
        setrlimit(RLIMIT_FSIZE, &before);
        all = failed(err, ERR_SYSTEM, path, "File too large") && holds(&image) && count_files() == 1 && all;
    }
    OK(all, "a write that fails leaves the older file as it was, and nothing beside it");
    OK_CALL(png_file_write(path, &next), "then it goes");
    OK(holds(&next), "reads back");
}

int main(void)
{
    if (!mkdtemp(folder) || fs_join(path, folder, "a.png") != ERR_OK) tap_skip_all("no folder in /tmp");
    /* Noise does not shrink: the file is larger than the limits of test_full_disk. */
    rng_t rng = rng_new(7, 0, 0);
    for (size_t i = 0; i < N_BYTES; i++) pixels[i] = (uint8_t)rng_u32(&rng);
    tap_plan(7 + 9 + 3 + 2);
    int fd = free_descriptor();
    test_good();
    test_bad_paths();
    test_full_disk();
    OK(free_descriptor() == fd, "every file was closed");
    unlink(path);
    OK(rmdir(folder) == 0 && mem_live() == 0, "nothing is left");
    return tap_done();
}
