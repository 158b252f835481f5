/* SPDX-License-Identifier: MIT */
/* dlopen and dlsym over a list of library names. A library that is already loaded is used as it is. Libraries
 * stay open until the process ends. */
#include "base/process.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static err_t dl_find_symbols(void *library, const char *name, const dl_function_t *functions, int n,
                             const char *hint)
{
    for (int i = 0; i < n; i++) {
        void *symbol = dlsym(library, functions[i].name);
        if (!symbol) RAISE(ERR_SYSTEM, "%s has no function %s; %s", name, functions[i].name, hint);
        memcpy(functions[i].pointer, &symbol, sizeof symbol);
    }
    return ERR_OK;
}

err_t dl_load(const char *const *names, const dl_function_t *functions, int n, const char *hint)
{
    if (dlsym(RTLD_DEFAULT, functions[0].name))
        return dl_find_symbols(RTLD_DEFAULT, names[0], functions, n, hint);
    char reason[256] = "";
    for (int i = 0; names[i]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) return dl_find_symbols(library, names[i], functions, n, hint);
        const char *words = dlerror();
        if (i == 0) snprintf(reason, sizeof reason, "%s", words ? words : names[i]);
    }
    RAISE(ERR_SYSTEM, "%s cannot be opened: %s; %s", names[0], reason, hint);
}
