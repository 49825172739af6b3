// The result of a call: success, or a kind of error with a text.
#ifndef MINIKV_LEVELDB_STATUS_H_
#define MINIKV_LEVELDB_STATUS_H_

#include <algorithm>
#include <string>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Status {
 public:
  Status() noexcept : state_(nullptr) {}
  ~Status() { delete[] state_; }
  Status(const Status& other)
      : state_(other.state_ == nullptr ? nullptr : CopyState(other.state_)) {}
  Status& operator=(const Status& other) {
    if (state_ != other.state_) {
      delete[] state_;
      state_ = other.state_ == nullptr ? nullptr : CopyState(other.state_);
    }
    return *this;
  }
  Status(Status&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  Status& operator=(Status&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }

  // The text is `what`, or "what: more" if `more` is not empty.
  static Status OK() { return Status(); }
  static Status NotFound(const Slice& what, const Slice& more = Slice()) {
    return Status(kNotFound, what, more);
  }
  static Status Corruption(const Slice& what, const Slice& more = Slice()) {
    return Status(kCorruption, what, more);
  }
  static Status NotSupported(const Slice& what, const Slice& more = Slice()) {
    return Status(kNotSupported, what, more);
  }
  static Status InvalidArgument(const Slice& what, const Slice& more = Slice()) {
    return Status(kInvalidArgument, what, more);
  }
  static Status IOError(const Slice& what, const Slice& more = Slice()) {
    return Status(kIOError, what, more);
  }

  bool ok() const { return state_ == nullptr; }
  bool IsNotFound() const { return code() == kNotFound; }
  bool IsCorruption() const { return code() == kCorruption; }
  bool IsIOError() const { return code() == kIOError; }
  bool IsNotSupportedError() const { return code() == kNotSupported; }
  bool IsInvalidArgument() const { return code() == kInvalidArgument; }

  // "OK", or the kind of error followed by the text.
  std::string ToString() const;

 private:
  enum Code {
    kOk = 0,
    kNotFound = 1,
    kCorruption = 2,
    kNotSupported = 3,
    kInvalidArgument = 4,
    kIOError = 5
  };

  Code code() const { return state_ == nullptr ? kOk : static_cast<Code>(state_[4]); }

  Status(Code code, const Slice& what, const Slice& more);
  static const char* CopyState(const char* state);

  // Null for success. Otherwise an array: the length of the text in 4 bytes, the code in 1, the
  // text. Programs contain code that reads and frees it.
  const char* state_;
};

}  // namespace leveldb

#endif
