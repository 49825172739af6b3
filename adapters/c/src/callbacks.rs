//! Comparators and filter policies that call functions supplied by the program.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use minikv::{BloomFilterPolicy, Comparator, FilterGenerator, FilterPolicy, Filters};

use crate::border::{In, Kept, Malloced, Out, State, export, pointer};

type Destructor = Option<extern "C" fn(State)>;
type Name = extern "C" fn(State) -> In;
type Compare = extern "C" fn(State, *const c_char, usize, *const c_char, usize) -> c_int;
type CreateFilter =
    extern "C" fn(State, *const *const c_char, *const usize, c_int, Out<usize>) -> Malloced;
type MayMatch = extern "C" fn(State, *const c_char, usize, *const c_char, usize) -> u8;

/// State, destructor and name of a comparator or filter policy supplied by the program. The
/// destructor is called when the last user of the object is gone; the users are the caller and the
/// databases that were opened with the object.
struct Owned {
    state: State,
    destructor: Destructor,
    name: Name,
    /// The name, which is read on first use: the program may not yet be able to return the name
    /// when it creates the object.
    known_name: OnceLock<String>,
}

impl Owned {
    fn new(state: State, destructor: Destructor, name: Name) -> Owned {
        Owned { state, destructor, name, known_name: OnceLock::new() }
    }

    fn name(&self) -> &str {
        self.known_name
            .get_or_init(|| String::from_utf8_lossy((self.name)(self.state).text()).into_owned())
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            destructor(self.state);
        }
    }
}

#[derive(Debug)]
pub struct CComparator {
    owned: Owned,
    compare: Compare,
    same_bytes: AtomicBool,
}

impl Comparator for CComparator {
    fn name(&self) -> &str {
        self.owned.name()
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        (self.compare)(self.owned.state, pointer(a), a.len(), pointer(b), b.len()).cmp(&0)
    }

    fn equal_means_same_bytes(&self) -> bool {
        self.same_bytes.load(Relaxed)
    }
}

pub struct leveldb_comparator_t {
    pub comparator: Arc<CComparator>,
}

#[derive(Clone, Debug)]
struct CFilterPolicy {
    callbacks: Arc<FilterCallbacks>,
}

#[derive(Debug)]
struct FilterCallbacks {
    owned: Owned,
    create: CreateFilter,
    may_match: MayMatch,
}

impl FilterPolicy for CFilterPolicy {
    fn name(&self) -> &str {
        self.callbacks.owned.name()
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let starts: Vec<*const c_char> = keys.iter().map(|key| pointer(key)).collect();
        let lens: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let count = c_int::try_from(keys.len()).expect("a filter of fewer than 2^31 keys");
        let mut len = 0;
        let FilterCallbacks { owned, create, .. } = &*self.callbacks;
        let filter = create(owned.state, starts.as_ptr(), lens.as_ptr(), count, Out::of(&mut len));
        filter.append_to(dst, len);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let FilterCallbacks { owned, may_match, .. } = &*self.callbacks;
        may_match(owned.state, pointer(key), key.len(), pointer(filter), filter.len()) != 0
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        Box::new(Keys { policy: self.clone(), bytes: Vec::new(), ends: Vec::new() })
    }
}

/// The keys of the next filter, concatenated.
#[derive(Debug)]
struct Keys {
    policy: CFilterPolicy,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl FilterGenerator for Keys {
    fn add_key(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn finish(&mut self, dst: &mut Vec<u8>) {
        let mut start = 0;
        let key = |end: &usize| &self.bytes[std::mem::replace(&mut start, *end)..*end];
        let keys: Vec<&[u8]> = self.ends.iter().map(key).collect();
        self.policy.create(&keys, dst);
        self.bytes.clear();
        self.ends.clear();
    }
}

pub struct leveldb_filterpolicy_t {
    pub filters: Filters,
    /// The policy of block filters, if it is not LevelDB's bloom filter.
    pub policy: Option<Arc<dyn FilterPolicy>>,
}

export! {
    fn leveldb_comparator_create(
        state: State,
        destructor: Destructor,
        compare: Compare,
        name: Name,
    ) -> Kept<leveldb_comparator_t> {
        let owned = Owned::new(state, destructor, name);
        let comparator = CComparator { owned, compare, same_bytes: AtomicBool::new(false) };
        Kept::new(leveldb_comparator_t { comparator: Arc::new(comparator) })
    }

    fn leveldb_comparator_destroy(comparator: Kept<leveldb_comparator_t>) {
        drop(comparator.take());
    }

    fn minikv_comparator_set_equal_means_same_bytes(comparator: &leveldb_comparator_t, on: u8) {
        comparator.comparator.same_bytes.store(on != 0, Relaxed);
    }

    fn leveldb_filterpolicy_create(
        state: State,
        destructor: Destructor,
        create: CreateFilter,
        may_match: MayMatch,
        name: Name,
    ) -> Kept<leveldb_filterpolicy_t> {
        let owned = Owned::new(state, destructor, name);
        let callbacks = Arc::new(FilterCallbacks { owned, create, may_match });
        let policy = Some(Arc::new(CFilterPolicy { callbacks }) as Arc<dyn FilterPolicy>);
        Kept::new(leveldb_filterpolicy_t { filters: Filters::default(), policy })
    }

    fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Kept<leveldb_filterpolicy_t> {
        let bits_per_key = u32::try_from(bits_per_key).unwrap_or(0);
        Kept::new(match bits_per_key {
            1..=64 => {
                leveldb_filterpolicy_t { filters: Filters::Block(bits_per_key), policy: None }
            }
            // Only LevelDB has bloom filters of these sizes.
            _ => leveldb_filterpolicy_t {
                filters: Filters::default(),
                policy: Some(Arc::new(BloomFilterPolicy::new(bits_per_key))),
            },
        })
    }

    fn leveldb_filterpolicy_destroy(policy: Kept<leveldb_filterpolicy_t>) {
        drop(policy.take());
    }
}
