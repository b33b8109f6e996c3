/* The tools of the bases, and the wrappers that people put before a program, as far as images use them. Which one
 * it is says the name that it is called by: nice -n N, nohup, timeout N, env [-u NAME] NAME=VALUE,
 * su-exec USER[:GROUP], setpriv --reuid=N --regid=N, cat FILE; under any other name it just succeeds. */
#define _GNU_SOURCE
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char **become(char **words) {
  char *name = words[1], *group = strchr(name, ':');
  if (group) *group++ = 0;
  struct passwd *account = getpwnam(name);
  int uid = account ? (int)account->pw_uid : atoi(name), gid = account ? (int)account->pw_gid : uid;
  if (!account && (*name < '0' || *name > '9')) return fprintf(stderr, "no account %s\n", name), NULL;
  if (group) gid = atoi(group);
  if ((account ? initgroups(name, gid) : setgroups(0, NULL)) || setgid(gid) || setuid(uid)) return perror("setuid"), NULL;
  if (account) setenv("HOME", account->pw_dir, 1);
  return words + 2;
}

static char **privileges(char **words) {
  int uid = -1, gid = -1;
  for (words++; *words && **words == '-'; words++) {
    sscanf(*words, "--reuid=%d", &uid);
    sscanf(*words, "--regid=%d", &gid);
  }
  if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid)) return perror("setpriv"), NULL;
  return words;
}

static char **variables(char **words) {
  for (words++; *words && (!strcmp(*words, "-u") || strchr(*words, '=')); words++) {
    if (**words == '-') unsetenv(*++words);
    else putenv(*words);
  }
  return words;
}

static char **priority(char **words) {
  if (strcmp(words[1], "-n")) return nice(10), words + 1;
  return nice(atoi(words[2])), words + 3;
}

static int print(char **words) {
  int letter;
  for (words++; *words; words++) {
    FILE *file = fopen(*words, "r");
    if (!file) return perror(*words), 1;
    while ((letter = getc(file)) != EOF) putchar(letter);
    fclose(file);
  }
  return 0;
}

static char **handed_over(const char *name, char **words) {
  if (!strcmp(name, "su-exec")) return become(words);
  if (!strcmp(name, "setpriv")) return privileges(words);
  if (!strcmp(name, "env")) return variables(words);
  if (!strcmp(name, "timeout")) return words + 2;
  if (!strcmp(name, "nohup")) return signal(SIGHUP, SIG_IGN), words + 1;
  return priority(words);
}

static int is_wrapper(const char *name) {
  static const char *const names[] = {"su-exec", "setpriv", "env", "timeout", "nohup", "nice"};
  for (size_t at = 0; at < sizeof names / sizeof *names; at++)
    if (!strcmp(name, names[at])) return 1;
  return 0;
}

int main(int count, char **words) {
  const char *slash = strrchr(words[0], '/'), *name = slash ? slash + 1 : words[0];
  if (!strcmp(name, "cat")) return print(words);
  if (count < 2 || !is_wrapper(name)) return 0;
  char **rest = handed_over(name, words);
  if (!rest || !*rest) return 125;
  execvp(*rest, rest);
  perror(*rest);
  return 127;
}
