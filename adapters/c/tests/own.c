/* The parts of the C API that the example leaves out: callbacks, errors, memory, and minikv's own
   functions. Prints the number of checks, and stops at the first one that fails. */
#include <dirent.h>
#include <minikv.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int checks = 0;
static const char* home;

#define CHECK(what)                                              \
  do {                                                           \
    checks++;                                                    \
    if (!(what)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
      exit(1);                                                   \
    }                                                            \
  } while (0)

static char* error = NULL;

static int starts(const char* text, const char* prefix) {
  return text != NULL && strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Checks that the last call failed with an error of this kind, and frees the error. */
static int failed(const char* prefix) {
  int is = starts(error, prefix);
  if (!is) fprintf(stderr, "error: %s\n", error == NULL ? "none" : error);
  leveldb_free(error);
  error = NULL;
  return is;
}

static const char* place(const char* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", home, name);
  return path;
}

static int has(leveldb_t* db, leveldb_readoptions_t* read, const char* key, const char* expected) {
  size_t length = 77;
  char* value = leveldb_get(db, read, key, strlen(key), &length, &error);
  int same = expected == NULL
                 ? value == NULL && length == 0
                 : value != NULL && length == strlen(expected) && !memcmp(value, expected, length);
  free(value);
  return same && error == NULL;
}

static void put(leveldb_t* db, leveldb_writeoptions_t* write, const char* key, const char* value) {
  leveldb_put(db, write, key, strlen(key), value, strlen(value), &error);
}

/* A comparator: reverse byte order. */
static int destroyed = 0;
static void destroy(void* state) { ++*(int*)state; }
static const char* reverse_name(void* state) { (void)state; return "own.Reverse"; }
static int reverse(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  int order = memcmp(a, b, alen < blen ? alen : blen);
  if (order == 0) order = alen < blen ? -1 : alen > blen;
  return -order;
}

/* A filter policy: a filter has the first byte of each key. */
static int filters_made = 0, filters_asked = 0;
static const char* filter_name(void* state) { (void)state; return "own.FirstBytes"; }
static char* create_filter(void* state, const char* const* keys, const size_t* lengths, int count,
                           size_t* filter_length) {
  (void)state;
  __sync_fetch_and_add(&filters_made, 1);
  char* filter = malloc(count);
  for (int i = 0; i < count; i++) filter[i] = lengths[i] > 0 ? keys[i][0] : 0;
  *filter_length = count;
  return filter;
}
static uint8_t may_match(void* state, const char* key, size_t length, const char* filter,
                         size_t filter_length) {
  (void)state;
  __sync_fetch_and_add(&filters_asked, 1);
  return memchr(filter, length > 0 ? key[0] : 0, filter_length) != NULL;
}

static char trail[64];
static void on_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  size_t at = strlen(state);
  snprintf((char*)state + at, sizeof trail - at, "+%.*s=%.*s", (int)klen, k, (int)vlen, v);
}
static void on_delete(void* state, const char* k, size_t klen) {
  size_t at = strlen(state);
  snprintf((char*)state + at, sizeof trail - at, "-%.*s", (int)klen, k);
}

static void batches(void) {
  leveldb_writebatch_t *a = leveldb_writebatch_create(), *b = leveldb_writebatch_create();
  leveldb_writebatch_put(a, "k", 1, "v", 1);
  leveldb_writebatch_delete(b, "d", 1);
  leveldb_writebatch_append(a, b);
  leveldb_writebatch_append(a, a);
  leveldb_writebatch_iterate(a, trail, on_put, on_delete);
  CHECK(strcmp(trail, "+k=v-d+k=v-d") == 0);
  leveldb_writebatch_clear(a);
  trail[0] = 0;
  leveldb_writebatch_iterate(a, trail, on_put, on_delete);
  CHECK(trail[0] == 0);
  leveldb_writebatch_destroy(a);
  leveldb_writebatch_destroy(b);
}

static void opening(void) {
  leveldb_options_t* options = leveldb_options_create();
  CHECK(leveldb_open(options, place("missing"), &error) == NULL && failed("Invalid argument: "));
  error = strdup("an older error");
  CHECK(leveldb_open(options, place("missing"), &error) == NULL);
  CHECK(failed("Invalid argument: "));
  leveldb_options_set_create_if_missing(options, 1);
  CHECK(leveldb_open(options, place("no/parent"), &error) == NULL && failed("NotFound: "));
  error = strdup("stays");
  leveldb_t* db = leveldb_open(options, place("opening"), &error);
  CHECK(db != NULL && strcmp(error, "stays") == 0);
  free(error);
  error = NULL;
  leveldb_create_snapshot(db); /* not released: the close frees it and the lock */
  leveldb_close(db);
  leveldb_options_set_error_if_exists(options, 1);
  CHECK(leveldb_open(options, place("opening"), &error) == NULL && failed("Invalid argument: "));
  leveldb_options_set_error_if_exists(options, 0);
  leveldb_options_set_compression(options, 77);
  CHECK(leveldb_open(options, place("opening"), &error) == NULL && failed("Invalid argument: "));
  leveldb_options_set_compression(options, leveldb_no_compression);
  minikv_options_set_filter_layout(options, 77, 10);
  CHECK(leveldb_open(options, place("opening"), &error) == NULL && failed("Invalid argument: "));
  minikv_options_set_filter_layout(options, minikv_filter_both, 10);
  db = leveldb_open(options, place("opening"), &error);
  CHECK(db != NULL && error == NULL); /* valid settings have replaced the invalid ones */
  CHECK(leveldb_property_value(db, "leveldb.num-files-at-level+1") == NULL);
  leveldb_close(db);
  leveldb_options_destroy(options);

  leveldb_options_t* ordered = leveldb_options_create();
  leveldb_comparator_t* order = leveldb_comparator_create(&destroyed, destroy, reverse,
                                                          reverse_name);
  leveldb_options_set_comparator(ordered, order);
  CHECK(leveldb_open(ordered, place("opening"), &error) == NULL);
  CHECK(failed("Invalid argument: leveldb.BytewiseComparator does not match existing comparator : "
               "own.Reverse"));
  leveldb_options_set_comparator(ordered, NULL);
  leveldb_destroy_db(ordered, place("opening"), &error);
  CHECK(error == NULL);
  CHECK(leveldb_open(ordered, place("opening"), &error) == NULL && failed("Invalid argument: "));
  leveldb_options_destroy(ordered);
  leveldb_comparator_destroy(order);
  CHECK(destroyed == 1);
}

static void orders_and_filters(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_comparator_t* order = leveldb_comparator_create(&destroyed, destroy, reverse,
                                                          reverse_name);
  leveldb_filterpolicy_t* policy = leveldb_filterpolicy_create(&destroyed, destroy, create_filter,
                                                               may_match, filter_name);
  minikv_comparator_set_equal_means_same_bytes(order, 1);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_comparator(options, order);
  leveldb_options_set_filter_policy(options, policy);
  leveldb_t* db = leveldb_open(options, place("reverse"), &error);
  CHECK(db != NULL);
  for (int i = 0; i < 1000; i++) {
    char key[16];
    snprintf(key, sizeof key, "%c%04d", 'a' + 2 * (i % 10), i);
    put(db, write, key, "value");
  }
  minikv_flush(db, &error);
  CHECK(error == NULL && filters_made > 0);
  CHECK(has(db, read, "a0000", "value") && has(db, read, "b0000", NULL) && filters_asked > 0);
  leveldb_iterator_t* it = leveldb_create_iterator(db, read);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_seek_to_first(it);
  size_t length;
  const char* key = leveldb_iter_key(it, &length);
  CHECK(length == 5 && !memcmp(key, "s0999", 5));
  leveldb_iter_seek(it, key, length); /* the iterator's own key */
  leveldb_iter_next(it);
  CHECK(!memcmp(leveldb_iter_key(it, &length), "s0989", 5));
  leveldb_iter_prev(it);
  leveldb_iter_prev(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_destroy(it);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_comparator_destroy(order);
  leveldb_filterpolicy_destroy(policy);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
  CHECK(destroyed == 3);
}

/* Checks the errors of repair and verify where there is no database. LevelDB's repair creates an
   empty one, unless the parent directory is missing. */
static void no_database(leveldb_options_t* options) {
  leveldb_repair_db(options, place("none"), &error);
  CHECK(failed("NotFound: ") && access(place("none"), F_OK) != 0);
  leveldb_repair_db(options, place("none/none"), &error);
  CHECK(failed("NotFound: "));
  CHECK(minikv_repair_json(options, place("none"), 1, &error) == NULL && failed("NotFound: "));
  CHECK(minikv_verify_json(options, place("none"), &error) == NULL && failed("NotFound: "));
  CHECK(mkdir(place("empty"), 0777) == 0);
  leveldb_repair_db(options, place("empty"), &error);
  CHECK(failed("IO error: "));
  fclose(fopen(place("empty/file"), "w"));
  leveldb_repair_db(options, place("empty/file"), &error);
  CHECK(failed("IO error: "));
}

struct worker { leveldb_t* db; int number; };
static void* work(void* given) {
  struct worker* worker = given;
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  char* own = NULL;
  for (int i = 0; i < 300; i++) {
    char key[32];
    int length = snprintf(key, sizeof key, "t/%d/%d", worker->number, i);
    leveldb_put(worker->db, write, key, length, key, length, &own);
  }
  leveldb_writeoptions_destroy(write);
  return own;
}

static void own_functions(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_cache_t* cache = leveldb_cache_create_lru(1 << 20);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_create_if_missing(options, 1);
  minikv_options_set_filter_layout(options, minikv_filter_both, 12);
  leveldb_t* db = leveldb_open(options, place("own"), &error);
  CHECK(db != NULL);
  pthread_t threads[3];
  struct worker workers[3];
  for (int i = 0; i < 3; i++) {
    workers[i] = (struct worker){db, i};
    pthread_create(&threads[i], NULL, work, &workers[i]);
  }
  for (int i = 0; i < 3; i++) {
    void* failure;
    pthread_join(threads[i], &failure);
    CHECK(failure == NULL);
  }
  leveldb_put(db, write, "empty", 5, NULL, 0, &error);
  CHECK(has(db, read, "empty", "") && has(db, read, "t/2/299", "t/2/299"));

  leveldb_t* reader = minikv_open_read_only(options, place("own"), &error);
  CHECK(reader != NULL && has(reader, read, "t/0/0", "t/0/0"));
  put(reader, write, "no", "way");
  CHECK(failed("Invalid argument: "));
  put(db, write, "later", "1");
  CHECK(has(reader, read, "later", NULL) && minikv_refresh(reader, &error) == 1);
  CHECK(has(reader, read, "later", "1"));
  leveldb_close(reader);

  minikv_flush(db, &error);
  const char *starts_at[] = {"t/", "x"}, *limits[] = {"t0", "t"};
  size_t start_lengths[] = {2, 1}, limit_lengths[] = {2, 1};
  uint64_t sizes[] = {7, 7};
  leveldb_approximate_sizes(db, 2, starts_at, start_lengths, limits, limit_lengths, sizes);
  CHECK(sizes[0] > 1000 && sizes[1] == 0);
  char* text = leveldb_property_value(db, "leveldb.num-files-at-level0");
  CHECK(text != NULL && strcmp(text, "1") == 0);
  free(text);
  CHECK(leveldb_property_value(db, "leveldb.nothing") == NULL);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  minikv_compact_range(db, "t", 1, NULL, 0, &error);
  minikv_delete_range(db, write, "t/0/", 4, "t/1/", 4, &error);
  CHECK(has(db, read, "t/0/7", NULL) && has(db, read, "t/1/7", "t/1/7"));

  text = minikv_stats_json(db, &error);
  CHECK(text != NULL && text[0] == '{' && strstr(text, "\"flushes\":") != NULL);
  free(text);
  text = minikv_explain_json(db, read, "t/1/7", 5, &error);
  CHECK(text != NULL && strstr(text, "\"steps\"") != NULL);
  free(text);
  text = minikv_filter_advice_json(db, &error);
  CHECK(text != NULL && text[0] == '{');
  free(text);

  minikv_transaction_t *a = minikv_transaction_begin(db, &error),
                       *b = minikv_transaction_begin(db, &error);
  size_t length;
  free(minikv_transaction_get(a, "seat", 4, &length, &error));
  free(minikv_transaction_get(b, "seat", 4, &length, &error));
  minikv_transaction_put(a, "seat", 4, "ann", 3, &error);
  minikv_transaction_put(b, "seat", 4, "bob", 3, &error);
  minikv_transaction_delete(a, "later", 5, &error);
  CHECK(minikv_transaction_commit(a, write, &error) == 1 && error == NULL);
  CHECK(minikv_transaction_commit(b, write, &error) == 0 && failed("Conflict: "));
  CHECK(minikv_transaction_commit(a, write, &error) == 0 && failed("Invalid argument: "));
  minikv_transaction_destroy(a);
  minikv_transaction_destroy(b);
  CHECK(has(db, read, "seat", "ann") && has(db, read, "later", NULL));

  minikv_checkpoint(db, place("copy"), &error);
  minikv_sync(db, &error);
  minikv_wait_idle(db, &error);
  minikv_resume(db, &error);
  CHECK(error == NULL);
  text = minikv_verify_json(options, place("copy"), &error);
  CHECK(text != NULL && strstr(text, "\"fault_count\":0") != NULL);
  free(text);
  CHECK(minikv_repair_json(options, place("own"), 1, &error) == NULL && failed("IO error: lock "));
  leveldb_close(db);
  text = minikv_repair_json(options, place("own"), 1, &error);
  CHECK(text != NULL && strstr(text, "\"healthy\":true") != NULL);
  free(text);
  leveldb_repair_db(options, place("own"), &error);
  CHECK(error == NULL);
  no_database(options);

  leveldb_env_t* env = leveldb_create_default_env();
  char* directory = leveldb_env_get_test_directory(env);
  CHECK(directory != NULL && directory[0] == '/');
  leveldb_free(directory);
  leveldb_options_set_env(options, env);
  leveldb_options_set_info_log(options, NULL);
  leveldb_env_destroy(env);
  CHECK(leveldb_major_version() == 1 && leveldb_minor_version() == 23);
  leveldb_cache_destroy(cache);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
}

static long cached_bytes(leveldb_t* db) {
  const char* name = "\"block_cache_bytes\":";
  char* text = minikv_stats_json(db, &error);
  char* at = text == NULL ? NULL : strstr(text, name);
  long bytes = at == NULL ? -1 : atol(at + strlen(name));
  leveldb_free(text);
  return bytes;
}

/* Checks two databases with one cache: blocks that one reads appear in the statistics of both. */
static void shared_cache(void) {
  leveldb_cache_t* cache = leveldb_cache_create_lru(4 << 20);
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_cache(options, cache);
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_t* one = leveldb_open(options, place("one"), &error);
  leveldb_t* other = leveldb_open(options, place("other"), &error);
  CHECK(error == NULL && one != NULL && other != NULL);
  put(one, write, "key", "value");
  minikv_flush(one, &error);
  CHECK(error == NULL && cached_bytes(one) == 0 && cached_bytes(other) == 0);
  for (int i = 0; i < 9; i++) CHECK(has(one, read, "key", "value"));
  CHECK(cached_bytes(one) > 0 && cached_bytes(other) == cached_bytes(one));
  leveldb_close(one);
  CHECK(cached_bytes(other) == 0);
  leveldb_close(other);
  leveldb_cache_destroy(cache);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
}

static int is_empty_at(const char* pointer, size_t length) {
  /* Go ends a program that holds a pointer into the first page. */
  return length == 0 && (uintptr_t)pointer >= 4096;
}

/* Checks the addresses of empty keys and values, in memory and in a table. */
static void empty_entries(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, place("empty-entries"), &error);
  CHECK(db != NULL);
  put(db, write, "", "value of the empty key");
  put(db, write, "k", "");
  for (int in_table = 0; in_table < 2; in_table++) {
    size_t length = 77;
    leveldb_iterator_t* it = leveldb_create_iterator(db, read);
    leveldb_iter_seek_to_last(it);
    CHECK(leveldb_iter_valid(it));
    const char* value = leveldb_iter_value(it, &length);
    CHECK(is_empty_at(value, length));
    leveldb_iter_prev(it);
    CHECK(leveldb_iter_valid(it));
    length = 77;
    const char* key = leveldb_iter_key(it, &length);
    CHECK(is_empty_at(key, length));
    leveldb_iter_destroy(it);
    minikv_flush(db, &error);
    CHECK(error == NULL);
  }
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
}

static int tables_in(const char* directory) {
  DIR* open = opendir(directory);
  int tables = 0;
  if (open == NULL) return -1;
  for (struct dirent* entry = readdir(open); entry != NULL; entry = readdir(open)) {
    size_t length = strlen(entry->d_name);
    tables += length > 4 && strcmp(entry->d_name + length - 4, ".ldb") == 0;
  }
  closedir(open);
  return tables;
}

/* Returns whether `work` succeeds in a forked child, which a signal ends if it waits for ever. */
static int in_child(int (*work)(leveldb_t*, leveldb_iterator_t*), leveldb_t* db,
                    leveldb_iterator_t* it) {
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    /* In another program, no checker of leaks asks for what the parent's threads own. */
    if (work(db, it)) execlp("true", "true", (char*)NULL);
    _exit(1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

static int closes(leveldb_t* db, leveldb_iterator_t* it) {
  leveldb_iter_destroy(it);
  leveldb_close(db);
  return 1;
}

static int refused(void) {
  int names_the_fork = error != NULL && strstr(error, "forked") != NULL;
  return failed("Invalid argument: ") && names_the_fork;
}

static int waits(leveldb_t* db, leveldb_iterator_t* it) {
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_writeoptions_set_sync(write, 1);
  (void)it;
  put(db, write, "of the child", "1");
  int all = refused();
  minikv_flush(db, &error);
  all &= refused();
  minikv_compact_range(db, NULL, 0, NULL, 0, &error);
  all &= refused();
  minikv_wait_idle(db, &error);
  all &= refused();
  minikv_delete_range(db, write, "a", 1, "b", 1, &error);
  all &= refused();
  minikv_checkpoint(db, place("copy-of-a-child"), &error);
  all &= refused();
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_writeoptions_destroy(write);
  return all;
}

static int writes(leveldb_t* db, leveldb_iterator_t* it) {
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  char value[1024];
  memset(value, 'v', sizeof value);
  (void)it;
  for (int i = 0; i < 2048 && error == NULL; i++) {
    char key[16];
    int length = snprintf(key, sizeof key, "%06d", i);
    leveldb_put(db, write, key, length, value, sizeof value, &error);
  }
  leveldb_writeoptions_destroy(write);
  return refused();
}

/* Checks that a forked child neither harms the database that it has inherited nor waits for threads
   that it does not have. */
static void forked(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_write_buffer_size(options, 65536);
  leveldb_t* db = leveldb_open(options, place("forked"), &error);
  CHECK(db != NULL);
  put(db, write, "key", "first");
  minikv_flush(db, &error);
  leveldb_iterator_t* it = leveldb_create_iterator(db, read);
  leveldb_iter_seek_to_first(it);
  put(db, write, "key", "second");
  minikv_compact_range(db, NULL, 0, NULL, 0, &error);
  minikv_wait_idle(db, &error);
  CHECK(error == NULL);
  int tables = tables_in(place("forked"));
  CHECK(in_child(closes, db, it));
  CHECK(tables_in(place("forked")) == tables);
  CHECK(in_child(waits, db, it));
  CHECK(has(db, read, "key", "second") && has(db, read, "of the child", NULL));
  CHECK(leveldb_open(options, place("forked"), &error) == NULL && failed("IO error: lock "));
  put(db, write, "later", "third");
  leveldb_iter_destroy(it);
  CHECK(tables_in(place("forked")) < tables); /* the iterator held one */
  leveldb_close(db);
  db = leveldb_open(options, place("forked"), &error);
  CHECK(db != NULL && has(db, read, "key", "second") && has(db, read, "later", "third"));
  put(db, write, "last", "fourth");
  CHECK(in_child(writes, db, NULL));
  CHECK(has(db, read, "key", "second") && has(db, read, "last", "fourth"));
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
}

/* Reverse byte order, for which one thread waits at the comparison with the number that it has set:
   it tells so through one pipe, and goes on once there is a byte in the other. */
static __thread int compared = 0, stops_at = 0;
static int stopped[2], goes_on[2];
static int stopping(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  char byte = 0;
  if (++compared == stops_at && (write(stopped[1], &byte, 1) != 1 || read(goes_on[0], &byte, 1) != 1))
    _exit(3);
  return reverse(state, a, alen, b, blen);
}

/* Deletes a range that has no entries, and stops at the last comparison, in the middle of a write
   for which all others wait. */
static void* stops_in_a_write(void* db) {
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  char* failure = NULL;
  for (int round = 0; round < 3; round++) {
    stops_at = round < 2 ? 0 : compared;
    compared = 0;
    minikv_delete_range(db, write, "f", 1, "c", 1, &failure);
    if (failure != NULL || compared == 0) _exit(4);
  }
  leveldb_writeoptions_destroy(write);
  return NULL;
}

static void* puts_one(void* db) {
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  char* failure = NULL;
  leveldb_put(db, write, "waiting", 7, "1", 1, &failure);
  leveldb_writeoptions_destroy(write);
  return failure;
}

static int puts_are_refused(leveldb_t* db, leveldb_iterator_t* it) {
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  int all = 1;
  for (int i = 0; i < 4; i++) {
    leveldb_writeoptions_set_sync(write, i % 2);
    put(db, write, "of the child", "1");
    all &= refused();
  }
  leveldb_writeoptions_destroy(write);
  return all && closes(db, it);
}

/* Checks that the writes of a forked child fail, too, if threads of its parent were in a write at
   the fork. */
static void forked_beside_writers(void) {
  leveldb_comparator_t* order =
      leveldb_comparator_create(&destroyed, destroy, stopping, reverse_name);
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* read_options = leveldb_readoptions_create();
  leveldb_writeoptions_t* write_options = leveldb_writeoptions_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_comparator(options, order);
  CHECK(pipe(stopped) == 0 && pipe(goes_on) == 0);
  leveldb_t* db = leveldb_open(options, place("forked-beside-writers"), &error);
  CHECK(db != NULL);
  put(db, write_options, "a", "1");
  put(db, write_options, "z", "1");
  leveldb_iterator_t* it = leveldb_create_iterator(db, read_options);
  pthread_t first, second;
  char byte = 0;
  void* failure = NULL;
  CHECK(pthread_create(&first, NULL, stops_in_a_write, db) == 0);
  CHECK(read(stopped[0], &byte, 1) == 1);
  CHECK(in_child(puts_are_refused, db, it));
  CHECK(pthread_create(&second, NULL, puts_one, db) == 0);
  usleep(100000); /* it is the first in the queue then */
  CHECK(in_child(puts_are_refused, db, it));
  CHECK(write(goes_on[1], &byte, 1) == 1);
  CHECK(pthread_join(first, NULL) == 0);
  CHECK(pthread_join(second, &failure) == 0 && failure == NULL);
  CHECK(has(db, read_options, "waiting", "1") && has(db, read_options, "of the child", NULL));
  leveldb_iter_destroy(it);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_comparator_destroy(order);
  leveldb_readoptions_destroy(read_options);
  leveldb_writeoptions_destroy(write_options);
  for (int end = 0; end < 2; end++) CHECK(close(stopped[end]) == 0 && close(goes_on[end]) == 0);
}

/* Returns the number of mappings of tables below `home`. */
static int mapped_tables(void) {
  char line[8192];
  int count = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) return -1;
  while (fgets(line, sizeof line, maps) != NULL) {
    count += strstr(line, home) != NULL && strstr(line, ".ldb") != NULL;
  }
  fclose(maps);
  return count;
}

/* Tables are mapped, as by LevelDB, unless the program turns that off. */
static void mappings(void) {
  for (int off = 0; off <= 1; off++) {
    leveldb_options_t* options = leveldb_options_create();
    leveldb_readoptions_t* read = leveldb_readoptions_create();
    leveldb_writeoptions_t* write = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(options, 1);
    if (off) minikv_options_set_map_tables(options, 0);
    leveldb_t* db = leveldb_open(options, place(off ? "unmapped" : "mapped"), &error);
    CHECK(error == NULL);
    put(db, write, "a", "1");
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    CHECK(has(db, read, "a", "1"));
    CHECK(mapped_tables() == (off ? 0 : 1));
    leveldb_close(db);
    CHECK(mapped_tables() == 0);
    leveldb_readoptions_destroy(read);
    leveldb_writeoptions_destroy(write);
    leveldb_options_destroy(options);
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  home = argv[1];
  char make[4200];
  snprintf(make, sizeof make, "mkdir -p '%s'", home);
  if (system(make) != 0) return 2;
  batches();
  opening();
  orders_and_filters();
  own_functions();
  shared_cache();
  empty_entries();
  mappings();
  forked();
  forked_beside_writers();
  printf("own functions: %d checks passed\n", checks);
  return 0;
}
