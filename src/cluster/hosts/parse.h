/* What the readers of host descriptions share. Private to src/cluster/hosts. */
#ifndef CLUSTER_HOSTS_PARSE_H
#define CLUSTER_HOSTS_PARSE_H

#include <stddef.h>

#include "cluster/hosts/hosts.h"

/* Part of a text, as a message may show it: cut, and without what a terminal would obey. */
typedef struct quoted {
    char text[88];
} quoted_t;
quoted_t hosts_quote(const char *text, size_t n_bytes);

/* A decimal number of min … max and nothing else. False: it is none. */
bool hosts_number(const char *text, size_t n_bytes, int min, int max, int *out);

/* A host of one slot at the end. ERR_DATA without a place in the text when the address is none. *out until
 * the next is added. */
err_t hosts_add(hosts_t *hosts, const char *address, size_t n_bytes, int line, host_t **out);

/* Sorts ids. ERR_DATA without a place in the text when one is there twice. */
err_t hosts_sort_ids(int *ids, int n);

/* Puts the place in the text in front of an error's message; ERR_OK stays. */
err_t hosts_at_line(err_t err, const hosts_t *hosts, int line);

/* What every form is asked for at its end; moves the chief to the front. */
err_t hosts_complete(hosts_t *hosts);

/* Two addresses are one where their keys are equal. ERR_DATA when it is no address. */
enum { HOST_KEY_MAX = 256 };
err_t hosts_key(const char *address, size_t n_bytes, char out[HOST_KEY_MAX]);

/* ERR_DATA, naming `what`, without a place: a user that ssh could take for something else; a text with
 * control characters, or a lone dash, which would be taken for nothing. */
err_t hosts_check_user(const char *user, const char *what);
err_t hosts_check_text(const char *text, const char *what);

#endif
