#include "leveldb/table.h"

#include <cassert>

#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "leveldb/table_builder.h"
#include "parts.h"

namespace leveldb {

using TableIterator = RustIterator<cpp_table_iterator, cpp_table_iterator_move,
                                   cpp_table_iterator_status, cpp_table_iterator_destroy>;

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
  rep_->builder = cpp_builder_create(rust.get(), options.block_size, file, &kEnvCalls);
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
