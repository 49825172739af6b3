// Writes one table file.
#ifndef MINIKV_LEVELDB_TABLE_BUILDER_H_
#define MINIKV_LEVELDB_TABLE_BUILDER_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/options.h"
#include "leveldb/status.h"

namespace leveldb {

class WritableFile;

// One thread uses it at a time.
class LEVELDB_EXPORT TableBuilder {
 public:
  // Writes to `file`, which the caller closes after Finish.
  TableBuilder(const Options& options, WritableFile* file);

  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;
  // Only after Finish or Abandon.
  ~TableBuilder();

  // Uses other options from the next block on. InvalidArgument if an option cannot change.
  Status ChangeOptions(const Options& options);

  // Adds an entry, whose key is greater than all keys before.
  void Add(const Slice& key, const Slice& value);

  // Ends the current block.
  void Flush();

  // The first error.
  Status status() const;

  // Writes the end of the table.
  Status Finish();

  // Gives the table up. The caller removes the file.
  void Abandon();

  uint64_t NumEntries() const;
  // Bytes so far; after Finish, the size of the file.
  uint64_t FileSize() const;

 private:
  struct Rep;
  Rep* rep_;
};

}  // namespace leveldb

#endif
