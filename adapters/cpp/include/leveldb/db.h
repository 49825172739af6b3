// A database: a map from keys to values, in the order of the keys, in a directory.
#ifndef MINIKV_LEVELDB_DB_H_
#define MINIKV_LEVELDB_DB_H_

#include <cstdint>
#include <cstdio>

#include "leveldb/export.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"

namespace leveldb {

// The version of LevelDB whose interface this is.
static const int kMajorVersion = 1;
static const int kMinorVersion = 23;

class WriteBatch;

// A state of the database, which stays readable until ReleaseSnapshot.
class LEVELDB_EXPORT Snapshot {
 protected:
  virtual ~Snapshot();
};

// The keys from `start` up to, but not including, `limit`.
struct LEVELDB_EXPORT Range {
  Range() = default;
  Range(const Slice& start_key, const Slice& limit_key) : start(start_key), limit(limit_key) {}

  Slice start;
  Slice limit;
};

// Any number of threads may use a database at once. Iterators and snapshots are deleted and
// released before the database is deleted.
class LEVELDB_EXPORT DB {
 public:
  // Opens the database in the directory `name`, and stores a pointer to it, or null after an error.
  // Deleting the database closes it.
  static Status Open(const Options& options, const std::string& name, DB** db);

  DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  virtual ~DB();

  virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;
  // It is no error if there is no such key.
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;
  virtual Status Write(const WriteOptions& options, WriteBatch* batch) = 0;

  // Stores the value, or returns NotFound.
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;

  // The iterator is not at an entry yet. The caller deletes it.
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;

  virtual const Snapshot* GetSnapshot() = 0;
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;

  // Stores a property: "leveldb.num-files-at-level<N>", "leveldb.stats", "leveldb.sstables" or
  // "leveldb.approximate-memory-usage". Returns false if there is no such property.
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;

  // Stores, for each of `count` ranges, about how many bytes its entries take in tables and in
  // memory.
  virtual void GetApproximateSizes(const Range* ranges, int count, uint64_t* sizes) = 0;

  // Compacts the tables with keys from `*begin` to `*end`. A null pointer is no bound.
  virtual void CompactRange(const Slice* begin, const Slice* end) = 0;
};

// Removes the database in the directory `name`, and the directory if nothing else is in it.
LEVELDB_EXPORT Status DestroyDB(const std::string& name, const Options& options);

// Makes a damaged database usable again. What cannot be read is put aside.
LEVELDB_EXPORT Status RepairDB(const std::string& name, const Options& options);

}  // namespace leveldb

#endif
