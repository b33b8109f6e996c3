/* The program of the images: says what a process finds when it starts, one fact a line, and does what
 * its arguments and what was compiled into it ask. It ends with 0 if all of that could be done, else 7.
 *
 * TAG     which of several programs this is
 * BAKED   calls of act() and say() that are in the code, not in the arguments
 * PATIENCE   seconds to wait before anything is said
 * ACCOUNTS, ZONE   with lookups of accounts and of time zones, whose code names files of its own
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef TAG
#define TAG "observer"
#endif
#ifndef BAKED
#define BAKED
#endif
#ifndef PATIENCE
#define PATIENCE 0
#endif

extern char **environ;
static int worst;

static void result(const char *verb, const char *what, const char *how) {
  if (strncmp(how, "ok", 2)) worst = 7;
  printf("did %s %s: %s\n", verb, what, how);
}

static const char *name_of(int error) {
  switch (error) {
    case 0: return "ok";
    case ENOENT: return "ENOENT";
    case EACCES: return "EACCES";
    case EPERM: return "EPERM";
    case ENOTDIR: return "ENOTDIR";
    case EISDIR: return "EISDIR";
    case ELOOP: return "ELOOP";
    case ENOEXEC: return "ENOEXEC";
    case EROFS: return "EROFS";
    default: return strerror(error);
  }
}

static int can_read(const char *path) {
  char buffer[256];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno;
  int error = read(file, buffer, sizeof buffer) < 0 && errno != EISDIR ? errno : 0;
  close(file);
  return error;
}

/* One path, or several with commas between. */
static void read_all(const char *verb, const char *paths) {
  char *copy = strdup(paths), *rest = copy, *path;
  while ((path = strsep(&rest, ","))) result(verb, path, name_of(can_read(path)));
  free(copy);
}

static int can_create(const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return errno;
  close(file);
  return 0;
}

static void write_into(const char *verb, const char *directory) {
  char path[4096];
  snprintf(path, sizeof path, "%s/observed", directory);
  result(verb, directory, name_of(can_create(path)));
}

/* Found as execvp finds it. */
static void run(const char *verb, const char *program) {
  char how[64], *words[] = {(char *)program, NULL};
  pid_t child;
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
  int status, error = posix_spawnp(&child, program, &quiet, NULL, words, environ);
  if (error) return result(verb, program, name_of(error));
  waitpid(child, &status, 0);
  snprintf(how, sizeof how, "ok %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  result(verb, program, how);
}

static void variable(const char *verb, const char *name) {
  const char *value = getenv(name);
  char how[4200] = "unset";
  if (value) snprintf(how, sizeof how, "ok %s", value);
  result(verb, name, how);
}

static void read_named_by(const char *verb, const char *name) {
  const char *value = getenv(name);
  if (value) read_all(verb, value);
  else result(verb, name, "unset");
}

#ifdef ACCOUNTS
static void lookup(const char *verb, const char *name) {
  char how[256] = "unknown";
  struct passwd *account = getpwnam(name);
  if (account) snprintf(how, sizeof how, "ok %d %d %s", (int)account->pw_uid, (int)account->pw_gid, account->pw_dir);
  result(verb, name, how);
}

static void lookup_group(const char *verb, const char *name) {
  char how[64] = "unknown";
  struct group *group = getgrnam(name);
  if (group) snprintf(how, sizeof how, "ok %d", (int)group->gr_gid);
  result(verb, name, how);
}

/* What a daemon does that starts as root and gives it up. */
static void become(const char *verb, const char *name) {
  char how[256];
  struct passwd *account = getpwnam(name);
  if (!account) return result(verb, name, "unknown");
  if (initgroups(name, account->pw_gid) || setgid(account->pw_gid) || setuid(account->pw_uid))
    return result(verb, name, name_of(errno));
  snprintf(how, sizeof how, "ok %d %d, %d groups", (int)getuid(), (int)getgid(), getgroups(0, NULL));
  result(verb, name, how);
}
#endif

#ifdef ZONE
static void zone(const char *verb, const char *what) {
  char how[64];
  time_t moment = 1700000000;
  strftime(how, sizeof how, "ok %H:%M %Z", localtime(&moment));
  result(verb, what, how);
}
#endif

static void say(const char *message) { printf("says %s\n", message); }

/* Whether the verb is one of ours. */
static int act(const char *verb, const char *what) {
  if (!strcmp(verb, "config") || !strcmp(verb, "cacert") || !strcmp(verb, "files")) read_all(verb, what);
  else if (!strcmp(verb, "data-dir") || !strcmp(verb, "log-dir")) write_into(verb, what);
  else if (!strcmp(verb, "log-file")) result(verb, what, name_of(can_create(what)));
  else if (!strcmp(verb, "hook")) run(verb, what);
  else if (!strcmp(verb, "from-env")) variable(verb, what);
  else if (!strcmp(verb, "maybe-env")) result(verb, what, getenv(what) ? "ok set" : "ok unset");
  else if (!strcmp(verb, "config-env")) read_named_by(verb, what);
  else if (!strcmp(verb, "chdir")) result(verb, what, name_of(chdir(what) ? errno : 0));
  else if (!strcmp(verb, "exit")) worst = atoi(what);
#ifdef ACCOUNTS
  else if (!strcmp(verb, "account")) lookup(verb, what);
  else if (!strcmp(verb, "group")) lookup_group(verb, what);
  else if (!strcmp(verb, "run-as")) become(verb, what);
#endif
#ifdef ZONE
  else if (!strcmp(verb, "zone")) zone(verb, what);
#endif
  else return 0;
  return 1;
}

/* --verb=what, --verb what, verb=what, @file; all else is left alone. */
static void act_on(char **words) {
  for (; *words; words++) {
    char *copy = strdup(*words), *verb = copy + strspn(copy, "-"), *equals = strchr(verb, '=');
    if (*copy == '@') act("config", copy + 1);
    else if (equals) *equals = 0, act(verb, equals + 1);
    else if (*copy == '-' && words[1] && act(verb, words[1])) words++;
    free(copy);
  }
}

static int compare_text(const void *one, const void *other) {
  return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static int compare_id(const void *one, const void *other) {
  gid_t a = *(const gid_t *)one, b = *(const gid_t *)other;
  return (a > b) - (a < b);
}

static void say_groups(void) {
  gid_t groups[256];
  int count = getgroups(256, groups);
  qsort(groups, count > 0 ? count : 0, sizeof *groups, compare_id);
  printf("fact groups");
  for (int at = 0; at < count; at++) printf(" %d", (int)groups[at]);
  printf("\n");
}

static void say_place(void) {
  char path[4096] = "", exe[4096] = "";
  const char *home = getenv("HOME");
  mode_t mask = umask(0);
  umask(mask);
  printf("fact cwd %s\n", getcwd(path, sizeof path) ? path : name_of(errno));
  printf("fact home %s\n", home ? home : "");
  printf("fact umask %03o\n", (int)mask);
  printf("exe %s\n", readlink("/proc/self/exe", exe, sizeof exe - 1) > 0 ? exe : "?");
}

static void say_environment(void) {
  size_t count = 0;
  while (environ[count]) count++;
  char **sorted = malloc((count + 1) * sizeof *sorted);
  memcpy(sorted, environ, (count + 1) * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, compare_text);
  for (size_t at = 0; at < count; at++) printf("env %s\n", sorted[at]);
  free(sorted);
}

int main(int count, char **words) {
  sleep(PATIENCE);
  printf("observed %s\n", TAG);
  printf("fact uid %d %d\nfact gid %d %d\n", (int)getuid(), (int)geteuid(), (int)getgid(), (int)getegid());
  say_groups();
  say_place();
  for (int at = 0; at < count; at++) printf("arg %d %s\n", at, words[at]);
  say_environment();
  fflush(stdout);
  act_on(words + (count > 0));
  (void)say;
  BAKED;
  fflush(stdout);
  return worst;
}
