#include "leveldb/env.h"

#include <cstring>

#include "parts.h"

namespace leveldb {

Env::Env() = default;
Env::~Env() = default;
SequentialFile::~SequentialFile() = default;
RandomAccessFile::~RandomAccessFile() = default;
WritableFile::~WritableFile() = default;
Logger::~Logger() = default;
FileLock::~FileLock() = default;
EnvWrapper::~EnvWrapper() = default;

Status Env::NewAppendableFile(const std::string& name, WritableFile** file) {
  *file = nullptr;
  return Status::NotSupported("NewAppendableFile", name);
}

Status Env::RemoveFile(const std::string& name) { return DeleteFile(name); }
Status Env::DeleteFile(const std::string& name) { return RemoveFile(name); }
Status Env::RemoveDir(const std::string& dir) { return DeleteDir(dir); }
Status Env::DeleteDir(const std::string& dir) { return RemoveDir(dir); }

Status WriteStringToFile(Env* env, const Slice& data, const std::string& name) {
  WritableFile* file;
  Status status = env->NewWritableFile(name, &file);
  if (!status.ok()) return status;
  status = file->Append(data);
  if (status.ok()) status = file->Close();
  delete file;
  if (!status.ok()) env->RemoveFile(name);
  return status;
}

Status ReadFileToString(Env* env, const std::string& name, std::string* data) {
  data->clear();
  SequentialFile* file;
  Status status = env->NewSequentialFile(name, &file);
  if (!status.ok()) return status;
  std::string scratch(size_t{64} << 10, '\0');
  Slice piece;
  do {
    status = file->Read(scratch.size(), &piece, &scratch[0]);
    if (status.ok()) data->append(piece.data(), piece.size());
  } while (status.ok() && !piece.empty());
  delete file;
  return status;
}

namespace {

Env* AsEnv(void* env) { return static_cast<Env*>(env); }

// Returns the result of a call as the Rust half takes it.
char* Told(const Status& status, size_t* error) {
  *error = 0;
  return status.ok() ? nullptr : Malloced(status.ToString(), error);
}

std::string Name(const char* name, size_t len) { return std::string(name, len); }

char* Open(void* env, const char* name, size_t len, void** file, size_t* error) {
  RandomAccessFile* opened = nullptr;
  const Status status = AsEnv(env)->NewRandomAccessFile(Name(name, len), &opened);
  *file = opened;
  return Told(status, error);
}

char* Read(void* file, uint64_t offset, char* to, size_t count, size_t* got, size_t* error) {
  Slice result;
  const Status status =
      static_cast<RandomAccessFile*>(file)->Read(offset, count, &result, to);
  *got = 0;
  if (status.ok()) {
    *got = result.size() < count ? result.size() : count;
    if (result.data() != to) std::memmove(to, result.data(), *got);
  }
  return Told(status, error);
}

void CloseRead(void* file) { delete static_cast<RandomAccessFile*>(file); }

char* Create(void* env, const char* name, size_t len, uint8_t append, void** file,
             size_t* error) {
  WritableFile* created = nullptr;
  const Status status = append != 0 ? AsEnv(env)->NewAppendableFile(Name(name, len), &created)
                                    : AsEnv(env)->NewWritableFile(Name(name, len), &created);
  *file = created;
  return Told(status, error);
}

// What was written survives the end of the process, so nothing stays in a buffer.
char* Write(void* file, const char* data, size_t len, size_t* error) {
  WritableFile* const to = static_cast<WritableFile*>(file);
  Status status = to->Append(Slice(data, len));
  if (status.ok()) status = to->Flush();
  return Told(status, error);
}

char* Sync(void* file, size_t* error) {
  return Told(static_cast<WritableFile*>(file)->Sync(), error);
}

char* CloseWrite(void* file, size_t* error) {
  WritableFile* const closed = static_cast<WritableFile*>(file);
  const Status status = closed->Close();
  delete closed;
  return Told(status, error);
}

char* Rename(void* env, const char* from, size_t from_len, const char* to, size_t to_len,
             size_t* error) {
  return Told(AsEnv(env)->RenameFile(Name(from, from_len), Name(to, to_len)), error);
}

char* Remove(void* env, const char* name, size_t len, size_t* error) {
  return Told(AsEnv(env)->RemoveFile(Name(name, len)), error);
}

char* CreateDir(void* env, const char* name, size_t len, size_t* error) {
  return Told(AsEnv(env)->CreateDir(Name(name, len)), error);
}

char* RemoveDir(void* env, const char* name, size_t len, size_t* error) {
  return Told(AsEnv(env)->RemoveDir(Name(name, len)), error);
}

char* List(void* env, const char* dir, size_t len, size_t* names_len, size_t* error) {
  std::vector<std::string> names;
  const Status status = AsEnv(env)->GetChildren(Name(dir, len), &names);
  *names_len = 0;
  if (!status.ok()) return Told(status, error);
  *error = 0;
  std::string joined;
  for (const std::string& name : names) joined.append(name).push_back('\0');
  return Malloced(joined, names_len);
}

uint8_t Exists(void* env, const char* name, size_t len) {
  return AsEnv(env)->FileExists(Name(name, len));
}

char* Size(void* env, const char* name, size_t len, uint64_t* bytes, size_t* error) {
  return Told(AsEnv(env)->GetFileSize(Name(name, len), bytes), error);
}

char* Lock(void* env, const char* name, size_t len, void** lock, size_t* error) {
  FileLock* taken = nullptr;
  const Status status = AsEnv(env)->LockFile(Name(name, len), &taken);
  *lock = taken;
  return Told(status, error);
}

void Unlock(void* env, void* lock) { AsEnv(env)->UnlockFile(static_cast<FileLock*>(lock)); }

}  // namespace

const cpp_env_calls kEnvCalls = {Open,   Read,      CloseRead, Create, Write,  Sync,
                                 CloseWrite, Rename, Remove,    CreateDir, RemoveDir, List,
                                 Exists, Size,      Lock,      Unlock};

}  // namespace leveldb
