/* The same random calls to LevelDB and to minikv, through the C API of both:
     differential LIBLEVELDB LIBMINIKV DIRECTORY SEED CALLS
   Compares what every call returns, and databases as a whole; the libraries also go on with each
   other's directories. Prints the calls by function, and the known differences that were met. */
#include "objects.h"

#include <ctype.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NUM_SLOTS = 3, NUM_SNAPSHOTS = 4, NUM_ITERATORS = 4, NUM_BATCHES = 4, PATH_BYTES = 4200 };

struct iterator {
  leveldb_iterator_t* of[2];
  int valid;
};

struct snapshot {
  const leveldb_snapshot_t* of[2];
};

/* A database of each library with the same contents, open or not, there or not. */
struct slot {
  char path[2][PATH_BYTES];
  leveldb_t* db[2];
  struct settings settings; /* while it is open */
  struct iterator iterators[NUM_ITERATORS];
  struct snapshot snapshots[NUM_SNAPSHOTS];
  int order;
  int exists;
  int compact; /* whether everything was compacted since the last write */
};

static struct slot slots[NUM_SLOTS];
static leveldb_writebatch_t* batches[NUM_BATCHES][2];
static leveldb_readoptions_t* read_options[2];
static leveldb_writeoptions_t* write_options[2];
/* Repairs after which LevelDB alone had other contents than before. */
static unsigned long reordered = 0;

/* Runs a shell command on both directories of a slot: %s is the directory. */
static void shell(const struct slot* slot, const char* format) {
  for (int at = 0; at < 2; at++) {
    char command[3 * PATH_BYTES];
    snprintf(command, sizeof command, format, slot->path[at], slot->path[at], slot->path[at]);
    if (system(command) != 0) fail(command);
  }
}

/* Reads. */

static void random_read_options(struct slot* slot) {
  int verify = chance(2), fill = chance(2);
  struct snapshot* snapshot = &slot->snapshots[chance(NUM_SNAPSHOTS)];
  EACH(leveldb_readoptions_set_snapshot)(read_options[at], snapshot->of[at]);
  if (once_in(4)) EACH(leveldb_readoptions_set_verify_checksums)(read_options[at], verify);
  if (once_in(4)) EACH(leveldb_readoptions_set_fill_cache)(read_options[at], fill);
}

static void free_both(void* memory[2]) {
  if (chance(2)) {
    EACH(leveldb_free)(memory[at]);
  } else {
    for (int at = 0; at < 2; at++) free(memory[at]);
  }
}

static void get(struct slot* slot) {
  struct bytes key = random_key();
  char* value[2];
  size_t length[2] = {77, 77};
  random_read_options(slot);
  INTO(value, leveldb_get)
  (slot->db[at], read_options[at], key.at, key.length, &length[at], &error[at]);
  failed();
  same_bytes((const char**)value, length);
  free_both((void**)value);
}

/* Compares where the iterators stand, and their errors. */
static void look(struct iterator* it) {
  uint8_t valid[2];
  size_t length[2];
  const char* bytes[2];
  INTO(valid, leveldb_iter_valid)(it->of[at]);
  if (once_in(8)) EACH(leveldb_iter_get_error)(it->of[at], &error[at]);
  failed();
  if (valid[THEIRS] != valid[OURS]) {
    fprintf(stderr, "valid: %d in LevelDB, %d in minikv\n", valid[THEIRS], valid[OURS]);
    fail("different positions");
  }
  it->valid = valid[OURS];
  if (!it->valid) return;
  INTO(bytes, leveldb_iter_key)(it->of[at], &length[at]);
  note("at %.*s", (int)length[0], bytes[0]);
  same_bytes(bytes, length);
  INTO(bytes, leveldb_iter_value)(it->of[at], &length[at]);
  same_bytes(bytes, length);
}

static void step(struct iterator* it, int forwards) {
  note("%s", forwards ? "next" : "prev");
  if (forwards) EACH(leveldb_iter_next)(it->of[at]);
  else EACH(leveldb_iter_prev)(it->of[at]);
  look(it);
}

static void move(struct iterator* it) {
  unsigned kind = chance(10);
  note("move %u of %p", kind, (void*)it->of[OURS]);
  if (kind == 0) {
    EACH(leveldb_iter_seek_to_first)(it->of[at]);
  } else if (kind == 1) {
    EACH(leveldb_iter_seek_to_last)(it->of[at]);
  } else if (kind < 8) {
    struct bytes key = random_key();
    note("seek %.*s", (int)key.length, key.at);
    EACH(leveldb_iter_seek)(it->of[at], key.at, key.length);
  } else if (it->valid) {
    /* Its own key: a copy for LevelDB, which after a step backwards overwrites what it seeks. */
    static char copy[MAX_KEY];
    const char* key[2];
    size_t length[2];
    INTO(key, leveldb_iter_key)(it->of[at], &length[at]);
    memcpy(copy, key[THEIRS], length[THEIRS]);
    key[THEIRS] = copy;
    EACH(leveldb_iter_seek)(it->of[at], key[at], length[at]);
  }
  look(it);
  int forwards = chance(2);
  for (unsigned steps = chance(12); it->valid && steps > 0; steps--) {
    if (once_in(5)) forwards = !forwards;
    step(it, forwards);
  }
}

static void use_iterator(struct slot* slot) {
  struct iterator* it = &slot->iterators[chance(NUM_ITERATORS)];
  if (it->of[OURS] == NULL) {
    random_read_options(slot);
    INTO(it->of, leveldb_create_iterator)(slot->db[at], read_options[at]);
    it->valid = 0;
    note("iterator");
    if (chance(2)) look(it);
  }
  for (unsigned moves = 1 + chance(4); moves > 0; moves--) move(it);
  if (once_in(6)) {
    EACH(leveldb_iter_destroy)(it->of[at]);
    memset(it, 0, sizeof *it);
  }
}

/* Compares the whole contents, in a random direction. */
static void compare_all(struct slot* slot) {
  struct iterator it = {0};
  int forwards = chance(2);
  EACH(leveldb_readoptions_set_snapshot)(read_options[at], NULL);
  INTO(it.of, leveldb_create_iterator)(slot->db[at], read_options[at]);
  if (forwards) EACH(leveldb_iter_seek_to_first)(it.of[at]);
  else EACH(leveldb_iter_seek_to_last)(it.of[at]);
  for (look(&it); it.valid;) step(&it, forwards);
  EACH(leveldb_iter_get_error)(it.of[at], &error[at]);
  succeeded();
  EACH(leveldb_iter_destroy)(it.of[at]);
  note("all compared");
}

/* Writes. */

static void put(struct slot* slot) {
  struct bytes key = random_key(), value = random_value();
  int sync = once_in(100);
  if (once_in(50)) EACH(leveldb_writeoptions_set_sync)(write_options[at], sync);
  EACH(leveldb_put)
  (slot->db[at], write_options[at], key.at, key.length, value.at, value.length, &error[at]);
  succeeded();
  slot->compact = 0;
}

static void delete(struct slot* slot) {
  struct bytes key = random_key();
  EACH(leveldb_delete)(slot->db[at], write_options[at], key.at, key.length, &error[at]);
  succeeded();
  slot->compact = 0;
}

static void write_batch(struct slot* slot) {
  leveldb_writebatch_t** batch = batches[chance(NUM_BATCHES)];
  EACH(leveldb_write)(slot->db[at], write_options[at], batch[at], &error[at]);
  succeeded();
  slot->compact = 0;
}

/* What an iteration over a batch has shown: a hash, and the number of operations. */
struct shown {
  uint64_t hash;
  unsigned long operations;
};

static void show(struct shown* shown, const char* bytes, size_t length) {
  for (size_t at = 0; at < length; at++) {
    shown->hash = (shown->hash ^ (unsigned char)bytes[at]) * 0x100000001b3ULL;
  }
  shown->hash = (shown->hash ^ (256 + length)) * 0x100000001b3ULL;
}

static void show_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  struct shown* shown = state;
  shown->operations++;
  show(shown, k, klen);
  show(shown, v, vlen);
}

static void show_delete(void* state, const char* k, size_t klen) {
  struct shown* shown = state;
  shown->operations++;
  shown->hash++;
  show(shown, k, klen);
}

static unsigned long compare_batch(leveldb_writebatch_t* const batch[2]) {
  struct shown shown[2] = {{1, 0}, {1, 0}};
  EACH(leveldb_writebatch_iterate)(batch[at], &shown[at], show_put, show_delete);
  if (memcmp(&shown[THEIRS], &shown[OURS], sizeof *shown) != 0) fail("different batches");
  return shown[OURS].operations;
}

static void change_batch(void) {
  leveldb_writebatch_t** batch = batches[chance(NUM_BATCHES)];
  unsigned kind = chance(100);
  struct bytes key = random_key(), value = random_value();
  if (kind < 60) {
    EACH(leveldb_writebatch_put)(batch[at], key.at, key.length, value.at, value.length);
  } else if (kind < 85) {
    EACH(leveldb_writebatch_delete)(batch[at], key.at, key.length);
  } else if (kind < 93) {
    leveldb_writebatch_t** source = batches[chance(NUM_BATCHES)]; /* may be the same */
    if (compare_batch(source) + compare_batch(batch) < 300) {
      EACH(leveldb_writebatch_append)(batch[at], source[at]);
    }
  } else if (kind < 98) {
    EACH(leveldb_writebatch_clear)(batch[at]);
  } else {
    EACH(leveldb_writebatch_destroy)(batch[at]);
    INTO(batch, leveldb_writebatch_create)();
  }
  if (once_in(10)) compare_batch(batch);
}

static void use_snapshot(struct slot* slot) {
  struct snapshot* snapshot = &slot->snapshots[chance(NUM_SNAPSHOTS)];
  if (snapshot->of[OURS] == NULL) {
    INTO(snapshot->of, leveldb_create_snapshot)(slot->db[at]);
  } else {
    EACH(leveldb_release_snapshot)(slot->db[at], snapshot->of[at]);
    memset(snapshot, 0, sizeof *snapshot);
  }
}

/* Properties, sizes, compactions. */

/* Cuts the text down to what both libraries have in common. */
static void keep_comparable(const char* name, char* text) {
  if (text == NULL) return;
  if (strcmp(name, "leveldb.sstables") == 0) {
    /* The headings of levels; tables differ. */
    char* to = text;
    for (char* line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
      size_t length = strlen(line);
      if (strncmp(line, "---", 3) == 0) memmove(to, line, length), to += length, *to++ = '\n';
    }
    *to = 0;
  } else if (strcmp(name, "leveldb.stats") == 0) {
    /* The heading; times differ. */
    char* end = strstr(text, "---\n");
    if (end != NULL) end[4] = 0;
  } else {
    /* The number differs with what the background has done. */
    for (char* at = text; *at != 0; at++) *at = isdigit((unsigned char)*at) ? '0' : *at;
    if (strspn(text, "0") == strlen(text) && *text != 0) text[1] = 0;
  }
}

static void property(struct slot* slot) {
  static const char* const names[] = {
      "leveldb.num-files-at-level0",  "leveldb.num-files-at-level6",
      "leveldb.num-files-at-level7",  "leveldb.num-files-at-level",
      "leveldb.num-files-at-level1x", "leveldb.num-files-at-level01",
      "leveldb.num-files-at-level+1", "leveldb.num-files-at-level-1",
      "leveldb.num-files-at-level 1", "leveldb.num-files-at-level18446744073709551616",
      "leveldb.stats",                "leveldb.sstables",
      "leveldb.stats ",               "leveldb.approximate-memory-usage",
      "leveldb.Stats",                "leveldb.",
      "leveldb",                      "",
      "stats",                        "rocksdb.stats",
      "leveldb.\xff\xfe",
  };
  const char* name = names[chance(sizeof names / sizeof *names)];
  char* text[2];
  size_t length[2] = {0, 0};
  note("property %s", name);
  INTO(text, leveldb_property_value)(slot->db[at], name);
  for (int at = 0; at < 2; at++) {
    keep_comparable(name, text[at]);
    if (text[at] != NULL) length[at] = strlen(text[at]);
  }
  same_bytes((const char**)text, length);
  free_both((void**)text);
}

/* Sizes of random ranges. They depend on the tables, which differ; but once everything is compacted,
   minikv's are not larger than LevelDB's, which may keep old versions in the last level. */
static void sizes(struct slot* slot) {
  enum { MOST = 4 };
  const char *starts[MOST], *limits[MOST];
  size_t start_lengths[MOST], limit_lengths[MOST];
  uint64_t sizes[2][MOST];
  int count = chance(MOST + 1);
  for (int range = 0; range < count; range++) {
    struct bytes start = random_key(), limit = random_key();
    starts[range] = start.at, start_lengths[range] = start.length;
    limits[range] = limit.at, limit_lengths[range] = limit.length;
  }
  memset(sizes, 0x77, sizeof sizes);
  EACH(leveldb_approximate_sizes)
  (slot->db[at], count, starts, start_lengths, limits, limit_lengths, sizes[at]);
  for (int range = 0; range < MOST; range++) {
    uint64_t theirs = sizes[THEIRS][range], ours = sizes[OURS][range];
    if (range >= count ? ours != 0x7777777777777777 : slot->compact && ours > theirs + 300000) {
      fprintf(stderr, "%llu bytes in LevelDB, %llu in minikv\n", (unsigned long long)theirs,
              (unsigned long long)ours);
      fail("different sizes");
    }
  }
}

static void compact(struct slot* slot, int all) {
  struct bytes start = random_key(), limit = random_key();
  if (all || chance(2)) start.at = NULL;
  if (all || chance(2)) limit.at = NULL;
  if (start.at == NULL) start.length = 0;
  if (limit.at == NULL) limit.length = 0;
  EACH(leveldb_compact_range)(slot->db[at], start.at, start.length, limit.at, limit.length);
  slot->compact = start.at == NULL && limit.at == NULL;
  note("compacted");
  for (int times = 0; slot->compact && times < 3; times++) sizes(slot);
}

/* Opening and closing. */

static void change_users(const struct settings* set, int by) {
  orders[set->order].users += by;
  filters[set->filter].users += by;
  if (set->cache >= 0) caches[set->cache].users += by;
}

/* Opens a database that both libraries can open. */
static void open_slot(struct slot* slot) {
  if (!slot->exists) slot->order = chance(NUM_ORDERS);
  struct settings set = random_settings(slot->order);
  int on = !slot->exists || chance(2);
  EACH(leveldb_options_set_create_if_missing)(set.options[at], on);
  int exclusive = !slot->exists && chance(2);
  EACH(leveldb_options_set_error_if_exists)(set.options[at], exclusive);
  if (once_in(4)) set_older_errors();
  INTO(slot->db, leveldb_open)(set.options[at], slot->path[at], &error[at]);
  succeeded();
  drop_settings(&set);
  change_users(&set, 1);
  slot->settings = set;
  if (!slot->exists) slot->compact = 1;
  slot->exists = 1;
  note("opened %s, order %d, filter %d", slot->path[OURS], set.order, set.filter);
}

static void close_slot(struct slot* slot) {
  for (int number = 0; number < NUM_ITERATORS; number++) {
    struct iterator* it = &slot->iterators[number];
    if (it->of[OURS] != NULL) EACH(leveldb_iter_destroy)(it->of[at]);
    memset(it, 0, sizeof *it);
  }
  EACH(leveldb_readoptions_set_snapshot)(read_options[at], NULL);
  for (int number = 0; number < NUM_SNAPSHOTS; number++) {
    struct snapshot* snapshot = &slot->snapshots[number];
    if (snapshot->of[OURS] != NULL) {
      EACH(leveldb_release_snapshot)(slot->db[at], snapshot->of[at]);
    }
    memset(snapshot, 0, sizeof *snapshot);
  }
  EACH(leveldb_close)(slot->db[at]);
  memset(slot->db, 0, sizeof slot->db);
  change_users(&slot->settings, -1);
  note("closed %s", slot->path[OURS]);
}

static void swap_directories(struct slot* slot) {
  char path[PATH_BYTES];
  memcpy(path, slot->path[OURS], PATH_BYTES);
  memcpy(slot->path[OURS], slot->path[THEIRS], PATH_BYTES);
  memcpy(slot->path[THEIRS], path, PATH_BYTES);
  note("the directories of %s are swapped", slot->path[OURS]);
}

static int is_there(const struct slot* slot, int at, const char* file) {
  char path[PATH_BYTES + 16];
  snprintf(path, sizeof path, "%s/%s", slot->path[at], file);
  return access(path, F_OK) == 0;
}

/* A directory stays if there is something else in it: for LevelDB also what a repair has put into
   `lost`. */
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

/* Returns a hash of the whole contents in one library. */
static uint64_t hash_of(const struct slot* slot, int at) {
  const struct library* its = &library[at];
  struct shown shown = {1, 0};
  size_t length;
  its->leveldb_readoptions_set_snapshot(read_options[at], NULL);
  leveldb_iterator_t* it = its->leveldb_create_iterator(slot->db[at], read_options[at]);
  its->leveldb_iter_seek_to_first(it);
  for (; its->leveldb_iter_valid(it); its->leveldb_iter_next(it)) {
    const char* key = its->leveldb_iter_key(it, &length);
    show(&shown, key, length);
    const char* value = its->leveldb_iter_value(it, &length);
    show(&shown, value, length);
  }
  its->leveldb_iter_get_error(it, &error[at]);
  its->leveldb_iter_destroy(it);
  return shown.hash;
}

/* Repairs a database that is open, and opens it again. minikv's repair keeps the contents. LevelDB's
   puts all tables into level 0, where an old version of a key may come before a newer one; then
   both begin again. */
static void repair(struct slot* slot) {
  if (chance(2)) compact(slot, 1);
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

/* Opens that fail. */

static void open_wrongly(struct slot* slot, const struct settings* set, int create, int exclusive) {
  leveldb_t* db[2];
  if (once_in(4)) set_older_errors();
  EACH(leveldb_options_set_create_if_missing)(set->options[at], create);
  EACH(leveldb_options_set_error_if_exists)(set->options[at], exclusive);
  note("wrong open of %s", slot->path[OURS]);
  INTO(db, leveldb_open)(set->options[at], slot->path[at], &error[at]);
  if (failed() != 2 || db[THEIRS] != NULL || db[OURS] != NULL) fail("a wrong open did not fail");
}

/* LevelDB's failed opens create the directory and leave a log of messages in it; minikv's do not. */
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

/* Returns the path of one file, at random but the same for both copies, or NULL. */
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

/* Damages the database in the directory. The same numbers do the same. */
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

/* Opens a damaged copy of one library's directory with both. Both report damage, at the open or in
   a scan, or both have the same contents. */
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

/* What does not belong to a database. */
static void surroundings(void) {
  long number[2];
  char* text[2];
  size_t length[2];
  leveldb_env_t* env[2];
  INTO(number, leveldb_major_version)();
  same_number("major version", number);
  INTO(number, leveldb_minor_version)();
  same_number("minor version", number);
  INTO(env, leveldb_create_default_env)();
  INTO(text, leveldb_env_get_test_directory)(env[at]);
  for (int at = 0; at < 2; at++) length[at] = strlen(text[at]);
  same_bytes((const char**)text, length);
  free_both((void**)text);
  EACH(leveldb_env_destroy)(env[at]);
  EACH(leveldb_readoptions_destroy)(read_options[at]);
  INTO(read_options, leveldb_readoptions_create)();
  EACH(leveldb_writeoptions_destroy)(write_options[at]);
  INTO(write_options, leveldb_writeoptions_create)();
  replace_object();
}

static void reopen(struct slot* slot) {
  if (chance(2)) compare_all(slot);
  if (once_in(3)) compact(slot, 1);
  if (once_in(6)) repair(slot);
  close_slot(slot);
  unsigned kind = chance(20);
  if (kind < 6) swap_directories(slot);
  else if (kind < 9) destroy(slot);
  else if (kind < 11) wrong_open(slot);
  else if (kind < 15) open_damaged(slot);
  if (slot->db[OURS] == NULL) open_slot(slot);
  if (chance(2)) compare_all(slot);
}

static void act(struct slot* slot) {
  unsigned kind = chance(10000);
  if (kind < 2500) put(slot);
  else if (kind < 3100) delete(slot);
  else if (kind < 5500) get(slot);
  else if (kind < 7200) change_batch();
  else if (kind < 7500) write_batch(slot);
  else if (kind < 9100) use_iterator(slot);
  else if (kind < 9500) use_snapshot(slot);
  else if (kind < 9600) property(slot);
  else if (kind < 9820) sizes(slot);
  else if (kind < 9840) compact(slot, once_in(3));
  else if (kind < 9940) reopen(slot);
  else if (kind < 9960) wrong_open(slot);
  else if (kind < 9965) destroy(slot); /* is refused: the database is open */
  else surroundings();
}

static void begin_all(void) {
  make_objects();
  INTO(read_options, leveldb_readoptions_create)();
  INTO(write_options, leveldb_writeoptions_create)();
  for (int number = 0; number < NUM_BATCHES; number++) {
    INTO(batches[number], leveldb_writebatch_create)();
  }
  for (int number = 0; number < NUM_SLOTS; number++) {
    struct slot* slot = &slots[number];
    for (int at = 0; at < 2; at++) {
      snprintf(slot->path[at], PATH_BYTES, "%.4000s/%c%d", home, "ab"[at], number);
    }
    open_slot(slot);
  }
}

/* Every database is compared, then each library opens the other's directory, and both again. */
static void end_all(void) {
  for (int number = 0; number < NUM_SLOTS; number++) {
    struct slot* slot = &slots[number];
    for (int swap = 0; swap < 3; swap++) {
      compare_all(slot);
      close_slot(slot);
      swap_directories(slot);
      open_slot(slot);
    }
    close_slot(slot);
  }
  for (int number = 0; number < NUM_BATCHES; number++) {
    EACH(leveldb_writebatch_destroy)(batches[number][at]);
  }
  EACH(leveldb_readoptions_destroy)(read_options[at]);
  EACH(leveldb_writeoptions_destroy)(write_options[at]);
  drop_objects();
  same_number("destructors called", destroyed);
  if (created[OURS] != destroyed[OURS]) fail("an object of the program was not destroyed");
}

static void report(void) {
  int called = 0;
  for (int number = 0; number < NUM_FUNCTIONS; number++) {
    called += calls_of[number] > 0;
    printf("%9lu %s\n", calls_of[number], function_names[number]);
  }
  for (size_t at = 0; at < sizeof differences / sizeof *differences; at++) {
    printf("met %lu times: %s\n", differences[at].seen, differences[at].why);
  }
  printf("met %lu times: LevelDB's repair puts old versions of keys before new ones\n", reordered);
  printf("differential: %lu calls of %d functions agree, seed %llu\n", calls, called,
         (unsigned long long)seed);
}

int main(int argc, char** argv) {
  if (argc != 6) {
    fprintf(stderr, "differential LIBLEVELDB LIBMINIKV DIRECTORY SEED CALLS\n");
    return 2;
  }
  load(THEIRS, argv[1]);
  load(OURS, argv[2]);
  home = argv[3];
  seed = strtoull(argv[4], NULL, 10);
  state_of_chance = seed * 0x9e3779b97f4a7c15ULL + 1;
  unsigned long wanted = strtoul(argv[5], NULL, 10);
  begin_all();
  while (calls < wanted) act(&slots[chance(NUM_SLOTS)]);
  end_all();
  report();
  return 0;
}
