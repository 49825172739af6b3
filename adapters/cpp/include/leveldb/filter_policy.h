// Filters, which save reads of blocks that cannot contain a key.
#ifndef MINIKV_LEVELDB_FILTER_POLICY_H_
#define MINIKV_LEVELDB_FILTER_POLICY_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

// Several threads call it at once.
class LEVELDB_EXPORT FilterPolicy {
 public:
  virtual ~FilterPolicy();

  // The name under which tables store the filters. Change it with their encoding.
  virtual const char* Name() const = 0;

  // Appends the filter of `count` keys, which may repeat, to `*filter`.
  virtual void CreateFilter(const Slice* keys, int count, std::string* filter) const = 0;

  // Whether `key` may be one of the keys that `filter` was made of. True if it is one.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;
};

// LevelDB's Bloom filter. The caller deletes it after the databases that use it.
LEVELDB_EXPORT const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace leveldb

#endif
