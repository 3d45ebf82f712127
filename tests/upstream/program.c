// A program that uses teenygrad's cache folder by its protocol, as one of several at the same time.
//
//   program FOLDER hold STEM           take the lock, print "held", wait for a line, then write the kernel
//   program FOLDER work STEMS ROUNDS   write, check and remove the kernels k0_<hash> ... again and again
//
// What it writes is one letter many times over, so that a torn file shows. Exit code 0: all was as it should be.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE = 20000, PIECE = 1000 };

static const char *folder;
static char path_buffer[4][4096];

static const char *path(int slot, const char *stem, const char *suffix)
{
    snprintf(path_buffer[slot], sizeof path_buffer[slot], "%s/%s%s", folder, stem, suffix);
    return path_buffer[slot];
}

static void fail(const char *what, const char *stem)
{
    fprintf(stderr, "%s: %s (%s)\n", stem, what, strerror(errno));
    exit(1);
}

static int lock(const char *stem)
{
    int file = open(path(0, stem, ".lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || flock(file, LOCK_EX) != 0)
        fail("cannot lock", stem);
    return file;
}

static void write_in_pieces(const char *name, const char *stem)
{
    char piece[PIECE];
    memset(piece, 'p', PIECE);
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        fail("cannot create", stem);
    for (int at = 0; at < SIZE; at += PIECE)
        if (write(file, piece, PIECE) != PIECE)
            fail("cannot write", stem);
    close(file);
}

// The letter that a file is full of; 0 when there is no such file.
static int letter(const char *name, const char *stem)
{
    static char text[SIZE + 1];
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        if (errno == ENOENT)
            return 0;
        fail("cannot open", stem);
    }
    ssize_t size = 0, got;
    while ((got = read(file, text + size, sizeof text - size)) > 0)
        size += got;
    close(file);
    if (size != SIZE)
        fail("a file has the wrong size", stem);
    for (ssize_t at = 1; at < size; at++)
        if (text[at] != text[0])
            fail("a file is torn", stem);
    return text[0];
}

// Compile, as it were: the lock is held, and there is no .o.
static void make(const char *stem)
{
    write_in_pieces(path(1, stem, ".rs"), stem);
    write_in_pieces(path(2, stem, ".o.tmp"), stem);
    if (letter(path(1, stem, ".rs"), stem) != 'p')
        fail("someone wrote the .rs while the lock was held", stem);
    if (access(path(3, stem, ".o"), F_OK) == 0)
        fail("someone wrote the .o while the lock was held", stem);
    if (rename(path_buffer[2], path_buffer[3]) != 0)
        fail("cannot rename", stem);
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 2;
    folder = arguments[1];
    if (strcmp(arguments[2], "hold") == 0) {
        int held = lock(arguments[3]);
        puts("held");
        fflush(stdout);
        getchar();
        make(arguments[3]);
        close(held);
        return 0;
    }
    int stems = atoi(arguments[3]), rounds = atoi(arguments[4]), made = 0, found = 0;
    for (int round = 0; round < rounds; round++) {
        char stem[128];
        snprintf(stem, sizeof stem, "k%d_%064d", round % stems, round % stems);
        letter(path(3, stem, ".o"), stem); // a look without the lock, as every program does first
        int held = lock(stem);
        if (letter(path(3, stem, ".o"), stem)) {
            found++;
            if (letter(path(1, stem, ".rs"), stem) != letter(path(3, stem, ".o"), stem))
                fail("the .rs is not that of the .o", stem);
            unlink(path(3, stem, ".o"));
        } else {
            made++;
            make(stem);
        }
        close(held);
    }
    printf("%d %d\n", made, found);
    return 0;
}
