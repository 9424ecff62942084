/* Makes chosen system calls of one process fail, stall, lie, write short, or be its last.
 *
 * Loaded with LD_PRELOAD. The rules stand in a file, named by NF_FAULT_TABLE, that test and victim
 * both map: the test arms a rule while the victim runs, and reads back how often it was met. The
 * layout is that of _RULE in shim.py. A process without the variable is left alone.
 *
 * A rule applies to one call on paths that contain a text (sockets read as "socket:[...]"), from
 * the `first` to the `last` of those calls, counted over all processes that share the table.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum action { COUNT, FAIL, SHORT, KILL_BEFORE, KILL_AFTER, DELAY_MS, LIE, BLOCK, STOP };

struct rule {
    char call[16];
    char path[256];
    uint32_t action;
    int32_t argument;
    uint32_t first, last;
    uint32_t seen, hits;
    uint32_t armed;
    uint32_t unused;
};

#define RULES 16
static struct rule *rules;

__attribute__((constructor)) static void load(void) {
    const char *table = getenv("NF_FAULT_TABLE");
    if (!table) return;
    int descriptor = open(table, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return;
    void *mapped = mmap(NULL, RULES * sizeof(struct rule), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (mapped != MAP_FAILED) rules = mapped;
}

static void pause_ms(long ms) {
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

/* The rule that decides about this call, or NULL. Delays and deaths before the call happen here. */
static struct rule *met(const char *call, const char *path) {
    struct rule *decides = NULL;
    for (int i = 0; i < RULES; i++) {
        struct rule *r = &rules[i];
        if (!__atomic_load_n(&r->armed, __ATOMIC_ACQUIRE)) continue;
        if (strcmp(r->call, call) || !strstr(path, r->path)) continue;
        uint32_t number = __atomic_add_fetch(&r->seen, 1, __ATOMIC_SEQ_CST);
        if (number < r->first || number > r->last) continue;
        __atomic_add_fetch(&r->hits, 1, __ATOMIC_SEQ_CST);
        switch (r->action) {
        case COUNT: break;
        case DELAY_MS: pause_ms(r->argument); break;
        case BLOCK: while (__atomic_load_n(&r->armed, __ATOMIC_ACQUIRE)) pause_ms(1); break;
        case KILL_BEFORE: kill(getpid(), SIGKILL); pause(); break;
        case STOP: kill(getpid(), SIGSTOP); break;
        default: if (!decides) decides = r;
        }
    }
    return decides;
}

static struct rule *met_by(const char *call, int descriptor) {
    if (!rules) return NULL;
    int saved = errno;
    char link[48], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t n = readlink(link, path, sizeof path - 1);
    struct rule *r = NULL;
    if (n > 0) {
        path[n] = 0;
        r = met(call, path);
    }
    errno = saved;
    return r;
}

static int fails(struct rule *r) {
    if (!r || r->action != FAIL) return 0;
    errno = r->argument;
    return 1;
}

static void after(struct rule *r) {
    if (r && r->action == KILL_AFTER) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static size_t total(const struct iovec *v, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += v[i].iov_len;
    return bytes;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    struct rule *r = met_by("pwrite", fd);
    if (fails(r)) return -1;
    if (r && r->action == LIE) return (ssize_t)bytes;
    if (r && r->action == SHORT && (size_t)r->argument < bytes) bytes = (size_t)r->argument;
    ssize_t done = real(fd, data, bytes, at);
    after(r);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) { return pwrite64(fd, data, bytes, at); }

ssize_t pwritev64v2(int fd, const struct iovec *v, int count, off64_t at, int flags) {
    REAL(ssize_t, "pwritev64v2", int, const struct iovec *, int, off64_t, int);
    struct rule *r = met_by("pwrite", fd);
    if (fails(r)) return -1;
    if (r && r->action == LIE) return (ssize_t)total(v, count);
    ssize_t done;
    if (r && r->action == SHORT && (size_t)r->argument < total(v, count)) {
        struct iovec part[1024];
        size_t left = (size_t)r->argument;
        int n = 0;
        for (; n < count && n < 1024 && left; n++) {
            part[n] = v[n];
            if (part[n].iov_len > left) part[n].iov_len = left;
            left -= part[n].iov_len;
        }
        done = n ? real(fd, part, n, at, flags) : 0;
    } else {
        done = real(fd, v, count, at, flags);
    }
    after(r);
    return done;
}
ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags) { return pwritev64v2(fd, v, n, at, flags); }
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at) { return pwritev64v2(fd, v, n, at, 0); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) { return pwritev64v2(fd, v, n, at, 0); }

ssize_t pread64(int fd, void *data, size_t bytes, off64_t at) {
    REAL(ssize_t, "pread64", int, void *, size_t, off64_t);
    struct rule *r = met_by("pread", fd);
    if (fails(r)) return -1;
    ssize_t done = real(fd, data, bytes, at);
    after(r);
    return done;
}
ssize_t pread(int fd, void *data, size_t bytes, off_t at) { return pread64(fd, data, bytes, at); }

#define SYNC(name) \
    int name(int fd) { \
        REAL(int, #name, int); \
        struct rule *r = met_by(#name, fd); \
        if (fails(r)) return -1; \
        if (r && r->action == LIE) return 0; \
        int done = real(fd); \
        after(r); \
        return done; \
    }
SYNC(fdatasync)
SYNC(fsync)

int posix_fallocate64(int fd, off64_t at, off64_t bytes) {
    REAL(int, "posix_fallocate64", int, off64_t, off64_t);
    struct rule *r = met_by("allocate", fd);
    if (r && r->action == FAIL) return r->argument; /* it returns the error number */
    int done = real(fd, at, bytes);
    after(r);
    return done;
}
int posix_fallocate(int fd, off_t at, off_t bytes) { return posix_fallocate64(fd, at, bytes); }

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    struct rule *r = rules ? met("rename", to) : NULL;
    if (fails(r)) return -1;
    int done = real(from, to);
    after(r);
    return done;
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    struct rule *r = rules ? met("unlink", path) : NULL;
    if (fails(r)) return -1;
    int done = real(path);
    after(r);
    return done;
}

ssize_t write(int fd, const void *data, size_t bytes) {
    REAL(ssize_t, "write", int, const void *, size_t);
    struct rule *r = met_by("write", fd);
    if (fails(r)) return -1;
    if (r && r->action == LIE) return (ssize_t)bytes;
    ssize_t done = real(fd, data, r && r->action == SHORT && (size_t)r->argument < bytes ? (size_t)r->argument : bytes);
    after(r);
    return done;
}

ssize_t send(int fd, const void *data, size_t bytes, int flags) {
    REAL(ssize_t, "send", int, const void *, size_t, int);
    struct rule *r = met_by("send", fd);
    if (fails(r)) return -1;
    ssize_t done = real(fd, data, bytes, flags);
    after(r);
    return done;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(ssize_t, "sendmsg", int, const struct msghdr *, int);
    struct rule *r = met_by("send", fd);
    if (fails(r)) return -1;
    ssize_t done = real(fd, message, flags);
    after(r);
    return done;
}
