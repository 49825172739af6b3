#include "leveldb/write_batch.h"

#include <cstdint>
#include <cstring>

#include "leveldb/slice.h"

namespace leveldb {

namespace {

// A sequence number in 8 bytes, and the number of operations in 4.
constexpr size_t kHeaderBytes = 12;
constexpr size_t kCountAt = 8;

constexpr char kDelete = 0;
constexpr char kPut = 1;

void AppendBytes(std::string* to, const Slice& bytes) {
  uint32_t len = static_cast<uint32_t>(bytes.size());
  for (; len >= 0x80; len >>= 7) to->push_back(static_cast<char>(len | 0x80));
  to->push_back(static_cast<char>(len));
  to->append(bytes.data(), bytes.size());
}

// Takes bytes and their length from the front of `from`.
bool TakeBytes(Slice* from, Slice* bytes) {
  uint64_t len = 0;
  for (unsigned shift = 0; shift <= 28; shift += 7) {
    if (from->empty()) return false;
    const unsigned char byte = static_cast<unsigned char>((*from)[0]);
    from->remove_prefix(1);
    len |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      len &= 0xffffffff;
      if (len > from->size()) return false;
      *bytes = Slice(from->data(), static_cast<size_t>(len));
      from->remove_prefix(static_cast<size_t>(len));
      return true;
    }
  }
  return false;
}

// Numbers in a batch have their lowest byte first.
uint32_t Count(const std::string& rep) {
  uint32_t count = 0;
  for (size_t i = 4; i-- > 0;) {
    count = count << 8 | static_cast<unsigned char>(rep[kCountAt + i]);
  }
  return count;
}

void SetCount(std::string* rep, uint32_t count) {
  for (size_t i = 0; i < 4; i++) (*rep)[kCountAt + i] = static_cast<char>(count >> 8 * i);
}

}  // namespace

WriteBatch::Handler::~Handler() = default;

WriteBatch::WriteBatch() { Clear(); }

WriteBatch::~WriteBatch() = default;

void WriteBatch::Clear() { rep_.assign(kHeaderBytes, '\0'); }

size_t WriteBatch::ApproximateSize() const { return rep_.size(); }

void WriteBatch::Put(const Slice& key, const Slice& value) {
  SetCount(&rep_, Count(rep_) + 1);
  rep_.push_back(kPut);
  AppendBytes(&rep_, key);
  AppendBytes(&rep_, value);
}

void WriteBatch::Delete(const Slice& key) {
  SetCount(&rep_, Count(rep_) + 1);
  rep_.push_back(kDelete);
  AppendBytes(&rep_, key);
}

void WriteBatch::Append(const WriteBatch& source) {
  SetCount(&rep_, Count(rep_) + Count(source.rep_));
  // `source` may be this batch.
  const size_t len = source.rep_.size() - kHeaderBytes;
  rep_.reserve(rep_.size() + len);
  rep_.append(source.rep_.data() + kHeaderBytes, len);
}

Status WriteBatch::Iterate(Handler* handler) const {
  Slice rest(rep_);
  if (rest.size() < kHeaderBytes) return Status::Corruption("malformed WriteBatch (too small)");
  rest.remove_prefix(kHeaderBytes);
  uint32_t found = 0;
  for (; !rest.empty(); found++) {
    const char kind = rest[0];
    rest.remove_prefix(1);
    Slice key, value;
    if (kind == kPut) {
      if (!TakeBytes(&rest, &key) || !TakeBytes(&rest, &value)) {
        return Status::Corruption("bad WriteBatch Put");
      }
      handler->Put(key, value);
    } else if (kind == kDelete) {
      if (!TakeBytes(&rest, &key)) return Status::Corruption("bad WriteBatch Delete");
      handler->Delete(key);
    } else {
      return Status::Corruption("unknown WriteBatch tag");
    }
  }
  if (found != Count(rep_)) return Status::Corruption("WriteBatch has wrong count");
  return Status::OK();
}

}  // namespace leveldb
