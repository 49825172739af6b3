/* Pairs of databases: opening and closing them, and reading from both. */
#ifndef DATABASES_H_
#define DATABASES_H_

#include "objects.h"

enum { NUM_SLOTS = 3, NUM_SNAPSHOTS = 4, NUM_ITERATORS = 4, PATH_BYTES = 4200 };

struct iterator {
  leveldb_iterator_t* of[2];
  int valid;
};

struct snapshot {
  const leveldb_snapshot_t* of[2];
};

/* Two databases with the same contents, one of each library. They may be closed or missing. */
struct slot {
  char path[2][PATH_BYTES];
  leveldb_t* db[2];
  struct settings settings; /* while the databases are open */
  struct iterator iterators[NUM_ITERATORS];
  struct snapshot snapshots[NUM_SNAPSHOTS];
  int order;
  int exists;
  int compact; /* whether everything was compacted since the last write */
};

static struct slot slots[NUM_SLOTS];
static leveldb_readoptions_t* read_options[2];
static leveldb_writeoptions_t* write_options[2];
/* Runs a shell command on both directories of a slot. %s in the format is the directory. */
static void shell(const struct slot* slot, const char* format) {
  for (int at = 0; at < 2; at++) {
    char command[3 * PATH_BYTES];
    snprintf(command, sizeof command, format, slot->path[at], slot->path[at], slot->path[at]);
    if (system(command) != 0) fail(command);
  }
}

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

/* Compares the positions of the iterators, and their errors. */
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
    /* Seeks the iterator's own key. LevelDB gets a copy of the key, because, after a step
       backwards, a seek in LevelDB overwrites the iterator's key while reading it. */
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

/* A summary of an iteration: a hash, and the number of operations. */
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

#endif
