// What the files of the C++ half share.
#ifndef MINIKV_PARTS_H_
#define MINIKV_PARTS_H_

#include <mutex>
#include <string>
#include <unordered_map>

#include "bridge.h"
#include "leveldb/db.h"
#include "leveldb/iterator.h"

namespace leveldb {

class FilterPolicy;

// Objects that this library made, by address. Objects of the program cannot be asked what they are:
// it may have been compiled without type information.
template <typename Value>
class Registry {
 public:
  void Add(const void* object, Value value) {
    std::lock_guard<std::mutex> lock(mutex_);
    values_[object] = value;
  }

  void Remove(const void* object) {
    std::lock_guard<std::mutex> lock(mutex_);
    values_.erase(object);
  }

  // Stores the value of an object and returns true if it is here.
  bool Find(const void* object, Value* value) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = values_.find(object);
    if (found == values_.end()) return false;
    *value = found->second;
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, Value> values_;
};

// Returns a copy of `text` from malloc, and stores its length.
char* Malloced(const Slice& text, size_t* len);

// The variable for the error of a call of the Rust half.
class Errptr {
 public:
  Errptr() = default;
  Errptr(const Errptr&) = delete;
  Errptr& operator=(const Errptr&) = delete;
  ~Errptr() { leveldb_free(text_); }

  operator char**() { return &text_; }
  bool ok() const { return text_ == nullptr; }
  // The Status that has this text: its kind is the beginning of the text.
  Status status() const;
  // The same for a read, where a missing file is an I/O error: NotFound would say that there is no
  // such key.
  Status status_of_read() const;

 private:
  char* text_ = nullptr;
};

// An iterator of the Rust half, with the functions that move it, tell its error and end it.
template <typename State, uint8_t (*move)(State*, uint8_t, const char*, size_t, cpp_entry*),
          void (*report)(const State*, char**), void (*destroy)(State*)>
class RustIterator final : public Iterator {
 public:
  explicit RustIterator(State* state) : state_(state) {}
  ~RustIterator() override { destroy(state_); }

  bool Valid() const override { return valid_; }
  void SeekToFirst() override { Move(cpp_to_first, Slice()); }
  void SeekToLast() override { Move(cpp_to_last, Slice()); }
  void Seek(const Slice& target) override { Move(cpp_seek, target); }
  void Next() override { Move(cpp_next, Slice()); }
  void Prev() override { Move(cpp_prev, Slice()); }
  Slice key() const override { return Slice(entry_.key, entry_.key_len); }
  Slice value() const override { return Slice(entry_.value, entry_.value_len); }

  Status status() const override {
    Errptr error;
    report(state_, error);
    return error.status_of_read();
  }

 private:
  void Move(cpp_move how, const Slice& key) {
    valid_ = move(state_, how, key.data(), key.size(), &entry_) != 0;
  }

  State* const state_;
  bool valid_ = false;
  cpp_entry entry_ = {"", 0, "", 0};
};

// The options, as the Rust half takes them. They own what was made for them.
class RustOptions {
 public:
  explicit RustOptions(const Options& options);
  RustOptions(const RustOptions&) = delete;
  RustOptions& operator=(const RustOptions&) = delete;
  ~RustOptions();

  leveldb_options_t* get() const { return options_; }
  // An error if the options ask for what this library does not do.
  const Status& status() const { return status_; }
  // Whether the filesystem is that of the program.
  bool has_env() const { return has_env_; }

 private:
  leveldb_options_t* options_;
  leveldb_filterpolicy_t* policy_ = nullptr;
  bool has_env_ = false;
  Status status_;
};

// Functions that call the methods of an Env and its files.
extern const cpp_env_calls kEnvCalls;

// The block cache of the Rust half that belongs to a cache from NewLRUCache; null for any other.
leveldb_cache_t* BlockCacheOf(const Cache* cache);

// The policy as the Rust half takes it.
leveldb_filterpolicy_t* RustFilterPolicy(const FilterPolicy* policy);

// A database. A test that looks inside finds the C API's object behind its vtable.
class Database final : public DB {
 public:
  explicit Database(leveldb_t* db) : db_(db) {}
  ~Database() override;

  Status Put(const WriteOptions&, const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions&, const Slice& key) override;
  Status Write(const WriteOptions&, WriteBatch* batch) override;
  Status Get(const ReadOptions&, const Slice& key, std::string* value) override;
  Iterator* NewIterator(const ReadOptions&) override;
  const Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const Snapshot*) override;
  bool GetProperty(const Slice& property, std::string* value) override;
  void GetApproximateSizes(const Range*, int count, uint64_t* sizes) override;
  void CompactRange(const Slice* begin, const Slice* end) override;

 private:
  leveldb_t* const db_;
};

}  // namespace leveldb

#endif
