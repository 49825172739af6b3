// Puts and deletes that are applied together or not at all.
#ifndef MINIKV_LEVELDB_WRITE_BATCH_H_
#define MINIKV_LEVELDB_WRITE_BATCH_H_

#include <string>

#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

class Slice;

class LEVELDB_EXPORT WriteBatch {
 public:
  // Receives the operations of a batch.
  class LEVELDB_EXPORT Handler {
   public:
    virtual ~Handler();
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
  };

  WriteBatch();
  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;
  ~WriteBatch();

  void Put(const Slice& key, const Slice& value);
  void Delete(const Slice& key);
  void Clear();

  // Bytes that the batch takes in the log.
  size_t ApproximateSize() const;

  // Appends the operations of `source`.
  void Append(const WriteBatch& source);

  // Calls the handler for each operation, in their order.
  Status Iterate(Handler* handler) const;

 private:
  friend class WriteBatchInternal;

  // The batch as the log stores it: docs/format.md. Programs contain code that copies it.
  std::string rep_;
};

}  // namespace leveldb

#endif
