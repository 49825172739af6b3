//! Handles, no logic (skeleton: signatures are settled, bodies follow).
use std::ops::RangeBounds;
use std::path::Path;

use bytes::Bytes;

use crate::base::Result;
use crate::base::stats::ReadTrace;
use crate::engine::options::{Options, ReadOptions, WriteOptions};
use crate::format::batch::WriteBatch;

/// An open database.
#[derive(Clone, Debug)]
pub struct Db {}
/// A database opened for reading only.
#[derive(Clone, Debug)]
pub struct ReadOnlyDb {}
/// A frozen view.
#[derive(Clone, Debug)]
pub struct Snapshot {}
/// A lending cursor.
#[derive(Debug)]
pub struct Cursor {}
/// An iterator over entries.
#[derive(Debug)]
pub struct Iter {}

macro_rules! reads {
    ($t:ty) => {
        #[allow(unused_variables, missing_docs)]
        impl $t {
            pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
                todo!()
            }
            pub fn get_with(
                &self,
                options: &ReadOptions,
                key: impl AsRef<[u8]>,
            ) -> Result<Option<Bytes>> {
                todo!()
            }
            pub fn get_traced(&self, key: impl AsRef<[u8]>) -> Result<(Option<Bytes>, ReadTrace)> {
                todo!()
            }
            pub fn get_traced_with(
                &self,
                options: &ReadOptions,
                key: impl AsRef<[u8]>,
            ) -> Result<(Option<Bytes>, ReadTrace)> {
                todo!()
            }
            pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
                todo!()
            }
            pub fn multi_get_with<K: AsRef<[u8]>>(
                &self,
                options: &ReadOptions,
                keys: &[K],
            ) -> Result<Vec<Option<Bytes>>> {
                todo!()
            }
            pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
                todo!()
            }
            pub fn iter(&self) -> Result<Iter> {
                todo!()
            }
            pub fn iter_with(&self, options: &ReadOptions) -> Result<Iter> {
                todo!()
            }
            pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
                todo!()
            }
            pub fn range_with<K: AsRef<[u8]>>(
                &self,
                options: &ReadOptions,
                range: impl RangeBounds<K>,
            ) -> Result<Iter> {
                todo!()
            }
            pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
                todo!()
            }
            pub fn prefix_with(
                &self,
                options: &ReadOptions,
                prefix: impl AsRef<[u8]>,
            ) -> Result<Iter> {
                todo!()
            }
            pub fn cursor(&self) -> Result<Cursor> {
                todo!()
            }
            pub fn cursor_with(&self, options: &ReadOptions) -> Result<Cursor> {
                todo!()
            }
        }
    };
}
reads!(Db);
reads!(ReadOnlyDb);
reads!(Snapshot);

#[allow(unused_variables, missing_docs)]
impl Db {
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        todo!()
    }
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<ReadOnlyDb> {
        todo!()
    }
    pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
        todo!()
    }
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        todo!()
    }
    pub fn put_with(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        todo!()
    }
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        todo!()
    }
    pub fn delete_with(&self, options: &WriteOptions, key: impl AsRef<[u8]>) -> Result<()> {
        todo!()
    }
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        todo!()
    }
    pub fn write_with(&self, options: &WriteOptions, batch: WriteBatch) -> Result<()> {
        todo!()
    }
    pub fn snapshot(&self) -> Snapshot {
        todo!()
    }
    /// Freezes the memtable and waits until it is a table.
    pub fn flush(&self) -> Result<()> {
        todo!()
    }
    /// Compacts everything in `range` down to the last level that has data.
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        todo!()
    }
    /// Waits until no flush or compaction is due.
    pub fn wait_idle(&self) -> Result<()> {
        todo!()
    }
    /// Bytes of table files that hold `range`, about.
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        todo!()
    }
    /// `leveldb.num-files-at-level<N>`, `leveldb.stats`, `leveldb.sstables`, `leveldb.approximate-memory-usage`, ...
    pub fn property(&self, name: &str) -> Option<String> {
        todo!()
    }
    /// Ends background work and closes the log; errors of doing so are told.
    pub fn close(self) -> Result<()> {
        todo!()
    }
}
#[allow(unused_variables, missing_docs)]
impl ReadOnlyDb {
    pub fn property(&self, name: &str) -> Option<String> {
        todo!()
    }
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        todo!()
    }
}
#[allow(unused_variables, missing_docs)]
impl Cursor {
    pub fn valid(&self) -> bool {
        todo!()
    }
    pub fn seek_to_first(&mut self) -> Result<bool> {
        todo!()
    }
    pub fn seek_to_last(&mut self) -> Result<bool> {
        todo!()
    }
    /// First key >= `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        todo!()
    }
    /// Last key <= `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        todo!()
    }
    pub fn next(&mut self) -> Result<bool> {
        todo!()
    }
    pub fn prev(&mut self) -> Result<bool> {
        todo!()
    }
    pub fn key(&self) -> &[u8] {
        todo!()
    }
    pub fn value(&self) -> &[u8] {
        todo!()
    }
}
impl Iterator for Iter {
    type Item = Result<(Bytes, Bytes)>;
    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}
impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        todo!()
    }
}
