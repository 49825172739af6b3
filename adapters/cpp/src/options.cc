#include "leveldb/options.h"

#include <cstdlib>
#include <cstring>

#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "parts.h"

namespace leveldb {

Options::Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

char* Malloced(const Slice& text, size_t* len) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) std::abort();
  std::memcpy(copy, text.data(), text.size());
  *len = text.size();
  return copy;
}

namespace {

const Comparator* Order(void* state) { return static_cast<const Comparator*>(state); }

int Compare(void* state, const char* a, size_t a_len, const char* b, size_t b_len) {
  return Order(state)->Compare(Slice(a, a_len), Slice(b, b_len));
}

char* Separator(void* state, const char* key, size_t key_len, const char* limit, size_t limit_len,
                size_t* len) {
  std::string shorter(key, key_len);
  Order(state)->FindShortestSeparator(&shorter, Slice(limit, limit_len));
  return Malloced(shorter, len);
}

char* Successor(void* state, const char* key, size_t key_len, const char*, size_t, size_t* len) {
  std::string shorter(key, key_len);
  Order(state)->FindShortSuccessor(&shorter);
  return Malloced(shorter, len);
}

void LogTo(Logger* logger, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  logger->Logv(format, arguments);
  va_end(arguments);
}

void WriteLine(void* state, const char* text, size_t len) {
  LogTo(static_cast<Logger*>(state), "%.*s", static_cast<int>(len), text);
}

}  // namespace

RustOptions::RustOptions(const Options& options) : options_(leveldb_options_create()) {
  if (options.comparator != BytewiseComparator()) {
    cpp_options_set_comparator(options_, const_cast<Comparator*>(options.comparator),
                               options.comparator->Name(), Compare, Separator, Successor);
  }
  leveldb_options_set_create_if_missing(options_, options.create_if_missing);
  leveldb_options_set_error_if_exists(options_, options.error_if_exists);
  leveldb_options_set_paranoid_checks(options_, options.paranoid_checks);
  if (options.env != Env::Default()) {
    cpp_options_set_env(options_, options.env, &kEnvCalls);
    has_env_ = true;
  }
  if (options.info_log != nullptr) {
    cpp_options_set_logger(options_, options.info_log, WriteLine);
  }
  leveldb_options_set_write_buffer_size(options_, options.write_buffer_size);
  leveldb_options_set_max_open_files(options_, options.max_open_files);
  if (options.block_cache != nullptr) {
    leveldb_cache_t* const blocks = BlockCacheOf(options.block_cache);
    if (blocks == nullptr) {
      status_ = Status::NotSupported("block_cache is not from NewLRUCache");
    } else {
      leveldb_options_set_cache(options_, blocks);
    }
  }
  leveldb_options_set_block_size(options_, options.block_size);
  leveldb_options_set_block_restart_interval(options_, options.block_restart_interval);
  leveldb_options_set_max_file_size(options_, options.max_file_size);
  leveldb_options_set_compression(options_, options.compression);
  minikv_options_set_reuse_logs(options_, options.reuse_logs);
  if (options.filter_policy != nullptr) {
    policy_ = RustFilterPolicy(options.filter_policy);
    leveldb_options_set_filter_policy(options_, policy_);
  }
}

RustOptions::~RustOptions() {
  if (policy_ != nullptr) leveldb_filterpolicy_destroy(policy_);
  leveldb_options_destroy(options_);
}

}  // namespace leveldb
