#include "leveldb/db.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "leveldb/env.h"
#include "leveldb/write_batch.h"
#include "parts.h"

namespace leveldb {

DB::~DB() = default;
Snapshot::~Snapshot() = default;

// What a program's own DB can call in its overrides.
Status DB::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  WriteBatch batch;
  batch.Put(key, value);
  return Write(options, &batch);
}

Status DB::Delete(const WriteOptions& options, const Slice& key) {
  WriteBatch batch;
  batch.Delete(key);
  return Write(options, &batch);
}

// Reads the contents of a batch, which are private but for the class of this name.
class WriteBatchInternal {
 public:
  static const std::string& Contents(const WriteBatch& batch) { return batch.rep_; }
};

namespace {

// The options of a write, made once.
const leveldb_writeoptions_t* Writing(const WriteOptions& options) {
  static leveldb_writeoptions_t* const all[2] = {leveldb_writeoptions_create(), [] {
    leveldb_writeoptions_t* const sync = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(sync, 1);
    return sync;
  }()};
  return all[options.sync];
}

class RustSnapshot final : public Snapshot {
 public:
  explicit RustSnapshot(const leveldb_snapshot_t* snapshot) : snapshot(snapshot) {}
  ~RustSnapshot() override = default;

  const leveldb_snapshot_t* const snapshot;
};

// The options of a read. Those of a read without a snapshot are made once.
class Reading {
 public:
  explicit Reading(const ReadOptions& options) {
    static leveldb_readoptions_t* const all[2] = {Make(false), Make(true)};
    if (options.snapshot == nullptr) {
      options_ = all[options.fill_cache];
      return;
    }
    own_ = Make(options.fill_cache);
    leveldb_readoptions_set_snapshot(
        own_, static_cast<const RustSnapshot*>(options.snapshot)->snapshot);
    options_ = own_;
  }

  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  ~Reading() {
    if (own_ != nullptr) leveldb_readoptions_destroy(own_);
  }

  const leveldb_readoptions_t* get() const { return options_; }

 private:
  static leveldb_readoptions_t* Make(bool fill_cache) {
    leveldb_readoptions_t* const options = leveldb_readoptions_create();
    leveldb_readoptions_set_fill_cache(options, fill_cache);
    return options;
  }

  const leveldb_readoptions_t* options_;
  leveldb_readoptions_t* own_ = nullptr;
};

using DatabaseIterator = RustIterator<leveldb_iterator_t, cpp_iterator_move, leveldb_iter_get_error,
                                      leveldb_iter_destroy>;

void Assign(void* target, const char* value, size_t len) {
  static_cast<std::string*>(target)->assign(value, len);
}

}  // namespace

Database::~Database() { leveldb_close(db_); }

Status Database::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  Errptr error;
  leveldb_put(db_, Writing(options), key.data(), key.size(), value.data(), value.size(), error);
  return error.status();
}

Status Database::Delete(const WriteOptions& options, const Slice& key) {
  Errptr error;
  leveldb_delete(db_, Writing(options), key.data(), key.size(), error);
  return error.status();
}

Status Database::Write(const WriteOptions& options, WriteBatch* batch) {
  // LevelDB uses null to wait for the writes before.
  if (batch == nullptr) return Status::OK();
  Errptr error;
  const std::string& contents = WriteBatchInternal::Contents(*batch);
  cpp_write(db_, Writing(options), contents.data(), contents.size(), error);
  return error.status();
}

Status Database::Get(const ReadOptions& options, const Slice& key, std::string* value) {
  Errptr error;
  const Reading reading(options);
  if (cpp_get(db_, reading.get(), key.data(), key.size(), value, Assign, error) != 0) {
    return Status::OK();
  }
  return error.ok() ? Status::NotFound(Slice()) : error.status_of_read();
}

Iterator* Database::NewIterator(const ReadOptions& options) {
  return new DatabaseIterator(leveldb_create_iterator(db_, Reading(options).get()));
}

const Snapshot* Database::GetSnapshot() { return new RustSnapshot(leveldb_create_snapshot(db_)); }

void Database::ReleaseSnapshot(const Snapshot* snapshot) {
  const RustSnapshot* const ours = static_cast<const RustSnapshot*>(snapshot);
  leveldb_release_snapshot(db_, ours->snapshot);
  delete ours;
}

bool Database::GetProperty(const Slice& property, std::string* value) {
  value->clear();
  char* const text = leveldb_property_value(db_, property.ToString().c_str());
  if (text == nullptr) return false;
  value->assign(text);
  leveldb_free(text);
  return true;
}

void Database::GetApproximateSizes(const Range* ranges, int count, uint64_t* sizes) {
  for (int i = 0; i < count; i++) {
    const char* const start = ranges[i].start.data();
    const char* const limit = ranges[i].limit.data();
    const size_t start_len = ranges[i].start.size();
    const size_t limit_len = ranges[i].limit.size();
    leveldb_approximate_sizes(db_, 1, &start, &start_len, &limit, &limit_len, &sizes[i]);
  }
}

void Database::CompactRange(const Slice* begin, const Slice* end) {
  leveldb_compact_range(db_, begin == nullptr ? nullptr : begin->data(),
                        begin == nullptr ? 0 : begin->size(),
                        end == nullptr ? nullptr : end->data(), end == nullptr ? 0 : end->size());
}

Status DB::Open(const Options& options, const std::string& name, DB** db) {
  *db = nullptr;
  const RustOptions rust(options);
  if (!rust.status().ok()) return rust.status();
  Errptr error;
  leveldb_t* const opened = rust.has_env() ? cpp_open(rust.get(), name.c_str(), error)
                                           : leveldb_open(rust.get(), name.c_str(), error);
  if (opened != nullptr) *db = new Database(opened);
  const Status status = error.status();
  // LevelDB takes the lock before it looks for the database, so where it cannot, that is the error.
  if (status.IsInvalidArgument() && !rust.has_env() && ::access(name.c_str(), F_OK) == 0 &&
      ::access(name.c_str(), W_OK) != 0) {
    return Status::IOError(name + "/LOCK", std::strerror(errno));
  }
  return status;
}

Status DestroyDB(const std::string& name, const Options& options) {
  const RustOptions rust(options);
  Errptr error;
  leveldb_destroy_db(rust.get(), name.c_str(), error);
  // LevelDB removes an empty directory, too, even if it never was a database's.
  if (error.ok()) options.env->RemoveDir(name);
  return error.status();
}

Status RepairDB(const std::string& name, const Options& options) {
  const RustOptions rust(options);
  Errptr error;
  leveldb_repair_db(rust.get(), name.c_str(), error);
  return error.status();
}

}  // namespace leveldb
