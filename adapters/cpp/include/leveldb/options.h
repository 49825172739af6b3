// Options of a database, of a read and of a write. Sizes are in bytes.
#ifndef MINIKV_LEVELDB_OPTIONS_H_
#define MINIKV_LEVELDB_OPTIONS_H_

#include <cstddef>

#include "leveldb/export.h"

namespace leveldb {

class Cache;
class Comparator;
class Env;
class FilterPolicy;
class Logger;
class Snapshot;

// The numbers are stored in tables.
enum CompressionType { kNoCompression = 0x0, kSnappyCompression = 0x1 };

// The objects that the pointers refer to must outlive the database.
struct LEVELDB_EXPORT Options {
  Options();

  // The order of keys. BytewiseComparator() by default.
  const Comparator* comparator;
  bool create_if_missing = false;
  bool error_if_exists = false;
  // Makes some damage an error that is otherwise passed over.
  bool paranoid_checks = false;
  // The filesystem. Env::Default() by default.
  Env* env;
  // Told of the database's flushes and compactions. Without one, nothing is logged, not even to a
  // file LOG.
  Logger* info_log = nullptr;
  // Size of the memtable from which on it is written to a table.
  size_t write_buffer_size = 4 * 1024 * 1024;
  int max_open_files = 1000;
  // From NewLRUCache. If null, the database has one of 8 MiB of its own.
  Cache* block_cache = nullptr;
  size_t block_size = 4 * 1024;
  // Number of keys from one that is stored whole to the next.
  int block_restart_interval = 16;
  size_t max_file_size = 2 * 1024 * 1024;
  CompressionType compression = kSnappyCompression;
  // Goes on with the old log and MANIFEST after an open.
  bool reuse_logs = false;
  const FilterPolicy* filter_policy = nullptr;
};

struct LEVELDB_EXPORT ReadOptions {
  ReadOptions() = default;

  // Has no effect: every block's checksum is verified.
  bool verify_checksums = false;
  // Adds the blocks that are read to the block cache.
  bool fill_cache = true;
  // Reads the state of this snapshot. If null, reads the current state.
  const Snapshot* snapshot = nullptr;
};

struct LEVELDB_EXPORT WriteOptions {
  WriteOptions() = default;

  // Returns once the write would survive a loss of power. Without it, a write survives the end of
  // the process.
  bool sync = false;
};

}  // namespace leveldb

#endif
