// The operating system, as a database sees it: files, locks, logs and the clock. A program can put
// an Env of its own in Options::env.
#ifndef MINIKV_LEVELDB_ENV_H_
#define MINIKV_LEVELDB_ENV_H_

#include <cstdarg>
#include <cstdint>
#include <string>
#include <vector>

#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

class FileLock;
class Logger;
class RandomAccessFile;
class SequentialFile;
class Slice;
class WritableFile;

// Any number of threads may use it. Functions that make an object store a pointer to it, or null
// after an error, and the caller deletes it.
class LEVELDB_EXPORT Env {
 public:
  Env();
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;
  virtual ~Env();

  // The operating system itself. The library owns the object.
  static Env* Default();

  // NotFound if there is no such file.
  virtual Status NewSequentialFile(const std::string& name, SequentialFile** file) = 0;
  virtual Status NewRandomAccessFile(const std::string& name, RandomAccessFile** file) = 0;
  // The file is new or emptied.
  virtual Status NewWritableFile(const std::string& name, WritableFile** file) = 0;
  // Writes after the end of the file. NotSupported by default.
  virtual Status NewAppendableFile(const std::string& name, WritableFile** file);

  virtual bool FileExists(const std::string& name) = 0;
  // Stores the names in a directory, without the path of the directory.
  virtual Status GetChildren(const std::string& dir, std::vector<std::string>* names) = 0;

  // An Env implements one of RemoveFile and DeleteFile, the older name: by default, each calls the
  // other. The same holds for RemoveDir and DeleteDir.
  virtual Status RemoveFile(const std::string& name);
  virtual Status DeleteFile(const std::string& name);
  virtual Status CreateDir(const std::string& dir) = 0;
  virtual Status RemoveDir(const std::string& dir);
  virtual Status DeleteDir(const std::string& dir);

  virtual Status GetFileSize(const std::string& name, uint64_t* bytes) = 0;
  // Replaces `to` if it exists.
  virtual Status RenameFile(const std::string& from, const std::string& to) = 0;

  // Takes the lock on a file, which is made if it does not exist. Fails at once if another holds
  // it. UnlockFile deletes the lock.
  virtual Status LockFile(const std::string& name, FileLock** lock) = 0;
  virtual Status UnlockFile(FileLock* lock) = 0;

  // Runs `function(arg)` once, later, in a background thread.
  virtual void Schedule(void (*function)(void* arg), void* arg) = 0;
  // Runs `function(arg)` in a new thread.
  virtual void StartThread(void (*function)(void* arg), void* arg) = 0;

  // A directory for tests.
  virtual Status GetTestDirectory(std::string* dir) = 0;
  virtual Status NewLogger(const std::string& name, Logger** logger) = 0;
  // Microseconds since some moment.
  virtual uint64_t NowMicros() = 0;
  virtual void SleepForMicroseconds(int micros) = 0;
};

// A file that is read from front to back, by one thread at a time.
class LEVELDB_EXPORT SequentialFile {
 public:
  SequentialFile() = default;
  SequentialFile(const SequentialFile&) = delete;
  SequentialFile& operator=(const SequentialFile&) = delete;
  virtual ~SequentialFile();

  // Reads at most `count` bytes, which may be stored in `scratch`. An empty result is the end.
  virtual Status Read(size_t count, Slice* result, char* scratch) = 0;
  virtual Status Skip(uint64_t count) = 0;
};

// A file that is read at any place, by any number of threads.
class LEVELDB_EXPORT RandomAccessFile {
 public:
  RandomAccessFile() = default;
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  virtual ~RandomAccessFile();

  // Reads at most `count` bytes, which may be stored in `scratch`.
  virtual Status Read(uint64_t offset, size_t count, Slice* result, char* scratch) const = 0;
};

// A file that is written at its end. It may buffer.
class LEVELDB_EXPORT WritableFile {
 public:
  WritableFile() = default;
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;
  virtual ~WritableFile();

  virtual Status Append(const Slice& data) = 0;
  virtual Status Close() = 0;
  // Hands all bytes to the system.
  virtual Status Flush() = 0;
  // Makes all bytes durable.
  virtual Status Sync() = 0;
};

// Where messages go.
class LEVELDB_EXPORT Logger {
 public:
  Logger() = default;
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;
  virtual ~Logger();

  // As vprintf.
  virtual void Logv(const char* format, std::va_list arguments) = 0;
};

// A lock that is held.
class LEVELDB_EXPORT FileLock {
 public:
  FileLock() = default;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  virtual ~FileLock();
};

LEVELDB_EXPORT Status WriteStringToFile(Env* env, const Slice& data, const std::string& name);
LEVELDB_EXPORT Status ReadFileToString(Env* env, const std::string& name, std::string* data);

// Passes every call on to another Env. A program overrides what it wants to change.
class LEVELDB_EXPORT EnvWrapper : public Env {
 public:
  // The caller keeps `target` alive.
  explicit EnvWrapper(Env* target) : target_(target) {}
  virtual ~EnvWrapper();

  Env* target() const { return target_; }

  Status NewSequentialFile(const std::string& name, SequentialFile** file) override {
    return target_->NewSequentialFile(name, file);
  }
  Status NewRandomAccessFile(const std::string& name, RandomAccessFile** file) override {
    return target_->NewRandomAccessFile(name, file);
  }
  Status NewWritableFile(const std::string& name, WritableFile** file) override {
    return target_->NewWritableFile(name, file);
  }
  Status NewAppendableFile(const std::string& name, WritableFile** file) override {
    return target_->NewAppendableFile(name, file);
  }
  bool FileExists(const std::string& name) override { return target_->FileExists(name); }
  Status GetChildren(const std::string& dir, std::vector<std::string>* names) override {
    return target_->GetChildren(dir, names);
  }
  Status RemoveFile(const std::string& name) override { return target_->RemoveFile(name); }
  Status CreateDir(const std::string& dir) override { return target_->CreateDir(dir); }
  Status RemoveDir(const std::string& dir) override { return target_->RemoveDir(dir); }
  Status GetFileSize(const std::string& name, uint64_t* bytes) override {
    return target_->GetFileSize(name, bytes);
  }
  Status RenameFile(const std::string& from, const std::string& to) override {
    return target_->RenameFile(from, to);
  }
  Status LockFile(const std::string& name, FileLock** lock) override {
    return target_->LockFile(name, lock);
  }
  Status UnlockFile(FileLock* lock) override { return target_->UnlockFile(lock); }
  void Schedule(void (*function)(void*), void* arg) override { target_->Schedule(function, arg); }
  void StartThread(void (*function)(void*), void* arg) override {
    target_->StartThread(function, arg);
  }
  Status GetTestDirectory(std::string* dir) override { return target_->GetTestDirectory(dir); }
  Status NewLogger(const std::string& name, Logger** logger) override {
    return target_->NewLogger(name, logger);
  }
  uint64_t NowMicros() override { return target_->NowMicros(); }
  void SleepForMicroseconds(int micros) override { target_->SleepForMicroseconds(micros); }

 private:
  Env* target_;
};

}  // namespace leveldb

#endif
