#include "leveldb/filter_policy.h"

#include <cstdint>
#include <vector>

#include "leveldb/slice.h"
#include "parts.h"

namespace leveldb {

FilterPolicy::~FilterPolicy() = default;

namespace {

// LevelDB's hash of a key. Filters on disk depend on it: docs/format.md.
uint32_t Hash(const Slice& key) {
  constexpr uint32_t kSeed = 0xbc9f1d34, kFactor = 0xc6a4a793;
  const auto byte = [&](size_t at) { return uint32_t{static_cast<unsigned char>(key[at])}; };
  uint32_t hash = kSeed ^ static_cast<uint32_t>(key.size() * kFactor);
  size_t at = 0;
  for (; at + 4 <= key.size(); at += 4) {
    hash += byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
    hash *= kFactor;
    hash ^= hash >> 16;
  }
  const size_t left = key.size() - at;
  if (left == 0) return hash;
  for (size_t i = 0; i < left; i++) hash += byte(at + i) << 8 * i;
  hash *= kFactor;
  return hash ^ hash >> 24;
}

// Calls `probe` with a bit for each of `probes` rounds, until it returns false.
template <typename Probe>
bool ForEachProbe(const Slice& key, size_t probes, size_t bits, Probe probe) {
  uint32_t hash = Hash(key);
  const uint32_t step = hash >> 17 | hash << 15;
  for (size_t i = 0; i < probes; i++, hash += step) {
    if (!probe(hash % bits)) return false;
  }
  return true;
}

constexpr size_t kMostProbes = 30;

// The policies from NewBloomFilterPolicy, with their bits per key.
Registry<int>& Blooms() {
  static Registry<int>* const all = new Registry<int>;
  return *all;
}

class Bloom final : public FilterPolicy {
 public:
  explicit Bloom(int bits_per_key) : bits_per_key_(static_cast<size_t>(bits_per_key)) {
    const double best = static_cast<double>(bits_per_key_) * 0.69;
    probes_ = best < 1 ? 1 : best > kMostProbes ? kMostProbes : static_cast<size_t>(best);
    Blooms().Add(this, bits_per_key);
  }

  ~Bloom() override { Blooms().Remove(this); }

  const char* Name() const override { return "leveldb.BuiltinBloomFilter2"; }

  void CreateFilter(const Slice* keys, int count, std::string* filter) const override {
    size_t bits = static_cast<size_t>(count) * bits_per_key_;
    const size_t bytes = ((bits < 64 ? 64 : bits) + 7) / 8;
    bits = bytes * 8;
    const size_t start = filter->size();
    filter->resize(start + bytes, '\0');
    filter->push_back(static_cast<char>(probes_));
    for (int i = 0; i < count; i++) {
      ForEachProbe(keys[i], probes_, bits, [&](size_t bit) {
        char& byte = (*filter)[start + bit / 8];
        byte = static_cast<char>(byte | 1 << bit % 8);
        return true;
      });
    }
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    if (filter.size() < 2) return false;
    const size_t bits = (filter.size() - 1) * 8;
    const size_t probes = static_cast<unsigned char>(filter[filter.size() - 1]);
    // More probes are reserved for other encodings.
    if (probes > kMostProbes) return true;
    return ForEachProbe(key, probes, bits,
                        [&](size_t bit) { return (filter[bit / 8] & 1 << bit % 8) != 0; });
  }

 private:
  const size_t bits_per_key_;
  size_t probes_;
};

// A filter of a program, as the Rust half calls it.

const FilterPolicy* Policy(void* state) { return static_cast<const FilterPolicy*>(state); }

void Keep(void*) {}

char* Create(void* state, const char* const* keys, const size_t* lens, int count, size_t* len) {
  std::vector<Slice> slices;
  slices.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; i++) slices.emplace_back(keys[i], lens[i]);
  std::string filter;
  Policy(state)->CreateFilter(slices.data(), count, &filter);
  return Malloced(filter, len);
}

uint8_t MayMatch(void* state, const char* key, size_t len, const char* filter,
                 size_t filter_len) {
  return Policy(state)->KeyMayMatch(Slice(key, len), Slice(filter, filter_len));
}

const char* NameOf(void* state) { return Policy(state)->Name(); }

}  // namespace

const FilterPolicy* NewBloomFilterPolicy(int bits_per_key) {
  return new Bloom(bits_per_key);
}

leveldb_filterpolicy_t* RustFilterPolicy(const FilterPolicy* policy) {
  int bits_per_key;
  if (Blooms().Find(policy, &bits_per_key)) {
    return leveldb_filterpolicy_create_bloom(bits_per_key);
  }
  return leveldb_filterpolicy_create(const_cast<FilterPolicy*>(policy), Keep, Create, MayMatch,
                                     NameOf);
}

}  // namespace leveldb
