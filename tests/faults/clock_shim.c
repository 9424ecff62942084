/* The wall clock of a process, set wrong by what stands in a file, while it runs.
 *
 * Preloaded; NF_CLOCK_FILE names a file that begins with nanoseconds (int64, of this machine) to add
 * to what the system says. Only wall time is moved: monotonic clocks are those of the machine. Who
 * waits until a wall time is woken by the kernel's own, as on a machine whose clock jumped.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

static const volatile int64_t *offset_ns;
static int (*system_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("NF_CLOCK_FILE");
    system_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (path == NULL)
        return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        abort(); /* a test without its jumps would prove nothing */
    void *found = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (found == MAP_FAILED)
        abort();
    close(file);
    offset_ns = found;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (system_clock == NULL) /* another library's constructor asks before ours has run */
        system_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = system_clock(clock, at);
    if (failed || offset_ns == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    int64_t ns = at->tv_sec * SECOND_NS + at->tv_nsec + *offset_ns;
    at->tv_sec = ns / SECOND_NS;
    at->tv_nsec = ns % SECOND_NS;
    return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL)
        *at = now.tv_sec;
    return now.tv_sec;
}
