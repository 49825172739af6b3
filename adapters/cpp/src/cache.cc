#include "leveldb/cache.h"

#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "parts.h"

namespace leveldb {

Cache::~Cache() = default;

namespace {

// The caches from NewLRUCache, with their block caches.
Registry<leveldb_cache_t*>& Caches() {
  static Registry<leveldb_cache_t*>* const all = new Registry<leveldb_cache_t*>;
  return *all;
}

struct Entry : Cache::Handle {
  std::string key;
  void* value;
  size_t charge;
  void (*deleter)(const Slice&, void*);
  // Handles, and one more while the cache has the entry.
  size_t uses;
  bool is_cached;
  // Where the entry is in the list of unused entries. Only an entry without handles is in it.
  std::list<Entry*>::iterator place;
};

// The entries that the program itself puts into a cache. The database's blocks are in the block
// cache of the Rust half, which has the same capacity.
class LruCache final : public Cache {
 public:
  explicit LruCache(size_t capacity)
      : capacity_(capacity), blocks_(leveldb_cache_create_lru(capacity)) {
    Caches().Add(this, blocks_);
  }

  ~LruCache() override {
    Caches().Remove(this);
    leveldb_cache_destroy(blocks_);
    Doomed doomed;
    while (!entries_.empty()) Drop(entries_.begin()->second, &doomed);
    doomed.Free();
  }

  Handle* Insert(const Slice& key, void* value, size_t charge,
                 void (*deleter)(const Slice&, void*)) override {
    Doomed doomed;
    Entry* entry = new Entry;
    entry->key = key.ToString();
    entry->value = value;
    entry->charge = charge;
    entry->deleter = deleter;
    entry->uses = 1;
    entry->is_cached = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (capacity_ > 0) {
        const auto old = entries_.find(entry->key);
        if (old != entries_.end()) Drop(old->second, &doomed);
        entries_[entry->key] = entry;
        entry->is_cached = true;
        entry->uses++;
        charge_ += charge;
      }
      while (charge_ > capacity_ && !unused_.empty()) Drop(unused_.front(), &doomed);
    }
    doomed.Free();
    return entry;
  }

  Handle* Lookup(const Slice& key) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(key.ToString());
    if (found == entries_.end()) return nullptr;
    Entry* const entry = found->second;
    if (entry->uses == 1) unused_.erase(entry->place);
    entry->uses++;
    return entry;
  }

  void Release(Handle* handle) override {
    Doomed doomed;
    Entry* const entry = static_cast<Entry*>(handle);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      entry->uses--;
      if (entry->uses == 0) {
        doomed.entries.push_back(entry);
      } else if (entry->uses == 1 && entry->is_cached) {
        entry->place = unused_.insert(unused_.end(), entry);
      }
    }
    doomed.Free();
  }

  void* Value(Handle* handle) override { return static_cast<Entry*>(handle)->value; }

  void Erase(const Slice& key) override {
    Doomed doomed;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = entries_.find(key.ToString());
      if (found != entries_.end()) Drop(found->second, &doomed);
    }
    doomed.Free();
  }

  uint64_t NewId() override {
    std::lock_guard<std::mutex> lock(mutex_);
    return ++last_id_;
  }

  void Prune() override {
    Doomed doomed;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      while (!unused_.empty()) Drop(unused_.front(), &doomed);
    }
    doomed.Free();
  }

  size_t TotalCharge() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return charge_;
  }

 private:
  // Entries that are freed without the lock, because their deleters may use the cache.
  struct Doomed {
    std::list<Entry*> entries;

    void Free() {
      for (Entry* entry : entries) {
        entry->deleter(entry->key, entry->value);
        delete entry;
      }
    }
  };

  // Takes an entry out of the cache.
  void Drop(Entry* entry, Doomed* doomed) {
    entries_.erase(entry->key);
    charge_ -= entry->charge;
    entry->is_cached = false;
    if (--entry->uses == 0) {
      unused_.erase(entry->place);
      doomed->entries.push_back(entry);
    }
  }

  const size_t capacity_;
  leveldb_cache_t* const blocks_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry*> entries_;
  // Entries without handles, those unused for longest first.
  std::list<Entry*> unused_;
  size_t charge_ = 0;
  uint64_t last_id_ = 0;
};

}  // namespace

Cache* NewLRUCache(size_t capacity) { return new LruCache(capacity); }

leveldb_cache_t* BlockCacheOf(const Cache* cache) {
  leveldb_cache_t* blocks = nullptr;
  Caches().Find(cache, &blocks);
  return blocks;
}

}  // namespace leveldb
