#include "leveldb/iterator.h"

namespace leveldb {

Iterator::Iterator() : cleanup_head_{nullptr, nullptr, nullptr, nullptr} {}

Iterator::~Iterator() {
  if (cleanup_head_.function == nullptr) return;
  cleanup_head_.function(cleanup_head_.arg1, cleanup_head_.arg2);
  for (CleanupNode* node = cleanup_head_.next; node != nullptr;) {
    node->function(node->arg1, node->arg2);
    CleanupNode* const next = node->next;
    delete node;
    node = next;
  }
}

void Iterator::RegisterCleanup(CleanupFunction function, void* arg1, void* arg2) {
  assert(function != nullptr);
  if (cleanup_head_.function == nullptr) {
    cleanup_head_ = {function, arg1, arg2, nullptr};
  } else {
    cleanup_head_.next = new CleanupNode{function, arg1, arg2, cleanup_head_.next};
  }
}

namespace {

// An iterator without entries.
class Nothing final : public Iterator {
 public:
  explicit Nothing(const Status& status) : status_(status) {}

  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice&) override {}
  void Next() override { assert(false); }
  void Prev() override { assert(false); }
  Slice key() const override {
    assert(false);
    return Slice();
  }
  Slice value() const override {
    assert(false);
    return Slice();
  }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

Iterator* NewEmptyIterator() { return new Nothing(Status::OK()); }

Iterator* NewErrorIterator(const Status& status) { return new Nothing(status); }

}  // namespace leveldb
