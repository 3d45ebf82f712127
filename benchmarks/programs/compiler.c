/* A compiler that costs what it is told to: compiler IN OUT
 *
 * IN begins with "SPIN n" or "NAP n": n milliseconds of CPU time, or of sleep. OUT gets a copy of IN.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char text[1 << 20];

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    int in = open(argv[1], O_RDONLY);
    long size = read(in, text, sizeof text - 1);
    if (in < 0 || size < 0) return 3;
    char *digits = strchr(text, ' ');
    int ms = digits ? atoi(digits) : 0;
    if (!strncmp(text, "NAP", 3)) {
        struct timespec nap = {ms / 1000, ms % 1000 * 1000000L};
        nanosleep(&nap, NULL);
    }
    if (!strncmp(text, "SPIN", 4))
        while (cpu_ms() < ms) {}
    int out = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0 || write(out, text, size) != size || close(out)) return 4;
    return 0;
}
