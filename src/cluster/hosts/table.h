/* SPDX-License-Identifier: MIT */
/* Shared by the files that read and write host descriptions. Private to src/cluster/hosts. */
#ifndef CLUSTER_HOSTS_TABLE_H
#define CLUSTER_HOSTS_TABLE_H

#include <stddef.h>

#include "cluster/hosts/hosts.h"

/* Part of a text for a message: truncated, and without terminal control sequences. */
typedef struct quoted {
    char text[88];
} quoted_t;
quoted_t hosts_quote(const char *text, size_t n_bytes);

/* Parses a decimal number in [min, max] and nothing else; false: it is not one. */
bool hosts_number(const char *text, size_t n_bytes, int min, int max, int *out);

/* Appends a host with one slot. ERR_DATA, without the position in the text, if the address is invalid. *out
 * is valid until the next call. */
err_t hosts_add(hosts_t *hosts, const char *address, size_t n_bytes, int line, host_t **out);

/* The hosts by key; equal ones keep the order of the text. Free *out with mem_free. */
err_t hosts_sort(const hosts_t *hosts, host_t ***out);

/* Sorts ids. ERR_DATA, without the position in the text, for duplicates. */
err_t hosts_sort_ids(int *ids, int n);

/* Prefixes an error's message with the position in the text; ERR_OK is returned unchanged. */
err_t hosts_at_line(err_t err, const hosts_t *hosts, int line);

/* The final checks, common to all forms; moves the chief to the front. */
err_t hosts_complete(hosts_t *hosts);

/* Bytes of an address or a name. */
enum { HOST_KEY_MAX = 256 };

/* ERR_DATA, naming `what`, without the position in the text: for a user that ssh could misinterpret; for a
 * text with control characters, or a lone dash, which stands for "no value". */
err_t hosts_check_user(const char *user, const char *what);
err_t hosts_check_text(const char *text, const char *what);

#endif
