// The soak's compiler: what the kernel's text says is what it does. argv: kernel, output, state folder.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
  char text[256] = {0}, once[512];
  int in = open(argv[1], O_RDONLY);
  if (in < 0 || read(in, text, sizeof text - 1) < 0) return 9;
  char *line = strchr(text, '\n');
  if (line) *line = 0;
  snprintf(once, sizeof once, "%s/%s", argv[3], text + 2);
  if (strstr(text, "refuse")) {
    fprintf(stderr, "kernel.c:1:2: error: no such thing\n");
    return 1;
  }
  if (strstr(text, "hang")) {
    if (!fork()) pause();
    pause();
  }
  if (strstr(text, "segv-always")) raise(SIGSEGV);
  if (strstr(text, "segv-once") && !mkdir(once, 0700)) raise(SIGSEGV);
  if (strstr(text, "stale-once") && !mkdir(once, 0700)) {
    fprintf(stderr, "fatal error: Stale file handle\n");
    return 1;
  }
  if (strstr(text, "loud"))
    for (int i = 0; i < 20000; i++) fprintf(stderr, "note: %060d\n", i);
  if (strstr(text, "orphan") && !fork()) {
    pause();
  }
  int out = open(argv[2], O_WRONLY | O_CREAT, 0600);
  if (!strstr(text, "empty")) dprintf(out, ".version 8.8\n.target sm_90\n.address_size 64\n// %s\n", text);
  return close(out);
}
