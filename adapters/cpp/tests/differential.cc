// Makes the same random calls of the C++ interface to LevelDB, to which the program is linked, and to
// minikv's library, which it loads. Every result must agree. From time to time, the two exchange
// their directories, and several threads call at once. With an odd seed, keys have an order of the
// program's own. It also has an Env, a logger and a filter policy of its own, at times.
//   differential LIBRARY DIRECTORY SEED CALLS
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/dumpfile.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/helpers/memenv.h"
#include "leveldb/write_batch.h"

namespace {

using leveldb::Iterator;
using leveldb::ReadOptions;
using leveldb::Slice;
using leveldb::Snapshot;
using leveldb::Status;

std::atomic<unsigned long> calls{0};

[[noreturn]] void Differ(const char* what, const std::string& theirs, const std::string& ours) {
  std::fprintf(stderr, "call %lu, %s: LevelDB \"%s\", minikv \"%s\"\n", calls.load(), what,
               theirs.c_str(), ours.c_str());
  std::exit(1);
}

void Agree(const char* what, const std::string& theirs, const std::string& ours) {
  if (theirs != ours) Differ(what, theirs, ours);
}

std::string Position(Iterator* iterator) {
  if (!iterator->Valid()) return "end " + iterator->status().ToString();
  return iterator->key().ToString() + "=" + iterator->value().ToString();
}

// An order of keys from the last byte string to the first.
class Backwards final : public leveldb::Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return b.compare(a); }
  const char* Name() const override { return "backwards"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

// A filter with a bit for each last byte of a key.
class LastBytes final : public leveldb::FilterPolicy {
 public:
  const char* Name() const override { return "last bytes"; }

  void CreateFilter(const Slice* keys, int count, std::string* filter) const override {
    const size_t start = filter->size();
    filter->resize(start + 32, '\0');
    for (int i = 0; i < count; i++) {
      char& byte = (*filter)[start + Last(keys[i]) / 8];
      byte = static_cast<char>(byte | 1 << Last(keys[i]) % 8);
    }
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return (filter[Last(key) / 8] & 1 << Last(key) % 8) != 0;
  }

 private:
  static unsigned Last(const Slice& key) {
    return key.empty() ? 0 : static_cast<unsigned char>(key[key.size() - 1]);
  }
};

// A logger that counts what it is told, from any thread.
class Counter final : public leveldb::Logger {
 public:
  void Logv(const char* format, std::va_list arguments) override {
    char line[200];
    lines += std::vsnprintf(line, sizeof(line), format, arguments) > 0;
  }

  std::atomic<unsigned long> lines{0};
};

// An Env that is the program's own, on top of the library's.
class OwnEnv final : public leveldb::EnvWrapper {
 public:
  explicit OwnEnv(leveldb::Env* base) : EnvWrapper(base) {}
};

// An Env that can open no table and does not say why, once it is broken.
class BrokenEnv final : public leveldb::EnvWrapper {
 public:
  explicit BrokenEnv(leveldb::Env* base) : EnvWrapper(base) {}

  Status NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** file) override {
    return IsLost(name) ? Status::IOError(name, "broken")
                        : EnvWrapper::NewRandomAccessFile(name, file);
  }

  bool FileExists(const std::string& name) override {
    return !IsLost(name) && EnvWrapper::FileExists(name);
  }

  static bool IsTable(const std::string& name) {
    return name.size() > 4 && name.compare(name.size() - 4, 4, ".ldb") == 0;
  }

  bool is_broken = false;

 private:
  bool IsLost(const std::string& name) const { return is_broken && IsTable(name); }
};

// An Env that cannot append to files, as by default.
class NoAppendEnv final : public leveldb::EnvWrapper {
 public:
  explicit NoAppendEnv(leveldb::Env* base) : EnvWrapper(base) {}

  Status NewAppendableFile(const std::string& name, leveldb::WritableFile** file) override {
    return leveldb::Env::NewAppendableFile(name, file);
  }
};

// A file that loses its last bytes, which only Close tells.
class LossyFile final : public leveldb::WritableFile {
 public:
  explicit LossyFile(leveldb::WritableFile* file) : file_(file) {}

  Status Append(const Slice& data) override { return file_->Append(data); }
  Status Flush() override { return file_->Flush(); }
  Status Sync() override { return file_->Sync(); }
  Status Close() override {
    file_->Close();
    return Status::IOError("the last bytes are lost");
  }

 private:
  const std::unique_ptr<leveldb::WritableFile> file_;
};

// An Env whose new tables lose their last bytes, once it is lossy.
class LossyEnv final : public leveldb::EnvWrapper {
 public:
  explicit LossyEnv(leveldb::Env* base) : EnvWrapper(base) {}

  Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override {
    const Status status = EnvWrapper::NewWritableFile(name, file);
    if (status.ok() && is_lossy && BrokenEnv::IsTable(name)) *file = new LossyFile(*file);
    return status;
  }

  std::atomic<bool> is_lossy{false};
};

// What is written to a file.
class Text final : public leveldb::WritableFile {
 public:
  Status Append(const Slice& data) override {
    bytes.append(data.data(), data.size());
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }

  std::string bytes;
};

// What the program calls by name, of one library.
struct Library {
  Status (*open)(const leveldb::Options&, const std::string&, leveldb::DB**);
  Status (*destroy)(const std::string&, const leveldb::Options&);
  Status (*dump)(leveldb::Env*, const std::string&, leveldb::WritableFile*);
  leveldb::Env* (*new_mem_env)(leveldb::Env*);
  const leveldb::Comparator* order;
  leveldb::Env* env;
  leveldb::Cache* cache;
  const leveldb::FilterPolicy* filter;
};

template <typename Function>
Function Named(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function>(found);
}

Library Theirs() {
  return {leveldb::DB::Open,
          leveldb::DestroyDB,
          leveldb::DumpFile,
          leveldb::NewMemEnv,
          leveldb::BytewiseComparator(),
          leveldb::Env::Default(),
          leveldb::NewLRUCache(100000),
          leveldb::NewBloomFilterPolicy(10)};
}

Library Ours(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  Library ours;
  ours.open = Named<decltype(ours.open)>(
      library,
      "_ZN7leveldb2DB4OpenERKNS_7OptionsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPPS0_");
  ours.destroy = Named<decltype(ours.destroy)>(
      library,
      "_ZN7leveldb9DestroyDBERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_7OptionsE");
  ours.dump = Named<decltype(ours.dump)>(
      library,
      "_ZN7leveldb8DumpFileEPNS_3EnvERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
      "PNS_12WritableFileE");
  ours.new_mem_env =
      Named<decltype(ours.new_mem_env)>(library, "_ZN7leveldb9NewMemEnvEPNS_3EnvE");
  ours.order = Named<const leveldb::Comparator* (*)()>(
      library, "_ZN7leveldb18BytewiseComparatorEv")();
  ours.env = Named<leveldb::Env* (*)()>(library, "_ZN7leveldb3Env7DefaultEv")();
  ours.cache = Named<leveldb::Cache* (*)(size_t)>(library, "_ZN7leveldb11NewLRUCacheEm")(100000);
  ours.filter = Named<const leveldb::FilterPolicy* (*)(int)>(
      library, "_ZN7leveldb20NewBloomFilterPolicyEi")(10);
  return ours;
}

const Backwards kBackwards;
const LastBytes kLastBytes;
// Stands for the library's own bloom filter.
const LastBytes* const kBloom = new LastBytes;
Counter logger;

// A database of each library, and what was taken from it.
struct Side {
  Library library;
  std::string path;
  leveldb::DB* db = nullptr;
  std::vector<const Snapshot*> snapshots = {};
  OwnEnv own_env{library.env};

  // Opens with the library's own objects, but for those of the program.
  Status Open(leveldb::Options options, bool has_own_env) {
    if (options.comparator == leveldb::BytewiseComparator()) options.comparator = library.order;
    options.env = library.env;
    if (has_own_env) options.env = &own_env;
    options.block_cache = library.cache;
    if (options.filter_policy == kBloom) options.filter_policy = library.filter;
    return library.open(options, path, &db);
  }

  void Close() {
    for (const Snapshot* snapshot : snapshots) db->ReleaseSnapshot(snapshot);
    snapshots.clear();
    delete db;
    db = nullptr;
  }
};

class Run {
 public:
  Run(const char* library, const std::string& directory, unsigned seed)
      : theirs_{Theirs(), directory + "/a"},
        ours_{Ours(library), directory + "/b"},
        is_backwards_(seed % 2 == 1),
        random_(seed) {
    Open();
  }

  ~Run() {
    theirs_.Close();
    ours_.Close();
    for (const Side* side : {&theirs_, &ours_}) {
      delete side->library.cache;
      delete side->library.filter;
    }
  }

  void Call() {
    calls++;
    if (Below(3000) == 0) return AtOnce();
    switch (Below(1000)) {
      case 0: return Reopen();
      case 1: return Compact();
      case 2: case 3: case 4: return Snapshots();
      case 5: case 6: case 7: case 8: case 9: return Iterate();
      default: break;
    }
    const unsigned kind = Below(10);
    if (kind < 4) return Get();
    if (kind < 8) return Put();
    if (kind < 9) return Delete();
    Batch();
  }

 private:
  unsigned Below(unsigned limit) { return random_() % limit; }

  std::string Key() {
    std::string key = std::to_string(Below(Below(2) == 0 ? 100 : 20000));
    if (Below(50) == 0) key.assign(Below(300), '\xff');
    if (Below(50) == 0) key.push_back('\0');
    return key;
  }

  std::string Value() {
    const unsigned len = Below(100) == 0 ? Below(20000) : Below(100);
    std::string value(len, static_cast<char>('a' + Below(26)));
    for (unsigned i = 0; i < len; i += 7) value[i] = static_cast<char>(Below(256));
    return value;
  }

  leveldb::WriteOptions Writing() {
    leveldb::WriteOptions options;
    options.sync = Below(200) == 0;
    return options;
  }

  // A pair of options, which may read at the same pair of snapshots.
  void Reading(ReadOptions* theirs, ReadOptions* ours) {
    theirs->fill_cache = ours->fill_cache = Below(2) == 0;
    theirs->verify_checksums = ours->verify_checksums = Below(2) == 0;
    if (theirs_.snapshots.empty() || Below(3) != 0) return;
    const size_t at = Below(static_cast<unsigned>(theirs_.snapshots.size()));
    theirs->snapshot = theirs_.snapshots[at];
    ours->snapshot = ours_.snapshots[at];
  }

  void Open() {
    leveldb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 65536 << Below(6);
    options.block_size = 1024 << Below(4);
    options.reuse_logs = Below(2) == 0;
    options.paranoid_checks = Below(2) == 0;
    options.compression = Below(2) == 0 ? leveldb::kNoCompression : leveldb::kSnappyCompression;
    const leveldb::FilterPolicy* const policies[] = {nullptr, kBloom, &kLastBytes};
    options.filter_policy = policies[Below(3)];
    if (is_backwards_) options.comparator = &kBackwards;
    options.info_log = &logger;
    const bool has_own_env = Below(3) == 0;
    Agree("open", theirs_.Open(options, has_own_env).ToString(),
          ours_.Open(options, has_own_env).ToString());
  }

  void Reopen() {
    theirs_.Close();
    ours_.Close();
    if (Below(2) == 0) std::swap(theirs_.path, ours_.path);
    Open();
  }

  void Compact() {
    const std::string from = Key(), to = Key();
    const leveldb::Slice begin(from), end(to);
    const bool whole = Below(2) == 0;
    theirs_.db->CompactRange(whole ? nullptr : &begin, whole ? nullptr : &end);
    ours_.db->CompactRange(whole ? nullptr : &begin, whole ? nullptr : &end);
  }

  // Calls from several threads, each of which has keys of its own and reads those of all.
  void AtOnce() {
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 4; thread++) {
      threads.emplace_back([this, thread, seed = random_()] { Alone(thread, seed); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void Alone(unsigned thread, unsigned seed) {
    std::mt19937 random(seed);
    for (unsigned count = 0; count < 300; count++) {
      calls++;
      const std::string key =
          "thread " + std::to_string(thread) + " " + std::to_string(random() % 50);
      const std::string value(random() % 2000, static_cast<char>('a' + random() % 26));
      std::string a = "none", b = "none";
      switch (random() % 8) {
        case 0:
          Agree("delete at once", theirs_.db->Delete({}, key).ToString(),
                ours_.db->Delete({}, key).ToString());
          break;
        case 1: case 2: case 3:
          Agree("put at once", theirs_.db->Put({}, key, value).ToString(),
                ours_.db->Put({}, key, value).ToString());
          break;
        case 4: {
          const std::unique_ptr<Iterator> all(ours_.db->NewIterator({}));
          for (all->Seek("thread"); all->Valid() && random() % 100 != 0; all->Next()) {
          }
          Agree("iterator at once", "OK", all->status().ToString());
          break;
        }
        default:
          theirs_.db->Get({}, key, &a);
          ours_.db->Get({}, key, &b);
          Agree("get at once", a, b);
      }
    }
  }

  void Snapshots() {
    if (theirs_.snapshots.size() < 5) {
      theirs_.snapshots.push_back(theirs_.db->GetSnapshot());
      ours_.snapshots.push_back(ours_.db->GetSnapshot());
      return;
    }
    const size_t at = Below(5);
    for (Side* side : {&theirs_, &ours_}) {
      side->db->ReleaseSnapshot(side->snapshots[at]);
      side->snapshots.erase(side->snapshots.begin() + static_cast<long>(at));
    }
  }

  void Iterate() {
    ReadOptions theirs, ours;
    Reading(&theirs, &ours);
    const std::unique_ptr<Iterator> a(theirs_.db->NewIterator(theirs));
    const std::unique_ptr<Iterator> b(ours_.db->NewIterator(ours));
    for (unsigned steps = Below(300); steps > 0; steps--) {
      calls++;
      const unsigned kind = Below(20);
      if (kind == 0) {
        const std::string key = Key();
        a->Seek(key);
        b->Seek(key);
      } else if (kind == 1) {
        a->SeekToFirst();
        b->SeekToFirst();
      } else if (kind == 2 || !a->Valid()) {
        a->SeekToLast();
        b->SeekToLast();
      } else if (kind < 8) {
        a->Prev();
        b->Prev();
      } else {
        a->Next();
        b->Next();
      }
      Agree("iterator", Position(a.get()), Position(b.get()));
    }
  }

  void Get() {
    ReadOptions theirs, ours;
    Reading(&theirs, &ours);
    const std::string key = Key();
    std::string a = "none", b = "none";
    const Status first = theirs_.db->Get(theirs, key, &a);
    const Status second = ours_.db->Get(ours, key, &b);
    Agree("status of get", first.ToString(), second.ToString());
    Agree("get", a, b);
  }

  void Put() {
    const std::string key = Key(), value = Value();
    const leveldb::WriteOptions options = Writing();
    Agree("put", theirs_.db->Put(options, key, value).ToString(),
          ours_.db->Put(options, key, value).ToString());
  }

  void Delete() {
    const std::string key = Key();
    const leveldb::WriteOptions options = Writing();
    Agree("delete", theirs_.db->Delete(options, key).ToString(),
          ours_.db->Delete(options, key).ToString());
  }

  void Batch() {
    leveldb::WriteBatch batch;
    for (unsigned count = Below(20); count > 0; count--) {
      if (Below(3) == 0) {
        batch.Delete(Key());
      } else {
        batch.Put(Key(), Value());
      }
    }
    const leveldb::WriteOptions options = Writing();
    Agree("write", theirs_.db->Write(options, &batch).ToString(),
          ours_.db->Write(options, &batch).ToString());
  }

  Side theirs_, ours_;
  const bool is_backwards_;
  std::mt19937 random_;
};

void Fails(const char* what, const Status& status) {
  if (!status.IsIOError()) Differ(what, "IO error (which it should say)", status.ToString());
}

// Reads whose table cannot be opened fail: NotFound, as LevelDB says, would mean that the key is
// missing.
void TablesThatCannotBeOpened(const Library& ours, const std::string& directory) {
  BrokenEnv env(ours.env);
  leveldb::Options options;
  options.create_if_missing = true;
  options.comparator = ours.order;
  for (const bool has_own_env : {false, true}) {
    const std::string path = directory + (has_own_env ? "/broken" : "/missing");
    options.env = has_own_env ? &env : ours.env;
    leveldb::DB* db;
    Agree("open", "OK", ours.open(options, path, &db).ToString());
    Agree("put", "OK", db->Put({}, "key", "value").ToString());
    db->CompactRange(nullptr, nullptr);
    delete db;
    Agree("open again", "OK", ours.open(options, path, &db).ToString());
    env.is_broken = has_own_env;
    std::vector<std::string> names;
    Agree("list", "OK", env.GetChildren(path, &names).ToString());
    for (const std::string& name : names) {
      if (!has_own_env && BrokenEnv::IsTable(name)) env.RemoveFile(path + "/" + name);
    }
    std::string value;
    Fails("get without its table", db->Get({}, "key", &value));
    std::unique_ptr<Iterator> iterator(db->NewIterator({}));
    iterator->SeekToFirst();
    Fails("iterator without its table", iterator->status());
    iterator.reset();
    delete db;
  }
}

// Where files are known by their names alone, a database keeps its writes also if its name ends in
// slashes, and LevelDB finds its files.
void NamesThatEndInSlashes(const Library& theirs, const Library& ours) {
  for (const char* const name : {"/db", "/db/", "/db//"}) {
    const std::string path = name;
    const std::unique_ptr<leveldb::Env> env(ours.new_mem_env(ours.env));
    leveldb::Options options;
    options.create_if_missing = true;
    options.comparator = ours.order;
    options.env = env.get();
    std::string value;
    leveldb::DB* db;
    Agree("open in memory", "OK", ours.open(options, path, &db).ToString());
    Agree("put in memory", "OK", db->Put({}, "key", "value").ToString());
    delete db;
    Agree("open the log in memory", "OK", ours.open(options, path, &db).ToString());
    Agree("get from the log", "OK", db->Get({}, "key", &value).ToString());
    db->CompactRange(nullptr, nullptr);
    delete db;
    Agree("open the table in memory", "OK", ours.open(options, path, &db).ToString());
    Agree("get from the table", "OK", db->Get({}, "key", &value).ToString());
    delete db;
    options.comparator = theirs.order;
    Agree("open with LevelDB", "OK", theirs.open(options, path, &db).ToString());
    Agree("get with LevelDB", "OK", db->Get({}, "key", &value).ToString());
    delete db;
    options.comparator = ours.order;
    Agree("destroy in memory", "OK", ours.destroy(path, options).ToString());
    std::vector<std::string> names;
    Agree("list in memory", "OK", env->GetChildren(path, &names).ToString());
    if (!names.empty()) Differ("files of a destroyed database", "none", names[0]);
  }
}

// A missing file is the same error in both.
void MissingFilesInMemory(const Library& theirs, const Library& ours) {
  std::vector<std::string> told[2];
  for (const Library* library : {&theirs, &ours}) {
    const std::unique_ptr<leveldb::Env> env(library->new_mem_env(library->env));
    leveldb::SequentialFile* in_order;
    leveldb::RandomAccessFile* anywhere;
    uint64_t bytes;
    told[library == &ours] = {env->NewSequentialFile("/none", &in_order).ToString(),
                              env->NewRandomAccessFile("/none", &anywhere).ToString(),
                              env->GetFileSize("/none", &bytes).ToString(),
                              env->RenameFile("/none", "/other").ToString(),
                              env->RemoveFile("/none").ToString()};
  }
  for (size_t i = 0; i < told[0].size(); i++) Agree("a missing file", told[0][i], told[1][i]);
}

// With reuse_logs, an Env that cannot append gets new logs.
void LogsThatCannotBeReused(const Library& ours, const std::string& directory) {
  NoAppendEnv env(ours.env);
  leveldb::Options options;
  options.create_if_missing = true;
  options.comparator = ours.order;
  options.env = &env;
  options.reuse_logs = true;
  std::string value;
  for (int opens = 0; opens < 3; opens++) {
    leveldb::DB* db;
    Agree("open without appends", "OK", ours.open(options, directory + "/new", &db).ToString());
    for (int key = 0; key < opens; key++) {
      Agree("get", "OK", db->Get({}, std::to_string(key), &value).ToString());
    }
    Agree("put", "OK", db->Put({}, std::to_string(opens), "value").ToString());
    delete db;
  }
}

// A table that could not be closed takes no log's place.
void TablesThatCannotBeClosed(const Library& ours, const std::string& directory) {
  const std::string path = directory + "/lossy";
  LossyEnv env(ours.env);
  leveldb::Options options;
  options.create_if_missing = true;
  options.comparator = ours.order;
  options.env = &env;
  leveldb::DB* db;
  Agree("open", "OK", ours.open(options, path, &db).ToString());
  Agree("put", "OK", db->Put({}, "key", "value").ToString());
  env.is_lossy = true;
  db->CompactRange(nullptr, nullptr);
  Fails("put after a table was lost", db->Put({}, "other", "value"));
  delete db;
  env.is_lossy = false;
  std::string value;
  Agree("open again", "OK", ours.open(options, path, &db).ToString());
  Agree("get from the log", "OK", db->Get({}, "key", &value).ToString());
  delete db;
}

// Both list the operations of a malformed batch up to the error. LevelDB logs such a batch before
// it refuses it.
void MalformedBatches(const Library& theirs, const Library& ours, const std::string& directory) {
  leveldb::Options options;
  options.create_if_missing = true;
  const std::string path = directory + "/malformed";
  leveldb::DB* db;
  Agree("open", "OK", theirs.open(options, path, &db).ToString());
  leveldb::WriteBatch batch;
  batch.Put("first", "value");
  batch.Delete("second");
  // The contents are the only member.
  static_assert(sizeof(batch) == sizeof(std::string), "a batch has more members");
  reinterpret_cast<std::string*>(&batch)->append("");
  if (db->Write({}, &batch).ok()) Differ("write of a malformed batch", "an error", "OK");
  delete db;
  std::vector<std::string> names;
  theirs.env->GetChildren(path, &names);
  for (const std::string& name : names) {
    if (name.size() < 4 || name.compare(name.size() - 4, 4, ".log") != 0) continue;
    Text listed[2];
    Agree("listing", theirs.dump(theirs.env, path + "/" + name, &listed[0]).ToString(),
          ours.dump(ours.env, path + "/" + name, &listed[1]).ToString());
    // The libraries describe the error in words of their own.
    const std::string end = "  error: ";
    for (Text& text : listed) text.bytes.resize(text.bytes.rfind(end) + end.size());
    Agree("operations before an error", listed[0].bytes, listed[1].bytes);
    if (listed[0].bytes.find("del 'second'") != std::string::npos) return;
  }
  Differ("a log with the malformed batch", "some", "none");
}

// A forked child that releases what it inherited leaves the lock to its parent, also the flock that
// goleveldb asks for.
void LocksOfTheParent(const Library& ours, const std::string& directory) {
  const std::string path = directory + "/LOCK";
  leveldb::FileLock* lock;
  Agree("lock", "OK", ours.env->LockFile(path, &lock).ToString());
  const pid_t child = fork();
  if (child == 0) {
    ours.env->UnlockFile(lock);
    _exit(flock(open(path.c_str(), O_RDWR | O_CLOEXEC), LOCK_EX | LOCK_NB) == 0);
  }
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) {
    Differ("lock in a forked child", "held by its parent", "released");
  }
  Agree("unlock", "OK", ours.env->UnlockFile(lock).ToString());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const unsigned long wanted = std::strtoul(argv[4], nullptr, 10);
  {
    Run run(argv[1], argv[2], static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10)));
    while (calls < wanted) run.Call();
  }
  const Library ours = Ours(argv[1]);
  const Library theirs = Theirs();
  TablesThatCannotBeOpened(ours, argv[2]);
  NamesThatEndInSlashes(theirs, ours);
  MissingFilesInMemory(theirs, ours);
  LogsThatCannotBeReused(ours, argv[2]);
  TablesThatCannotBeClosed(ours, argv[2]);
  MalformedBatches(theirs, ours, argv[2]);
  LocksOfTheParent(ours, argv[2]);
  for (const Library* library : {&theirs, &ours}) {
    delete library->cache;
    delete library->filter;
  }
  delete kBloom;
  if (logger.lines == 0) Differ("lines of the logs", "some", "none");
  std::printf("differential: %lu of %lu calls agree\n", calls.load(), calls.load());
  return 0;
}
