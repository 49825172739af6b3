//! A get, told step by step: what was asked, in which order, and whether filters told the truth.
//!
//! The steps are those of a real get, heard through a [`ReadSink`](crate::engine::get::ReadSink):
//! there is no second read path that could tell another story.

use bytes::Bytes;

use crate::base::Result;
use crate::base::stats::ReadTrace;
use crate::engine::get;
use crate::engine::view::{ReadState, ReadView};
use crate::format::key::{KeyKind, SeqNo};
pub use crate::table::BlockSource;
use crate::table::reader::BlockReadOptions;

mod record;
pub mod show;

/// How a get went, step by step.
///
/// As text it has a line for each step, of at most 100 columns.
///
/// ```
/// # use minikv::{Db, Options};
/// use minikv::engine::explain::Step;
///
/// # let dir = tempfile::tempdir()?;
/// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
/// db.put("apple", "red")?;
/// let told = db.explain("apple")?;
/// assert!(matches!(told.steps[0], Step::Memtable { entry: Some(_), .. }));
/// println!("{told}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The key that was asked for.
    pub key: Vec<u8>,
    /// The sequence number of the last write that the get could see.
    pub seq: SeqNo,
    /// What was done, in order.
    pub steps: Vec<Step>,
    /// The answer.
    pub value: Option<Bytes>,
    /// What this get did, counted.
    pub trace: ReadTrace,
    /// What the same get, really done without filters, did; or the error it ended with. It came
    /// first and left the block cache as it was.
    pub unfiltered: Result<ReadTrace>,
    /// What part filters had.
    pub filters: FilterUse,
}

/// One step of a get.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// A memtable was asked.
    Memtable {
        /// Whether it is frozen, on its way to a table.
        frozen: bool,
        /// What it had.
        entry: Option<Entry>,
    },
    /// Tables were left out, because their key ranges do not hold the key.
    Skipped {
        /// The level they are at.
        level: usize,
        /// How many.
        tables: u64,
    },
    /// A table's key range holds the key: the steps from here on are inside it.
    Table(Table),
    /// The filter of the whole table was asked.
    TableFilter(Verdict),
    /// The index was searched.
    Index {
        /// The block where the key would be; `None` if every key of the table is less.
        block: Option<IndexedBlock>,
    },
    /// The filter of the data block was asked.
    BlockFilter(Verdict),
    /// The data block was read.
    Block {
        /// Where it is in the file, in bytes.
        offset: u64,
        /// What it takes in the file, in bytes, its trailer included.
        stored_bytes: u64,
        /// Where it came from.
        source: BlockSource,
        /// Whether its checksum was verified.
        checksum_verified: bool,
        /// What it was decompressed to, if it was.
        decompressed_bytes: Option<u64>,
    },
    /// The data block has the key.
    Entry(Entry),
    /// The data block does not have the key.
    NotHere,
}

/// A table that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Table {
    /// The level it is at.
    pub level: usize,
    /// The number in its file's name.
    pub number: u64,
    /// The size of its file.
    pub file_bytes: u64,
    /// Its first user key.
    pub first_key: Vec<u8>,
    /// Its last user key.
    pub last_key: Vec<u8>,
    /// Its filter.
    pub filter: TableFilter,
}

/// Whether a table has a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableFilter {
    /// It has one.
    Readable,
    /// It has one, but it is damaged: the table is read without it.
    Damaged,
    /// It has none, or none of the kind that is asked.
    Missing,
}

/// A data block, as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexedBlock {
    /// A user key that is not before the block's last and not after the next block's first.
    pub separator: Vec<u8>,
    /// Where the block is in the file, in bytes.
    pub offset: u64,
    /// Its size, in bytes, without its trailer.
    pub bytes: u64,
}

/// The version of the key that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The sequence number of the write.
    pub seq: SeqNo,
    /// Whether it put the key or deleted it.
    pub kind: KeyKind,
    /// The size of the value; 0 for a deletion.
    pub value_bytes: u64,
}

/// What a filter said, and whether it told the truth.
///
/// The truth is what the lookup would find: a key of which the table has only versions newer than
/// the read is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// "Maybe", and the key is there.
    TruePositive,
    /// "Maybe", but the key is not there: a block was read for nothing.
    FalsePositive,
    /// "Not here", and the key is not: the block was read to make sure, past the cache and
    /// uncounted.
    TrueNegative,
    /// "Not here", but the key is: the filter is broken.
    FalseNegative,
    /// "Not here"; the block that would confirm it is unreadable.
    UnknownNegative,
}

impl Verdict {
    /// Whether the filter said "maybe".
    pub fn may_match(self) -> bool {
        matches!(self, Verdict::TruePositive | Verdict::FalsePositive)
    }
}

/// What part filters had in a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterUse {
    /// Filters were asked.
    Asked,
    /// The read was told to ask none.
    TurnedOff,
    /// The database was opened without a filter policy.
    NoPolicy,
    /// No table that was asked has a filter.
    NoneInTables,
    /// No table was asked.
    NoTables,
}

/// Does a get and tells how it went.
///
/// # Errors
/// What the get fails with.
pub fn explain(
    state: &ReadState,
    view: &ReadView,
    seq: SeqNo,
    key: &[u8],
    options: &BlockReadOptions,
) -> Result<Explanation> {
    // First, and without filling the cache, so that both gets find the same blocks there.
    let without = BlockReadOptions { use_filter: false, fill_cache: false, ..*options };
    let mut unfiltered = ReadTrace::default();
    let unfiltered =
        get::traced_get(state, view, seq, key, &without, &mut unfiltered).map(|_| unfiltered);

    let mut recorder = record::Recorder::default();
    let value = get::get(state, view, seq, key, options, &mut recorder)?;
    state.totals.add_get(recorder.trace(), value.is_some(), |_| {});
    let (steps, trace) = recorder.finish(state, seq, key)?;
    let filters = filter_use(state, options, &steps);
    Ok(Explanation { key: key.to_vec(), seq, steps, value, trace, unfiltered, filters })
}

fn filter_use(state: &ReadState, options: &BlockReadOptions, steps: &[Step]) -> FilterUse {
    let mut filters = steps.iter().filter_map(|step| match step {
        Step::Table(table) => Some(table.filter),
        _ => None,
    });
    if !options.use_filter {
        FilterUse::TurnedOff
    } else if state.tables.context().filter_policy.is_none() {
        FilterUse::NoPolicy
    } else if filters.clone().next().is_none() {
        FilterUse::NoTables
    } else if filters.any(|filter| filter == TableFilter::Readable) {
        FilterUse::Asked
    } else {
        FilterUse::NoneInTables
    }
}
