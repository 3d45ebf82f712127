/* A fork server in front of any dynamically linked compiler: LD_PRELOAD it, with a SOCK_SEQPACKET socket as FORK_SERVER_FD.

   The process stops before main, with its libraries loaded, relocated and initialised. Each message
   (folder \0 argument \0 argument \0 ...) is one compile: a child is forked, moves to the folder, and runs main with
   those arguments. The answer is its wait status, an int. One compile at a time; the end of the socket is the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static main_function *compiler_main;

static int compile(char *message, ssize_t size, int listening, char **environment)
{
    char *arguments[1024];
    int count = 0;
    for (char *at = message + strlen(message) + 1; at < message + size && count < 1023; at += strlen(at) + 1)
        arguments[count++] = at;
    arguments[count] = NULL;
    close(listening);
    int out = open("/dev/null", O_WRONLY);
    if (chdir(message) != 0 || out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    return compiler_main(count, arguments, environment);
}

static int serve(int argc, char **argv, char **environment)
{
    static char message[1 << 16];
    int listening = atoi(getenv("FORK_SERVER_FD"));
    unsetenv("FORK_SERVER_FD");
    unsetenv("LD_PRELOAD");
    (void)argc, (void)argv;
    for (;;) {
        ssize_t size = recv(listening, message, sizeof message, 0);
        if (size <= 0)
            _exit(0);
        pid_t child = fork();
        if (child == 0)
            exit(compile(message, size, listening, environment));
        int status = -1;
        if (child < 0 || waitpid(child, &status, 0) < 0 || send(listening, &status, sizeof status, 0) < 0)
            _exit(1);
    }
}

int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    start_function *real = (start_function *)dlsym(RTLD_NEXT, "__libc_start_main");
    compiler_main = main;
    return real(getenv("FORK_SERVER_FD") ? serve : main, argc, argv, init, fini, rtld_fini, stack_end);
}
