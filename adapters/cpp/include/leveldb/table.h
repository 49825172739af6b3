// One table file.
#ifndef MINIKV_LEVELDB_TABLE_H_
#define MINIKV_LEVELDB_TABLE_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/iterator.h"

namespace leveldb {

struct Options;
class RandomAccessFile;
struct ReadOptions;

// A sorted map in a file. It does not change, and any number of threads may use it.
class LEVELDB_EXPORT Table {
 public:
  // Opens the table in the first `file_size` bytes of `file`, which the caller deletes after the
  // table. The keys are in the order of the options' comparator.
  static Status Open(const Options& options, RandomAccessFile* file, uint64_t file_size,
                     Table** table);

  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table();

  // The caller deletes it before the table.
  Iterator* NewIterator(const ReadOptions& options) const;

  // About where in the file the entry of `key` is, or would be.
  uint64_t ApproximateOffsetOf(const Slice& key) const;

 private:
  struct Rep;

  explicit Table(Rep* rep) : rep_(rep) {}

  Rep* const rep_;
};

}  // namespace leveldb

#endif
