// Caches of the blocks of tables.
#ifndef MINIKV_LEVELDB_CACHE_H_
#define MINIKV_LEVELDB_CACHE_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Cache;

// A cache of at most `capacity` bytes, in which the entries used least recently make room. It is
// the only kind of cache that a database accepts as its block cache.
LEVELDB_EXPORT Cache* NewLRUCache(size_t capacity);

class LEVELDB_EXPORT Cache {
 public:
  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  virtual ~Cache();

  // A use of an entry, which keeps the entry until Release.
  struct Handle {};

  // Adds an entry of `charge` bytes. The cache calls `deleter` once the entry is gone from the
  // cache and no handle of it is left.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge,
                         void (*deleter)(const Slice& key, void* value)) = 0;

  // Null if there is no entry of this key.
  virtual Handle* Lookup(const Slice& key) = 0;
  virtual void Release(Handle* handle) = 0;
  virtual void* Value(Handle* handle) = 0;
  virtual void Erase(const Slice& key) = 0;

  // A number that no other call on this cache returns.
  virtual uint64_t NewId() = 0;

  // Drops the entries without handles.
  virtual void Prune() {}

  // The bytes of all entries.
  virtual size_t TotalCharge() const = 0;

 private:
  struct Rep;
  Rep* rep_;
};

}  // namespace leveldb

#endif
