/* SPDX-License-Identifier: MIT */
/* The emulated NCCL's transport: joining, collectives in rounds, sends and receives, and waiting for peers. */
#include <algorithm>
#include <chrono>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl_shm.h"

namespace emu
{
namespace
{

std::atomic<bool> leaving{false}; /* the process ends */

uint64_t hash(const void *p, size_t n, uint64_t h = 1469598103934665603u)
{
    for (size_t i = 0; i < n; i++) h = (h ^ static_cast<const unsigned char *>(p)[i]) * 1099511628211u;
    return h;
}

uint64_t host_id()
{
    char name[256] = "";
    const char *id = std::getenv("NCCL_HOSTID");
    gethostname(name, sizeof name - 1);
    if (!id || !*id) id = name;
    return hash(id, std::strlen(id));
}

uint64_t signature(const collective_t &c)
{
    uint64_t fields[6] = {static_cast<uint64_t>(c.kind), c.count, static_cast<uint64_t>(c.type),
                          static_cast<uint64_t>(c.op), static_cast<uint64_t>(c.root), c.captured};
    return hash(fields, sizeof fields);
}

size_t header_size()
{
    return (sizeof(shared_t) + 4095) / 4096 * 4096;
}

/* From DPTRAIN_EMU_NCCL_ASYNC_ERROR, "RANK:N": the number of this rank's collective that never completes; 0: none. */
uint64_t failing_collective(int rank)
{
    const char *text = std::getenv("DPTRAIN_EMU_NCCL_ASYNC_ERROR");
    int r;
    unsigned long n;
    return text && std::sscanf(text, "%d:%lu", &r, &n) == 2 && r == rank ? n : 0;
}

/* From DPTRAIN_EMU_NCCL_SCALE, "RANK:FACTOR": what the first half of this rank's addends is multiplied by. The losses, at
 * the end, stay right. */
double wrong_factor(int rank)
{
    const char *text = std::getenv("DPTRAIN_EMU_NCCL_SCALE");
    int r;
    double factor;
    return text && std::sscanf(text, "%d:%lf", &r, &factor) == 2 && r == rank ? factor : 1;
}

} // namespace

comm_t::~comm_t()
{
    if (!shared) return;
    if (!joined) shm_unlink(name.c_str());
    munmap(shared, n_mapped);
}

char *comm_t::slot(int r) const
{
    return reinterpret_cast<char *>(shared) + header_size() + static_cast<size_t>(r) * SLOT;
}

mail_t *comm_t::mail(int from, int to) const
{
    return reinterpret_cast<mail_t *>(slot(size)) + from * size + to;
}

void comm_t::map()
{
    n_mapped = header_size() + static_cast<size_t>(size) * SLOT + static_cast<size_t>(size * size) * sizeof(mail_t);
    int fd = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(n_mapped))) die("NCCL: no shared memory %s: %s", name.c_str(), std::strerror(errno));
    void *p = mmap(nullptr, n_mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) die("NCCL: %s cannot be mapped: %s", name.c_str(), std::strerror(errno));
    shared = static_cast<shared_t *>(p); /* all zero is a valid state */
    rank_state_t &me = shared->ranks[rank];
    me.pid = getpid();
    me.device = device_id(device);
    me.host = host_id();
    shared->n_joined++;
}

ncclResult_t comm_t::advance()
{
    if (joined || error) return static_cast<ncclResult_t>(error.load());
    std::lock_guard<std::mutex> lock(joining); /* a watcher thread may poll during a call */
    if (hangs) return ncclInProgress;
    if (!shared) map();
    if (shared->n_joined < size) return ncclInProgress;
    shm_unlink(name.c_str()); /* all have mapped it; only the first unlink succeeds */
    for (int a = 0; a < size; a++)
        for (int b = a + 1; b < size; b++)
            if (shared->ranks[a].device == shared->ranks[b].device && shared->ranks[a].host == shared->ranks[b].host) {
                std::fprintf(stderr, "emulated NCCL: Duplicate GPU detected : rank %d and rank %d both on CUDA device %lx\n", a, b,
                             static_cast<unsigned long>(shared->ranks[a].device));
                error = ncclInvalidUsage;
            }
    joined = true;
    return static_cast<ncclResult_t>(error.load());
}

ncclResult_t comm_t::state()
{
    ncclResult_t now = advance();
    if (now) return now;
    int failed = shared->failed_rank;
    if (failed && failed != rank + 1 && called) return ncclRemoteError;
    if (shared->aborted && !aborted) return ncclRemoteError;
    for (int r = 0; r < size; r++)
        if (!shared->ranks[r].left && kill(shared->ranks[r].pid, 0) && errno == ESRCH) return ncclRemoteError;
    return ncclSuccess;
}

bool comm_t::wait(const std::function<bool()> &condition)
{
    using namespace std::chrono;
    auto end = steady_clock::now() + seconds(20);
    for (int i = 0; !condition(); i++) {
        if (aborted || shared->aborted || leaving || steady_clock::now() > end) {
            int none = ncclSuccess;
            error.compare_exchange_strong(none, ncclRemoteError);
            return false;
        }
        if (i < 100) sched_yield();
        else usleep(200);
    }
    return true;
}

bool comm_t::announce(const collective_t &c)
{
    rank_state_t &me = shared->ranks[rank];
    uint64_t number = n_started + 1;
    if (failing_collective(rank) == number) {
        shared->failed_rank = rank + 1;
        return false;
    }
    if (me.started < number) {
        me.signature = signature(c);
        me.started = number;
    }
    for (int r = 0; r < size; r++)
        if (shared->ranks[r].started < number) return false;
    return true;
}

void comm_t::run(const collective_t &c)
{
    bool go = !error && wait([&] { return announce(c); });
    n_started++;
    if (!go) return;
    for (int r = 0; r < size; r++)
        if (shared->ranks[r].signature != signature(c))
            die("NCCL: collective %lu of rank %d is another one, of another size, or captured by one of them only, than that of rank %d",
                static_cast<unsigned long>(n_started), rank, r);
    transfer(c);
    int64_t every = env_number("DPTRAIN_EMU_NCCL_TWICE", 0);
    if (every > 0 && c.kind == collective_t::ALL_REDUCE && n_started % static_cast<uint64_t>(every) == 0) {
        collective_t again = c;
        again.send = c.recv;
        transfer(again);
    }
}

void comm_t::transfer(const collective_t &c)
{
    bool scatters = c.kind == collective_t::REDUCE_SCATTER, gathers = c.kind == collective_t::ALL_GATHER;
    bool adds = c.kind == collective_t::ALL_REDUCE || scatters || c.kind == collective_t::REDUCE;
    bool reduces = adds && (c.kind != collective_t::REDUCE || rank == c.root);
    size_t width = type_size(c.type), whole = c.count * width;
    size_t most = scatters ? SLOT / static_cast<size_t>(size) / 16 * 16 : SLOT, at = 0;
    const char *send = static_cast<const char *>(c.send);
    char *recv = static_cast<char *>(c.recv);
    if (c.kind != collective_t::BROADCAST || rank == c.root)
        need_range("NCCL", "the send buffer", send, scatters ? whole * static_cast<size_t>(size) : whole);
    if (c.kind != collective_t::REDUCE || rank == c.root)
        need_range("NCCL", "the receive buffer", recv, gathers ? whole * static_cast<size_t>(size) : whole);
    do {
        size_t n = std::min(most, whole - at);
        n_rounds++;
        rank_state_t *ranks = shared->ranks;
        auto all = [&](std::atomic<uint64_t> rank_state_t::*field, uint64_t least) {
            return wait([&] {
                for (int r = 0; r < size; r++)
                    if (ranks[r].*field < least) return false;
                return true;
            });
        };
        if (!all(&rank_state_t::drained, n_rounds - 1)) return;
        if (scatters)
            for (int r = 0; r < size; r++)
                std::memcpy(slot(rank) + static_cast<size_t>(r) * most, send + static_cast<size_t>(r) * whole + at, n);
        else if (c.kind != collective_t::BROADCAST || rank == c.root) std::memcpy(slot(rank), send + at, n);
        double factor = adds ? wrong_factor(rank) : 1;
        if (factor != 1 && at < whole / 2) scale(slot(rank), std::min(n, whole / 2 - at) / width, c.type, factor);
        ranks[rank].filled = n_rounds;
        if (!all(&rank_state_t::filled, n_rounds)) return;
        if (reduces) {
            size_t mine = scatters ? static_cast<size_t>(rank) * most : 0;
            std::memcpy(recv + at, slot(0) + mine, n);
            for (int r = 1; r < size; r++) reduce(recv + at, slot(r) + mine, n / width, c.type, c.op);
            if (c.op == ncclAvg) divide(recv + at, n / width, c.type, size);
        } else if (gathers) {
            for (int r = 0; r < size; r++) std::memcpy(recv + static_cast<size_t>(r) * whole + at, slot(r), n);
        } else if (c.kind == collective_t::BROADCAST) {
            std::memmove(recv + at, slot(c.root), n);
        }
        ranks[rank].drained = n_rounds;
        at += n;
    } while (at < whole);
}

bool comm_t::step(std::vector<piece_t> &pieces)
{
    bool all = true;
    std::vector<bool> busy(static_cast<size_t>(2 * size)); /* pieces to and from a peer are in order */
    for (piece_t &p : pieces) {
        size_t lane = static_cast<size_t>(2 * p.peer + p.send);
        mail_t *m = p.send ? mail(rank, p.peer) : mail(p.peer, rank);
        while (p.at < p.n_bytes && !busy[lane]) {
            if (p.send ? m->sent != m->taken : m->sent == m->taken) {
                if (!p.send) m->wanted = 1;
                break;
            }
            if (p.send) {
                m->n_bytes = static_cast<uint32_t>(std::min(MAIL, p.n_bytes - p.at));
                std::memcpy(m->data, p.data + p.at, m->n_bytes);
                p.at += m->n_bytes;
                m->sent++;
            } else {
                if (m->n_bytes > p.n_bytes - p.at) die("NCCL: rank %d sends more than rank %d receives", p.peer, rank);
                std::memcpy(p.data + p.at, m->data, m->n_bytes);
                p.at += m->n_bytes;
                m->wanted = 0;
                m->taken++;
            }
        }
        if (p.at < p.n_bytes) all = false, busy[lane] = true;
    }
    return all;
}

void comm_t::run_pieces(std::vector<piece_t> &pieces)
{
    for (piece_t &p : pieces) need_range("NCCL", p.send ? "what is sent" : "what is received", p.data, p.n_bytes);
    if (!error) wait([&] { return step(pieces); });
    for (piece_t &p : pieces) p.at = 0; /* a graph may run them again */
}

bool comm_t::peers_demand() const
{
    if (!joined || error || aborted) return false;
    for (int r = 0; r < size; r++) {
        if (shared->ranks[r].started > shared->ranks[rank].started) return true;
        if (r != rank && (mail(r, rank)->sent != mail(r, rank)->taken || mail(rank, r)->wanted)) return true;
    }
    return false;
}

namespace
{

struct server_t {
    std::mutex mutex;
    std::vector<std::shared_ptr<comm_t>> comms;
    std::thread thread;
    std::atomic<bool> stop{false};
};

server_t *server()
{
    static server_t *one = new server_t; /* outlives main */
    return one;
}

void serve_one(comm_t *comm)
{
    if (!comm->peers_demand()) return;
    mark_t mark;
    {
        std::lock_guard<std::mutex> lock(state_mutex());
        while (!comm->pending.empty() && comm->pending.front().queue->done >= comm->pending.front().seq) comm->pending.pop_front();
        if (comm->pending.empty()) return;
        mark = comm->pending.front();
    }
    run_until(mark, false);
}

void serve_all()
{
    while (!server()->stop) {
        std::vector<std::shared_ptr<comm_t>> comms;
        {
            std::lock_guard<std::mutex> lock(server()->mutex);
            comms = server()->comms;
        }
        for (auto &c : comms) serve_one(c.get());
        usleep(1000);
    }
}

void end_thread()
{
    leaving = true;
    server()->stop = true;
    if (server()->thread.joinable()) server()->thread.join();
}

} // namespace

void serve(const std::shared_ptr<comm_t> &comm)
{
    std::lock_guard<std::mutex> lock(server()->mutex);
    server()->comms.push_back(comm);
    if (server()->thread.joinable()) return;
    static bool once = std::atexit(end_thread) == 0;
    (void)once;
    server()->thread = std::thread(serve_all);
}

void stop_serving(const std::shared_ptr<comm_t> &comm)
{
    std::lock_guard<std::mutex> lock(server()->mutex);
    auto &all = server()->comms;
    all.erase(std::remove(all.begin(), all.end(), comm), all.end());
}

} // namespace emu
