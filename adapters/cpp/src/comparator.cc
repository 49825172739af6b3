#include "leveldb/comparator.h"

#include <algorithm>

#include "leveldb/slice.h"

namespace leveldb {

Comparator::~Comparator() = default;

namespace {

unsigned char ByteAt(const char* bytes, size_t index) {
  return static_cast<unsigned char>(bytes[index]);
}

class ByteOrder final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }

  const char* Name() const override { return "leveldb.BytewiseComparator"; }

  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    const size_t len = std::min(start->size(), limit.size());
    size_t at = 0;
    while (at < len && (*start)[at] == limit[at]) at++;
    // If one is a prefix of the other, there is nothing to shorten.
    if (at == len) return;
    const unsigned char next = ByteAt(start->data(), at);
    if (next < 0xff && next + 1 < ByteAt(limit.data(), at)) {
      (*start)[at] = static_cast<char>(next + 1);
      start->resize(at + 1);
    }
  }

  void FindShortSuccessor(std::string* key) const override {
    for (size_t at = 0; at < key->size(); at++) {
      if (ByteAt(key->data(), at) != 0xff) {
        (*key)[at] = static_cast<char>(ByteAt(key->data(), at) + 1);
        key->resize(at + 1);
        return;
      }
    }
  }
};

}  // namespace

const Comparator* BytewiseComparator() {
  // Never destroyed: databases in static variables use it to the end.
  static const ByteOrder* const order = new ByteOrder;
  return order;
}

}  // namespace leveldb
