/* Stands between a program and its disk: counts the calls that change files below a folder or open
 * them, makes one of them fail or the last, and keeps what a power cut would leave.
 *
 *   DISK_UNDER  the folder
 *   DISK_LOG    one line for each call: NUMBER KIND PATH, with a '!' before those that were made to fail
 *   DISK_AT     the number of the call that does not take place; with DISK_ERRNO it fails, else the program dies
 *   DISK_FROM   as DISK_AT, and all that would write fail after it too
 *   DISK_STATE  a folder for what is durable: files/INODE and folders/INODE as last synced. kept/INODE are
 *               links that keep numbers from being used twice
 *   DISK_LOCKS  the errno of every lock, as on a file system that has none
 *   DISK_DEAF   syncs of these do nothing: "folders" or "files"
 *   CLOCK_TIMES how much faster time passes, for those who wait for a disk
 *
 * Calls are made one after the other, so that the log and the durable state are in one order. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(name) *)real(#name))

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static __thread int is_our_turn;
static long calls;

static void *real(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) abort();
  return found;
}

static const char *setting(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

static void path_of(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length < 0 ? 0 : length] = 0;
}

static void path_at(int at, const char *name, char *path) {
  if (name[0] == '/') {
    snprintf(path, PATH_MAX, "%s", name);
    return;
  }
  char folder[PATH_MAX];
  if (at != AT_FDCWD) path_of(at, folder);
  else if (!getcwd(folder, sizeof folder)) folder[0] = 0;
  snprintf(path, PATH_MAX, "%.*s/%s", PATH_MAX / 2, folder, name);
}

static int is_below(const char *path) {
  const char *under = setting("DISK_UNDER");
  size_t length = strlen(under);
  return length && !strncmp(path, under, length) && (!path[length] || path[length] == '/');
}

static int is_write(const char *kind) {
  return strcmp(kind, "open") && strcmp(kind, "list") && strcmp(kind, "unlink") && strcmp(kind, "lock");
}

/* The errno that this call shall fail with, or 0. */
static int fate(long number, const char *kind) {
  long at = atol(setting("DISK_AT")), from = atol(setting("DISK_FROM"));
  int wanted = atoi(setting("DISK_ERRNO"));
  if (at && number == at && !wanted) kill(getpid(), SIGKILL);
  if (at && number == at) return wanted;
  return from && number >= from && (number == from || is_write(kind)) ? wanted : 0;
}

static void tell(long number, int wrong, const char *kind, const char *path) {
  char line[PATH_MAX + 64];
  int length = snprintf(line, sizeof line, "%s%ld %s %s\n", wrong ? "!" : "", number, kind, path);
  int log = REAL(open)(setting("DISK_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (log < 0 || REAL(write)(log, line, length) != length) abort();
  close(log);
}

/* Takes the turn. Nonzero, with errno set, where the call shall not take place. */
static int begin(const char *kind, const char *path) {
  if (!is_below(path)) return 0;
  pthread_mutex_lock(&one_at_a_time);
  is_our_turn = 1;
  long number = ++calls;
  int wrong = fate(number, kind);
  tell(number, wrong, kind, path);
  errno = wrong;
  return wrong;
}

static void end(void) {
  if (!is_our_turn) return;
  int kept = errno;
  is_our_turn = 0;
  pthread_mutex_unlock(&one_at_a_time);
  errno = kept;
}

static void state_path(char *path, const char *what, ino_t number) {
  snprintf(path, PATH_MAX, "%s/%s/%lu", setting("DISK_STATE"), what, (unsigned long)number);
}

static void keep(int fd) {
  struct stat about;
  char from[64], to[PATH_MAX];
  if (!*setting("DISK_STATE") || fstat(fd, &about) || !S_ISREG(about.st_mode)) return;
  snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
  state_path(to, "kept", about.st_ino);
  if (REAL(linkat)(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) && errno != EEXIST) abort();
}

static void save_file(int fd, FILE *to) {
  char buffer[65536];
  ssize_t got;
  off_t at = 0;
  while ((got = pread(fd, buffer, sizeof buffer, at)) > 0) {
    if (fwrite(buffer, 1, got, to) != (size_t)got) abort();
    at += got;
  }
  /* What was opened for writing only cannot be saved, and must not seem to be. */
  if (got < 0) abort();
}

static void save_folder(int fd, FILE *to) {
  char path[PATH_MAX];
  path_of(fd, path);
  DIR *folder = REAL(opendir)(path);
  struct dirent *entry;
  while (folder && (entry = readdir(folder)))
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
      fprintf(to, "%c %lu %s\n", entry->d_type == DT_DIR ? 'd' : 'f', (unsigned long)entry->d_ino, entry->d_name);
  if (folder) closedir(folder);
}

static int is_folder(int fd) {
  struct stat about;
  return !fstat(fd, &about) && S_ISDIR(about.st_mode);
}

/* From now on a power cut does not take this. */
static void save(int fd) {
  struct stat about;
  char path[PATH_MAX], fresh[PATH_MAX];
  int folder = is_folder(fd);
  if (!*setting("DISK_STATE") || !strcmp(setting("DISK_DEAF"), folder ? "folders" : "files") || fstat(fd, &about)) return;
  state_path(path, folder ? "folders" : "files", about.st_ino);
  state_path(fresh, "fresh", about.st_ino);
  FILE *to = fopen(fresh, "w");
  if (!to) abort();
  if (folder) save_folder(fd, to);
  else save_file(fd, to);
  if (!folder && REAL(fchmod)(fileno(to), about.st_mode & 07777)) abort();
  if (fclose(to) || REAL(rename)(fresh, path)) abort();
}

#define ON_PATH(kind, at, name, call) \
  char path[PATH_MAX]; \
  path_at(at, name, path); \
  long result = begin(kind, path) ? -1 : (call); \
  end(); \
  return result;

#define ON_FILE(kind, fd, call) \
  char path[PATH_MAX]; \
  path_of(fd, path); \
  long result = begin(kind, path) ? -1 : (call); \
  end(); \
  return result;

static int opened(int at, const char *name, int flags, mode_t mode) {
  char path[PATH_MAX];
  path_at(at, name, path);
  int fd = begin(flags & O_CREAT ? "create" : "open", path) ? -1 : REAL(openat)(at, name, flags, mode);
  if (fd >= 0 && flags & O_CREAT && is_our_turn) keep(fd);
  end();
  return fd;
}

#define MODE(last) \
  va_list more; \
  va_start(more, last); \
  mode_t mode = va_arg(more, mode_t); \
  va_end(more);

int open(const char *name, int flags, ...) { MODE(flags) return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return opened(AT_FDCWD, name, flags | O_LARGEFILE, mode); }
int openat(int at, const char *name, int flags, ...) { MODE(flags) return opened(at, name, flags, mode); }
int openat64(int at, const char *name, int flags, ...) { MODE(flags) return opened(at, name, flags | O_LARGEFILE, mode); }

DIR *opendir(const char *name) {
  char path[PATH_MAX];
  path_at(AT_FDCWD, name, path);
  DIR *folder = begin("list", path) ? NULL : REAL(opendir)(name);
  end();
  return folder;
}

static int synced(int fd) {
  char path[PATH_MAX];
  path_of(fd, path);
  int result = begin(is_folder(fd) ? "sync-folder" : "sync", path) ? -1 : 0;
  if (!result && is_our_turn) save(fd);
  end();
  return result;
}

/* Nothing is lost here but what the test takes away, so nothing needs to reach the disk. */
int fsync(int fd) { return synced(fd); }
int fdatasync(int fd) { return synced(fd); }

/* A lock is waited for without keeping the others waiting. */
int flock(int fd, int operation) {
  char path[PATH_MAX];
  path_of(fd, path);
  int wrong = begin("lock", path);
  int never = is_our_turn ? atoi(setting("DISK_LOCKS")) : 0;
  end();
  if (!wrong && !never) return REAL(flock)(fd, operation);
  errno = wrong ? wrong : never;
  return -1;
}

int mkdir(const char *name, mode_t mode) { ON_PATH("mkdir", AT_FDCWD, name, REAL(mkdir)(name, mode)) }
int mkdirat(int at, const char *name, mode_t mode) { ON_PATH("mkdir", at, name, REAL(mkdirat)(at, name, mode)) }
int rename(const char *from, const char *to) { ON_PATH("rename", AT_FDCWD, to, REAL(rename)(from, to)) }
int renameat(int at, const char *from, int there, const char *to) {
  ON_PATH("rename", there, to, REAL(renameat)(at, from, there, to))
}
int renameat2(int at, const char *from, int there, const char *to, unsigned flags) {
  ON_PATH("rename", there, to, REAL(renameat2)(at, from, there, to, flags))
}
int link(const char *from, const char *to) { ON_PATH("link", AT_FDCWD, to, REAL(link)(from, to)) }
int linkat(int at, const char *from, int there, const char *to, int flags) {
  ON_PATH("link", there, to, REAL(linkat)(at, from, there, to, flags))
}
int unlink(const char *name) { ON_PATH("unlink", AT_FDCWD, name, REAL(unlink)(name)) }
int unlinkat(int at, const char *name, int flags) { ON_PATH("unlink", at, name, REAL(unlinkat)(at, name, flags)) }
int rmdir(const char *name) { ON_PATH("unlink", AT_FDCWD, name, REAL(rmdir)(name)) }
int chmod(const char *name, mode_t mode) { ON_PATH("chmod", AT_FDCWD, name, REAL(chmod)(name, mode)) }
int fchmod(int fd, mode_t mode) { ON_FILE("chmod", fd, REAL(fchmod)(fd, mode)) }
int futimens(int fd, const struct timespec times[2]) { ON_FILE("date", fd, REAL(futimens)(fd, times)) }
int ftruncate(int fd, off_t length) { ON_FILE("truncate", fd, REAL(ftruncate)(fd, length)) }
int ftruncate64(int fd, off64_t length) { ON_FILE("truncate", fd, REAL(ftruncate64)(fd, length)) }
ssize_t write(int fd, const void *bytes, size_t count) { ON_FILE("write", fd, REAL(write)(fd, bytes, count)) }
ssize_t writev(int fd, const struct iovec *list, int count) { ON_FILE("write", fd, REAL(writev)(fd, list, count)) }
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
  ON_FILE("write", fd, REAL(pwrite)(fd, bytes, count, at))
}
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
  ON_FILE("write", fd, REAL(pwrite64)(fd, bytes, count, at))
}
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t count, unsigned flags) {
  ON_FILE("write", to, REAL(copy_file_range)(from, at, to, there, count, flags))
}

static struct timespec started;
static long times;

__attribute__((constructor)) static void start_clock(void) {
  times = atol(setting("CLOCK_TIMES"));
  if (times) REAL(clock_gettime)(CLOCK_MONOTONIC, &started);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static __typeof__(clock_gettime) *really;
  if (!really) really = real("clock_gettime");
  int result = really(clock, now);
  if (result || !times || clock != CLOCK_MONOTONIC) return result;
  long passed = (now->tv_sec - started.tv_sec) * 1000000000L + now->tv_nsec - started.tv_nsec;
  long shown = started.tv_nsec + passed * times;
  now->tv_sec = started.tv_sec + shown / 1000000000L;
  now->tv_nsec = shown % 1000000000L;
  return 0;
}
