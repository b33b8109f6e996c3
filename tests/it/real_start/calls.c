// Makes every system call that a program in the sandbox must not make, and names those that were not denied.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int denied(long result) { return result == -1 && (errno == EPERM || errno == ENOSYS); }

static void call(const char *name, long number, long a, long b, long c, long d) {
    errno = 0;
    if (!denied(syscall(number, a, b, c, d, 0, 0))) printf("%s: %s\n", name, strerror(errno));
}

#if defined(__x86_64__)
// A call of 32-bit programs, which a 64-bit one can make, too. Its arguments are in memory.
static long old_socketcall(unsigned family) {
    unsigned *words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    words[0] = family, words[1] = SOCK_STREAM, words[2] = 0;
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(102), "b"(1), "c"(words) : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static long old_socket(unsigned family) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(359), "b"(family), "c"(SOCK_STREAM), "d"(0) : "memory", "r8", "r9", "r10", "r11");
    return result;
}
#endif

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    const long above = 1L << 32;
    static char page[4096];
    long memory = (long)page;
    int families[] = {38, 40, 12, 15, 18, 21, 29, 30, 31, 39, 43, 44, 45};
    for (size_t at = 0; at < sizeof families / sizeof *families; at++) {
        char name[40];
        snprintf(name, sizeof name, "socket %d", families[at]);
        call(name, SYS_socket, families[at], SOCK_STREAM, 0, 0);
        call(name, SYS_socket, families[at], SOCK_DGRAM, 0, 0);
        call(name, SYS_socket, families[at] | above, SOCK_STREAM, 0, 0);
        call(name, SYS_socket, families[at] | above << 31, SOCK_STREAM, 0, 0);
    }
    call("kcmp", SYS_kcmp, getpid(), getpid(), 1, 0);
    call("syslog", SYS_syslog, 10, 0, 0, 0);
    call("open_tree", 428, -100, (long)"/", 1, 0);
    call("move_mount", 429, -1, memory, -1, memory);
    call("fsopen", 430, (long)"tmpfs", 0, 0, 0);
    call("fsconfig", 431, -1, 0, 0, 0);
    call("fsmount", 432, -1, 0, 0, 0);
    call("fspick", 433, -100, (long)"/", 0, 0);
    call("pidfd_getfd", 438, -1, 0, 0, 0);
    call("process_madvise", 440, -1, memory, 0, 0);
    call("mount_setattr", 442, -100, (long)"/", 0, memory);
    call("quotactl_fd", 443, -1, 0, 0, 0);
    call("statmount", 457, memory, memory, 0, 0);
    call("listmount", 458, memory, memory, 0, 0);
    call("lsm_set_self_attr", 460, 0, memory, 0, 0);
    call("open_tree_attr", 467, -100, (long)"/", 1, 0);
    call("unknown 600", 600, 0, 0, 0, 0);
    call("mount", SYS_mount, memory, memory, memory, 0);
    call("umount2", SYS_umount2, memory, 0, 0, 0);
    call("pivot_root", SYS_pivot_root, memory, memory, 0, 0);
    call("setns", SYS_setns, -1, 0, 0, 0);
    call("unshare", SYS_unshare, CLONE_NEWUSER, 0, 0, 0);
    call("unshare files", SYS_unshare, CLONE_FILES, 0, 0, 0);
    call("clone3", 435, memory, 88, 0, 0);
    int spaces[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWIPC, CLONE_NEWUTS, 0x02000000};
    for (size_t at = 0; at < sizeof spaces / sizeof *spaces; at++) {
        long child = syscall(SYS_clone, spaces[at] | 17, 0, 0, 0, 0);
        if (child == 0) _exit(0);
        if (!denied(child)) printf("clone %x\n", spaces[at]);
    }
    call("ptrace", SYS_ptrace, 0, 0, 0, 0);
    call("process_vm_readv", SYS_process_vm_readv, getpid(), memory, 1, memory);
    call("process_vm_writev", SYS_process_vm_writev, getpid(), memory, 1, memory);
    call("name_to_handle_at", SYS_name_to_handle_at, -100, (long)"/", memory, memory + 8);
    call("open_by_handle_at", SYS_open_by_handle_at, -1, memory, 0, 0);
    call("io_uring_setup", 425, 1, memory, 0, 0);
    call("io_uring_enter", 426, -1, 0, 0, 0);
    call("io_uring_register", 427, -1, 0, 0, 0);
    call("bpf", SYS_bpf, 0, memory, 0, 0);
    call("perf_event_open", SYS_perf_event_open, memory, 0, -1, -1);
    call("userfaultfd", SYS_userfaultfd, 0, 0, 0, 0);
    call("add_key", SYS_add_key, (long)"user", (long)"a", memory, 1);
    call("request_key", SYS_request_key, (long)"user", (long)"a", 0, 0);
    call("keyctl", SYS_keyctl, 0, -3, 0, 0);
    call("init_module", SYS_init_module, memory, 0, memory, 0);
    call("finit_module", SYS_finit_module, -1, memory, 0, 0);
    call("delete_module", SYS_delete_module, memory, 0, 0, 0);
    call("kexec_load", SYS_kexec_load, 0, 0, 0, 0);
    call("reboot", SYS_reboot, 0, 0, 0, 0);
    call("swapon", SYS_swapon, memory, 0, 0, 0);
    call("swapoff", SYS_swapoff, memory, 0, 0, 0);
    call("acct", SYS_acct, memory, 0, 0, 0);
    call("settimeofday", SYS_settimeofday, 0, 0, 0, 0);
    call("clock_settime", SYS_clock_settime, 0, memory, 0, 0);
    call("clock_adjtime", SYS_clock_adjtime, 0, memory, 0, 0);
    call("quotactl", SYS_quotactl, 0, memory, 0, 0);
    call("fanotify_init", SYS_fanotify_init, 0, 0, 0, 0);
    call("vhangup", SYS_vhangup, 0, 0, 0, 0);
    call("mbind", SYS_mbind, 0, 0, 0, 0);
    call("set_mempolicy", SYS_set_mempolicy, 0, 0, 0, 0);
    call("sethostname", SYS_sethostname, memory, 1, 0, 0);
    call("personality", SYS_personality, 0x0040000, 0, 0, 0);
#if defined(__x86_64__)
    call("iopl", SYS_iopl, 0, 0, 0, 0);
    call("ioperm", SYS_ioperm, 0, 0, 0, 0);
    for (size_t at = 0; at < 3; at++) {
        int families[] = {AF_INET, 38, 40};
        long result = old_socketcall(families[at]);
        if (result != -EPERM && result != -ENOSYS) printf("socketcall %d: %ld\n", families[at], result);
        result = old_socket(families[at]);
        if (families[at] != AF_INET && result != -EPERM && result != -ENOSYS) printf("32-bit socket %d: %ld\n", families[at], result);
    }
    // The x32 table has the same calls, with a bit set.
    call("x32 socket", 0x40000000 | SYS_socket, 40, SOCK_STREAM, 0, 0);
    call("x32 ptrace", 0x40000000 | 521, 0, 0, 0, 0);
#endif
    int allowed[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
    for (size_t at = 0; at < 4; at++) if (socket(allowed[at], at == 3 ? SOCK_RAW : SOCK_STREAM, 0) < 0) printf("no socket %d\n", allowed[at]);
    if (syscall(SYS_socket, AF_PACKET, SOCK_RAW, 0) < 0 && getuid() == 0 && errno == EPERM) puts("no packet socket");
    puts("tried");
}
