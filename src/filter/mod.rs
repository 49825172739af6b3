//! Filters: small answers to "may this key be here?" that save reading a data block.

use std::fmt::Debug;

/// A kind of filter, named, because readers take a filter only under a name they know.
pub trait FilterPolicy: Send + Sync + Debug + 'static {
    /// The name on disk, e.g. `leveldb.BuiltinBloomFilter2`. Change it when the bytes change.
    fn name(&self) -> &str;

    /// Other names under which the same bytes are found.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// Appends to `dst` the filter of `keys`, in the order given, which may repeat.
    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>);

    /// Whether `key` may be among the keys `filter` was made of. Never false for one that was;
    /// true for a filter that is damaged or not understood.
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool;

    /// A builder that takes keys one at a time and keeps as little of each as it can. The bytes
    /// are those of [`FilterPolicy::create`].
    fn generator(&self) -> Box<dyn FilterGenerator>;
}

/// Gathers keys for one filter after another.
pub trait FilterGenerator: Send + Debug {
    /// Adds a key to the filter under way.
    fn add_key(&mut self, key: &[u8]);
    /// Whether no key was added since the last filter.
    fn is_empty(&self) -> bool;
    /// Appends the filter of the keys added to `dst`, and starts the next.
    fn finish(&mut self, dst: &mut Vec<u8>);
}

/// LevelDB's bloom filter (to come: `bloom.rs`).
#[derive(Clone, Copy, Debug)]
pub struct BloomFilterPolicy;
impl BloomFilterPolicy {
    /// Bits per key.
    pub fn new(_bits_per_key: u32) -> Self {
        BloomFilterPolicy
    }
}
#[allow(unused_variables)]
impl FilterPolicy for BloomFilterPolicy {
    fn name(&self) -> &str { "leveldb.BuiltinBloomFilter2" }
    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) { todo!() }
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool { todo!() }
    fn generator(&self) -> Box<dyn FilterGenerator> { todo!() }
}
