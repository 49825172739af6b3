// The C++ LevelDB as the other side of the exchange in tests/windows:
//
//   leveldb put DIR    puts the lines of stdin, each a key, a tab and a value
//   leveldb dump DIR   prints all entries so
//   leveldb hold DIR   opens the database, prints "open", and closes it when stdin ends
//
// Exits with 3 if the database cannot be opened.
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "leveldb/db.h"
#include "leveldb/filter_policy.h"

int main(int count, char** args) {
  if (count != 3) return 2;
  const std::string what = args[1];
  std::unique_ptr<const leveldb::FilterPolicy> filter(leveldb::NewBloomFilterPolicy(10));
  leveldb::Options options;
  options.create_if_missing = true;
  options.filter_policy = filter.get();
  options.write_buffer_size = 64 << 10;
  leveldb::DB* opened = nullptr;
  leveldb::Status status = leveldb::DB::Open(options, args[2], &opened);
  std::unique_ptr<leveldb::DB> db(opened);
  if (!status.ok()) {
    std::cerr << status.ToString() << "\n";
    return 3;
  }
  std::string line;
  if (what == "put") {
    leveldb::WriteOptions sync;
    while (status.ok() && std::getline(std::cin, line)) {
      const size_t tab = line.find('\t');
      status = db->Put(sync, line.substr(0, tab), line.substr(tab + 1));
      sync.sync = !sync.sync;
    }
  } else if (what == "dump") {
    std::unique_ptr<leveldb::Iterator> entries(db->NewIterator(leveldb::ReadOptions()));
    for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
      std::cout << entries->key().ToString() << '\t' << entries->value().ToString() << '\n';
    }
    status = entries->status();
  } else {
    std::cout << "open" << std::endl;
    while (std::getline(std::cin, line)) {
    }
  }
  if (!status.ok()) std::cerr << status.ToString() << "\n";
  return status.ok() ? 0 : 1;
}
