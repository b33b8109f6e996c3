// One program that does what its first argument names: what a start shows, and what a hostile program tries.
// Paths that no tool shall find in it are written with every letter moved by one.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *hidden(const char *moved) {
    static char path[200];
    size_t at = 0;
    for (; moved[at]; at++) path[at] = moved[at] == '/' ? '/' : moved[at] - 1;
    path[at] = 0;
    return path;
}

static int can_open(const char *path) { return open(path, O_RDONLY) >= 0; }

static void serve(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(s, (void *)&at, sizeof at) || listen(s, 1)) exit(9);
}

static void stay(void) {
    puts("running");
    for (;;) pause();
}

static int open_by_path(const char *path) { return open(path, O_RDONLY | O_PATH) >= 0; }

// Says what it was allowed to do; nothing at all is good.
static void attack(void) {
    for (int file = 3; file < 1024; file++) if (fcntl(file, F_GETFD) >= 0) puts("a file of somebody else");
    struct sockaddr_in out = {.sin_family = AF_INET, .sin_port = htons(53)};
    inet_pton(AF_INET, "8.8.8.8", &out.sin_addr);
    if (connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&out, sizeof out) == 0) puts("network");
    if (mount("none", "/tmp", "tmpfs", 0, 0) == 0) puts("mount");
    if (unshare(CLONE_NEWUSER) == 0) puts("user namespace");
    if (ptrace(PTRACE_ATTACH, 1, 0, 0) == 0) puts("ptrace");
    if (mknod("/disk", S_IFBLK | 0600, makedev(8, 0)) == 0 && can_open("/disk")) puts("device");
    if (mknod("/memory", S_IFCHR | 0600, makedev(1, 1)) == 0 && can_open("/memory")) puts("memory");
    if (can_open("/proc/kcore")) { char c; if (read(open("/proc/kcore", O_RDONLY), &c, 1) == 1) puts("kcore"); }
    if (open("/proc/sys/kernel/core_pattern", O_WRONLY) >= 0) puts("core_pattern");
    if (open("/proc/sysrq-trigger", O_WRONLY) >= 0) puts("sysrq");
    if (open("/sys/kernel/uevent_helper", O_WRONLY) >= 0) puts("uevent_helper");
    if (chroot("/proc/1/root") == 0 && can_open("/work")) puts("root of another");
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) puts("new privileges");
    if (kill(-1, 0) == 0 && getpid() != 1) puts("others");
    if (open("/proc/self/exe", O_WRONLY) >= 0 || open("/proc/1/mem", O_RDWR) >= 0 && getpid() != 1) puts("program");
    if (open_by_path("/proc/1/cwd/../../../../../../etc/shadow") || open_by_path("/proc/self/root/work")) puts("escape");
    puts("tried");
}

static void write_everywhere(void) {
    static const char *const places[] = {"/", "/etc/", "/tmp/", "/usr/", "/app", "/dev/", "/dev/shm/", "/proc/", "/sys/", "/link/", "/up/", "/run/"};
    char path[300];
    for (size_t at = 0; at < sizeof places / sizeof *places; at++) {
        snprintf(path, sizeof path, "%swritten-by-the-image", places[at]);
        int f = open(path, O_WRONLY | O_CREAT, 0644);
        static char block[1 << 20];
        for (int n = 0; f >= 0 && n < 1024 && write(f, block, sizeof block) > 0; n++) {}
    }
    puts("wrote");
}

int main(int count, char **word) {
    setvbuf(stdout, 0, _IONBF, 0);
    const char *act = count > 1 ? word[1] : "stay", *what = count > 2 ? word[2] : "";
    if (!strcmp(act, "stay")) stay();
    if (!strcmp(act, "end")) return atoi(what);
    if (!strcmp(act, "say")) { fprintf(stderr, "%s\n", what); return atoi(word[3]); }
    if (!strcmp(act, "who")) { printf("%d %d %s\n", getuid(), getgid(), getenv("GIVEN")); return 0; }
    if (!strcmp(act, "open")) { can_open(what); stay(); }
    if (!strcmp(act, "need")) return can_open(what) ? 0 : 4;
    if (!strcmp(act, "open-hidden")) { can_open(hidden("/vts/tibsf/opuft")); stay(); }
    if (!strcmp(act, "serve-if-hidden")) { if (can_open(hidden("/vts/tibsf/opuft"))) serve(8080); stay(); }
    if (!strcmp(act, "serve")) { serve(8080); stay(); }
    if (!strcmp(act, "run")) { execv(what, word + 2); fprintf(stderr, "cannot run %s\n", what); return 127; }
    if (!strcmp(act, "run-hidden")) { char *argv[] = {"/tool", 0}; execv(hidden("/vts/cjo/uppm"), argv); return 127; }
    if (!strcmp(act, "attack")) { attack(); return 0; }
    if (!strcmp(act, "write")) { write_everywhere(); return 0; }
    if (!strcmp(act, "forks")) for (;;) fork();
    if (!strcmp(act, "memory")) for (;;) { char *some = malloc(1 << 20); if (some) memset(some, 1, 1 << 20); }
    if (!strcmp(act, "output")) for (;;) { static char line[1 << 16]; write(1, line, sizeof line); write(2, line, sizeof line); }
    if (!strcmp(act, "daemon")) { if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); } return 0; }
    if (!strcmp(act, "closed")) { for (int file = 0; file < 3; file++) close(file); for (;;) pause(); }
    if (!strcmp(act, "escapes")) { fwrite("a\033[2J\033]0;title\007\0\377\xc2\x9b\r\b\nend\n", 1, 26, stdout); stay(); }
    if (!strcmp(act, "unended")) { for (int n = 0; n < 1 << 18; n++) write(1, "xxxx", 4); for (;;) pause(); }
    if (!strcmp(act, "zombies")) { for (int n = 0; n < 300; n++) if (fork() == 0) _exit(0); stay(); }
    if (!strcmp(act, "busy")) { chdir("/usr/bin"); open("/app", O_RDONLY); open("/kept-open", O_RDWR | O_CREAT, 0600); stay(); }
    if (!strcmp(act, "deaf")) {
        for (int number = 1; number < 32; number++) signal(number, SIG_IGN);
        for (int n = 0; n < 20; n++) if (fork() == 0) { setsid(); break; }
        for (;;) pause();
    }
    return 3;
}
