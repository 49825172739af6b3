// Env::Default(): files, locks, threads and the clock of a POSIX system, for programs that use them
// directly. A database with this Env uses the Rust half's own filesystem instead.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <thread>

#include "leveldb/env.h"
#include "leveldb/slice.h"
#include "parts.h"

namespace leveldb {

namespace {

// The Status of the system call on `name` that has just failed.
Status Failed(const std::string& name) {
  const int error = errno;
  const char* const why = std::strerror(error);
  return error == ENOENT ? Status::NotFound(name, why) : Status::IOError(name, why);
}

// Repeats a system call that a signal has interrupted.
template <typename Call>
auto Retried(Call call) -> decltype(call()) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

int OpenFd(const std::string& name, int flags) {
  return Retried([&] { return ::open(name.c_str(), flags | O_CLOEXEC, 0644); });
}

class PosixSequentialFile final : public SequentialFile {
 public:
  PosixSequentialFile(const std::string& name, int fd) : name_(name), fd_(fd) {}
  ~PosixSequentialFile() override { ::close(fd_); }

  Status Read(size_t count, Slice* result, char* scratch) override {
    const ssize_t got = Retried([&] { return ::read(fd_, scratch, count); });
    *result = Slice(scratch, got < 0 ? 0 : static_cast<size_t>(got));
    return got < 0 ? Failed(name_) : Status::OK();
  }

  Status Skip(uint64_t count) override {
    return ::lseek(fd_, static_cast<off_t>(count), SEEK_CUR) < 0 ? Failed(name_) : Status::OK();
  }

 private:
  const std::string name_;
  const int fd_;
};

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(const std::string& name, int fd) : name_(name), fd_(fd) {}
  ~PosixRandomAccessFile() override { ::close(fd_); }

  Status Read(uint64_t offset, size_t count, Slice* result, char* scratch) const override {
    size_t done = 0;
    while (done < count) {
      const off_t at = static_cast<off_t>(offset + done);
      const ssize_t got = Retried([&] { return ::pread(fd_, scratch + done, count - done, at); });
      if (got < 0) {
        *result = Slice(scratch, 0);
        return Failed(name_);
      }
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    *result = Slice(scratch, done);
    return Status::OK();
  }

 private:
  const std::string name_;
  const int fd_;
};

std::string DirectoryOf(const std::string& name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : name.substr(0, slash);
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(const std::string& name, int fd) : name_(name), fd_(fd) {
    const Slice base = Slice(name).starts_with("/") || name.find('/') != std::string::npos
                           ? Slice(name_.data() + name_.rfind('/') + 1)
                           : Slice(name_);
    is_manifest_ = base.starts_with("MANIFEST");
    buffer_.reserve(kBufferBytes);
  }

  ~PosixWritableFile() override {
    if (fd_ >= 0) Close();
  }

  Status Append(const Slice& data) override {
    if (buffer_.size() + data.size() <= kBufferBytes) {
      buffer_.append(data.data(), data.size());
      return Status::OK();
    }
    const Status status = Flush();
    if (!status.ok()) return status;
    if (data.size() < kBufferBytes) {
      buffer_.append(data.data(), data.size());
      return Status::OK();
    }
    return WriteAll(data.data(), data.size());
  }

  Status Close() override {
    Status status = Flush();
    const int closed = ::close(fd_);
    fd_ = -1;
    if (closed < 0 && status.ok()) status = Failed(name_);
    return status;
  }

  Status Flush() override {
    const Status status = WriteAll(buffer_.data(), buffer_.size());
    buffer_.clear();
    return status;
  }

  // The names of the files that a MANIFEST lists must be durable before it is.
  Status Sync() override {
    if (is_manifest_) {
      const std::string dir = DirectoryOf(name_);
      const int fd = OpenFd(dir, O_RDONLY);
      if (fd < 0) return Failed(dir);
      const int synced = ::fsync(fd);
      const Status status = synced < 0 ? Failed(dir) : Status::OK();
      ::close(fd);
      if (!status.ok()) return status;
    }
    const Status status = Flush();
    if (!status.ok()) return status;
    return ::fdatasync(fd_) < 0 ? Failed(name_) : Status::OK();
  }

 private:
  static constexpr size_t kBufferBytes = size_t{64} << 10;

  Status WriteAll(const char* data, size_t len) {
    while (len > 0) {
      const ssize_t written = Retried([&] { return ::write(fd_, data, len); });
      if (written < 0) return Failed(name_);
      data += written;
      len -= static_cast<size_t>(written);
    }
    return Status::OK();
  }

  const std::string name_;
  int fd_;
  bool is_manifest_;
  std::string buffer_;
};

class PosixLock final : public FileLock {
 public:
  explicit PosixLock(cpp_file_lock* lock) : lock(lock) {}

  cpp_file_lock* const lock;
};

class PosixLogger final : public Logger {
 public:
  explicit PosixLogger(std::FILE* file) : file_(file) {}
  ~PosixLogger() override { std::fclose(file_); }

  // One line, with the time and the thread.
  void Logv(const char* format, std::va_list arguments) override {
    struct timeval now;
    ::gettimeofday(&now, nullptr);
    struct tm local;
    ::localtime_r(&now.tv_sec, &local);
    char time[64];
    std::strftime(time, sizeof(time), "%Y/%m/%d-%H:%M:%S", &local);
    std::va_list copy;
    va_copy(copy, arguments);
    const int len = std::vsnprintf(nullptr, 0, format, copy);
    va_end(copy);
    if (len < 0) return;
    std::string text(static_cast<size_t>(len) + 1, '\0');
    std::vsnprintf(&text[0], text.size(), format, arguments);
    text.pop_back();
    if (text.empty() || text.back() != '\n') text.push_back('\n');
    const size_t thread = std::hash<std::thread::id>()(std::this_thread::get_id());
    std::fprintf(file_, "%s.%06ld %zx %s", time, static_cast<long>(now.tv_usec), thread,
                 text.c_str());
    std::fflush(file_);
  }

 private:
  std::FILE* const file_;
};

class PosixEnv final : public Env {
 public:
  Status NewSequentialFile(const std::string& name, SequentialFile** file) override {
    return NewFile<PosixSequentialFile>(name, O_RDONLY, file);
  }

  Status NewRandomAccessFile(const std::string& name, RandomAccessFile** file) override {
    return NewFile<PosixRandomAccessFile>(name, O_RDONLY, file);
  }

  Status NewWritableFile(const std::string& name, WritableFile** file) override {
    return NewFile<PosixWritableFile>(name, O_WRONLY | O_CREAT | O_TRUNC, file);
  }

  Status NewAppendableFile(const std::string& name, WritableFile** file) override {
    return NewFile<PosixWritableFile>(name, O_WRONLY | O_CREAT | O_APPEND, file);
  }

  bool FileExists(const std::string& name) override { return ::access(name.c_str(), F_OK) == 0; }

  Status GetChildren(const std::string& dir, std::vector<std::string>* names) override {
    names->clear();
    DIR* const open = ::opendir(dir.c_str());
    if (open == nullptr) return Failed(dir);
    while (const struct dirent* const entry = ::readdir(open)) names->push_back(entry->d_name);
    ::closedir(open);
    return Status::OK();
  }

  Status RemoveFile(const std::string& name) override {
    return Done(::unlink(name.c_str()), name);
  }

  Status CreateDir(const std::string& dir) override {
    return Done(::mkdir(dir.c_str(), 0755), dir);
  }

  Status RemoveDir(const std::string& dir) override { return Done(::rmdir(dir.c_str()), dir); }

  Status GetFileSize(const std::string& name, uint64_t* bytes) override {
    struct stat found;
    *bytes = 0;
    if (::stat(name.c_str(), &found) != 0) return Failed(name);
    *bytes = static_cast<uint64_t>(found.st_size);
    return Status::OK();
  }

  Status RenameFile(const std::string& from, const std::string& to) override {
    return Done(std::rename(from.c_str(), to.c_str()), from);
  }

  // The Rust half knows the locks of databases, too. To the system, a process never keeps itself
  // out, and closing a second descriptor of a locked file releases the lock.
  Status LockFile(const std::string& name, FileLock** lock) override {
    *lock = nullptr;
    Errptr error;
    cpp_file_lock* const taken = cpp_lock(name.c_str(), error);
    if (taken != nullptr) *lock = new PosixLock(taken);
    return error.status();
  }

  Status UnlockFile(FileLock* lock) override {
    PosixLock* const ours = static_cast<PosixLock*>(lock);
    cpp_unlock(ours->lock);
    delete ours;
    return Status::OK();
  }

  void Schedule(void (*function)(void*), void* arg) override {
    std::lock_guard<std::mutex> guard(work_mutex_);
    if (!has_worker_) {
      has_worker_ = true;
      std::thread([this] { Work(); }).detach();
    }
    work_.push_back({function, arg});
    has_work_.notify_one();
  }

  void StartThread(void (*function)(void*), void* arg) override {
    std::thread(function, arg).detach();
  }

  Status GetTestDirectory(std::string* dir) override {
    const char* const given = std::getenv("TEST_TMPDIR");
    *dir = given != nullptr && given[0] != '\0' ? given
                                                : "/tmp/leveldbtest-" + std::to_string(::geteuid());
    // It may exist; any other error shows in its first use.
    CreateDir(*dir);
    return Status::OK();
  }

  Status NewLogger(const std::string& name, Logger** logger) override {
    *logger = nullptr;
    const int fd = OpenFd(name, O_WRONLY | O_CREAT | O_APPEND);
    if (fd < 0) return Failed(name);
    std::FILE* const file = ::fdopen(fd, "a");
    if (file == nullptr) {
      const Status status = Failed(name);
      ::close(fd);
      return status;
    }
    *logger = new PosixLogger(file);
    return Status::OK();
  }

  uint64_t NowMicros() override {
    struct timeval now;
    ::gettimeofday(&now, nullptr);
    return static_cast<uint64_t>(now.tv_sec) * 1000000 + static_cast<uint64_t>(now.tv_usec);
  }

  void SleepForMicroseconds(int micros) override {
    std::this_thread::sleep_for(std::chrono::microseconds(micros));
  }

 private:
  struct WorkItem {
    void (*function)(void*);
    void* arg;
  };

  template <typename File, typename Base>
  static Status NewFile(const std::string& name, int flags, Base** file) {
    *file = nullptr;
    const int fd = OpenFd(name, flags);
    if (fd < 0) return Failed(name);
    *file = new File(name, fd);
    return Status::OK();
  }

  static Status Done(int result, const std::string& name) {
    return result == 0 ? Status::OK() : Failed(name);
  }

  [[noreturn]] void Work() {
    for (;;) {
      WorkItem item;
      {
        std::unique_lock<std::mutex> guard(work_mutex_);
        has_work_.wait(guard, [this] { return !work_.empty(); });
        item = work_.front();
        work_.pop_front();
      }
      item.function(item.arg);
    }
  }

  std::mutex work_mutex_;
  std::condition_variable has_work_;
  std::deque<WorkItem> work_;
  bool has_worker_ = false;
};

}  // namespace

Env* Env::Default() {
  // Never destroyed: its thread runs to the end.
  static PosixEnv* const env = new PosixEnv;
  return env;
}

}  // namespace leveldb
