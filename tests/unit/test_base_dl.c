/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Libraries that are opened when they are needed: found, not there, and without what is wanted of them. */
#include <dlfcn.h>
#include <string.h>

#include "base/process.h"
#include "tests/tap.h"

/* Of glibc, and linked into nothing that runs here. */
static const char apart[] = "libnss_compat.so.2", function_of_apart[] = "_nss_compat_setpwent";
static const char absent[] = "libdptrain-has-no-such.so.7";

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* With sanitizers libm is in the process already. */
static void test_libm(void)
{
    double (*cosine)(double) = NULL, (*power)(double, double) = NULL;
    const dl_function_t functions[] = {{"cos", &cosine}, {"pow", &power}};
    OK_CALL(dl_load(NAMES("libm.so.6"), functions, 2, "install libc6"), "libm.so.6");
    OK(cosine && power && cosine(0) == 1 && power(2, 10) == 1024, "its functions can be called");
    const dl_function_t with_one_absent[] = {{"cos", &cosine}, {"no_such_cosine", &power}};
    OK(dl_load(NAMES("libm.so.6"), with_one_absent, 2, "install a newer libm") == ERR_SYSTEM &&
           SAYS("libm.so.6 has no function no_such_cosine", "install a newer libm"),
       "each function must be found: %s", err_message());
}

static void test_in_process(void)
{
    long (*absolute)(long) = NULL;
    void *pointer = NULL;
    const dl_function_t functions[] = {{"labs", &absolute}, {"no_such_function", &pointer}};
    OK(dl_load(NAMES(absent), functions, 1, "") == ERR_OK && absolute && absolute(-7) == 7,
       "what the process has already is taken, whatever the library's name");
    OK(dl_load(NAMES(absent), functions, 2, "link it") == ERR_SYSTEM &&
           SAYS(absent, "has no function no_such_function", "link it"),
       "there, too, each must be found");
}

static void test_absent(void)
{
    void *pointer = NULL;
    const dl_function_t function = {"no_such_function", &pointer};
    OK(dl_load(NAMES(absent, "libdptrain-has-no-such.so"), &function, 1, "install it, or use --device cpu") ==
               ERR_SYSTEM &&
           SAYS("libdptrain-has-no-such.so.7 cannot be opened", "No such file",
                "install it, or use --device cpu") &&
           !pointer,
       "a library that is absent: %s", err_message());
    OK(dl_load(NAMES("/dev/null"), &function, 1, "reinstall it") == ERR_SYSTEM &&
           SAYS("/dev/null cannot be opened", "reinstall it"),
       "a file that is no library: %s", err_message());
}

static void test_opened(void)
{
    void *library = dlopen(apart, RTLD_NOW | RTLD_LOCAL), *pointer = NULL;
    if (!library || dlsym(RTLD_DEFAULT, function_of_apart)) {
        for (int i = 0; i < 3; i++) tap_skip("this C library has no libnss_compat.so.2 apart from itself");
        return;
    }
    const dl_function_t function = {function_of_apart, &pointer}, other = {"no_such_function", &pointer};
    OK(dl_load(NAMES(apart), &function, 1, "") == ERR_OK && pointer == dlsym(library, function_of_apart),
       "a library that is not in the process is opened");
    pointer = NULL;
    OK(dl_load(NAMES(absent, apart), &function, 1, "") == ERR_OK && pointer, "the first that can be");
    OK(dl_load(NAMES(absent, apart), &other, 1, "install a newer one") == ERR_SYSTEM &&
           SAYS("libnss_compat.so.2 has no function no_such_function", "install a newer one"),
       "a function that is absent, and in which library: %s", err_message());
    dlclose(library);
}

int main(void)
{
    unsetenv("DPTRAIN_DEBUG");
    tap_plan(10);
    test_libm();
    test_in_process();
    test_absent();
    test_opened();
    return tap_done();
}
