//! Plain counters of what a read touched.
//!
//! A [`ReadTrace`] is passed down the read path as `&mut` and folded into the database's own
//! counters once per get: one code path, always on.

/// The number of levels of a database; LevelDB's `config::kNumLevels`.
pub const NUM_LEVELS: usize = 7;

/// What one read did, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadTrace {
    /// Memtables asked.
    pub memtables_probed: u64,
    /// Whether a memtable had the answer.
    pub memtable_hits: u64,
    /// Tables whose key range holds the key, per level: each is one candidate.
    pub tables_considered: [u64; NUM_LEVELS],
    /// Tables left out because their key range does not hold the key, per level.
    pub tables_skipped_by_range: [u64; NUM_LEVELS],
    /// Index blocks searched.
    pub index_seeks: u64,
    /// Filters asked.
    pub filter_checks: u64,
    /// Filters that said "not here": a data block saved.
    pub filter_negatives: u64,
    /// Filters that said "maybe" and the block had the key.
    pub filter_true_positives: u64,
    /// Filters that said "maybe" and the block did not have the key.
    pub filter_false_positives: u64,
    /// Data blocks found in the block cache.
    pub data_blocks_from_cache: u64,
    /// Data blocks read from a file.
    pub data_blocks_from_file: u64,
    /// Bytes read from files, block trailers included.
    pub bytes_read: u64,
    /// Bytes that came out of decompression.
    pub bytes_decompressed: u64,
    /// Block checksums verified.
    pub checksums_verified: u64,
}

impl ReadTrace {
    /// Data blocks looked into, wherever they came from.
    pub fn data_blocks(&self) -> u64 {
        self.data_blocks_from_cache + self.data_blocks_from_file
    }

    /// Adds another trace's counts to this one.
    pub fn add(&mut self, other: &ReadTrace) {
        self.memtables_probed += other.memtables_probed;
        self.memtable_hits += other.memtable_hits;
        for level in 0..NUM_LEVELS {
            self.tables_considered[level] += other.tables_considered[level];
            self.tables_skipped_by_range[level] += other.tables_skipped_by_range[level];
        }
        self.index_seeks += other.index_seeks;
        self.filter_checks += other.filter_checks;
        self.filter_negatives += other.filter_negatives;
        self.filter_true_positives += other.filter_true_positives;
        self.filter_false_positives += other.filter_false_positives;
        self.data_blocks_from_cache += other.data_blocks_from_cache;
        self.data_blocks_from_file += other.data_blocks_from_file;
        self.bytes_read += other.bytes_read;
        self.bytes_decompressed += other.bytes_decompressed;
        self.checksums_verified += other.checksums_verified;
    }
}
