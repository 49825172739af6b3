//! A C++ program's comparator.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int};
use std::fmt;
use std::sync::Arc;

use minikv::Comparator;

use crate::border::{In, Malloced, Out, State, export, pointer};
use crate::options::leveldb_options_t;

type Compare = extern "C" fn(State, *const c_char, usize, *const c_char, usize) -> c_int;

/// Returns a shorter key, or null if the key stays as it is. A successor has no limit.
type Shorten =
    extern "C" fn(State, *const c_char, usize, *const c_char, usize, Out<usize>) -> Malloced;

pub struct CppComparator {
    state: State,
    name: String,
    compare: Compare,
    separator: Shorten,
    successor: Shorten,
}

impl fmt::Debug for CppComparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl CppComparator {
    fn shorten(&self, shorten: Shorten, key: &mut Vec<u8>, limit: &[u8]) {
        let mut len = usize::MAX;
        let out = Out::of(&mut len);
        let short = shorten(self.state, pointer(key), key.len(), pointer(limit), limit.len(), out);
        if len != usize::MAX {
            key.clear();
            short.append_to(key, len);
        }
    }
}

impl Comparator for CppComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        (self.compare)(self.state, pointer(a), a.len(), pointer(b), b.len()).cmp(&0)
    }

    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        self.shorten(self.separator, start, limit);
    }

    fn find_short_successor(&self, key: &mut Vec<u8>) {
        self.shorten(self.successor, key, &[]);
    }
}

export! {
    fn cpp_options_set_comparator(
        options: &mut leveldb_options_t,
        state: State,
        name: In,
        compare: Compare,
        separator: Shorten,
        successor: Shorten,
    ) {
        let name = String::from_utf8_lossy(name.text()).into_owned();
        options.set_order(Arc::new(CppComparator { state, name, compare, separator, successor }));
    }
}
