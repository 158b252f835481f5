/* SPDX-License-Identifier: MIT */
/* Converts HDF5's error stack to err_t and disables its printing. Library calls go through E_H5. */
#include "store/h5/h5.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { REASON_MAX = 256 };

typedef struct reason {
    char inner[REASON_MAX], call[64];
} reason_t;

void h5_quiet(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

/* Walking upward, the first entry is the cause, the last one the library function that was called. */
static herr_t note_reason(unsigned n, const H5E_error2_t *entry, void *context)
{
    reason_t *reason = context;
    if (n == 0) snprintf(reason->inner, sizeof reason->inner, "%s", entry->desc ? entry->desc : "");
    snprintf(reason->call, sizeof reason->call, "%s", entry->func_name ? entry->func_name : "");
    return 0;
}

err_t h5_raise(err_t code, const char *file, int line, const char *format, ...)
{
    reason_t reason = {"", ""};
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_reason, &reason);
    H5Eclear2(H5E_DEFAULT);
    char text[ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return err_raise(code, file, line, "%s: HDF5 says: %s (%s)", text,
                     reason.inner[0] ? reason.inner : "failed", reason.call[0] ? reason.call : "no details");
}

herr_t h5_close(hid_t *id)
{
    herr_t status = *id >= 0 ? (H5Idec_ref(*id) < 0 ? -1 : 0) : 0;
    *id = -1;
    return status;
}

void h5_version(char *out, size_t n_bytes)
{
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    snprintf(out, n_bytes, "%u.%u.%u", major, minor, release);
}
