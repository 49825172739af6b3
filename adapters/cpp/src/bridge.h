// The functions of the Rust half (*.rs) beyond LevelDB's C API.
#ifndef MINIKV_BRIDGE_H_
#define MINIKV_BRIDGE_H_

#include <cstddef>
#include <cstdint>

#include "../../c/include/minikv/minikv.h"

extern "C" {

// calls.rs
struct cpp_entry {
  const char* key;
  size_t key_len;
  const char* value;
  size_t value_len;
};

enum cpp_move : uint8_t {
  cpp_to_first = 0,
  cpp_to_last = 1,
  cpp_seek = 2,
  cpp_next = 3,
  cpp_prev = 4
};

leveldb_t* cpp_open(const leveldb_options_t*, const char* name, char** errptr);
uint8_t cpp_get(const leveldb_t*, const leveldb_readoptions_t*, const char* key, size_t key_len,
                void* target, void (*take)(void*, const char*, size_t), char** errptr);
void cpp_write(const leveldb_t*, const leveldb_writeoptions_t*, const char* contents, size_t len,
               char** errptr);
uint8_t cpp_iterator_move(leveldb_iterator_t*, uint8_t how, const char* key, size_t key_len,
                          cpp_entry*);

// order.rs
typedef char* (*cpp_shorten)(void*, const char* key, size_t key_len, const char* limit,
                             size_t limit_len, size_t* len);
void cpp_options_set_comparator(leveldb_options_t*, void* state, const char* name,
                                int (*compare)(void*, const char*, size_t, const char*, size_t),
                                cpp_shorten separator, cpp_shorten successor);

// log.rs
void cpp_options_set_logger(leveldb_options_t*, void* state,
                            void (*write)(void*, const char*, size_t));

// env.rs: functions return the text of an error, from malloc, and store its length; a length of 0
// is a success.
struct cpp_env_calls {
  char* (*open)(void* env, const char* name, size_t len, void** file, size_t* error);
  char* (*read)(void* file, uint64_t offset, char* to, size_t count, size_t* got, size_t* error);
  void (*close_read)(void* file);
  char* (*create)(void* env, const char* name, size_t len, uint8_t append, void** file,
                  size_t* error);
  char* (*write)(void* file, const char* data, size_t len, size_t* error);
  char* (*sync)(void* file, size_t* error);
  char* (*close_write)(void* file, size_t* error);
  char* (*rename)(void* env, const char* from, size_t from_len, const char* to, size_t to_len,
                  size_t* error);
  char* (*remove)(void* env, const char* name, size_t len, size_t* error);
  char* (*create_dir)(void* env, const char* name, size_t len, size_t* error);
  char* (*remove_dir)(void* env, const char* name, size_t len, size_t* error);
  char* (*list)(void* env, const char* name, size_t len, size_t* names, size_t* error);
  uint8_t (*exists)(void* env, const char* name, size_t len);
  char* (*size)(void* env, const char* name, size_t len, uint64_t* bytes, size_t* error);
  char* (*lock)(void* env, const char* name, size_t len, void** lock, size_t* error);
  void (*unlock)(void* env, void* lock);
};
void cpp_options_set_env(leveldb_options_t*, void* env, const cpp_env_calls*);

// lock.rs: a lock ends once, by cpp_unlock.
struct cpp_file_lock;
cpp_file_lock* cpp_lock(const char* name, char** errptr);
void cpp_unlock(cpp_file_lock*);

// listing.rs
void cpp_list_file(void* env, const cpp_env_calls*, const char* name, void* target,
                   void (*take)(void*, const char*, size_t), char** errptr);

// tables.rs
struct cpp_builder;
struct cpp_table;
struct cpp_table_iterator;
cpp_builder* cpp_builder_create(const leveldb_options_t*, size_t block_bytes, void* file,
                                const cpp_env_calls*);
void cpp_builder_add(cpp_builder*, const char* key, size_t key_len, const char* value,
                     size_t value_len);
void cpp_builder_end_block(cpp_builder*);
void cpp_builder_finish(cpp_builder*);
void cpp_builder_status(const cpp_builder*, char** errptr);
uint64_t cpp_builder_bytes(const cpp_builder*);
void cpp_builder_destroy(cpp_builder*);
cpp_table* cpp_table_open(const leveldb_options_t*, const void* file, uint64_t bytes,
                          const cpp_env_calls*, char** errptr);
void cpp_table_close(cpp_table*);
uint64_t cpp_table_offset(const cpp_table*, const char* key, size_t key_len);
cpp_table_iterator* cpp_table_iterator_create(const cpp_table*);
uint8_t cpp_table_iterator_move(cpp_table_iterator*, uint8_t how, const char* key, size_t key_len,
                                cpp_entry*);
void cpp_table_iterator_status(const cpp_table_iterator*, char** errptr);
void cpp_table_iterator_destroy(cpp_table_iterator*);

}  // extern "C"

#endif
