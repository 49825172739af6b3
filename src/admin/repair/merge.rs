//! Merging tables whose levels are unknown, by sequence number.
//!
//! The newest version of a key is the one with the highest sequence number, in whatever table it
//! is. But tables that no MANIFEST names may be obsolete: inputs of a finished compaction that were
//! not all removed. They still contain entries that the compaction dropped, in particular deleted
//! keys, whose tombstones may be gone. Obsolete tables can be recognized: in a database no entry is
//! in two tables, so if two tables share an entry, the one with the higher number was made from the
//! other.
//!
//! - The part of the older table within the key range of the newer one is *superseded*: the
//!   compaction has processed it, and either copied or dropped each entry.
//! - If the newer table also has entries that are in no older table, another input has already been
//!   removed, so the compaction finished: all of the older table is superseded.
//! - Otherwise the compaction may have been interrupted, and the part of the older table outside
//!   the newer one's range is used, because it may be nowhere else.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::admin::tables::{SoundEntries, TableFacts};
use crate::base::Result;
use crate::format::key::{UserComparator, user_key};
use crate::fs::Fs;
use crate::table::reader::TableContext;

/// Tables that do not overlap, read one after another.
struct RunCursor<'a> {
    tables: std::vec::IntoIter<&'a TableFacts>,
    entries: Option<(u64, SoundEntries)>,
}

impl RunCursor<'_> {
    fn next(&mut self, fs: &dyn Fs, context: &TableContext) -> Result<bool> {
        loop {
            if let Some((_, entries)) = &mut self.entries
                && entries.next()?
            {
                return Ok(true);
            }
            let Some(table) = self.tables.next() else {
                self.entries = None;
                return Ok(false);
            };
            self.entries = Some((table.number, SoundEntries::open(fs, table, context)?));
        }
    }

    fn key(&self) -> &[u8] {
        self.entries.as_ref().map_or(&[], |(_, entries)| entries.key())
    }
}

/// Returns tables distributed over runs: in the order of their smallest keys, each table goes to
/// the first run that it does not overlap.
fn runs<'a>(tables: &[&'a TableFacts], order: &UserComparator) -> Vec<RunCursor<'a>> {
    let mut sorted: Vec<&TableFacts> = tables.iter().copied().filter(|t| t.entries > 0).collect();
    sorted.sort_by(|a, b| order.compare(user_key(&a.smallest), user_key(&b.smallest)));
    let mut runs: Vec<Vec<&TableFacts>> = Vec::new();
    for table in sorted {
        let follows = |run: &&mut Vec<&TableFacts>| {
            run.last().is_none_or(|last| {
                order.compare(user_key(&last.largest), user_key(&table.smallest)).is_lt()
            })
        };
        match runs.iter_mut().find(follows) {
            Some(run) => run.push(table),
            None => runs.push(vec![table]),
        }
    }
    runs.into_iter().map(|run| RunCursor { tables: run.into_iter(), entries: None }).collect()
}

/// Returns whether no two of the tables share a user key, judging by their ranges.
pub(super) fn are_disjoint(tables: &[&TableFacts], order: &UserComparator) -> bool {
    runs(tables, order).len() <= 1
}

/// Calls `visit` for each internal key of the tables, in order, with the numbers of the tables that
/// contain it, ascending, and the value from the last of these tables.
fn each_entry(
    fs: &dyn Fs,
    context: &TableContext,
    tables: &[&TableFacts],
    mut visit: impl FnMut(&[u64], &[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let order = &context.order;
    let mut live = Vec::new();
    for mut run in runs(tables, order.user()) {
        if run.next(fs, context)? {
            live.push(run);
        }
    }
    let mut key = Vec::new();
    while let Some(first) = live.iter().min_by(|a, b| order.compare(a.key(), b.key())) {
        key.clear();
        key.extend_from_slice(first.key());
        let is_first = |run: &&RunCursor<'_>| order.compare(run.key(), &key) == Ordering::Equal;
        let mut holders: Vec<(u64, &[u8])> = live
            .iter()
            .filter(is_first)
            .filter_map(|run| run.entries.as_ref())
            .map(|(number, entries)| (*number, entries.value()))
            .collect();
        holders.sort_by_key(|(number, _)| *number);
        let numbers: Vec<u64> = holders.iter().map(|(number, _)| *number).collect();
        debug_assert!(numbers.is_sorted_by(|a, b| a < b), "an entry is twice in a table");
        visit(&numbers, &key, holders.last().map_or(&[], |(_, value)| value))?;
        let mut at = 0;
        while at < live.len() {
            let moves = order.compare(live[at].key(), &key) == Ordering::Equal;
            if moves && !live[at].next(fs, context)? {
                drop(live.remove(at));
            } else {
                at += 1;
            }
        }
    }
    Ok(())
}

/// The relation between tables and the tables that compactions made from them.
#[derive(Debug, Default)]
pub(super) struct Descent {
    /// For each table, the tables made from it.
    heirs: BTreeMap<u64, BTreeSet<u64>>,
    /// Tables with an entry that is in no older table: if such a table was made from others, one of
    /// its inputs has been removed.
    done: BTreeSet<u64>,
}

impl Descent {
    /// Returns the relation, determined by reading all tables.
    pub(super) fn find(
        fs: &dyn Fs,
        context: &TableContext,
        tables: &[&TableFacts],
    ) -> Result<Descent> {
        let mut descent = Descent::default();
        // An entry that is in no other table may have been in the damaged part of an older one.
        let first_damaged =
            tables.iter().filter(|table| !table.lost.is_empty()).map(|table| table.number).min();
        each_entry(fs, context, tables, |numbers, _, _| {
            let lowest = numbers[0];
            if first_damaged.is_none_or(|damaged| lowest < damaged) {
                descent.done.insert(lowest);
            }
            for (at, &older) in numbers.iter().enumerate() {
                if at + 1 < numbers.len() {
                    descent.heirs.entry(older).or_default().extend(&numbers[at + 1..]);
                }
            }
            Ok(())
        })?;
        Ok(descent)
    }

    /// Returns whether the entries of table `number` for a user key are superseded.
    fn supersedes(
        &self,
        number: u64,
        key: &[u8],
        ranges: &BTreeMap<u64, &TableFacts>,
        order: &UserComparator,
    ) -> bool {
        let Some(heirs) = self.heirs.get(&number) else { return false };
        heirs.iter().any(|heir| {
            let in_range = |table: &&TableFacts| {
                order.compare(user_key(&table.smallest), key).is_le()
                    && order.compare(key, user_key(&table.largest)).is_le()
            };
            self.done.contains(heir) || ranges.get(heir).is_some_and(in_range)
        })
    }

    /// Returns the tables from which others were made.
    pub(super) fn ancestors(&self) -> impl Iterator<Item = u64> {
        self.heirs.keys().copied()
    }
}

/// Calls `emit` with the newest version of each user key, including tombstones, in order.
pub(super) fn newest(
    fs: &dyn Fs,
    context: &TableContext,
    tables: &[&TableFacts],
    descent: &Descent,
    mut emit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let order = context.order.user();
    let ranges = tables.iter().map(|table| (table.number, *table)).collect();
    let mut last: Option<Vec<u8>> = None;
    each_entry(fs, context, tables, |numbers, key, value| {
        let user = user_key(key);
        if last.as_deref().is_some_and(|last| order.compare(last, user).is_eq())
            || numbers.iter().all(|&number| descent.supersedes(number, user, &ranges, order))
        {
            return Ok(());
        }
        debug_assert!(
            last.as_deref().is_none_or(|last| order.compare(last, user).is_lt()),
            "merged keys do not ascend"
        );
        let last = last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(user);
        emit(key, value)
    })
}
