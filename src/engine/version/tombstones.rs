//! How many tombstones a table holds, and whether they are worth a compaction of their own.
//!
//! A scan steps over every tombstone in its way, and a level whose bytes are within its target
//! would keep them for ever. LevelDB's files have no place for such a count: a table's bytes, and
//! a MANIFEST's, are fixed. So there are two sources, both in memory:
//!
//! - this process counts what it writes into a table ([`Contents`]);
//! - a cursor that passes [`CRAWL_TOMBSTONES`] at one step says in which tables it meets more. So
//!   tables that were there before, whoever wrote them, are found by the first scan that suffers.
//!
//! Sampling tables when they are opened would find some of the latter earlier, for reads that
//! every open pays.
//!
//! Only tombstones that every reader sees count: while a snapshot holds an older state, a
//! compaction could not drop them. Each of these compactions takes its tombstones a level down;
//! where no deeper level has a table in their range they are dropped. So each table is taken once,
//! and what is written of it is taken again only from the level below.

use std::sync::OnceLock;

use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::format::key::{KeyKind, ParsedKey, SeqNo};

/// A table of fewer is never compacted for its tombstones, unless a cursor crawled over them.
pub const LEAST_TOMBSTONES: u64 = 256;

/// More than so many in a row at one step of a cursor are a crawl: some tenths of a millisecond.
pub const CRAWL_TOMBSTONES: u64 = 1024;

/// Bytes of an entry, where nobody counted: only a guess of what a merge costs hangs on it.
const GUESSED_ENTRY_BYTES: u64 = 64;

/// What was written into a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Entries, tombstones among them.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// The newest tombstone's sequence number.
    pub newest_tombstone: SeqNo,
}

impl Contents {
    /// Counts an entry.
    pub fn add(&mut self, entry: &ParsedKey<'_>) {
        self.entries += 1;
        if entry.kind == KeyKind::Deletion {
            self.tombstones += 1;
            self.newest_tombstone = self.newest_tombstone.max(entry.seq);
        }
    }
}

/// What is known of a table's tombstones. Thread-safe.
#[derive(Debug, Default)]
pub struct Tombstones {
    contents: OnceLock<Contents>,
    /// The newest that a cursor met when it crawled; 0 if none did.
    crawled: AtomicU64,
}

impl Tombstones {
    /// Keeps what the writer of the table counted.
    pub fn set_contents(&self, contents: Contents) {
        self.contents.get_or_init(|| contents);
    }

    /// A cursor crawled over tombstones of the table up to this sequence.
    pub fn crawled(&self, seq: SeqNo) {
        // A load first: crawls come by again and again.
        if self.crawled.load(Relaxed) < seq.max(1) {
            self.crawled.fetch_max(seq.max(1), Relaxed);
        }
    }

    /// Whether a cursor crawled over the table.
    pub fn is_crawled(&self) -> bool {
        self.crawled.load(Relaxed) > 0
    }

    /// How many there are, as far as anybody counted.
    pub fn count(&self) -> u64 {
        self.contents.get().map_or(0, |contents| contents.tombstones)
    }

    /// How many entries a table of `file_bytes` has.
    pub fn entries(&self, file_bytes: u64) -> u64 {
        self.contents.get().map_or(file_bytes / GUESSED_ENTRY_BYTES, |contents| contents.entries)
    }

    /// Whether it is half tombstones, or a cursor crawled over them; and all readers see them,
    /// the oldest of whom is at `oldest_held`.
    pub fn are_many(&self, oldest_held: SeqNo) -> bool {
        let crawled = self.crawled.load(Relaxed);
        match self.contents.get() {
            Some(contents) => {
                let dense = contents.tombstones >= LEAST_TOMBSTONES
                    && contents.tombstones >= contents.entries.div_ceil(2);
                (dense || (crawled > 0 && contents.tombstones > 0))
                    && contents.newest_tombstone <= oldest_held
            }
            None => crawled > 0 && crawled <= oldest_held,
        }
    }
}
