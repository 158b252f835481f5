/* SPDX-License-Identifier: MIT */
/* Hashes of image files in memory, and what is said when one has changed. */
#include "data/dataset/content.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

err_t content_new(const int64_t n[SPLIT_COUNT], content_t **out)
{
    content_t *content = NULL;
    err_t err = ERR_OK;
    TRY(mem_new(sizeof *content, "hashes of files", &content));
    content->who = 1;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        content->n[split] = n[split];
        TRY_OUT(err, mem_new_array(n[split], sizeof **content->entries, "hashes of files",
                                   &content->entries[split]));
    }
    *out = content;
    return ERR_OK;
out:
    content_free(&content);
    return err;
}

void content_free(content_t **in_out)
{
    content_t *content = *in_out;
    if (!content) return;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        mem_free(&content->entries[split]);
        mem_free(&content->names[split]);
        mem_free(&content->times[split]);
    }
    mem_free(&content->hosts);
    mem_free(in_out);
}

err_t content_new_names(content_t *content)
{
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        TRY(mem_new_array(content->n[split], sizeof **content->names, "names of files",
                          &content->names[split]));
        TRY(mem_new_array(content->n[split], sizeof **content->times, "times of files",
                          &content->times[split]));
    }
    return ERR_OK;
}

uint64_t content_name(split_t split, const char *name, int64_t n_bytes)
{
    return XXH3_64bits_withSeed(name, strlen(name), (uint64_t)n_bytes * SPLIT_COUNT + split);
}

content_entry_t content_entry(const void *bytes, size_t n_bytes, int who)
{
    uint64_t hash = XXH3_64bits(bytes, n_bytes) >> 16;
    return (content_entry_t)((hash ? hash : 1) << CONTENT_WHO_BITS | (uint64_t)who);
}

bool content_learn(content_t *content, split_t split, int64_t index, content_entry_t entry)
{
    content_entry_t none = 0;
    return atomic_compare_exchange_strong(&content->entries[split][index], &none, entry);
}

void content_add(content_t *content, split_t split, int64_t index, content_entry_t entry)
{
    if (content_learn(content, split, index, entry))
        atomic_fetch_add_explicit(&content->n_new, 1, memory_order_relaxed);
}

static const char *host_name(const content_t *content, int who)
{
    return content->hosts && who <= content->n_hosts ? content->hosts[who - 1] : "another host";
}

err_t content_raise(const content_t *content, split_t split, int64_t index, content_entry_t mine,
                    content_entry_t other)
{
    const int reader = content_who(mine), earlier = content_who(other);
    char name[CONTENT_NAME_MAX];
    content->name_of(content->context, split, index, name);
    if (earlier == CONTENT_CACHE)
        RAISE(
            ERR_DATA,
            "%s has changed, but neither its size nor its time: it is damaged, or another file was moved here. "
            "Restore it; if the change is right, touch the file, or remove dptrain/content-*.xxh3 from the "
            "cache folder",
            name);
    if (earlier == CONTENT_RUN)
        RAISE(
            ERR_DATA,
            "%s has changed since the resumed run read it; restore it, or start a new run with --resume none",
            name);
    if (earlier == reader)
        RAISE(ERR_DATA, "%s has changed since this run read it; restore it, and resume", name);
    RAISE(ERR_DATA, "%s differs between host %s and host %s; copy the same files to every host", name,
          host_name(content, reader), host_name(content, earlier));
}

err_t content_note(content_t *content, split_t split, int64_t index, const void *bytes, size_t n_bytes)
{
    const content_entry_t mine = content_entry(bytes, n_bytes, content->who);
    const content_entry_t known = content_get(content, split, index);
    const bool differs = known && content_hash(known) != content_hash(mine);
    if (differs && !content->counts_changed) return content_raise(content, split, index, mine, known);
    if (differs && atomic_fetch_add(&content->n_changed, 1) == 0)
        atomic_store(&content->first_changed, index + (split == SPLIT_VAL ? content->n[SPLIT_TRAIN] : 0));
    if (!known)
        content_add(content, split, index, mine);
    else if (differs || content_who(known) >= CONTENT_RUN) /* from now on it is this process's reading */
        atomic_store_explicit(&content->entries[split][index], mine, memory_order_relaxed);
    return ERR_OK;
}
