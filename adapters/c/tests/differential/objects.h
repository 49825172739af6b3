/* Random numbers, keys and values; comparators, filter policies, caches and options for both
   libraries. */
#ifndef OBJECTS_H_
#define OBJECTS_H_

#include "libraries.h"

static uint64_t state_of_chance;

/* Returns a number less than n, by xorshift64*. */
static unsigned chance(unsigned n) {
  state_of_chance ^= state_of_chance >> 12;
  state_of_chance ^= state_of_chance << 25;
  state_of_chance ^= state_of_chance >> 27;
  return (unsigned)((state_of_chance * 0x2545f4914f6cdd1dULL) >> 33) % n;
}

static int once_in(unsigned n) { return chance(n) == 0; }

struct bytes {
  char* at;
  size_t length;
};

enum { MAX_KEY = 4096, MAX_VALUE = 100000 };

/* Returns a random key, which the eighth call after this one overwrites. */
static struct bytes random_key(void) {
  static char memory[8][MAX_KEY];
  static unsigned turn = 0;
  static const char odd[] = {0, 1, 'a', 'A', 'b', 0x7f, (char)0x80, (char)0xff};
  char* key = memory[turn++ % 8];
  unsigned kind = chance(100), length;
  if (kind < 65) {
    length = snprintf(key, MAX_KEY, "user%05u", chance(300));
  } else if (kind < 80) {
    length = chance(4);
    for (unsigned at = 0; at < length; at++) key[at] = odd[chance(sizeof odd)];
  } else if (kind < 90) {
    length = chance(40);
    memset(key, 'p', length);
  } else if (kind < 98) {
    length = snprintf(key, MAX_KEY, "%s%02u", chance(2) ? "Case" : "cASE", chance(50));
  } else {
    length = 300 + 700 * chance(5);
    memset(key, 'L', length);
    key[length - 1] = "xyz"[chance(3)];
  }
  return (struct bytes){length == 0 && chance(2) ? NULL : key, length};
}

/* Returns a random value, which the next call overwrites. */
static struct bytes random_value(void) {
  static char memory[MAX_VALUE];
  unsigned kind = chance(200);
  unsigned length = kind < 20    ? 0
                    : kind < 190 ? chance(100)
                    : kind < 199 ? 1000 + chance(4000)
                                 : chance(MAX_VALUE);
  char letter = (char)chance(256);
  int compressible = chance(2);
  for (unsigned at = 0; at < length; at++) memory[at] = compressible ? letter : (char)chance(256);
  return (struct bytes){length == 0 && chance(2) ? NULL : memory, length};
}

/* Orders of keys. In BY_LETTERS, small and capital letters are equal. */
enum { BY_BYTES, BACKWARDS, BY_LENGTH, BY_LETTERS, NUM_ORDERS };
/* Filters: none, LevelDB's Bloom filter, and filters of this program. */
enum { NO_FILTER, BLOOM, FIRST_BYTES, EVERYTHING, NOTHING_STORED, NUM_FILTERS };

/* State of the callbacks of one object. */
struct state {
  int kind;
  int library;
};
enum { LIVE = 0x5a5a00 };

static long created[2], destroyed[2];

static struct state* new_state(int library_index, int kind) {
  struct state* state = malloc(sizeof *state);
  *state = (struct state){LIVE + kind, library_index};
  __atomic_add_fetch(&created[library_index], 1, __ATOMIC_SEQ_CST);
  return state;
}

static int kind_of(void* given) {
  int kind = ((struct state*)given)->kind - LIVE;
  if (kind < 0 || kind > NUM_ORDERS + NUM_FILTERS) abort();
  return kind;
}

static void destroy_state(void* given) {
  kind_of(given);
  __atomic_add_fetch(&destroyed[((struct state*)given)->library], 1, __ATOMIC_SEQ_CST);
  ((struct state*)given)->kind = 0;
  free(given);
}

static int by_bytes(const char* a, size_t alen, const char* b, size_t blen) {
  size_t shorter = alen < blen ? alen : blen;
  int order = shorter == 0 ? 0 : memcmp(a, b, shorter);
  return order != 0 ? order : alen < blen ? -1 : alen > blen;
}

static int letter(char c) { return c >= 'A' && c <= 'Z' ? c + 32 : (unsigned char)c; }

static int by_letters(const char* a, size_t alen, const char* b, size_t blen) {
  for (size_t at = 0; at < alen && at < blen; at++) {
    if (letter(a[at]) != letter(b[at])) return letter(a[at]) - letter(b[at]);
  }
  return alen < blen ? -1 : alen > blen;
}

static int compare(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  switch (kind_of(state)) {
    case BACKWARDS: return -by_bytes(a, alen, b, blen);
    case BY_LENGTH: return alen != blen ? (alen < blen ? -7 : 7) : by_bytes(a, alen, b, blen);
    case BY_LETTERS: return by_letters(a, alen, b, blen);
    default: abort();
  }
}

static const char* order_name(void* state) {
  static const char* const names[] = {"", "test.Backwards", "test.ByLength", "test.ByLetters"};
  return names[kind_of(state)];
}

static const char* filter_name(void* state) {
  static const char* const names[] = {"", "", "test.FirstBytes", "test.Everything", "test.Nothing"};
  return names[kind_of(state)];
}

static char* create_filter(void* state, const char* const* keys, const size_t* lengths, int count,
                           size_t* filter_length) {
  int kind = kind_of(state);
  *filter_length = kind == FIRST_BYTES ? count : kind == EVERYTHING ? 3 : 0;
  char* filter = malloc(*filter_length + 1);
  for (int at = 0; at < count && kind == FIRST_BYTES; at++) {
    filter[at] = lengths[at] > 0 ? keys[at][0] : 0;
  }
  if (kind == EVERYTHING) memcpy(filter, "yes", 3);
  return filter;
}

static uint8_t may_match(void* state, const char* key, size_t length, const char* filter,
                         size_t filter_length) {
  switch (kind_of(state)) {
    case FIRST_BYTES: return memchr(filter, length > 0 ? key[0] : 0, filter_length) != NULL;
    case EVERYTHING: return filter_length == 3 && !memcmp(filter, "yes", 3) ? 2 : 0;
    case NOTHING_STORED: return filter_length == 0 ? 255 : 0;
    default: abort();
  }
}

/* A pair of objects that databases use. From time to time, a pair without users is replaced. */
struct shared {
  void* object[2];
  int users;
};
enum { NUM_CACHES = 3 };
static struct shared orders[NUM_ORDERS], filters[NUM_FILTERS], caches[NUM_CACHES];

static void make_order(int kind) {
  if (kind == BY_BYTES) return;
  INTO(orders[kind].object, leveldb_comparator_create)
  (new_state(at, kind), destroy_state, compare, order_name);
}

static void drop_order(int kind) {
  if (kind != BY_BYTES) EACH(leveldb_comparator_destroy)(orders[kind].object[at]);
}

static void make_filter(int kind) {
  int bits = 1 + chance(20);
  if (kind == BLOOM) {
    INTO(filters[kind].object, leveldb_filterpolicy_create_bloom)(bits);
  } else if (kind != NO_FILTER) {
    INTO(filters[kind].object, leveldb_filterpolicy_create)
    (new_state(at, kind), destroy_state, create_filter, may_match, filter_name);
  }
}

static void drop_filter(int kind) {
  if (kind != NO_FILTER) EACH(leveldb_filterpolicy_destroy)(filters[kind].object[at]);
}

static void make_cache(int index) {
  static const size_t sizes[] = {0, 1, 4096, 100000, 8 << 20};
  size_t bytes = sizes[chance(5)];
  INTO(caches[index].object, leveldb_cache_create_lru)(bytes);
}

static void drop_cache(int index) { EACH(leveldb_cache_destroy)(caches[index].object[at]); }

static void make_objects(void) {
  for (int kind = 0; kind < NUM_ORDERS; kind++) make_order(kind);
  for (int kind = 0; kind < NUM_FILTERS; kind++) make_filter(kind);
  for (int index = 0; index < NUM_CACHES; index++) make_cache(index);
}

static void drop_objects(void) {
  for (int kind = 0; kind < NUM_ORDERS; kind++) drop_order(kind);
  for (int kind = 0; kind < NUM_FILTERS; kind++) drop_filter(kind);
  for (int index = 0; index < NUM_CACHES; index++) drop_cache(index);
}

/* Replaces one object that no database uses. */
static void replace_object(void) {
  int kind = chance(NUM_ORDERS);
  if (orders[kind].users == 0) drop_order(kind), make_order(kind);
  kind = chance(NUM_FILTERS);
  if (filters[kind].users == 0) drop_filter(kind), make_filter(kind);
  kind = chance(NUM_CACHES);
  if (caches[kind].users == 0) drop_cache(kind), make_cache(kind);
}

/* Options of one open, and the shared objects in them. A cache of -1 is the library's own cache. */
struct settings {
  leveldb_options_t* options[2];
  leveldb_env_t* env[2];
  int order, filter, cache;
};

#define PICK(...) ((const long[]){__VA_ARGS__}[chance(sizeof((long[]){__VA_ARGS__}) / 8)])

/* Sets sizes and limits, including values that both libraries clamp. */
static void set_sizes(leveldb_options_t* const options[2]) {
  size_t buffer = PICK(0, 1 << 16, 100000, 1 << 20, 4 << 20);
  int files = PICK(-1, 0, 74, 100, 1000, 1000000);
  size_t block = PICK(0, 1024, 1500, 4096, 16384, 1 << 16);
  int restart = PICK(1, 2, 3, 16, 128);
  size_t file = PICK(0, 1 << 20, 2 << 20, 64 << 20);
  if (chance(4)) EACH(leveldb_options_set_write_buffer_size)(options[at], buffer);
  if (chance(4)) EACH(leveldb_options_set_max_open_files)(options[at], files);
  if (chance(4)) EACH(leveldb_options_set_block_size)(options[at], block);
  if (chance(4)) EACH(leveldb_options_set_block_restart_interval)(options[at], restart);
  if (chance(4)) EACH(leveldb_options_set_max_file_size)(options[at], file);
  note("buffer %zu, files %d, block %zu, restart %d, file %zu", buffer, files, block, restart,
       file);
}

/* Makes options with random settings for databases with this order of keys. */
static struct settings random_settings(int order) {
  struct settings set = {.order = order};
  /* BLOOM and FIRST_BYTES distinguish keys that are equal in the order BY_LETTERS. */
  set.filter = order == BY_LETTERS ? PICK(NO_FILTER, EVERYTHING, NOTHING_STORED)
                                   : (long)chance(NUM_FILTERS);
  set.cache = (int)chance(NUM_CACHES + 1) - 1;
  INTO(set.options, leveldb_options_create)();
  if (order != BY_BYTES) {
    EACH(leveldb_options_set_comparator)(set.options[at], orders[order].object[at]);
  }
  if (set.filter != NO_FILTER || chance(2)) {
    EACH(leveldb_options_set_filter_policy)(set.options[at], filters[set.filter].object[at]);
  }
  if (set.cache >= 0) {
    EACH(leveldb_options_set_cache)(set.options[at], caches[set.cache].object[at]);
  }
  if (once_in(4)) EACH(leveldb_options_set_compression)(set.options[at], 77);
  int compression = chance(2), paranoid = chance(2);
  EACH(leveldb_options_set_compression)(set.options[at], compression);
  if (chance(2)) EACH(leveldb_options_set_paranoid_checks)(set.options[at], paranoid);
  if (chance(2)) EACH(leveldb_options_set_info_log)(set.options[at], NULL);
  INTO(set.env, leveldb_create_default_env)();
  if (chance(2)) EACH(leveldb_options_set_env)(set.options[at], set.env[at]);
  note("options: order %d, filter %d, cache %d, compression %d", set.order, set.filter, set.cache,
       compression);
  set_sizes(set.options);
  return set;
}

/* Frees the options and environments, which an open database no longer needs. The shared objects
   stay. */
static void drop_settings(const struct settings* set) {
  EACH(leveldb_options_destroy)(set->options[at]);
  EACH(leveldb_env_destroy)(set->env[at]);
}

#endif
