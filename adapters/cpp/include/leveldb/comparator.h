// The order of keys.
#ifndef MINIKV_LEVELDB_COMPARATOR_H_
#define MINIKV_LEVELDB_COMPARATOR_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

// A total order. Several threads call it at once, and it must not use the database.
class LEVELDB_EXPORT Comparator {
 public:
  virtual ~Comparator();

  // Less than 0, 0, or greater than 0.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;

  // The name that the database records. A database opens only with the comparator of this name.
  virtual const char* Name() const = 0;

  // May shorten `*start` to a key from `*start` up to, but not including, `limit`.
  virtual void FindShortestSeparator(std::string* start, const Slice& limit) const = 0;

  // May shorten `*key` to a key that is not less.
  virtual void FindShortSuccessor(std::string* key) const = 0;
};

// Byte order. The library owns the object.
LEVELDB_EXPORT const Comparator* BytewiseComparator();

}  // namespace leveldb

#endif
