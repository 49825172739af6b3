// What LevelDB's own tests use of its insides, on minikv: the hooks of DBImpl that have a meaning
// here, and WriteBatchInternal. It is compiled with the headers of LevelDB's source package. A hook
// without a meaning here is missing: tests that call it are named in `judges`, with the reason, and
// the hook ends the program.
#include <cstdio>
#include <cstdlib>

#include "../../c/include/minikv/minikv.h"
#include "db/db_impl.h"
#include "db/memtable.h"
#include "db/write_batch_internal.h"
#include "util/coding.h"
#include "util/env_posix_test_helper.h"

namespace leveldb {

namespace {

// The first members of the library's own class of databases (src/parts.h).
struct Database {
  void* vtable;
  leveldb_t* db;
};

leveldb_t* Inside(DBImpl* db) { return reinterpret_cast<Database*>(db)->db; }

Status Result(char* error) {
  if (error == nullptr) return Status::OK();
  const Status status = Status::IOError(error);
  leveldb_free(error);
  return status;
}

}  // namespace

Status DBImpl::TEST_CompactMemTable() {
  char* error = nullptr;
  minikv_flush(Inside(this), &error);
  return Result(error);
}

// Compacts the range at all levels: minikv decides which levels to merge.
void DBImpl::TEST_CompactRange(int, const Slice* begin, const Slice* end) {
  reinterpret_cast<DB*>(this)->CompactRange(begin, end);
}

Iterator* DBImpl::TEST_NewInternalIterator() {
  std::fprintf(stderr, "TEST_NewInternalIterator has no meaning here\n");
  std::abort();
}

int64_t DBImpl::TEST_MaxNextLevelOverlappingBytes() {
  std::fprintf(stderr, "TEST_MaxNextLevelOverlappingBytes has no meaning here\n");
  std::abort();
}

int WriteBatchInternal::Count(const WriteBatch* batch) {
  return static_cast<int>(DecodeFixed32(batch->rep_.data() + 8));
}

void WriteBatchInternal::SetCount(WriteBatch* batch, int count) {
  EncodeFixed32(&batch->rep_[8], static_cast<uint32_t>(count));
}

SequenceNumber WriteBatchInternal::Sequence(const WriteBatch* batch) {
  return DecodeFixed64(batch->rep_.data());
}

void WriteBatchInternal::SetSequence(WriteBatch* batch, SequenceNumber sequence) {
  EncodeFixed64(&batch->rep_[0], sequence);
}

void WriteBatchInternal::SetContents(WriteBatch* batch, const Slice& contents) {
  batch->rep_.assign(contents.data(), contents.size());
}

void WriteBatchInternal::Append(WriteBatch* to, const WriteBatch* from) { to->Append(*from); }

Status WriteBatchInternal::InsertInto(const WriteBatch* batch, MemTable* memtable) {
  class Inserter final : public WriteBatch::Handler {
   public:
    Inserter(SequenceNumber sequence, MemTable* memtable)
        : sequence_(sequence), memtable_(memtable) {}
    void Put(const Slice& key, const Slice& value) override {
      memtable_->Add(sequence_++, kTypeValue, key, value);
    }
    void Delete(const Slice& key) override {
      memtable_->Add(sequence_++, kTypeDeletion, key, Slice());
    }

   private:
    SequenceNumber sequence_;
    MemTable* const memtable_;
  };
  Inserter inserter(Sequence(batch), memtable);
  return batch->Iterate(&inserter);
}

// LevelDB's SetCurrentFile calls it.
Status WriteStringToFileSync(Env* env, const Slice& data, const std::string& name) {
  WritableFile* file;
  Status status = env->NewWritableFile(name, &file);
  if (!status.ok()) return status;
  status = file->Append(data);
  if (status.ok()) status = file->Sync();
  if (status.ok()) status = file->Close();
  delete file;
  return status;
}

// Env::Default() has no limits of open files: it maps none, and each file is open until it is
// deleted.
void EnvPosixTestHelper::SetReadOnlyFDLimit(int) {}
void EnvPosixTestHelper::SetReadOnlyMMapLimit(int) {}

}  // namespace leveldb
