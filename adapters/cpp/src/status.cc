#include "leveldb/status.h"

#include <cstdint>
#include <cstring>

#include "parts.h"

namespace leveldb {

namespace {

struct Kind {
  const char* prefix;
  Status (*make)(const Slice&, const Slice&);
};

constexpr char kNotFound[] = "NotFound: ";

const Kind kKinds[] = {
    {kNotFound, Status::NotFound},
    {"Corruption: ", Status::Corruption},
    {"Not implemented: ", Status::NotSupported},
    {"Invalid argument: ", Status::InvalidArgument},
    {"IO error: ", Status::IOError},
};

constexpr size_t kHeaderBytes = 5;

}  // namespace

Status::Status(Code code, const Slice& what, const Slice& more) {
  const size_t separator = more.empty() ? 0 : 2;
  const uint32_t len = static_cast<uint32_t>(what.size() + separator + more.size());
  char* state = new char[kHeaderBytes + len];
  std::memcpy(state, &len, sizeof(len));
  state[4] = static_cast<char>(code);
  char* to = state + kHeaderBytes;
  std::memcpy(to, what.data(), what.size());
  if (separator > 0) {
    std::memcpy(to + what.size(), ": ", separator);
    std::memcpy(to + what.size() + separator, more.data(), more.size());
  }
  state_ = state;
}

const char* Status::CopyState(const char* state) {
  uint32_t len;
  std::memcpy(&len, state, sizeof(len));
  char* copy = new char[kHeaderBytes + len];
  std::memcpy(copy, state, kHeaderBytes + len);
  return copy;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  uint32_t len;
  std::memcpy(&len, state_, sizeof(len));
  const size_t code = static_cast<size_t>(this->code());
  const size_t kinds = sizeof(kKinds) / sizeof(kKinds[0]);
  std::string text = code - 1 < kinds ? std::string(kKinds[code - 1].prefix)
                                      : "Unknown code(" + std::to_string(code) + "): ";
  return text.append(state_ + kHeaderBytes, len);
}

Status Errptr::status() const {
  if (ok()) return Status::OK();
  for (const Kind& kind : kKinds) {
    const size_t len = std::strlen(kind.prefix);
    if (std::strncmp(text_, kind.prefix, len) == 0) return kind.make(text_ + len, Slice());
  }
  return Status::IOError(text_);
}

Status Errptr::status_of_read() const {
  const Status found = status();
  return found.IsNotFound() ? Status::IOError(text_ + std::strlen(kNotFound)) : found;
}

}  // namespace leveldb
