/* Makes the same random calls to LevelDB and to minikv, through the C API of both:
     differential LIBLEVELDB LIBMINIKV DIRECTORY SEED CALLS
   Compares what every call returns, and the contents of databases; each library also continues
   with the other's directories. Prints the number of calls of each function, and the known
   differences that occurred. */
#include "differential/directories.h"

#include <ctype.h>

enum { NUM_BATCHES = 4 };
static leveldb_writebatch_t* batches[NUM_BATCHES][2];

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
    leveldb_writebatch_t** source = batches[chance(NUM_BATCHES)]; /* may be the same batch */
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

/* Reduces the text of a property to what must be the same in both libraries. */
static void keep_comparable(const char* name, char* text) {
  if (text == NULL) return;
  if (strcmp(name, "leveldb.sstables") == 0) {
    /* Keeps only the headings of levels, because tables differ. */
    char* to = text;
    for (char* line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
      size_t length = strlen(line);
      if (strncmp(line, "---", 3) == 0) memmove(to, line, length), to += length, *to++ = '\n';
    }
    *to = 0;
  } else if (strcmp(name, "leveldb.stats") == 0) {
    /* Keeps only the heading, because times differ. */
    char* end = strstr(text, "---\n");
    if (end != NULL) end[4] = 0;
  } else {
    /* Masks numbers, which depend on the progress of background work. */
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

/* Compares approximate sizes of random ranges. Sizes depend on the tables, which differ; but once
   everything is compacted, minikv's sizes must not be much larger than LevelDB's. They may be
   smaller, because LevelDB may keep old versions. */
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

/* Calls the functions that need no database. */
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
  if (once_in(4)) compare_all(slot);
  if (once_in(3)) compact(slot, 1);
  if (once_in(6)) {
    if (chance(2)) compact(slot, 1);
    repair(slot);
  }
  close_slot(slot);
  unsigned kind = chance(20);
  if (kind < 6) swap_directories(slot);
  else if (kind < 9) destroy(slot);
  else if (kind < 11) wrong_open(slot);
  else if (kind < 15) open_damaged(slot);
  if (slot->db[OURS] == NULL) open_slot(slot);
  if (once_in(4)) compare_all(slot);
}

static void act(struct slot* slot) {
  unsigned kind = chance(10000);
  if (kind < 3400) put(slot);
  else if (kind < 4200) delete(slot);
  else if (kind < 6400) get(slot);
  else if (kind < 8400) change_batch();
  else if (kind < 8800) write_batch(slot);
  else if (kind < 9200) use_iterator(slot);
  else if (kind < 9500) use_snapshot(slot);
  else if (kind < 9600) property(slot);
  else if (kind < 9820) sizes(slot);
  else if (kind < 9840) compact(slot, once_in(3));
  else if (kind < 9940) reopen(slot);
  else if (kind < 9960) wrong_open(slot);
  else if (kind < 9965) destroy(slot); /* must fail: the database is open */
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

/* Compares every database three times: as it is, after the libraries have swapped directories, and
   after they have swapped back. */
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
    printf(number % 2 ? "%9lu %s\n" : "%9lu %-42s", calls_of[number], function_names[number]);
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
