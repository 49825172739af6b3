// Prints what LevelDB's DumpFile writes of each file.
#include <cstdio>

#include "leveldb/dumpfile.h"
#include "leveldb/env.h"
#include "leveldb/slice.h"

namespace {

class Printed final : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    std::fwrite(data.data(), 1, data.size(), stdout);
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
};

}  // namespace

int main(int argc, char** argv) {
  Printed out;
  for (int i = 1; i < argc; i++) {
    const leveldb::Status status = leveldb::DumpFile(leveldb::Env::Default(), argv[i], &out);
    std::printf("%s: %s\n", argv[i], status.ToString().c_str());
  }
  return 0;
}
