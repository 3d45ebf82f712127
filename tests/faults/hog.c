/* A compiler that needs memory: hog KERNEL OUTPUT LOG. The kernel's first line is "//hog MEGABYTES MILLISECONDS".
 * It takes them bit by bit, as a compiler does, keeps them for the time given, and logs when it runs:
 * one byte at its start and one at its end, each appended in one write. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void note(const char *path, const char *what) {
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log < 0 || write(log, what, 1) != 1) exit(3);
    close(log);
}

static void rest(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

int main(int count, char **args) {
    int megabytes, milliseconds;
    FILE *kernel = fopen(args[1], "r");
    if (count != 4 || !kernel || fscanf(kernel, "//hog %d %d", &megabytes, &milliseconds) != 2) return 2;
    note(args[3], "+");
    for (int taken = 0; taken < megabytes; taken += 20) {
        char *piece = malloc(20 << 20);
        if (!piece) { fprintf(stderr, "fatal error: Cannot allocate memory\n"); return 1; }
        memset(piece, 1, 20 << 20);
        rest(milliseconds * 20L / megabytes / 2);
    }
    rest(milliseconds / 2);
    FILE *output = fopen(args[2], "w");
    if (!output || fputs("// made by a test\n.version 8.8\n.target sm_90\n.address_size 64\n", output) < 0) return 3;
    fclose(output);
    note(args[3], "-");
    return 0;
}
