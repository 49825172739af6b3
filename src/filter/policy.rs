//! What a kind of filter must do, and the one that hides sequence numbers from it.

use std::fmt::Debug;
use std::sync::Arc;

use crate::format::key::user_key;

/// A kind of filter, named, because readers take a filter only under a name they know.
pub trait FilterPolicy: Send + Sync + Debug + 'static {
    /// The name on disk, e.g. `leveldb.BuiltinBloomFilter2`. Change it when the bytes change.
    fn name(&self) -> &str;

    /// Other names under which the same bytes are found.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// As [`may_match`](FilterPolicy::may_match), for a filter found under one of the other names,
    /// which may have been made a little differently.
    fn may_match_alias(&self, key: &[u8], filter: &[u8]) -> bool {
        self.may_match(key, filter)
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

/// A policy over internal keys that shows the wrapped one their user keys only: a get must find
/// a key whatever sequence number it was written under. LevelDB's `db/dbformat.h` has the same.
///
/// ```
/// use std::sync::Arc;
/// use minikv::filter::{BloomFilterPolicy, FilterPolicy, InternalFilterPolicy};
///
/// let policy = InternalFilterPolicy::new(Arc::new(BloomFilterPolicy::new(10)));
/// let mut filter = Vec::new();
/// policy.create(&[b"key\x01\x07\0\0\0\0\0\0"], &mut filter);
/// assert!(policy.may_match(b"key\x01\xff\xff\xff\xff\xff\xff\xff", &filter));
/// ```
#[derive(Clone, Debug)]
pub struct InternalFilterPolicy {
    user: Arc<dyn FilterPolicy>,
}

impl InternalFilterPolicy {
    /// Wraps a policy over user keys.
    pub fn new(user: Arc<dyn FilterPolicy>) -> InternalFilterPolicy {
        InternalFilterPolicy { user }
    }

    /// The wrapped policy over user keys.
    pub fn user_policy(&self) -> &Arc<dyn FilterPolicy> {
        &self.user
    }
}

impl FilterPolicy for InternalFilterPolicy {
    /// The wrapped policy's: the bytes are the same.
    fn name(&self) -> &str {
        self.user.name()
    }

    fn aliases(&self) -> &[&str] {
        self.user.aliases()
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let user_keys: Vec<&[u8]> = keys.iter().map(|key| user_key(key)).collect();
        self.user.create(&user_keys, dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.user.may_match(user_key(key), filter)
    }

    fn may_match_alias(&self, key: &[u8], filter: &[u8]) -> bool {
        self.user.may_match_alias(user_key(key), filter)
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        Box::new(InternalGenerator(self.user.generator()))
    }
}

/// A policy as it reads filters found under one of its other names.
#[derive(Clone, Debug)]
pub struct AliasedFilterPolicy(pub Arc<dyn FilterPolicy>);

impl FilterPolicy for AliasedFilterPolicy {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        self.0.create(keys, dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.0.may_match_alias(key, filter)
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        self.0.generator()
    }
}

#[derive(Debug)]
struct InternalGenerator(Box<dyn FilterGenerator>);

impl FilterGenerator for InternalGenerator {
    fn add_key(&mut self, key: &[u8]) {
        self.0.add_key(user_key(key));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn finish(&mut self, dst: &mut Vec<u8>) {
        self.0.finish(dst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::BloomFilterPolicy;
    use crate::format::key::{KeyKind, internal_key};

    #[test]
    fn filters_see_user_keys_only() {
        let bloom = BloomFilterPolicy::new(10);
        let policy = InternalFilterPolicy::new(Arc::new(bloom));
        let old = internal_key(b"key", 7, KeyKind::Value);
        let new = internal_key(b"key", 70_000, KeyKind::Deletion);

        let (mut of_user, mut of_internal, mut generated) = (Vec::new(), Vec::new(), Vec::new());
        bloom.create(&[b"key"], &mut of_user);
        policy.create(&[&old], &mut of_internal);
        let mut generator = policy.generator();
        assert!(generator.is_empty());
        generator.add_key(&old);
        assert!(!generator.is_empty());
        generator.finish(&mut generated);

        assert_eq!(of_internal, of_user);
        assert_eq!(generated, of_user);
        assert!(policy.may_match(&new, &of_internal));
        assert!(!policy.may_match(&internal_key(b"other", 7, KeyKind::Value), &of_internal));
        assert_eq!(policy.name(), "leveldb.BuiltinBloomFilter2");
        assert_eq!(policy.aliases(), ["leveldb.BuiltinBloomFilter"]);
    }
}
