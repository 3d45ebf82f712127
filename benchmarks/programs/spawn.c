/* The floor of the spawn row: run a program N times, at most J at a time, with posix_spawn, and nothing else.
 *
 * spawn N J CAPTURE PROGRAM
 *
 * CAPTURE 1 does the work of a real runner: a session of its own for each process, both outputs through pipes
 * that are read to the end, rusage. CAPTURE 0 lets the process have our outputs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct job { pid_t pid; int out, err; };

static void start(struct job *job, int capture, char *program)
{
    char *argv[] = {program, NULL}, *env[] = {NULL};
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    if (capture) {
        if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) exit(3);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        posix_spawn_file_actions_adddup2(&actions, err[1], 2);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    }
    if (posix_spawn(&job->pid, program, &actions, &attributes, argv, env)) exit(4);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (capture) {
        close(out[1]);
        close(err[1]);
    }
    job->out = out[0];
    job->err = err[0];
}

static long drain(int fd)
{
    char buffer[65536];
    long total = 0, got;
    while ((got = read(fd, buffer, sizeof buffer)) > 0) total += got;
    close(fd);
    return total;
}

int main(int argc, char **argv)
{
    if (argc != 5) return 2;
    int left = atoi(argv[1]), most = atoi(argv[2]), capture = atoi(argv[3]), running = 0;
    struct job *jobs = calloc(most, sizeof *jobs);
    long kept = 0;
    while (left || running) {
        for (int i = 0; i < most && left; i++)
            if (!jobs[i].pid) {
                start(&jobs[i], capture, argv[4]);
                left--, running++;
            }
        int status;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, 0, &usage);
        if (status) return 5;
        for (int i = 0; i < most; i++)
            if (jobs[i].pid == pid) {
                if (capture) kept += drain(jobs[i].out) + drain(jobs[i].err);
                jobs[i].pid = 0;
                running--;
            }
    }
    return capture && !kept ? 6 : 0;
}
