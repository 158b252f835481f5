/* SPDX-License-Identifier: MIT */
/* Catches signals. A request to stop is remembered: acting on it is left to the training loop. A signal that ends the
 * process wakes a thread, which lets a second thread do the caller's last acts and ends the process when they are done or
 * their time is up. */
#include "cluster/session/signals.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/process.h"
#include "cluster/watch/deadline.h"
#include "cluster/watch/watchdog.h"

/* ---- Requests to stop ---- */
static atomic_bool requested, noticed;

static void on_stop(int number)
{
    (void)number;
    atomic_store(&requested, true);
}

void stop_catch(int number)
{
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

const char *stop_words(void)
{
    static const char *const words[] = {"stopped by SIGUSR1", "stopped by SIGINT", "stopped by SIGTERM",
                                        "stopped by SIGHUP"};
    const char *path = getenv("DPTRAIN_ASKED");
    char name[16];
    if (!path || !path[0]) return words[0];
    fs_read_line(path, name, sizeof name);
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        if (strcmp(words[i] + strlen("stopped by "), name) == 0) return words[i];
    return "stopped on request";
}

bool stop_requested(void)
{
    const bool is = atomic_load_explicit(&requested, memory_order_relaxed);
    if (is) atomic_store(&noticed, true);
    return is;
}

void stop_request(void)
{
    atomic_store(&requested, true);
}

bool stop_was_noticed(void)
{
    return atomic_load(&noticed);
}

/* ---- Signals that end the process ---- */
enum { N_SIGNALS = 3, TEXT_MAX = 2 * FS_PATH_MAX, REPEAT_MS = 250 };
static const int signals[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

static struct {
    bool caught;
    interrupt_act_t act;
    double limit_sec;
    struct sigaction before[N_SIGNALS];
    pthread_t thread;
    sem_t wake;         /* a signal has arrived, or `closing` */
    atomic_int number;  /* the first signal; 0: none */
    atomic_llong at_ms; /* when it arrived; 0: not yet known */
    atomic_bool closing;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done; /* under lock, as are the next two */
    char text[TEXT_MAX];
    char remove[FS_PATH_MAX];
} now = {.lock = PTHREAD_MUTEX_INITIALIZER};

static long long time_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000LL * t.tv_sec + t.tv_nsec / 1000000;
}

/* Async-signal-safe. */
static _Noreturn void end_process(int number)
{
    sigset_t one;
    if (!deadline_stood_still()) last_phase_close();
    signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
    _exit(128 + number); /* the kernel ignores default actions of process 1 in a container */
}

static void on_signal(int number)
{
    int saved = errno, none = 0;
    if (atomic_compare_exchange_strong(&now.number, &none, number)) {
        atomic_store(&now.at_ms, time_ms());
        sem_post(&now.wake);
    } else {
        /* A launcher may signal both this process and its group. */
        long long at = atomic_load(&now.at_ms);
        if (at && time_ms() - at > REPEAT_MS) end_process(none);
    }
    errno = saved;
}

static void *act_main(void *unused)
{
    (void)unused;
    now.act(atomic_load(&now.number), 1e-3 * (double)atomic_load(&now.at_ms) + now.limit_sec);
    pthread_mutex_lock(&now.lock);
    now.done = true;
    pthread_cond_signal(&now.changed);
    pthread_mutex_unlock(&now.lock);
    return NULL;
}

/* Waits until the acts are done; false when the time is up. */
static bool wait_until_done(void)
{
    long long end = atomic_load(&now.at_ms) + (long long)(1e3 * now.limit_sec);
    struct timespec until = {.tv_sec = end / 1000, .tv_nsec = end % 1000 * 1000000};
    int reason = 0;
    pthread_mutex_lock(&now.lock);
    while (!now.done && reason != ETIMEDOUT) reason = pthread_cond_timedwait(&now.changed, &now.lock, &until);
    bool done = now.done;
    pthread_mutex_unlock(&now.lock);
    return done;
}

static void *interrupt_main(void *unused)
{
    (void)unused;
    pthread_t acting;
    while (sem_wait(&now.wake) != 0 && errno == EINTR) continue;
    if (atomic_load(&now.closing) && !atomic_load(&now.number)) return NULL;
    while (!atomic_load(&now.at_ms)) clock_sleep(1e-4);
    deadline_check_stopped();
    watchdog_say_goodbye();
    /* From here on nothing else is late. */
    deadline_leave((err_t)(128 + atomic_load(&now.number)), now.limit_sec + DEADLINE_LEAVE_SEC);
    bool acts = now.act && pthread_create(&acting, NULL, act_main, NULL) == 0;
    if ((acts || !now.act) && !wait_until_done()) {
        pthread_mutex_lock(&now.lock);
        if (now.remove[0]) unlink(now.remove);
        log_last_words();
        if (now.text[0]) log_draw(now.text);
        pthread_mutex_unlock(&now.lock);
    }
    end_process(atomic_load(&now.number));
}

err_t interrupt_catch(interrupt_act_t act, double limit_sec)
{
    ASSERT(!now.caught && limit_sec > 0);
    if (!launch_owns_process()) return ERR_OK;
    now.act = act;
    now.limit_sec = limit_sec;
    now.done = false;
    now.text[0] = now.remove[0] = '\0';
    atomic_store(&now.closing, false);
    sem_init(&now.wake, 0, 0);
    thread_cond_init(&now.changed);
    int reason = thread_start(&now.thread, interrupt_main, NULL);
    if (reason != 0) RAISE(ERR_SYSTEM, "cannot start the thread for signals: %s", strerror(reason));
    now.caught = true;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++) sigaddset(&action.sa_mask, signals[i]);
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(signals[i], NULL, &now.before[i]);
        if (now.before[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, NULL);
    }
    return ERR_OK;
}

void interrupt_release(void)
{
    if (!now.caught) return;
    for (int i = 0; i < N_SIGNALS; i++) sigaction(signals[i], &now.before[i], NULL);
    interrupt_wait();
    atomic_store(&now.closing, true);
    sem_post(&now.wake);
    pthread_join(now.thread, NULL); /* does not end if a signal arrived in between */
    pthread_cond_destroy(&now.changed);
    sem_destroy(&now.wake);
    now.caught = false;
}

bool interrupt_arrived(void)
{
    return atomic_load_explicit(&now.number, memory_order_acquire) != 0;
}

void interrupt_wait(void)
{
    while (interrupt_arrived()) clock_sleep(60);
}

void interrupt_on_limit(const char *text, const char *remove)
{
    pthread_mutex_lock(&now.lock);
    snprintf(now.text, sizeof now.text, "%s", text);
    snprintf(now.remove, sizeof now.remove, "%s", remove ? remove : "");
    pthread_mutex_unlock(&now.lock);
}

const char *interrupt_name(int number)
{
    return number == SIGINT ? "SIGINT" : number == SIGHUP ? "SIGHUP" : "SIGTERM";
}
