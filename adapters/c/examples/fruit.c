/* Writes, reads and scans through LevelDB's C API: compiles unchanged for LevelDB and for minikv.

   cc fruit.c $(pkg-config --cflags --libs minikv) -o fruit && ./fruit /tmp/fruit.db */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const char* doing, char* error) {
  if (error != NULL) {
    fprintf(stderr, "%s: %s\n", doing, error);
    exit(1);
  }
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "fruit.db";
  char* error = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_filterpolicy_t* bloom = leveldb_filterpolicy_create_bloom(10);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_filter_policy(options, bloom);

  leveldb_t* db = leveldb_open(options, path, &error);
  check("open", error);
  leveldb_put(db, write, "apple", 5, "red", 3, &error);
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "banana", 6, "yellow", 6);
  leveldb_writebatch_put(batch, "cherry", 6, "", 0);
  leveldb_write(db, write, batch, &error);
  leveldb_writebatch_destroy(batch);
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_delete(db, write, "cherry", 6, &error);
  check("write", error);

  size_t length;
  char* value = leveldb_get(db, read, "banana", 6, &length, &error);
  check("get", error);
  printf("banana is %.*s\n", (int)length, value);
  leveldb_free(value);
  value = leveldb_get(db, read, "cherry", 6, &length, &error);
  printf("cherry is %s now", value == NULL ? "gone" : "there");
  leveldb_readoptions_set_snapshot(read, snapshot);
  value = leveldb_get(db, read, "cherry", 6, &length, &error);
  printf(", and was %s before\n", value == NULL ? "gone" : "there");
  leveldb_free(value);
  leveldb_readoptions_set_snapshot(read, NULL);
  leveldb_release_snapshot(db, snapshot);

  leveldb_iterator_t* entries = leveldb_create_iterator(db, read);
  for (leveldb_iter_seek_to_last(entries); leveldb_iter_valid(entries); leveldb_iter_prev(entries)) {
    size_t key_length;
    const char* key = leveldb_iter_key(entries, &key_length);
    const char* entry = leveldb_iter_value(entries, &length);
    printf("%.*s = %.*s\n", (int)key_length, key, (int)length, entry);
  }
  leveldb_iter_get_error(entries, &error);
  check("scan", error);
  leveldb_iter_destroy(entries);

  /* This open must fail, because the first handle holds the lock. */
  leveldb_t* second = leveldb_open(options, path, &error);
  printf("a second open: %s\n",
         second == NULL && strncmp(error, "IO error: lock ", 15) == 0 ? "locked" : "WRONG");
  leveldb_free(error);

  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_filterpolicy_destroy(bloom);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
  return 0;
}
