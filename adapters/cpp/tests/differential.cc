// Makes the same random calls of the C++ interface to LevelDB, to which the program is linked, and to
// minikv's library, which it loads. Every result must agree. From time to time, the two exchange
// their directories.
//   differential LIBRARY DIRECTORY SEED CALLS
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"

namespace {

using leveldb::Iterator;
using leveldb::ReadOptions;
using leveldb::Snapshot;
using leveldb::Status;

unsigned long calls = 0;

[[noreturn]] void Differ(const char* what, const std::string& theirs, const std::string& ours) {
  std::fprintf(stderr, "call %lu, %s: LevelDB \"%s\", minikv \"%s\"\n", calls, what,
               theirs.c_str(), ours.c_str());
  std::exit(1);
}

void Agree(const char* what, const std::string& theirs, const std::string& ours) {
  if (theirs != ours) Differ(what, theirs, ours);
}

std::string Position(Iterator* iterator) {
  if (!iterator->Valid()) return "end " + iterator->status().ToString();
  return iterator->key().ToString() + "=" + iterator->value().ToString();
}

// What the program calls by name, of one library.
struct Library {
  Status (*open)(const leveldb::Options&, const std::string&, leveldb::DB**);
  const leveldb::Comparator* order;
  leveldb::Env* env;
  leveldb::Cache* cache;
  const leveldb::FilterPolicy* filter;
};

template <typename Function>
Function Named(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function>(found);
}

Library Theirs() {
  return {leveldb::DB::Open, leveldb::BytewiseComparator(), leveldb::Env::Default(),
          leveldb::NewLRUCache(100000), leveldb::NewBloomFilterPolicy(10)};
}

Library Ours(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  Library ours;
  ours.open = Named<decltype(ours.open)>(
      library,
      "_ZN7leveldb2DB4OpenERKNS_7OptionsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPPS0_");
  ours.order = Named<const leveldb::Comparator* (*)()>(
      library, "_ZN7leveldb18BytewiseComparatorEv")();
  ours.env = Named<leveldb::Env* (*)()>(library, "_ZN7leveldb3Env7DefaultEv")();
  ours.cache = Named<leveldb::Cache* (*)(size_t)>(library, "_ZN7leveldb11NewLRUCacheEm")(100000);
  ours.filter = Named<const leveldb::FilterPolicy* (*)(int)>(
      library, "_ZN7leveldb20NewBloomFilterPolicyEi")(10);
  return ours;
}

// A database of each library, and what was taken from it.
struct Side {
  Library library;
  std::string path;
  leveldb::DB* db = nullptr;
  std::vector<const Snapshot*> snapshots = {};

  Status Open(leveldb::Options options) {
    options.comparator = library.order;
    options.env = library.env;
    options.block_cache = library.cache;
    if (options.filter_policy != nullptr) options.filter_policy = library.filter;
    return library.open(options, path, &db);
  }

  void Close() {
    for (const Snapshot* snapshot : snapshots) db->ReleaseSnapshot(snapshot);
    snapshots.clear();
    delete db;
    db = nullptr;
  }
};

class Run {
 public:
  Run(const char* library, const std::string& directory, unsigned seed)
      : theirs_{Theirs(), directory + "/a"}, ours_{Ours(library), directory + "/b"}, random_(seed) {
    Open();
  }

  ~Run() {
    theirs_.Close();
    ours_.Close();
    for (const Side* side : {&theirs_, &ours_}) {
      delete side->library.cache;
      delete side->library.filter;
    }
  }

  void Call() {
    calls++;
    switch (Below(1000)) {
      case 0: return Reopen();
      case 1: return Compact();
      case 2: case 3: case 4: return Snapshots();
      case 5: case 6: case 7: case 8: case 9: return Iterate();
      default: break;
    }
    const unsigned kind = Below(10);
    if (kind < 4) return Get();
    if (kind < 8) return Put();
    if (kind < 9) return Delete();
    Batch();
  }

 private:
  unsigned Below(unsigned limit) { return random_() % limit; }

  std::string Key() {
    std::string key = std::to_string(Below(Below(2) == 0 ? 100 : 20000));
    if (Below(50) == 0) key.assign(Below(300), '\xff');
    if (Below(50) == 0) key.push_back('\0');
    return key;
  }

  std::string Value() {
    const unsigned len = Below(100) == 0 ? Below(20000) : Below(100);
    std::string value(len, static_cast<char>('a' + Below(26)));
    for (unsigned i = 0; i < len; i += 7) value[i] = static_cast<char>(Below(256));
    return value;
  }

  leveldb::WriteOptions Writing() {
    leveldb::WriteOptions options;
    options.sync = Below(200) == 0;
    return options;
  }

  // A pair of options, which may read at the same pair of snapshots.
  void Reading(ReadOptions* theirs, ReadOptions* ours) {
    theirs->fill_cache = ours->fill_cache = Below(2) == 0;
    theirs->verify_checksums = ours->verify_checksums = Below(2) == 0;
    if (theirs_.snapshots.empty() || Below(3) != 0) return;
    const size_t at = Below(static_cast<unsigned>(theirs_.snapshots.size()));
    theirs->snapshot = theirs_.snapshots[at];
    ours->snapshot = ours_.snapshots[at];
  }

  void Open() {
    leveldb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 65536 << Below(6);
    options.block_size = 1024 << Below(4);
    options.reuse_logs = Below(2) == 0;
    options.paranoid_checks = Below(2) == 0;
    options.compression = Below(2) == 0 ? leveldb::kNoCompression : leveldb::kSnappyCompression;
    options.filter_policy = Below(2) == 0 ? nullptr : theirs_.library.filter;
    Agree("open", theirs_.Open(options).ToString(), ours_.Open(options).ToString());
  }

  void Reopen() {
    theirs_.Close();
    ours_.Close();
    if (Below(2) == 0) std::swap(theirs_.path, ours_.path);
    Open();
  }

  void Compact() {
    const std::string from = Key(), to = Key();
    const leveldb::Slice begin(from), end(to);
    const bool whole = Below(2) == 0;
    theirs_.db->CompactRange(whole ? nullptr : &begin, whole ? nullptr : &end);
    ours_.db->CompactRange(whole ? nullptr : &begin, whole ? nullptr : &end);
  }

  void Snapshots() {
    if (theirs_.snapshots.size() < 5) {
      theirs_.snapshots.push_back(theirs_.db->GetSnapshot());
      ours_.snapshots.push_back(ours_.db->GetSnapshot());
      return;
    }
    const size_t at = Below(5);
    for (Side* side : {&theirs_, &ours_}) {
      side->db->ReleaseSnapshot(side->snapshots[at]);
      side->snapshots.erase(side->snapshots.begin() + static_cast<long>(at));
    }
  }

  void Iterate() {
    ReadOptions theirs, ours;
    Reading(&theirs, &ours);
    const std::unique_ptr<Iterator> a(theirs_.db->NewIterator(theirs));
    const std::unique_ptr<Iterator> b(ours_.db->NewIterator(ours));
    for (unsigned steps = Below(300); steps > 0; steps--) {
      calls++;
      const unsigned kind = Below(20);
      if (kind == 0) {
        const std::string key = Key();
        a->Seek(key);
        b->Seek(key);
      } else if (kind == 1) {
        a->SeekToFirst();
        b->SeekToFirst();
      } else if (kind == 2 || !a->Valid()) {
        a->SeekToLast();
        b->SeekToLast();
      } else if (kind < 8) {
        a->Prev();
        b->Prev();
      } else {
        a->Next();
        b->Next();
      }
      Agree("iterator", Position(a.get()), Position(b.get()));
    }
  }

  void Get() {
    ReadOptions theirs, ours;
    Reading(&theirs, &ours);
    const std::string key = Key();
    std::string a = "none", b = "none";
    const Status first = theirs_.db->Get(theirs, key, &a);
    const Status second = ours_.db->Get(ours, key, &b);
    Agree("status of get", first.ToString(), second.ToString());
    Agree("get", a, b);
  }

  void Put() {
    const std::string key = Key(), value = Value();
    const leveldb::WriteOptions options = Writing();
    Agree("put", theirs_.db->Put(options, key, value).ToString(),
          ours_.db->Put(options, key, value).ToString());
  }

  void Delete() {
    const std::string key = Key();
    const leveldb::WriteOptions options = Writing();
    Agree("delete", theirs_.db->Delete(options, key).ToString(),
          ours_.db->Delete(options, key).ToString());
  }

  void Batch() {
    leveldb::WriteBatch batch;
    for (unsigned count = Below(20); count > 0; count--) {
      if (Below(3) == 0) {
        batch.Delete(Key());
      } else {
        batch.Put(Key(), Value());
      }
    }
    const leveldb::WriteOptions options = Writing();
    Agree("write", theirs_.db->Write(options, &batch).ToString(),
          ours_.db->Write(options, &batch).ToString());
  }

  Side theirs_, ours_;
  std::mt19937 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const unsigned long wanted = std::strtoul(argv[4], nullptr, 10);
  {
    Run run(argv[1], argv[2], static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10)));
    while (calls < wanted) run.Call();
  }
  std::printf("differential: %lu of %lu calls agree\n", calls, calls);
  return 0;
}
