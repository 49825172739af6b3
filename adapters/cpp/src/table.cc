#include "leveldb/table.h"

#include <cassert>

#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "leveldb/table_builder.h"
#include "parts.h"

namespace leveldb {

namespace {

class TableIterator final : public Iterator {
 public:
  explicit TableIterator(cpp_table_iterator* iterator) : iterator_(iterator) {}
  ~TableIterator() override { cpp_table_iterator_destroy(iterator_); }

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
    cpp_table_iterator_status(iterator_, error);
    return error.status();
  }

 private:
  void Move(cpp_move how, const Slice& key) {
    valid_ = cpp_table_iterator_move(iterator_, how, key.data(), key.size(), &entry_) != 0;
  }

  cpp_table_iterator* const iterator_;
  bool valid_ = false;
  cpp_entry entry_ = {"", 0, "", 0};
};

}  // namespace

struct Table::Rep {
  cpp_table* table;
};

Status Table::Open(const Options& options, RandomAccessFile* file, uint64_t file_size,
                   Table** table) {
  *table = nullptr;
  const RustOptions rust(options);
  Errptr error;
  cpp_table* const opened = cpp_table_open(rust.get(), file, file_size, &kEnvCalls, error);
  if (opened != nullptr) *table = new Table(new Rep{opened});
  return error.status();
}

Table::~Table() {
  cpp_table_close(rep_->table);
  delete rep_;
}

Iterator* Table::NewIterator(const ReadOptions&) const {
  return new TableIterator(cpp_table_iterator_create(rep_->table));
}

uint64_t Table::ApproximateOffsetOf(const Slice& key) const {
  return cpp_table_offset(rep_->table, key.data(), key.size());
}

struct TableBuilder::Rep {
  explicit Rep(const Options& options) : options(options) {}

  const Options options;
  cpp_builder* builder = nullptr;
  uint64_t entries = 0;
  bool is_closed = false;
};

TableBuilder::TableBuilder(const Options& options, WritableFile* file) : rep_(new Rep(options)) {
  const RustOptions rust(options);
  rep_->builder = cpp_builder_create(
      rust.get(), rust.filter_policy(), options.block_size,
      static_cast<size_t>(options.block_restart_interval), options.compression != kNoCompression,
      file, &kEnvCalls);
}

TableBuilder::~TableBuilder() {
  assert(rep_->is_closed);
  cpp_builder_destroy(rep_->builder);
  delete rep_;
}

Status TableBuilder::ChangeOptions(const Options& options) {
  const Options& old = rep_->options;
  if (options.comparator != old.comparator) {
    return Status::InvalidArgument("changing comparator while building table");
  }
  if (options.block_size != old.block_size || options.compression != old.compression ||
      options.block_restart_interval != old.block_restart_interval ||
      options.filter_policy != old.filter_policy) {
    return Status::NotSupported("changing options while building table");
  }
  return Status::OK();
}

void TableBuilder::Add(const Slice& key, const Slice& value) {
  assert(!rep_->is_closed);
  cpp_builder_add(rep_->builder, key.data(), key.size(), value.data(), value.size());
  rep_->entries++;
}

void TableBuilder::Flush() {
  assert(!rep_->is_closed);
  cpp_builder_end_block(rep_->builder);
}

Status TableBuilder::status() const {
  Errptr error;
  cpp_builder_status(rep_->builder, error);
  return error.status();
}

Status TableBuilder::Finish() {
  assert(!rep_->is_closed);
  rep_->is_closed = true;
  cpp_builder_finish(rep_->builder);
  return status();
}

void TableBuilder::Abandon() { rep_->is_closed = true; }

uint64_t TableBuilder::NumEntries() const { return rep_->entries; }

uint64_t TableBuilder::FileSize() const { return cpp_builder_bytes(rep_->builder); }

}  // namespace leveldb
