//! Explains a get step by step: what was searched, in which order, and whether the filters were
//! right.
//!
//! The steps are those of a real get, reported through a `ReadSink`, so there is no second read
//! path that could behave differently.

use bytes::Bytes;

use crate::base::Result;
use crate::engine::read::get;
use crate::engine::read::point::ReadPoint;
use crate::engine::read::view::ReadState;
use crate::engine::report::event::TableInfo;
use crate::engine::stats::trace::ReadTrace;
use crate::format::key::{KeyKind, SeqNo};
pub use crate::table::BlockSource;
use crate::table::reader::BlockReadOptions;

#[cfg(feature = "serde")]
mod json;
mod record;
mod show;

/// The explanation of a get, step by step.
///
/// As text, an explanation has one line of at most 100 columns for each step.
///
/// ```
/// # use minikv::{Db, Readable};
/// use minikv::explain::Step;
///
/// # let dir = tempfile::tempdir()?;
/// # let db = Db::create(dir.path())?;
/// db.put("apple", "red")?;
/// let told = db.explain("apple")?;
/// assert!(matches!(told.steps[0], Step::Memtable { entry: Some(_), .. }));
/// println!("{told}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The key that was looked up.
    pub key: Vec<u8>,
    /// The sequence number at which the get read.
    pub seq: SeqNo,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The value found, if any.
    pub value: Option<Bytes>,
    /// Counts of the work of this get.
    pub trace: ReadTrace,
    /// Counts of the work of the same get without filters, or the error of that get. The get
    /// without filters was executed before the get that is explained, and added nothing to the
    /// block cache.
    pub unfiltered: Result<ReadTrace>,
    /// Whether filters were queried, and if not, why.
    pub filters: FilterUse,
}

/// One step of a get.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "step", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Step {
    /// A memtable was searched.
    Memtable {
        /// Whether the memtable is frozen, that is, waiting to be flushed to a table.
        frozen: bool,
        /// The entry found, if any.
        entry: Option<Entry>,
    },
    /// Tables were skipped because their key ranges do not contain the key.
    Skipped {
        /// The level of the tables.
        level: usize,
        /// Number of tables.
        tables: u64,
    },
    /// A table's key range contains the key. The following steps are within this table.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::table"))]
    Table {
        /// The table.
        table: TableInfo,
        /// Whether the table has a filter.
        filter: FilterState,
    },
    /// The whole-table filter was queried.
    TableFilter(Verdict),
    /// The index was searched.
    Index {
        /// The block where the key that was looked up would be; `None` if every key of the table is
        /// less than that key.
        block: Option<IndexedBlock>,
    },
    /// The data block's filter was queried.
    BlockFilter(Verdict),
    /// The data block was read.
    Block {
        /// Offset of the block in the file, in bytes.
        offset: u64,
        /// Size of the block in the file with its trailer, in bytes.
        stored_bytes: u64,
        /// The source of the block.
        source: BlockSource,
        /// Whether the block's checksum was verified.
        checksum_verified: bool,
        /// Size after decompression in bytes, if the block was decompressed.
        decompressed_bytes: Option<u64>,
    },
    /// The data block has the key.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::entry"))]
    Entry(Entry),
    /// The data block does not have the key.
    #[cfg_attr(feature = "serde", serde(rename = "entry", serialize_with = "json::no_entry"))]
    NotHere,
}

/// Whether a table has a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum FilterState {
    /// The table has a filter.
    Readable,
    /// The table has a filter, but it is damaged and not used.
    Damaged,
    /// The table has no filter, or only filters of an unknown kind.
    Missing,
}

/// A data block, as listed in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct IndexedBlock {
    /// A user key that is not less than the last key of the block and not greater than the first
    /// key of the next block.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::base::serialize::bytes"))]
    pub separator: Vec<u8>,
    /// Offset of the block in the file, in bytes.
    pub offset: u64,
    /// Size of the block without its trailer, in bytes.
    pub bytes: u64,
}

/// The version of the key that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Entry {
    /// The sequence number of the write.
    #[cfg_attr(feature = "serde", serde(rename = "sequence"))]
    pub seq: SeqNo,
    /// Whether the write was a put or a deletion.
    pub kind: KeyKind,
    /// Length of the value, in bytes; 0 for a deletion.
    pub value_bytes: u64,
}

/// A filter's answer, and whether it was right.
///
/// An answer is right if it agrees with the result of the lookup. A key counts as absent if the
/// table has only versions of the key that are newer than the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The filter answered "maybe", and the key is present.
    TruePositive,
    /// The filter answered "maybe", but the key is absent: the search continued in vain.
    FalsePositive,
    /// The filter answered "not here", and the key is absent. To verify the answer, the block was
    /// read without the cache and without being counted.
    TrueNegative,
    /// The filter answered "not here", but the key is present: the filter is wrong.
    FalseNegative,
    /// The filter answered "not here", but the block that would show whether the key is present
    /// cannot be read.
    UnknownNegative,
}

impl Verdict {
    /// Returns whether the answer was "maybe".
    pub fn may_match(self) -> bool {
        matches!(self, Verdict::TruePositive | Verdict::FalsePositive)
    }
}

/// Whether filters were queried in a get, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum FilterUse {
    /// Filters were queried.
    Asked,
    /// The read options turned filters off.
    TurnedOff,
    /// The database was opened without a filter policy.
    NoPolicy,
    /// No table that was searched has a usable filter.
    NoneInTables,
    /// No table was searched.
    NoTables,
}

/// Performs a get and returns its explanation.
///
/// # Errors
/// Errors of the get.
pub(crate) fn explain(mut point: ReadPoint<'_>, key: &[u8]) -> Result<Explanation> {
    // The get without filters comes first and does not fill the block cache, so both gets find the
    // same blocks in the cache.
    let key = &*point.stored_key(key);
    let options = point.options;
    point.options = BlockReadOptions { use_filter: false, fill_cache: false, ..options };
    let mut unfiltered = ReadTrace::default();
    let unfiltered = get::traced_get(&point, key, &mut unfiltered).map(|_| unfiltered);

    point.options = options;
    let mut recorder = record::Recorder::default();
    let value = get::get(&point, key, &mut recorder)?;
    let state = point.state;
    state.totals.add_get(recorder.trace(), value.is_some(), |_| {});
    let (steps, trace) = recorder.finish(&point, key)?;
    let filters = filter_use(state, &options, &steps);
    let seq = point.seq - point.view().shift();
    let value = point.live(key, value)?;
    Ok(Explanation { key: key.to_vec(), seq, steps, value, trace, unfiltered, filters })
}

fn filter_use(state: &ReadState, options: &BlockReadOptions, steps: &[Step]) -> FilterUse {
    let mut filters = steps.iter().filter_map(|step| match step {
        Step::Table { filter, .. } => Some(*filter),
        _ => None,
    });
    if !options.use_filter {
        FilterUse::TurnedOff
    } else if state.tables.context().filter_policy.is_none() {
        FilterUse::NoPolicy
    } else if filters.clone().next().is_none() {
        FilterUse::NoTables
    } else if filters.any(|filter| filter == FilterState::Readable) {
        FilterUse::Asked
    } else {
        FilterUse::NoneInTables
    }
}
