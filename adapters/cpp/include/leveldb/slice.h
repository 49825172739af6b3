// A pointer to bytes and their number. Whoever makes a Slice keeps the bytes alive.
#ifndef MINIKV_LEVELDB_SLICE_H_
#define MINIKV_LEVELDB_SLICE_H_

#include <cassert>
#include <cstddef>
#include <cstring>
#include <string>

#include "leveldb/export.h"

namespace leveldb {

class LEVELDB_EXPORT Slice {
 public:
  Slice() : data_(""), size_(0) {}
  Slice(const char* bytes, size_t count) : data_(bytes), size_(count) {}
  Slice(const std::string& text) : data_(text.data()), size_(text.size()) {}
  // Up to the first NUL.
  Slice(const char* text) : data_(text), size_(std::strlen(text)) {}
  Slice(const Slice&) = default;
  Slice& operator=(const Slice&) = default;

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  char operator[](size_t index) const {
    assert(index < size_);
    return data_[index];
  }

  void clear() { *this = Slice(); }

  void remove_prefix(size_t count) {
    assert(count <= size_);
    data_ += count;
    size_ -= count;
  }

  std::string ToString() const { return std::string(data_, size_); }

  // Byte order, bytes being unsigned: less than, equal to, or greater than 0.
  int compare(const Slice& other) const {
    const int order = std::memcmp(data_, other.data_, size_ < other.size_ ? size_ : other.size_);
    if (order != 0 || size_ == other.size_) return order;
    return size_ < other.size_ ? -1 : 1;
  }

  bool starts_with(const Slice& prefix) const {
    return size_ >= prefix.size_ && std::memcmp(data_, prefix.data_, prefix.size_) == 0;
  }

 private:
  const char* data_;
  size_t size_;
};

inline bool operator==(const Slice& a, const Slice& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

inline bool operator!=(const Slice& a, const Slice& b) { return !(a == b); }

}  // namespace leveldb

#endif
