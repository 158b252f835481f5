/* SPDX-License-Identifier: MIT */
/* A reference-counted LRU cache of pieces. The first thread that needs a piece loads it; others wait. Reading
 * is left to reader.c. */
#include "data/shard/pieces.h"

#include <pthread.h>

#include "base/mem.h"

typedef enum state { LOADING, READY, BROKEN } state_t;

struct shard_piece {
    shard_pieces_t *owner;
    split_t split;
    int64_t first, n, n_uses;
    state_t state; /* from here to last_use: under the owner's lock */
    int n_users;
    int64_t n_used;
    uint64_t last_use;
    /* Written by the loading thread, then constant. */
    shard_buffer_t buffer;
    sample_t *samples; /* [n] */
};

struct shard_pieces {
    shard_reader_t *reader;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t loaded;
    shard_piece_t **items;
    int64_t n_items;
    uint64_t n_uses;
};

err_t shard_pieces_new(shard_reader_t *reader, shard_pieces_t **out)
{
    TRY(mem_new(sizeof **out, "pieces of shards", out));
    (*out)->reader = reader;
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->loaded, NULL);
    return ERR_OK;
}

void shard_pieces_free(shard_pieces_t **pieces)
{
    shard_pieces_t *p = *pieces;
    if (!p) return;
    for (int64_t i = 0; i < p->n_items; i++) {
        mem_free(&p->items[i]->buffer.block);
        mem_free(&p->items[i]->samples);
        mem_free(&p->items[i]);
    }
    mem_free(&p->items);
    pthread_cond_destroy(&p->loaded);
    pthread_mutex_destroy(&p->lock);
    mem_free(pieces);
}

/* Clips the run to the record's shard. False: too short or too large for a piece. */
static bool cut_run(const shard_index_t *index, split_t split, int64_t number, const shard_near_t *near,
                    shard_near_t *out)
{
    const shard_entry_t *entries = index->entries[split];
    const shard_file_t *file = &index->files[split][entries[number].shard];
    int64_t end = near->first + near->n, file_end = file->first + file->n_samples;
    if (number < near->first || number >= end) return false;
    out->first = near->first > file->first ? near->first : file->first;
    out->n = (end < file_end ? end : file_end) - out->first;
    out->n_uses = near->n_uses * out->n / near->n;
    out->n_pieces = near->n_pieces < SHARD_PIECES_MAX ? near->n_pieces : SHARD_PIECES_MAX;
    const shard_entry_t *from = &entries[out->first], *to = &from[out->n - 1];
    int64_t n_images = to->offset + to->n_bytes - from->offset;
    int64_t n_notes = to->notes_offset + to->notes_bytes - from->notes_offset;
    return out->n > 1 && n_images <= SHARD_PIECE_MAX && n_notes <= SHARD_PIECE_MAX - n_images;
}

/* The functions down to choose_piece are called under the lock. */

static shard_piece_t *find_piece(const shard_pieces_t *p, split_t split, const shard_near_t *run)
{
    for (int64_t i = 0; i < p->n_items; i++) {
        shard_piece_t *piece = p->items[i];
        if (piece->split == split && piece->first == run->first && piece->n == run->n) return piece;
    }
    return NULL;
}

/* The least recently used free piece, among those that are used up or among all; NULL if none. */
static shard_piece_t *oldest_piece(const shard_pieces_t *p, bool used_up)
{
    shard_piece_t *found = NULL;
    for (int64_t i = 0; i < p->n_items; i++) {
        shard_piece_t *piece = p->items[i];
        if (piece->n_users > 0 || (used_up && piece->n_used < piece->n_uses)) continue;
        if (!found || piece->last_use < found->last_use) found = piece;
    }
    return found;
}

static err_t add_piece(shard_pieces_t *p, shard_piece_t **out)
{
    TRY(mem_grow(p->n_items + 1, sizeof *p->items, "a list of pieces", &p->items));
    TRY(mem_new(sizeof **out, "a piece of a shard", out));
    (*out)->owner = p;
    p->items[p->n_items++] = *out;
    return ERR_OK;
}

/* A piece to load into; NULL: all `most` are in use. */
static err_t choose_piece(shard_pieces_t *p, int64_t most, shard_piece_t **out)
{
    *out = oldest_piece(p, true);
    if (!*out && p->n_items < most) return add_piece(p, out);
    if (!*out) *out = oldest_piece(p, false);
    return ERR_OK;
}

/* Called without the lock. */
static err_t load_piece(shard_piece_t *piece)
{
    TRY(mem_grow(piece->n, sizeof *piece->samples, "samples of a piece", &piece->samples));
    return shard_read_range(piece->owner->reader, piece->split, piece->first, piece->n, &piece->buffer,
                            piece->samples);
}

/* Holds the piece with a run, loading it if no other thread does; NULL: no piece is free. */
static err_t hold_piece(shard_pieces_t *p, split_t split, const shard_near_t *run, shard_piece_t **out)
{
    shard_piece_t *piece = find_piece(p, split, run);
    *out = NULL;
    if (piece) {
        piece->n_users++;
        while (piece->state == LOADING) pthread_cond_wait(&p->loaded, &p->lock);
    } else {
        TRY(choose_piece(p, run->n_pieces, &piece));
        if (!piece) return ERR_OK;
        piece->split = split, piece->first = run->first, piece->n = run->n, piece->n_uses = run->n_uses;
        piece->n_used = 0, piece->n_users = 1, piece->state = LOADING;
        pthread_mutex_unlock(&p->lock);
        state_t state = load_piece(piece) == ERR_OK ? READY : BROKEN;
        pthread_mutex_lock(&p->lock);
        piece->state = state;
        pthread_cond_broadcast(&p->loaded);
    }
    piece->n_used++;
    piece->last_use = ++p->n_uses;
    *out = piece;
    return ERR_OK;
}

err_t shard_pieces_read(shard_pieces_t *p, split_t split, int64_t number, const shard_near_t *near,
                        shard_buffer_t *buffer, shard_piece_t **held, sample_t *out)
{
    shard_near_t run;
    shard_piece_t *piece = NULL;
    *held = NULL;
    if (cut_run(shard_reader_index(p->reader), split, number, near, &run)) {
        pthread_mutex_lock(&p->lock);
        err_t err = hold_piece(p, split, &run, &piece);
        pthread_mutex_unlock(&p->lock);
        TRY(err);
    }
    if (piece && piece->state == READY) {
        *out = piece->samples[number - run.first];
        *held = piece;
        return ERR_OK;
    }
    shard_pieces_release(&piece);
    return shard_read(p->reader, split, number, buffer, out);
}

void shard_pieces_release(shard_piece_t **held)
{
    if (!*held) return;
    shard_pieces_t *p = (*held)->owner;
    pthread_mutex_lock(&p->lock);
    (*held)->n_users--;
    pthread_mutex_unlock(&p->lock);
    *held = NULL;
}
