//! Trait for the reads that `Db`, `ReadOnlyDb` and `Snapshot` have in common.

use std::ops::Bound;

use bytes::Bytes;
use minikv::{Cursor, Db, Iter, ReadOnlyDb, ReadOptions, ReadTrace, Result, Snapshot};

pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

pub trait Reads {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;
    fn get_with(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<Bytes>>;
    fn get_traced(&self, options: &ReadOptions, key: &[u8]) -> Result<(Option<Bytes>, ReadTrace)>;
    fn multi_get(&self, options: &ReadOptions, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>>;
    fn contains_key(&self, key: &[u8]) -> Result<bool>;
    fn iter(&self, options: &ReadOptions) -> Result<Iter>;
    fn range(&self, options: &ReadOptions, bounds: Bounds<'_>) -> Result<Iter>;
    fn prefix(&self, options: &ReadOptions, prefix: &[u8]) -> Result<Iter>;
    fn cursor(&self, options: &ReadOptions) -> Result<Cursor>;
}

macro_rules! reads {
    ($($handle:ty),*) => {$(
        impl Reads for $handle {
            fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
                self.get(key)
            }
            fn get_with(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<Bytes>> {
                self.get_with(options, key)
            }
            fn get_traced(
                &self,
                options: &ReadOptions,
                key: &[u8],
            ) -> Result<(Option<Bytes>, ReadTrace)> {
                self.get_traced_with(options, key)
            }
            fn multi_get(
                &self,
                options: &ReadOptions,
                keys: &[&[u8]],
            ) -> Result<Vec<Option<Bytes>>> {
                self.multi_get_with(options, keys)
            }
            fn contains_key(&self, key: &[u8]) -> Result<bool> {
                self.contains_key(key)
            }
            fn iter(&self, options: &ReadOptions) -> Result<Iter> {
                self.iter_with(options)
            }
            fn range(&self, options: &ReadOptions, bounds: Bounds<'_>) -> Result<Iter> {
                self.range_with::<&[u8]>(options, bounds)
            }
            fn prefix(&self, options: &ReadOptions, prefix: &[u8]) -> Result<Iter> {
                self.prefix_with(options, prefix)
            }
            fn cursor(&self, options: &ReadOptions) -> Result<Cursor> {
                self.cursor_with(options)
            }
        }
    )*};
}

reads!(Db, ReadOnlyDb, Snapshot);
