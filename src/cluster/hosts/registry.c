/* SPDX-License-Identifier: MIT */
/* Chooses the reader of a host description by its form: resource spec, hostfile or list. */
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "cluster/hosts/table.h"

typedef err_t reader_t(const char *text, const char *name, hosts_t *out);

/* By the file name's suffix; the last entry matches any name. */
static const struct {
    const char *end;
    reader_t *read;
} formats[] = {{".yaml", hosts_read_spec}, {".yml", hosts_read_spec}, {"", hosts_read_hostfile}};

/* Raises the current message with another code. */
static err_t as_code(err_t code)
{
    err_info_t info;
    err_take(code, &info);
    return err_put(&info);
}

err_t hosts_read(const char *source, hosts_t *out)
{
    char *text = NULL;
    int i = 0;
    err_t err;
    if (!fs_exists(source)) {
        if (strchr(source, '/') || !strpbrk(source, ":,"))
            RAISE(ERR_DATA, "no such file: %s (write a list of hosts as HOST:SLOTS,…, such as node1:4)",
                  hosts_quote(source, strlen(source)).text);
        err = hosts_read_list(source, out);
        return err == ERR_DATA ? as_code(ERR_USAGE) : err;
    }
    if (fs_is_folder(source))
        RAISE(ERR_DATA, "%s is a folder; expected a hostfile or resource spec (YAML)", source);
    err = fs_read_text(source, HOSTS_MAX_FILE_BYTES, &text);
    if (err == ERR_USAGE) return as_code(ERR_DATA);
    TRY(err);
    while (formats[i].end[0] && !fs_has_suffix(source, formats[i].end)) i++;
    err = formats[i].read(text, source, out);
    mem_free(&text);
    return err;
}
