/* Measures the speed of LevelDB's C API. The program is compiled once for LevelDB and once for
   minikv, and prints the operations per second of each workload. Usage: capi DIRECTORY ENTRIES.
   native.rs has the same workloads. */
#include <leveldb/c.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_BYTES = 16, VALUE_BYTES = 100, BATCH = 100, SCANS = 5 };

static uint64_t chance = 88172645463325252ULL;
static char value[VALUE_BYTES + 1024];
static leveldb_options_t* options;
static leveldb_readoptions_t* read_options;
static leveldb_writeoptions_t* write_options;
static char* error = NULL;

static uint64_t next_number(void) {
  chance ^= chance << 13;
  chance ^= chance >> 7;
  chance ^= chance << 17;
  return chance;
}

static void key_of(uint64_t number, char* key) {
  static const char digits[] = "0123456789abcdef";
  number *= 0x9e3779b97f4a7c15ULL;
  for (int at = 0; at < KEY_BYTES; at++) key[at] = digits[number >> (60 - 4 * at) & 15];
}

static void check(int holds, const char* what) {
  if (holds && error == NULL) return;
  fprintf(stderr, "%s: %s\n", what, error == NULL ? "wrong result" : error);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void report(const char* workload, uint64_t operations, double since) {
  printf("%s %.0f\n", workload, operations / (now() - since));
}

static leveldb_t* open_in(const char* directory, const char* name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  leveldb_t* db = leveldb_open(options, path, &error);
  check(db != NULL, "open");
  return db;
}

static void put(leveldb_t* db, uint64_t entries) {
  char key[KEY_BYTES];
  double start = now();
  for (uint64_t at = 0; at < entries; at++) {
    key_of(at, key);
    leveldb_put(db, write_options, key, KEY_BYTES, value + at % 1024, VALUE_BYTES, &error);
  }
  check(1, "put");
  report("put", entries, start);
}

static void batch(leveldb_t* db, uint64_t entries) {
  char key[KEY_BYTES];
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  double start = now();
  for (uint64_t at = 0; at < entries; at++) {
    key_of(at, key);
    leveldb_writebatch_put(batch, key, KEY_BYTES, value + at % 1024, VALUE_BYTES);
    if (at % BATCH == BATCH - 1) {
      leveldb_write(db, write_options, batch, &error);
      leveldb_writebatch_clear(batch);
    }
  }
  check(1, "write");
  report("batch", entries, start);
  leveldb_writebatch_destroy(batch);
}

static void get(leveldb_t* db, uint64_t entries, const char* workload) {
  char key[KEY_BYTES];
  size_t length;
  double start = now();
  for (uint64_t at = 0; at < entries; at++) {
    key_of(next_number() % entries, key);
    char* found = leveldb_get(db, read_options, key, KEY_BYTES, &length, &error);
    check(found != NULL && length == VALUE_BYTES, "get");
    leveldb_free(found);
  }
  report(workload, entries, start);
}

static void scan(leveldb_t* db, uint64_t entries) {
  uint64_t bytes = 0;
  size_t length;
  double start = now();
  for (int scans = 0; scans < SCANS; scans++) {
    leveldb_iterator_t* it = leveldb_create_iterator(db, read_options);
    for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) {
      bytes += *leveldb_iter_key(it, &length) != 0 ? length : 0;
      bytes += leveldb_iter_value(it, &length) != NULL ? length : 0;
    }
    leveldb_iter_get_error(it, &error);
    leveldb_iter_destroy(it);
  }
  check(bytes == SCANS * entries * (KEY_BYTES + VALUE_BYTES), "scan");
  report("scan", SCANS * entries, start);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  uint64_t entries = strtoull(argv[2], NULL, 10) / BATCH * BATCH;
  for (size_t at = 0; at < sizeof value; at++) value[at] = (char)(next_number() >> 32);
  options = leveldb_options_create();
  read_options = leveldb_readoptions_create();
  write_options = leveldb_writeoptions_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_cache(options, leveldb_cache_create_lru(256 << 20));
  leveldb_options_set_filter_policy(options, leveldb_filterpolicy_create_bloom(10));

  leveldb_t* db = open_in(argv[1], "batch");
  batch(db, entries);
  leveldb_close(db);
  db = open_in(argv[1], "put");
  put(db, entries);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  get(db, entries, "cold");
  get(db, entries, "get");
  scan(db, entries);
  leveldb_close(db);
  return 0;
}
