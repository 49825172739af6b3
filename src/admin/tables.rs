//! Reads a whole table that may be damaged, and finds its faults and its undamaged blocks.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::admin::findings::Findings;
use crate::admin::scan;
use crate::base::hash::key_hash;
use crate::base::{Error, Result};
use crate::block::Block;
use crate::block::cursor::BlockCursor;
use crate::format::edit::NewFile;
use crate::format::handle::BlockHandle;
use crate::format::key::{ParsedKey, SeqNo, TRAILER_BYTES, user_key};
use crate::fs::{Fs, ReadFile};
use crate::table::Table;
use crate::table::reader::{BlockInfo, TableContext};
use crate::table::stored::read_loose_block;

/// Facts about a table that was read completely.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableFacts {
    /// The file number.
    pub number: u64,
    /// The path of the file.
    pub path: PathBuf,
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// Number of entries in undamaged blocks.
    pub entries: u64,
    /// The smallest internal key in undamaged blocks.
    pub smallest: Vec<u8>,
    /// The largest internal key in undamaged blocks.
    pub largest: Vec<u8>,
    /// The lowest sequence number in undamaged blocks.
    pub min_seq: SeqNo,
    /// The highest sequence number in undamaged blocks.
    pub max_seq: SeqNo,
    /// Number of faults.
    pub faults: u64,
    /// The undamaged data blocks, if the table has faults. Empty if it has none, because then the
    /// index lists the blocks.
    pub blocks: Vec<BlockHandle>,
    /// The parts of the table that are lost because blocks are damaged.
    pub lost: Vec<Gap>,
}

/// A part of a table whose entries are lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Offset of the part in the file, in bytes.
    pub offset: u64,
    /// Length of the part, in bytes.
    pub bytes: u64,
    /// Inclusive lower bound of the user keys that may be lost; `None` if unknown.
    pub from: Option<Vec<u8>>,
    /// Inclusive upper bound of the user keys that may be lost; `None` if unknown.
    pub to: Option<Vec<u8>>,
}

/// Reads the whole table at `path`. `recorded` is the table's entry in the MANIFEST.
///
/// Returns `None` if the file cannot be opened.
pub(crate) fn examine(
    fs: &dyn Fs,
    path: &Path,
    number: u64,
    recorded: Option<&NewFile>,
    context: &TableContext,
    findings: &mut Findings<'_>,
) -> Option<TableFacts> {
    let opened = fs.open(path).map_err(|error| Error::io("open", path, error));
    let opened = opened.and_then(|file| {
        let len = file.len().map_err(|error| Error::io("read", path, error))?;
        Ok((file, len))
    });
    let (file, len) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            findings.fault(error, path);
            return None;
        }
    };
    let facts = TableFacts {
        number,
        path: path.to_path_buf(),
        file_bytes: len,
        min_seq: SeqNo::MAX,
        ..TableFacts::default()
    };
    let faults_before = findings.fault_count;
    let mut check =
        TableCheck { path, file, context, recorded, findings, facts, last_key: Vec::new() };
    check.run();
    let mut facts = check.facts;
    facts.faults = findings.fault_count - faults_before;
    if facts.entries == 0 {
        facts.min_seq = 0;
    }
    debug_assert!(
        facts.entries == 0
            || facts.min_seq <= facts.max_seq
                && context.order.compare(&facts.smallest, &facts.largest).is_le(),
        "the bounds of a table's undamaged entries are the wrong way round"
    );
    if facts.faults == 0 {
        facts.blocks = Vec::new();
    }
    Some(facts)
}

struct TableCheck<'a, 'f> {
    path: &'a Path,
    file: Arc<dyn ReadFile>,
    context: &'a TableContext,
    recorded: Option<&'a NewFile>,
    findings: &'a mut Findings<'f>,
    facts: TableFacts,
    /// The last internal key of the undamaged blocks read so far.
    last_key: Vec<u8>,
}

/// Information about an undamaged block.
struct BlockFacts {
    entries: u64,
    first: Vec<u8>,
    last: Vec<u8>,
    min_seq: SeqNo,
    max_seq: SeqNo,
    /// Faults outside the entries, such as those of filters: the first fault of each kind.
    faults: Vec<Error>,
}

impl BlockFacts {
    /// Returns the facts about a block that follows the internal key `last`, before its entries are
    /// added.
    fn after(last: &[u8]) -> BlockFacts {
        BlockFacts {
            entries: 0,
            first: Vec::new(),
            last: last.to_vec(),
            min_seq: SeqNo::MAX,
            max_seq: 0,
            faults: Vec::new(),
        }
    }

    fn add(&mut self, key: &[u8], seq: SeqNo) {
        if self.entries == 0 {
            self.first = key.to_vec();
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.entries += 1;
        self.min_seq = self.min_seq.min(seq);
        self.max_seq = self.max_seq.max(seq);
    }
}

/// Returns the offset of each entry at a restart point. A scan of the block must reach all of these
/// entries.
fn entries_at_restarts(block: &Block) -> Result<Vec<usize>> {
    let (view, restarts) = (block.view(), if block.is_empty() { 0 } else { block.restarts() });
    let offset = |i| view.entry_at_restart(i).map(|_| view.restart(i));
    (0..restarts).map(offset).collect()
}

/// Range of a block's keys according to the index: keys greater than `after`, up to and including
/// `to`.
struct Bounds<'a> {
    after: Option<&'a [u8]>,
    to: &'a [u8],
}

impl TableCheck<'_, '_> {
    fn run(&mut self) {
        let len = self.facts.file_bytes;
        let recorded_bytes = self.recorded.map_or(len, |file| file.file_bytes);
        if recorded_bytes != len {
            let what = "the table is not as long as the MANIFEST says";
            self.fault(Error::mismatch(what, recorded_bytes, len));
        }
        // A table can still be read if the file has extra bytes after the table's end.
        let table_bytes = recorded_bytes.min(len);
        match self.open(table_bytes) {
            Ok((table, blocks)) => self.by_index(&table, blocks),
            Err(error) => {
                self.fault(error);
                self.by_scan();
            }
        }
        if self.facts.entries == 0 && self.facts.lost.is_empty() {
            self.fault(Error::corruption("the table has no entries"));
        }
    }

    fn fault(&mut self, error: Error) {
        self.findings.fault(error, self.path);
    }

    fn open(&self, table_bytes: u64) -> Result<(Table, Vec<BlockInfo>)> {
        let path = self.path.to_path_buf();
        let table = Table::open(self.file.clone(), table_bytes, path, self.context)?;
        let blocks = table.blocks()?;
        let at_index = |what: String| {
            Err(Error::corruption(what).at(table.footer().index.offset).in_file(self.path))
        };
        let mut end = 0;
        let mut last: Option<&[u8]> = None;
        for block in &blocks {
            if block.separator.len() < TRAILER_BYTES {
                return at_index(
                    "the index has a separator that is not an internal key".to_owned(),
                );
            }
            let ascends = |last| self.context.order.compare(last, &block.separator).is_lt();
            if block.handle.offset != end || !last.is_none_or(ascends) {
                let offset = block.handle.offset;
                return at_index(format!(
                    "the index is out of order at the data block at offset {offset}"
                ));
            }
            end = block.handle.end().unwrap_or(u64::MAX);
            last = Some(&block.separator);
        }
        Ok((table, blocks))
    }

    /// Reads the blocks that the index lists.
    fn by_index(&mut self, table: &Table, blocks: Vec<BlockInfo>) {
        if let Some(error) = table.filter_error() {
            self.fault(error.clone());
        }
        let mut read_bytes = 0;
        let mut after: Option<Vec<u8>> = None;
        for BlockInfo { separator, handle } in blocks {
            let bounds = Bounds { after: after.as_deref(), to: &separator };
            let contents = table.read_block(handle, true).and_then(|(_, block)| {
                self.block(&block, Some((table, &bounds)), handle)
                    .map_err(|error| error.at(handle.offset))
            });
            match contents {
                Ok(contents) => self.take(handle, contents),
                Err(error) => {
                    self.fault(error);
                    let from = after.as_deref().map(user_key).map(<[u8]>::to_vec);
                    let range = self.recorded_range();
                    let to = user_key(&separator).to_vec();
                    // The last separator may be far above the last key.
                    let ends_before = range
                        .as_ref()
                        .filter(|(_, last)| self.context.order.user().compare(last, &to).is_lt());
                    let to = ends_before.map_or(to, |(_, last)| last.clone());
                    self.facts.lost.push(Gap {
                        offset: handle.offset,
                        bytes: handle.size,
                        from: from.or_else(|| range.map(|(first, _)| first)),
                        to: Some(to),
                    });
                }
            }
            let bytes = handle.end().unwrap_or(0).saturating_sub(handle.offset);
            read_bytes += bytes;
            self.findings.advance(bytes);
            after = Some(separator);
        }
        self.findings.advance(self.facts.file_bytes.saturating_sub(read_bytes));
    }

    /// Returns the smallest and the largest user key that the MANIFEST records for the table.
    fn recorded_range(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let recorded = self.recorded?;
        Some((user_key(&recorded.smallest).to_vec(), user_key(&recorded.largest).to_vec()))
    }

    fn take(&mut self, handle: BlockHandle, contents: BlockFacts) {
        for error in contents.faults {
            self.fault(error.at(handle.offset));
        }
        let facts = &mut self.facts;
        if facts.entries == 0 {
            facts.smallest = contents.first;
        }
        facts.entries += contents.entries;
        facts.largest.clone_from(&contents.last);
        facts.min_seq = facts.min_seq.min(contents.min_seq);
        facts.max_seq = facts.max_seq.max(contents.max_seq);
        facts.blocks.push(handle);
        self.last_key = contents.last;
    }

    /// Checks a whole block. Returns an error if the block's entries are damaged. Faults of filters
    /// and key ranges are not returned as errors, but are recorded in the result.
    fn block(
        &self,
        block: &Block,
        in_table: Option<(&Table, &Bounds<'_>)>,
        handle: BlockHandle,
    ) -> Result<BlockFacts> {
        let mut restarts = entries_at_restarts(block)?.into_iter().peekable();
        let mut contents = BlockFacts::after(&self.last_key);
        let mut doubts = Doubts::default();
        let mut has_last = self.facts.entries > 0;
        let mut cursor = block.cursor();
        let mut valid = cursor.seek_to_first()?;
        while valid {
            let key = cursor.key();
            let parsed = ParsedKey::parse(key)?;
            if has_last && self.context.order.compare(&contents.last, key) != Ordering::Less {
                return Err(Error::corruption(format!(
                    "keys are out of order: \"{}\" comes after \"{}\"",
                    parsed.user_key.escape_ascii(),
                    user_key(&contents.last).escape_ascii(),
                )));
            }
            self.doubt(key, parsed.user_key, in_table, handle, &mut doubts);
            contents.add(key, parsed.seq);
            has_last = true;
            restarts.next_if_eq(&cursor.offset());
            valid = cursor.next()?;
        }
        if restarts.next().is_some() {
            return Err(Error::corruption("a restart point of the block is inside an entry"));
        }
        if contents.entries == 0 {
            return Err(Error::corruption("the data block has no entries"));
        }
        contents.faults = doubts.into_faults();
        Ok(contents)
    }

    /// Records a doubt if the recorded range, the index or a filter would prevent a lookup from
    /// finding the key.
    fn doubt(
        &self,
        key: &[u8],
        user: &[u8],
        in_table: Option<(&Table, &Bounds<'_>)>,
        handle: BlockHandle,
        doubts: &mut Doubts,
    ) {
        let order = &self.context.order;
        if let Some(recorded) = self.recorded {
            let outside = order.compare(key, &recorded.smallest).is_lt()
                || order.compare(key, &recorded.largest).is_gt();
            doubts.note(0, outside, user, "is outside the range that the MANIFEST records");
        }
        let Some((table, bounds)) = in_table else { return };
        let misplaced = order.compare(key, bounds.to).is_gt()
            || bounds.after.is_some_and(|after| order.compare(key, after).is_le());
        doubts.note(1, misplaced, user, "is in a block where the index does not look for it");
        if let Some(filter) = table.filter_block() {
            let denied = !filter.key_may_match(handle.offset, user);
            doubts.note(2, denied, user, "is denied by the filter of its block");
        }
        if let Some(filter) = table.table_filter() {
            let denied = !filter.may_match_hash(key_hash(user));
            doubts.note(3, denied, user, "is denied by the table's filter");
        }
        if let (Some(filter), Some(extractor)) =
            (table.prefix_filter(), &self.context.prefix_extractor)
            && let Some(prefix) = extractor.prefix(user)
        {
            let denied = !filter.may_match_hash(key_hash(prefix));
            doubts.note(4, denied, user, "is denied by the table's prefix filter");
        }
    }

    /// Finds the blocks by their checksums instead of by the index, and reads them.
    fn by_scan(&mut self) {
        let found = match scan::find_blocks(&*self.file, self.path) {
            Ok(found) => found,
            Err(error) => {
                self.fault(error);
                Vec::new()
            }
        };
        let mut end = 0;
        let mut data_ends = None;
        for (at, &handle) in found.iter().enumerate() {
            let block = match read_loose_block(&*self.file, self.path, handle) {
                Ok(block) => block,
                Err(error @ Error::Unsupported { .. }) => {
                    self.fault(error);
                    continue;
                }
                // This block is neither a data block nor the index but, for example, the filter
                // block.
                Err(_) => continue,
            };
            if let Some(named) = scan::index_of(&block, handle.offset, &found[..at]) {
                data_ends = named.last().and_then(BlockHandle::end);
                break;
            }
            let Ok(contents) = self.block(&block, None, handle) else { continue };
            if handle.offset > end {
                self.scan_gap(end, handle.offset, Some(user_key(&contents.first).to_vec()));
            }
            end = handle.end().unwrap_or(u64::MAX);
            self.take(handle, contents);
        }
        let last = self.recorded_range().map(|range| range.1);
        let has_last = self.facts.entries > 0
            && last.as_deref().is_some_and(|last| last == user_key(&self.last_key));
        if !has_last && data_ends.is_none_or(|data_ends| data_ends > end) {
            let to = data_ends.unwrap_or(self.facts.file_bytes).max(end);
            self.scan_gap(end, to, last);
        }
        self.findings.advance(self.facts.file_bytes);
    }

    fn scan_gap(&mut self, offset: u64, end: u64, to: Option<Vec<u8>>) {
        let from = match self.facts.entries {
            0 => self.recorded_range().map(|range| range.0),
            _ => Some(user_key(&self.last_key).to_vec()),
        };
        self.facts.lost.push(Gap { offset, bytes: end - offset, from, to });
    }
}

/// The keys of a block that lookups would miss: for each kind of fault, the first such key and the
/// number of such keys.
#[derive(Default)]
struct Doubts {
    kinds: BTreeMap<usize, (Vec<u8>, u64, &'static str)>,
}

impl Doubts {
    fn note(&mut self, kind: usize, is_so: bool, key: &[u8], what: &'static str) {
        if is_so {
            self.kinds.entry(kind).or_insert_with(|| (key.to_vec(), 0, what)).1 += 1;
        }
    }

    fn into_faults(self) -> Vec<Error> {
        let faults = self.kinds.into_values().map(|(key, count, what)| {
            let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
            Error::corruption(format!("key \"{}\"{more} {what}", key.escape_ascii()))
        });
        faults.collect()
    }
}

/// A cursor over the entries in the undamaged blocks of a table.
#[derive(Debug)]
pub(crate) struct SoundEntries {
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    blocks: std::vec::IntoIter<BlockHandle>,
    cursor: Option<BlockCursor>,
}

impl SoundEntries {
    /// Returns a cursor before the first entry of the table described by `facts`.
    ///
    /// # Errors
    /// I/O errors; corruption, if the table has changed since `facts` were gathered.
    pub(crate) fn open(
        fs: &dyn Fs,
        facts: &TableFacts,
        context: &TableContext,
    ) -> Result<SoundEntries> {
        let path = facts.path.clone();
        let file = fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
        let blocks = match facts.faults {
            0 => {
                let table = Table::open(file.clone(), facts.file_bytes, path.clone(), context)?;
                table.blocks()?.into_iter().map(|block| block.handle).collect()
            }
            _ => facts.blocks.clone(),
        };
        Ok(SoundEntries { path, file, blocks: blocks.into_iter(), cursor: None })
    }

    /// Moves to the next entry. Returns false if there is no next entry.
    ///
    /// # Errors
    /// The same as for [`SoundEntries::open`].
    pub(crate) fn next(&mut self) -> Result<bool> {
        if let Some(cursor) = &mut self.cursor
            && cursor.next().map_err(|error| error.in_file(&self.path))?
        {
            return Ok(true);
        }
        for handle in self.blocks.by_ref() {
            let block = read_loose_block(&*self.file, &self.path, handle)?;
            let cursor = self.cursor.insert(block.cursor());
            if cursor.seek_to_first().map_err(|error| error.in_file(&self.path))? {
                return Ok(true);
            }
        }
        self.cursor = None;
        Ok(false)
    }

    /// Returns the internal key of the current entry.
    pub(crate) fn key(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], BlockCursor::key)
    }

    /// Returns the value of the current entry.
    pub(crate) fn value(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], BlockCursor::value)
    }
}
