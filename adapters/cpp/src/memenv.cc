#include "leveldb/helpers/memenv.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "leveldb/env.h"
#include "leveldb/slice.h"

namespace leveldb {

namespace {

// The bytes of a file, which live as long as the name or an open file refers to them.
class Contents {
 public:
  void Clear() {
    std::lock_guard<std::mutex> guard(mutex_);
    bytes_.clear();
  }

  void Append(const Slice& data) {
    std::lock_guard<std::mutex> guard(mutex_);
    bytes_.append(data.data(), data.size());
  }

  uint64_t size() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return bytes_.size();
  }

  Status Read(uint64_t offset, size_t count, Slice* result, char* scratch) const {
    std::lock_guard<std::mutex> guard(mutex_);
    *result = Slice();
    if (offset > bytes_.size()) return Status::IOError("Offset greater than file size.");
    count = std::min(count, bytes_.size() - static_cast<size_t>(offset));
    std::memcpy(scratch, bytes_.data() + offset, count);
    *result = Slice(scratch, count);
    return Status::OK();
  }

 private:
  mutable std::mutex mutex_;
  std::string bytes_;
};

using Shared = std::shared_ptr<Contents>;

class MemSequentialFile final : public SequentialFile {
 public:
  explicit MemSequentialFile(Shared contents) : contents_(std::move(contents)) {}

  Status Read(size_t count, Slice* result, char* scratch) override {
    const Status status = contents_->Read(position_, count, result, scratch);
    position_ += result->size();
    return status;
  }

  Status Skip(uint64_t count) override {
    const uint64_t size = contents_->size();
    if (position_ > size) return Status::IOError("position beyond the end of the file");
    position_ += std::min(count, size - position_);
    return Status::OK();
  }

 private:
  const Shared contents_;
  uint64_t position_ = 0;
};

class MemRandomAccessFile final : public RandomAccessFile {
 public:
  explicit MemRandomAccessFile(Shared contents) : contents_(std::move(contents)) {}

  Status Read(uint64_t offset, size_t count, Slice* result, char* scratch) const override {
    return contents_->Read(offset, count, result, scratch);
  }

 private:
  const Shared contents_;
};

class MemWritableFile final : public WritableFile {
 public:
  explicit MemWritableFile(Shared contents) : contents_(std::move(contents)) {}

  Status Append(const Slice& data) override {
    contents_->Append(data);
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }

 private:
  const Shared contents_;
};

class MemLock final : public FileLock {};

class MemLogger final : public Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

class MemEnv final : public EnvWrapper {
 public:
  explicit MemEnv(Env* base) : EnvWrapper(base) {}

  Status NewSequentialFile(const std::string& name, SequentialFile** file) override {
    return Open<MemSequentialFile>(name, file);
  }

  Status NewRandomAccessFile(const std::string& name, RandomAccessFile** file) override {
    return Open<MemRandomAccessFile>(name, file);
  }

  Status NewWritableFile(const std::string& name, WritableFile** file) override {
    const Shared contents = Made(name);
    contents->Clear();
    *file = new MemWritableFile(contents);
    return Status::OK();
  }

  Status NewAppendableFile(const std::string& name, WritableFile** file) override {
    *file = new MemWritableFile(Made(name));
    return Status::OK();
  }

  bool FileExists(const std::string& name) override { return Find(name) != nullptr; }

  // The names directly in the directory. There are no directories, so any name may be one.
  Status GetChildren(const std::string& dir, std::vector<std::string>* names) override {
    std::lock_guard<std::mutex> guard(mutex_);
    names->clear();
    const std::string prefix = dir + "/";
    for (const auto& file : files_) {
      if (file.first.size() > prefix.size() && Slice(file.first).starts_with(prefix)) {
        names->push_back(file.first.substr(prefix.size()));
      }
    }
    return Status::OK();
  }

  Status RemoveFile(const std::string& name) override {
    std::lock_guard<std::mutex> guard(mutex_);
    return files_.erase(name) == 0 ? Missing(name) : Status::OK();
  }

  Status CreateDir(const std::string&) override { return Status::OK(); }
  Status RemoveDir(const std::string&) override { return Status::OK(); }

  Status GetFileSize(const std::string& name, uint64_t* bytes) override {
    const Shared contents = Find(name);
    if (contents == nullptr) return Missing(name);
    *bytes = contents->size();
    return Status::OK();
  }

  Status RenameFile(const std::string& from, const std::string& to) override {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = files_.find(from);
    if (found == files_.end()) return Missing(from);
    const Shared contents = found->second;
    files_.erase(found);
    files_[to] = contents;
    return Status::OK();
  }

  Status LockFile(const std::string&, FileLock** lock) override {
    *lock = new MemLock;
    return Status::OK();
  }

  Status UnlockFile(FileLock* lock) override {
    delete lock;
    return Status::OK();
  }

  Status GetTestDirectory(std::string* dir) override {
    *dir = "/test";
    return Status::OK();
  }

  Status NewLogger(const std::string&, Logger** logger) override {
    *logger = new MemLogger;
    return Status::OK();
  }

 private:
  static Status Missing(const std::string& name) {
    return Status::IOError(name, "File not found");
  }

  Shared Find(const std::string& name) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = files_.find(name);
    return found == files_.end() ? nullptr : found->second;
  }

  // The file of this name, which is made if it is missing.
  Shared Made(const std::string& name) {
    std::lock_guard<std::mutex> guard(mutex_);
    Shared& contents = files_[name];
    if (contents == nullptr) contents = std::make_shared<Contents>();
    return contents;
  }

  template <typename File, typename Base>
  Status Open(const std::string& name, Base** file) {
    *file = nullptr;
    const Shared contents = Find(name);
    if (contents == nullptr) return Missing(name);
    *file = new File(contents);
    return Status::OK();
  }

  std::mutex mutex_;
  std::map<std::string, Shared> files_;
};

}  // namespace

Env* NewMemEnv(Env* base) { return new MemEnv(base); }

}  // namespace leveldb
