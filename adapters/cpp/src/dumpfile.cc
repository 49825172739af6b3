#include "leveldb/dumpfile.h"

#include "parts.h"

namespace leveldb {

namespace {

struct Output {
  WritableFile* file;
  Status status;
};

void Append(void* target, const char* text, size_t len) {
  Output* const out = static_cast<Output*>(target);
  if (out->status.ok()) out->status = out->file->Append(Slice(text, len));
}

}  // namespace

Status DumpFile(Env* env, const std::string& name, WritableFile* out) {
  Output output{out, Status::OK()};
  Errptr error;
  cpp_list_file(env, &kEnvCalls, name.c_str(), &output, Append, error);
  return error.ok() ? output.status : error.status();
}

}  // namespace leveldb
