/* LevelDB's C API, and minikv's additions. Errors and memory: see leveldb/c.h. */
#ifndef MINIKV_H_
#define MINIKV_H_

#include "leveldb/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a database for reading only, even while another process writes to it, or on a read-only
   medium. Changes nothing and takes no lock. Writes through the handle fail; leveldb_close closes
   the handle. */
leveldb_t* minikv_open_read_only(const leveldb_options_t* options, const char* name, char** errptr);

/* Updates a handle from minikv_open_read_only to the current state of the files. Returns whether
   the state has changed. */
uint8_t minikv_refresh(leveldb_t* db, char** errptr);

/* Writes everything in memory to tables. */
void minikv_flush(leveldb_t* db, char** errptr);
/* Makes every write so far durable. */
void minikv_sync(leveldb_t* db, char** errptr);
/* Waits until no flush or compaction is running or due. */
void minikv_wait_idle(leveldb_t* db, char** errptr);
/* Accepts writes again after an error stopped them, such as a full disk. */
void minikv_resume(leveldb_t* db, char** errptr);
/* Like leveldb_compact_range, but reports errors. A key of NULL means no bound. */
void minikv_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                          const char* limit_key, size_t limit_key_len, char** errptr);
/* Deletes the keys from start_key up to but excluding limit_key. A key of NULL means no bound. */
void minikv_delete_range(leveldb_t* db, const leveldb_writeoptions_t* options,
                         const char* start_key, size_t start_key_len, const char* limit_key,
                         size_t limit_key_len, char** errptr);
/* Copies the database into the directory name, which must be empty or missing. */
void minikv_checkpoint(leveldb_t* db, const char* name, char** errptr);

/* Functions that return a report as JSON, or NULL after an error. */
char* minikv_stats_json(leveldb_t* db, char** errptr);
char* minikv_explain_json(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                          size_t keylen, char** errptr);
char* minikv_filter_advice_json(leveldb_t* db, char** errptr);
/* Reads all files of a database; the report's field "fault_count" is 0 if the files are sound. */
char* minikv_verify_json(const leveldb_options_t* options, const char* name, char** errptr);
/* Repairs a database. With dry_run, changes nothing and only returns the report. */
char* minikv_repair_json(const leveldb_options_t* options, const char* name, uint8_t dry_run,
                         char** errptr);

/* Filters of new tables: none, one for each block as in LevelDB, one for a whole table, or both.
   If all levels have none, the filters of existing tables are not used either. */
enum {
  minikv_filter_none = 0,
  minikv_filter_block = 1,
  minikv_filter_table = 2,
  minikv_filter_both = 3
};
void minikv_options_set_filter_layout(leveldb_options_t*, int layout, int bits_per_key);
void minikv_options_set_filter_at_level(leveldb_options_t*, int level, int layout,
                                        int bits_per_key);
/* Makes an open continue the last log instead of starting a new one. Default: 0. */
void minikv_options_set_reuse_logs(leveldb_options_t*, uint8_t);
/* Lets the log that is being written end in zeros. Default: 1. */
void minikv_options_set_preallocate_logs(leveldb_options_t*, uint8_t);
/* Reads tables through memory mappings, as LevelDB does. If the disk fails, or another program cuts
   a table off, the process then ends with SIGBUS. Default: 1. */
void minikv_options_set_map_tables(leveldb_options_t*, uint8_t);
/* Declares that keys that compare equal have equal bytes, so that filters may be used. Call it
   before a database is opened with the comparator. Default: 0. */
void minikv_comparator_set_equal_means_same_bytes(leveldb_comparator_t*, uint8_t);

/* A transaction reads the database as it was when the transaction began, and its own writes. The
   commit returns 1, or 0 and an error; an error that begins with "Conflict: " means that something
   that the transaction has read was changed by another write.
   Destroy a transaction even after its commit, and before its database is closed. */
typedef struct minikv_transaction_t minikv_transaction_t;
minikv_transaction_t* minikv_transaction_begin(leveldb_t* db, char** errptr);
char* minikv_transaction_get(minikv_transaction_t*, const char* key, size_t keylen,
                             size_t* vallen, char** errptr);
void minikv_transaction_put(minikv_transaction_t*, const char* key, size_t keylen,
                            const char* val, size_t vallen, char** errptr);
void minikv_transaction_delete(minikv_transaction_t*, const char* key, size_t keylen,
                               char** errptr);
uint8_t minikv_transaction_commit(minikv_transaction_t*, const leveldb_writeoptions_t*,
                                  char** errptr);
void minikv_transaction_destroy(minikv_transaction_t*);

#ifdef __cplusplus
}
#endif

#endif
