/* Two libraries with LevelDB's C API in one process: loading them, calling the same function of
   both, and comparing what they return. The program stops at the first difference that
   differences.h does not list. */
#ifndef LIBRARIES_H_
#define LIBRARIES_H_

#include <leveldb/c.h>

#include <dlfcn.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(F)                                                                             \
  F(leveldb_open) F(leveldb_close) F(leveldb_put) F(leveldb_delete) F(leveldb_write)             \
  F(leveldb_get) F(leveldb_create_iterator) F(leveldb_create_snapshot)                           \
  F(leveldb_release_snapshot) F(leveldb_property_value) F(leveldb_approximate_sizes)             \
  F(leveldb_compact_range) F(leveldb_destroy_db) F(leveldb_repair_db) F(leveldb_iter_destroy)    \
  F(leveldb_iter_valid) F(leveldb_iter_seek_to_first) F(leveldb_iter_seek_to_last)               \
  F(leveldb_iter_seek) F(leveldb_iter_next) F(leveldb_iter_prev) F(leveldb_iter_key)             \
  F(leveldb_iter_value) F(leveldb_iter_get_error) F(leveldb_writebatch_create)                   \
  F(leveldb_writebatch_destroy) F(leveldb_writebatch_clear) F(leveldb_writebatch_put)            \
  F(leveldb_writebatch_delete) F(leveldb_writebatch_iterate) F(leveldb_writebatch_append)        \
  F(leveldb_options_create) F(leveldb_options_destroy) F(leveldb_options_set_comparator)         \
  F(leveldb_options_set_filter_policy) F(leveldb_options_set_create_if_missing)                  \
  F(leveldb_options_set_error_if_exists) F(leveldb_options_set_paranoid_checks)                  \
  F(leveldb_options_set_env) F(leveldb_options_set_info_log)                                     \
  F(leveldb_options_set_write_buffer_size) F(leveldb_options_set_max_open_files)                 \
  F(leveldb_options_set_cache) F(leveldb_options_set_block_size)                                 \
  F(leveldb_options_set_block_restart_interval) F(leveldb_options_set_max_file_size)             \
  F(leveldb_options_set_compression) F(leveldb_comparator_create) F(leveldb_comparator_destroy)  \
  F(leveldb_filterpolicy_create) F(leveldb_filterpolicy_destroy)                                 \
  F(leveldb_filterpolicy_create_bloom) F(leveldb_readoptions_create)                             \
  F(leveldb_readoptions_destroy) F(leveldb_readoptions_set_verify_checksums)                     \
  F(leveldb_readoptions_set_fill_cache) F(leveldb_readoptions_set_snapshot)                      \
  F(leveldb_writeoptions_create) F(leveldb_writeoptions_destroy) F(leveldb_writeoptions_set_sync) \
  F(leveldb_cache_create_lru) F(leveldb_cache_destroy) F(leveldb_create_default_env)             \
  F(leveldb_env_destroy) F(leveldb_env_get_test_directory) F(leveldb_free)                       \
  F(leveldb_major_version) F(leveldb_minor_version)

/* Index of LevelDB and of minikv in every pair. */
enum { THEIRS, OURS };

#define NUMBER(function) NUMBER_##function,
enum { FUNCTIONS(NUMBER) NUM_FUNCTIONS };

#define NAME(function) #function,
static const char* const function_names[] = {FUNCTIONS(NAME)};

#define MEMBER(function) __typeof__(function)* function;
static struct library { FUNCTIONS(MEMBER) } library[2];

static unsigned long calls_of[NUM_FUNCTIONS], calls = 0;
static uint64_t seed;

/* Calls a function of both libraries: EACH(leveldb_close)(db[at]). INTO stores what they return. */
#define EACH(function) for (int at = begin(NUMBER_##function); at < 2; at++) library[at].function
#define INTO(place, function) \
  for (int at = begin(NUMBER_##function); at < 2; at++) place[at] = library[at].function

/* The last notes, which show what led to a failure. */
enum { NOTES = 40, NOTE_BYTES = 160 };
static char notes[NOTES][NOTE_BYTES];
static unsigned long noted = 0;

static void note(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int used = snprintf(notes[noted % NOTES], NOTE_BYTES, "%lu: ", calls);
  vsnprintf(notes[noted++ % NOTES] + used, NOTE_BYTES - used, format, arguments);
  va_end(arguments);
}

static int current = 0;

static int begin(int number) {
  calls++;
  calls_of[number]++;
  current = number;
  return 0;
}

static void fail(const char* what) {
  fflush(stdout);
  for (unsigned long at = noted < NOTES ? 0 : noted - NOTES; at < noted; at++) {
    fprintf(stderr, "  %s\n", notes[at % NOTES]);
  }
  fprintf(stderr, "seed %llu, call %lu, %s: %s\n", (unsigned long long)seed, calls,
          function_names[current], what);
  exit(1);
}

static void print_bytes(const char* whose, const char* bytes, size_t length) {
  fprintf(stderr, "%s: ", whose);
  if (bytes == NULL) fprintf(stderr, "null");
  else fprintf(stderr, "%zu bytes \"", length);
  for (size_t at = 0; bytes != NULL && at < length && at < 80; at++) {
    unsigned char byte = bytes[at];
    fprintf(stderr, byte >= ' ' && byte < 127 ? "%c" : "\\x%02x", byte);
  }
  fprintf(stderr, bytes == NULL ? "\n" : "\"\n");
}

/* Checks that both are null, or that both have the same bytes. */
static void same_bytes(const char* const bytes[2], const size_t length[2]) {
  int same = length[THEIRS] == length[OURS] && (bytes[THEIRS] == NULL) == (bytes[OURS] == NULL);
  if (same && (length[OURS] == 0 || !memcmp(bytes[THEIRS], bytes[OURS], length[OURS]))) return;
  print_bytes("LevelDB", bytes[THEIRS], length[THEIRS]);
  print_bytes("minikv", bytes[OURS], length[OURS]);
  fail("different bytes");
}

static void same_number(const char* what, const long number[2]) {
  if (number[THEIRS] == number[OURS]) return;
  fprintf(stderr, "%s: %ld in LevelDB, %ld in minikv\n", what, number[THEIRS], number[OURS]);
  fail("different numbers");
}

#include "differences.h"

/* The directory of the databases: LevelDB's are in `a` and minikv's in `b`, until they are
   swapped. */
static const char* home;

/* Replaces the directories of both libraries in the text with "HOME/_". */
static void hide_paths(char* text) {
  size_t length = strlen(home);
  for (char* at = text; (at = strstr(at, home)) != NULL; at += length) {
    if (at[length] == '/' && (at[length + 1] == 'a' || at[length + 1] == 'b')) at[length + 1] = '_';
  }
}

/* The error strings that the next call of each library gets. */
static char* error[2] = {NULL, NULL};
static const char older_error[] = "an older error";

static void set_older_errors(void) {
  for (int at = 0; at < 2; at++) {
    free(error[at]);
    error[at] = strdup(older_error);
  }
}

/* Compares the errors of the last call and frees them. Returns whether the call failed. If a
   call succeeds, it must leave the string that was stored before. */
static int failed(void) {
  int is[2];
  for (int at = 0; at < 2; at++) {
    is[at] = error[at] != NULL && strcmp(error[at], older_error) != 0;
    if (is[at]) hide_paths(error[at]);
  }
  if (is[THEIRS] != is[OURS] || (is[OURS] && strcmp(error[THEIRS], error[OURS]) != 0)) {
    const char* theirs = is[THEIRS] ? error[THEIRS] : "";
    const char* ours = is[OURS] ? error[OURS] : "";
    if (!may_differ(theirs, ours)) {
      fprintf(stderr, "LevelDB: %s\nminikv:  %s\n", theirs, ours);
      fail("different errors");
    }
  }
  if (is[THEIRS] || is[OURS]) note("error: %s", error[is[OURS] ? OURS : THEIRS]);
  for (int at = 0; at < 2; at++) {
    free(error[at]);
    error[at] = NULL;
  }
  return is[THEIRS] + is[OURS];
}

/* Like failed, for calls that cannot fail in this program. */
static void succeeded(void) {
  if (failed()) fail("an error in both");
}

static void load(int at, const char* path) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
#define LOAD(function)                                                    \
  *(void**)&library[at].function = dlsym(handle, #function);              \
  if (library[at].function == NULL) fprintf(stderr, "%s has no " #function "\n", path), exit(2);
  FUNCTIONS(LOAD)
}

#endif
