/* Operations on whole directories: destroy, repair, opens that fail, and damage. */
#ifndef DIRECTORIES_H_
#define DIRECTORIES_H_

#include "databases.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_there(const struct slot* slot, int at, const char* file) {
  char path[PATH_BYTES + 16];
  snprintf(path, sizeof path, "%s/%s", slot->path[at], file);
  return access(path, F_OK) == 0;
}

/* Destroys the databases. A directory stays if it has other files; for LevelDB, these include what
   a repair has put into `lost`. */
static void destroy(struct slot* slot) {
  struct settings set = random_settings(chance(NUM_ORDERS));
  int other_file = slot->exists && slot->db[OURS] == NULL && once_in(3);
  int lost = is_there(slot, THEIRS, "lost");
  if (other_file) shell(slot, "touch %s/other.txt");
  note("destroy");
  EACH(leveldb_destroy_db)(set.options[at], slot->path[at], &error[at]);
  failed();
  drop_settings(&set);
  if (slot->db[OURS] != NULL) return;
  if (is_there(slot, OURS, "") != other_file) fail("directory of minikv");
  if (is_there(slot, THEIRS, "") != (other_file || lost)) fail("directory of LevelDB");
  if (other_file) shell(slot, "test \"$(ls -A %s | grep -v lost)\" = other.txt");
  shell(slot, "rm -rf %s");
  slot->exists = 0;
}

/* Number of repairs that changed the contents of LevelDB's database, but not of minikv's. */
static unsigned long reordered = 0;


/* Closes a database, repairs it, and opens it again. minikv's repair keeps the contents.
   LevelDB's repair puts all tables into level 0, where an old version of a key may come before a
   newer one; if that changes the contents, both libraries start again with an empty database. */
static void repair(struct slot* slot) {
  uint64_t before = hash_of(slot, OURS);
  close_slot(slot);
  struct settings set = random_settings(slot->order);
  note("repair");
  EACH(leveldb_repair_db)(set.options[at], slot->path[at], &error[at]);
  succeeded();
  drop_settings(&set);
  open_slot(slot);
  uint64_t theirs = hash_of(slot, THEIRS), ours = hash_of(slot, OURS);
  succeeded();
  if (ours != before) fail("minikv's repair has changed the contents");
  if (theirs == before) return;
  reordered++;
  close_slot(slot);
  shell(slot, "rm -rf %s");
  slot->exists = 0;
  open_slot(slot);
}

static void open_wrongly(struct slot* slot, const struct settings* set, int create,
                         int exclusive) {
  leveldb_t* db[2];
  if (once_in(4)) set_older_errors();
  EACH(leveldb_options_set_create_if_missing)(set->options[at], create);
  EACH(leveldb_options_set_error_if_exists)(set->options[at], exclusive);
  note("wrong open of %s", slot->path[OURS]);
  INTO(db, leveldb_open)(set->options[at], slot->path[at], &error[at]);
  if (failed() != 2 || db[THEIRS] != NULL || db[OURS] != NULL) fail("a wrong open did not fail");
}

/* Attempts opens that must fail. In LevelDB, they create the directory and leave a log of messages
   in it; in minikv, they do not. */
static void wrong_open(struct slot* slot) {
  struct slot wrong = *slot;
  int is_open = slot->db[OURS] != NULL, kind = chance(4);
  static const char* const suffixes[] = {"", "/missing/parent", "/missing", "/CURRENT/file"};
  for (int at = 0; at < 2; at++) {
    snprintf(wrong.path[at], PATH_BYTES, "%.4000s%s", slot->path[at], suffixes[kind]);
  }
  struct settings same = random_settings(slot->order);
  struct settings other = random_settings((slot->order + 1 + chance(3)) % NUM_ORDERS);
  if (kind != 0) {
    open_wrongly(&wrong, chance(2) ? &same : &other, kind != 2, chance(2));
  } else if (is_open) {
    open_wrongly(slot, chance(2) ? &same : &other, chance(2), chance(2));
  } else if (slot->exists) {
    open_wrongly(slot, chance(2) ? &same : &other, chance(2), 1);
    open_wrongly(slot, &other, chance(2), 0);
  } else {
    open_wrongly(slot, &same, 0, chance(2));
  }
  drop_settings(&same);
  drop_settings(&other);
  shell(slot, slot->exists ? "rm -rf %s/missing" : "rm -rf %s");
}

/* Damaged copies of a closed database. */

enum {
  NO_CURRENT, CUT_CURRENT, EMPTY_CURRENT, OTHER_CURRENT, NO_MANIFEST, EMPTY_MANIFEST,
  NO_TABLE, CUT_TABLE, CHANGED_TABLE, NO_LOG, CUT_LOG, NUM_DAMAGES
};

/* Returns the path of a file that matches the pattern, or NULL if there is none. The number chooses
   the file, so that it is the same one in both copies of a directory. */
static const char* one_file(const char* directory, const char* pattern, unsigned number) {
  static char path[PATH_BYTES];
  glob_t found;
  snprintf(path, sizeof path, "%.4000s/%s", directory, pattern);
  int none = glob(path, 0, NULL, &found) != 0;
  if (!none) snprintf(path, sizeof path, "%s", found.gl_pathv[number % found.gl_pathc]);
  globfree(&found);
  return none ? NULL : path;
}

static void overwrite(const char* path, const char* text) {
  FILE* file = fopen(path, "w");
  if (file == NULL || fputs(text, file) == EOF || fclose(file) != 0) fail(path);
}

static long file_bytes(const char* path) {
  struct stat stat_of;
  return stat(path, &stat_of) == 0 ? (long)stat_of.st_size : 0;
}

static void change_byte(const char* path, long offset, int by) {
  FILE* file = fopen(path, "r+");
  if (file == NULL || fseek(file, offset, SEEK_SET) != 0) fail(path);
  int byte = fgetc(file);
  if (fseek(file, offset, SEEK_SET) != 0 || fputc(byte ^ by, file) == EOF) fail(path);
  fclose(file);
}

/* Damages the database in the directory. The same arguments do the same damage. */
static void damage(const char* directory, int kind, unsigned number, unsigned place, int by) {
  const char* patterns[] = {"CURRENT",   "CURRENT", "CURRENT",    "CURRENT",    "MANIFEST-*",
                            "MANIFEST-*", "*.ldb",   "*.ldb", "*.ldb", "*.log", "*.log"};
  const char* path = one_file(directory, patterns[kind], number);
  if (path == NULL) return;
  long bytes = file_bytes(path);
  switch (kind) {
    case CUT_CURRENT: overwrite(path, "MANIFEST-000001"); break;
    case EMPTY_CURRENT: overwrite(path, ""); break;
    case OTHER_CURRENT: overwrite(path, "MANIFEST-999999\n"); break;
    case EMPTY_MANIFEST: overwrite(path, ""); break;
    case CUT_TABLE: case CUT_LOG:
      if (bytes > 0 && truncate(path, place % bytes) != 0) fail(path);
      break;
    case CHANGED_TABLE: change_byte(path, place % bytes, by); break;
    default: unlink(path);
  }
}

/* Opens a damaged copy of one library's directory with both libraries. Either both must report
   damage, at the open or in a scan, or both must have the same contents. */
static void open_damaged(struct slot* slot) {
  struct slot copy = {.order = slot->order};
  int kind = chance(NUM_DAMAGES), number = chance(1000), by = 1 << chance(8), from = chance(2);
  unsigned place = chance(1 << 30);
  uint64_t hash[2] = {0, 0};
  note("damage %d, %u, of %s", kind, place, slot->path[from]);
  for (int at = 0; at < 2; at++) {
    char command[3 * PATH_BYTES];
    snprintf(copy.path[at], PATH_BYTES, "%.4000s/%c9", home, "ab"[at]);
    snprintf(command, sizeof command, "rm -rf %s && cp -r %s %s", copy.path[at],
             slot->path[from], copy.path[at]);
    if (system(command) != 0) fail(command);
    damage(copy.path[at], kind, number, place, by);
  }
  struct settings set = random_settings(slot->order);
  EACH(leveldb_options_set_paranoid_checks)(set.options[at], 1);
  INTO(copy.db, leveldb_open)(set.options[at], copy.path[at], &error[at]);
  EACH(leveldb_readoptions_set_verify_checksums)(read_options[at], 1);
  for (int at = 0; at < 2; at++) {
    if (copy.db[at] != NULL) hash[at] = hash_of(&copy, at);
    if (copy.db[at] != NULL) library[at].leveldb_close(copy.db[at]);
  }
  if (!failed() && hash[THEIRS] != hash[OURS]) fail("different contents of a damaged database");
  drop_settings(&set);
}

#endif
