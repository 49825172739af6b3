// A program that uses most of LevelDB's C++ interface, and prints what it sees. It is compiled with
// Debian's headers and with this package's, and runs with either library on the other's database.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/table.h"
#include "leveldb/table_builder.h"
#include "leveldb/write_batch.h"

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);          \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (0)

#define OK(call)                                                                    \
  do {                                                                              \
    const leveldb::Status status_ = (call);                                         \
    if (!status_.ok()) {                                                            \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,            \
                   status_.ToString().c_str());                                     \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (0)

namespace {

using leveldb::Slice;
using leveldb::Status;

// Long keys last, and then in byte order.
class ByLength final : public leveldb::Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    return a.compare(b);
  }
  const char* Name() const override { return "example.ByLength"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

class Printer final : public leveldb::WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override {
    std::printf("put %s=%s\n", key.ToString().c_str(), value.ToString().c_str());
  }
  void Delete(const Slice& key) override { std::printf("delete %s\n", key.ToString().c_str()); }
};

// Counts the lines of a log.
class Counter final : public leveldb::Logger {
 public:
  void Logv(const char*, std::va_list) override { lines++; }
  int lines = 0;
};

// Counts the files that are made.
class CountingEnv final : public leveldb::EnvWrapper {
 public:
  explicit CountingEnv(leveldb::Env* base) : EnvWrapper(base) {}
  Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override {
    made++;
    return EnvWrapper::NewWritableFile(name, file);
  }
  int made = 0;
};

std::string Key(int number) {
  char key[16];
  std::snprintf(key, sizeof(key), "key%06d", number);
  return key;
}

void Print(leveldb::DB* db, const leveldb::ReadOptions& options) {
  std::unique_ptr<leveldb::Iterator> iterator(db->NewIterator(options));
  int entries = 0;
  unsigned hash = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    entries++;
    const std::string both = iterator->key().ToString() + "=" + iterator->value().ToString();
    for (const char byte : both) hash = hash * 31 + static_cast<unsigned char>(byte);
  }
  OK(iterator->status());
  std::printf("%d entries, hash %08x\n", entries, hash);
  for (iterator->SeekToLast(); iterator->Valid() && entries-- > 0; iterator->Prev()) {
  }
  CHECK(!iterator->Valid() && entries == 0);
}

void Cleaned(void* count, void* add) {
  *static_cast<int*>(count) += *static_cast<int*>(add);
}

// Opens the database if it exists, adds to it, and prints it.
void Everyday(const std::string& path) {
  Counter log;
  std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(1 << 20));
  std::unique_ptr<const leveldb::FilterPolicy> filter(leveldb::NewBloomFilterPolicy(10));
  leveldb::Options options;
  options.create_if_missing = true;
  options.block_cache = cache.get();
  options.filter_policy = filter.get();
  options.info_log = &log;
  options.write_buffer_size = 100000;
  leveldb::DB* opened;
  OK(leveldb::DB::Open(options, path, &opened));
  std::unique_ptr<leveldb::DB> db(opened);

  std::string value;
  CHECK(db->Get(leveldb::ReadOptions(), "nothing", &value).IsNotFound());
  int runs = 0;
  if (db->Get(leveldb::ReadOptions(), "runs", &value).ok()) runs = std::atoi(value.c_str());
  leveldb::WriteOptions synced;
  synced.sync = true;
  OK(db->Put(synced, "runs", std::to_string(runs + 1)));
  std::printf("run %d\n", runs + 1);

  const leveldb::Snapshot* const before = db->GetSnapshot();
  for (int i = runs * 5000; i < runs * 5000 + 6000; i++) {
    OK(db->Put(leveldb::WriteOptions(), Key(i), std::string(50, static_cast<char>('a' + i % 26))));
  }
  leveldb::WriteBatch batch;
  batch.Put("apple", "red");
  batch.Delete(Key(17));
  leveldb::WriteBatch more;
  more.Put("banana", "yellow");
  batch.Append(more);
  Printer printer;
  OK(batch.Iterate(&printer));
  std::printf("%d bytes\n", static_cast<int>(batch.ApproximateSize()));
  leveldb::WriteBatch copy = batch;
  OK(db->Write(leveldb::WriteOptions(), &copy));
  OK(db->Delete(leveldb::WriteOptions(), "banana"));

  leveldb::ReadOptions then;
  then.snapshot = before;
  then.fill_cache = false;
  Print(db.get(), then);
  Print(db.get(), leveldb::ReadOptions());
  db->ReleaseSnapshot(before);
  db->CompactRange(nullptr, nullptr);
  Print(db.get(), leveldb::ReadOptions());

  CHECK(db->GetProperty("leveldb.num-files-at-level0", &value) && value == "0");
  CHECK(db->GetProperty("leveldb.stats", &value) && !value.empty());
  CHECK(!db->GetProperty("leveldb.nothing", &value));
  const leveldb::Range ranges[2] = {leveldb::Range("a", "z"), leveldb::Range("y", "z")};
  uint64_t sizes[2];
  db->GetApproximateSizes(ranges, 2, sizes);
  CHECK(sizes[0] > 10000 && sizes[1] == 0);

  int cleaned = 0;
  int add[2] = {1, 10};
  leveldb::Iterator* const iterator = db->NewIterator(leveldb::ReadOptions());
  iterator->RegisterCleanup(Cleaned, &cleaned, &add[0]);
  iterator->RegisterCleanup(Cleaned, &cleaned, &add[1]);
  iterator->Seek("app");
  CHECK(iterator->Valid() && iterator->key() == "apple" && iterator->value() == "red");
  delete iterator;
  CHECK(cleaned == 11);
  db.reset();
  CHECK(log.lines > 0);

  options.error_if_exists = true;
  const Status exists = leveldb::DB::Open(options, path, &opened);
  CHECK(exists.IsInvalidArgument() && opened == nullptr);
  const Status copied = exists;
  CHECK(copied.ToString() == exists.ToString());
}

void OwnOrder(const std::string& path) {
  const ByLength order;
  leveldb::Options options;
  options.create_if_missing = true;
  options.comparator = &order;
  leveldb::DB* db;
  OK(leveldb::DB::Open(options, path, &db));
  for (const char* key : {"ccc", "b", "aa", ""}) OK(db->Put(leveldb::WriteOptions(), key, key));
  db->CompactRange(nullptr, nullptr);
  std::unique_ptr<leveldb::Iterator> iterator(db->NewIterator(leveldb::ReadOptions()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    std::printf("[%s]", iterator->key().ToString().c_str());
  }
  std::printf("\n");
  iterator.reset();
  delete db;
  options.comparator = leveldb::BytewiseComparator();
  std::printf("%s\n", leveldb::DB::Open(options, path, &db).ToString().c_str());
  OK(leveldb::DestroyDB(path, options));
}

void OwnEnv(const std::string& path) {
  CountingEnv env(leveldb::Env::Default());
  leveldb::Options options;
  options.create_if_missing = true;
  options.env = &env;
  leveldb::DB* db;
  OK(leveldb::DB::Open(options, path, &db));
  for (int i = 0; i < 1000; i++) OK(db->Put(leveldb::WriteOptions(), Key(i), "value"));
  leveldb::DB* other;
  CHECK(leveldb::DB::Open(options, path, &other).IsIOError());
  delete db;
  OK(leveldb::RepairDB(path, options));
  OK(leveldb::DB::Open(options, path, &db));
  Print(db, leveldb::ReadOptions());
  delete db;
  CHECK(env.made > 3);
  OK(leveldb::DestroyDB(path, options));
  CHECK(!env.FileExists(path + "/CURRENT"));
}

// Locks of the Env and of databases, by either Env, keep each other out within a process.
void Locks(const std::string& path) {
  leveldb::Env* const env = leveldb::Env::Default();
  CountingEnv own(env);
  leveldb::Options options;
  options.create_if_missing = true;
  for (leveldb::Env* const used : {env, static_cast<leveldb::Env*>(&own)}) {
    options.env = used;
    leveldb::DB* db;
    OK(leveldb::DB::Open(options, path, &db));
    leveldb::FileLock* lock;
    CHECK(env->LockFile(path + "/LOCK", &lock).IsIOError() && lock == nullptr);
    delete db;
    OK(env->LockFile(path + "/LOCK", &lock));
    leveldb::DB* other;
    CHECK(leveldb::DB::Open(options, path, &other).IsIOError() && other == nullptr);
    leveldb::FileLock* second;
    CHECK(env->LockFile(path + "/LOCK", &second).IsIOError() && second == nullptr);
    OK(env->UnlockFile(lock));
    OK(leveldb::DB::Open(options, path, &db));
    delete db;
  }
  OK(leveldb::DestroyDB(path, options));
}

void OneTable(const std::string& path) {
  leveldb::Env* const env = leveldb::Env::Default();
  const std::string name = path + ".table";
  leveldb::Options options;
  leveldb::WritableFile* out;
  OK(env->NewWritableFile(name, &out));
  leveldb::TableBuilder builder(options, out);
  for (int i = 0; i < 5000; i++) builder.Add(Key(i), std::string(30, 'x'));
  OK(builder.Finish());
  OK(out->Close());
  delete out;
  uint64_t bytes;
  OK(env->GetFileSize(name, &bytes));
  CHECK(bytes == builder.FileSize());
  std::printf("table: %d entries\n", static_cast<int>(builder.NumEntries()));
  leveldb::RandomAccessFile* in;
  OK(env->NewRandomAccessFile(name, &in));
  leveldb::Table* table;
  OK(leveldb::Table::Open(options, in, bytes, &table));
  leveldb::Iterator* const iterator = table->NewIterator(leveldb::ReadOptions());
  iterator->Seek(Key(2500));
  CHECK(iterator->Valid() && iterator->key() == Key(2500));
  std::printf("offset %d\n", static_cast<int>(table->ApproximateOffsetOf(Key(4999)) > bytes / 2));
  delete iterator;
  delete table;
  delete in;
  OK(env->RemoveFile(name));
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const std::string path = argv[1];
  Everyday(path);
  OwnOrder(path + ".order");
  OwnEnv(path + ".env");
  Locks(path + ".locks");
  OneTable(path);
  return 0;
}
