/* SPDX-License-Identifier: MIT */
/* The emulated NCCL: a communicator in POSIX shared memory. Each rank has a slot for one round's data of a collective
 * and a mailbox for each other rank; long messages take several rounds. */
#ifndef TESTS_EMU_NCCL_SHM_H
#define TESTS_EMU_NCCL_SHM_H

#include <nccl.h>

#include "emu.h"

namespace emu
{

constexpr size_t SLOT = 256 << 10, MAIL = 64 << 10;
constexpr int MAX_RANKS = 64;

struct rank_state_t {
    std::atomic<int> pid, left; /* left: destroyed regularly */
    std::atomic<uint64_t> device, host;
    std::atomic<uint64_t> signature, started; /* identifies its collective; number of collectives begun */
    std::atomic<uint64_t> filled, drained;    /* rounds written to its slot; rounds read from all slots */
};

struct mail_t { /* from one rank to another */
    std::atomic<uint64_t> sent, taken;
    std::atomic<uint32_t> wanted; /* the receiver is waiting */
    uint32_t n_bytes;
    char data[MAIL];
};

struct shared_t {
    std::atomic<int> n_joined, failed_rank, aborted; /* failed_rank: rank + 1 */
    rank_state_t ranks[MAX_RANKS];
};

struct collective_t {
    enum kind_t { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE } kind;
    const void *send;
    void *recv;
    size_t count; /* elements of one rank's part */
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
    bool captured = false; /* NCCL requires the same of all ranks */
};

struct piece_t { /* one send or receive of a group */
    bool send;
    int peer;
    char *data;
    size_t n_bytes, at;
};

struct comm_t {
    int rank = 0, size = 0, device = 0;
    bool blocking = true, hangs = false; /* hangs: named by DPTRAIN_EMU_NCCL_INIT_HANG */
    std::mutex joining;
    std::atomic<bool> joined{false}, called{false}; /* called: a collective, by this rank */
    std::string name;
    shared_t *shared = nullptr;
    size_t n_mapped = 0;
    std::atomic<int> error{ncclSuccess}, aborted{0}; /* error: asynchronous */
    std::atomic<int> n_recorded{0};                  /* collectives that graphs hold */
    uint64_t n_started = 0, n_rounds = 0;            /* of this rank; accessed by the executing thread only */
    std::deque<mark_t> pending;                      /* queued ops; under the state mutex */

    ~comm_t();
    char *slot(int r) const;
    mail_t *mail(int from, int to) const;
    void map();                /* maps the segment and joins */
    ncclResult_t advance();    /* ncclInProgress until all ranks have joined */
    bool peers_demand() const; /* whether a peer waits for an op of this rank */
    ncclResult_t state();      /* for ncclCommGetAsyncError */
    bool announce(const collective_t &c);
    void run(const collective_t &c);
    void transfer(const collective_t &c);    /* all rounds */
    bool step(std::vector<piece_t> &pieces); /* transfers as much as possible; true: finished */
    void run_pieces(std::vector<piece_t> &pieces);
    bool wait(const std::function<bool()> &condition); /* false: aborted, failed, or 20 s passed */
};

size_t type_size(ncclDataType_t type); /* 0: not emulated */
void scale(void *x, size_t n, ncclDataType_t type, double by);
/* acc = acc op x, as one hop of a ring rounds it; `divide` by the number of ranks. */
void reduce(void *acc, const void *x, size_t n, ncclDataType_t type, ncclRedOp_t op);
void divide(void *acc, size_t n, ncclDataType_t type, int by);

/* Executes ops of this process that peers wait for, even if its host does not wait for them. */
void serve(const std::shared_ptr<comm_t> &comm);
void stop_serving(const std::shared_ptr<comm_t> &comm);

} // namespace emu

#endif
