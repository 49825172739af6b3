//! In-memory files and tables for the tests of tables.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::base::{BytewiseComparator, Comparator, Result};
use crate::filter::{BloomFilterPolicy, FilterPolicy};
use crate::format::compress::Compression;
use crate::format::key::{InternalComparator, KeyOrder, UserComparator};
use crate::fs::{FileLock, Fs, LockHolder, ReadFile, WriteFile};
use crate::table::builder::{TableBuilder, TableOptions, TableSummary};
use crate::table::reader::{Table, TableContext};

/// The entries of a table, in key order.
pub(super) type Model = Vec<(Vec<u8>, Vec<u8>)>;

/// A file that records the bytes written and the number of writes. Clones share the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Sink {
    pub bytes: Arc<Mutex<Vec<u8>>>,
    pub writes: Arc<AtomicUsize>,
    pub syncs: Arc<AtomicUsize>,
    /// Number of the write that fails, counting from 1; 0 if no write fails.
    pub fail_at: usize,
}

impl WriteFile for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.writes.fetch_add(1, Ordering::Relaxed) + 1 == self.fail_at {
            return Err(io::Error::other("disk on fire"));
        }
        self.bytes.lock().extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[derive(Debug)]
pub(super) struct MemFile(pub Vec<u8>);

impl ReadFile for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let len = buf.len().min(self.0.len() - from);
        buf[..len].copy_from_slice(&self.0[from..from + len]);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// A directory whose files can be opened, but not created or changed.
#[derive(Debug, Default)]
pub(super) struct MemDir {
    pub files: HashMap<PathBuf, Vec<u8>>,
    pub opens: AtomicUsize,
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Fs for MemDir {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        // Yield, so that other threads can try to open the same file.
        (0..100).for_each(|_| std::thread::yield_now());
        let bytes = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemFile(bytes.clone())))
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        refused()
    }

    fn append(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        refused()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        refused()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn exists(&self, _: &Path) -> io::Result<bool> {
        refused()
    }

    fn len(&self, _: &Path) -> io::Result<u64> {
        refused()
    }

    fn lock(&self, _: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        refused()
    }
}

pub(super) fn internal_order() -> KeyOrder {
    KeyOrder::Internal(InternalComparator::new(Arc::new(BytewiseComparator)))
}

pub(super) fn user_order(comparator: impl Comparator) -> KeyOrder {
    KeyOrder::User(UserComparator::new(Arc::new(comparator)))
}

pub(super) fn bloom() -> Option<Arc<dyn FilterPolicy>> {
    Some(Arc::new(BloomFilterPolicy::new(10)))
}

/// Returns options for small uncompressed blocks with a bloom filter, so that few entries fill
/// several blocks.
pub(super) fn small_blocks(order: KeyOrder) -> TableOptions {
    TableOptions {
        order,
        filter_policy: bloom(),
        table_filter_bits_per_key: None,
        prefix_filter: None,
        block_bytes: 256,
        block_restart_interval: 4,
        compression: Compression::None,
    }
}

/// Returns a context for reading tables with these options, without a block cache.
pub(super) fn context_of(options: &TableOptions) -> TableContext {
    TableContext {
        order: options.order.clone(),
        filter_policy: options.filter_policy.clone(),
        prefix_extractor: options.prefix_filter.as_ref().map(|(extractor, _)| extractor.clone()),
        block_cache: None,
        paranoid: false,
    }
}

pub(super) fn build(options: &TableOptions, entries: &Model) -> (Vec<u8>, TableSummary) {
    let sink = Sink::default();
    let mut builder = TableBuilder::new(Box::new(sink.clone()), "t.ldb".into(), options.clone());
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    let summary = builder.finish().unwrap();
    let bytes = std::mem::take(&mut *sink.bytes.lock());
    assert_eq!(summary.file_bytes, bytes.len() as u64);
    (bytes, summary)
}

pub(super) fn open(bytes: Vec<u8>, context: &TableContext) -> Result<Arc<Table>> {
    let file_bytes = bytes.len() as u64;
    Table::open(Arc::new(MemFile(bytes)), file_bytes, "t.ldb".into(), context).map(Arc::new)
}
