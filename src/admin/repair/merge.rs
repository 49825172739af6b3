//! Merges tables whose levels are unknown, by sequence number.
//!
//! The newest version of a key is the one with the highest sequence number, whichever table
//! contains it. But tables that are missing from every MANIFEST may be obsolete: they may be inputs
//! of a finished compaction that have not been removed yet. Such tables still contain entries that
//! the compaction dropped. For example, they contain deleted keys whose tombstones may no longer
//! exist. Obsolete tables can be recognized: normally, an entry is in only one table of a database.
//! If two tables share an entry, the table with the higher number was therefore made from the other
//! table.
//!
//! - The part of the older table within the key range of the newer table is *superseded*: the
//!   compaction has processed that part, and has copied or dropped each of its entries.
//! - If the newer table also has entries that are in no older table, another input has already been
//!   removed, so the compaction finished, and the whole older table is superseded.
//! - Otherwise, the compaction may have been interrupted. Then the part of the older table outside
//!   the key range of the newer table is used, because its entries may be in no other table.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::admin::tables::{SoundEntries, TableFacts};
use crate::base::Result;
use crate::format::key::{UserComparator, user_key};
use crate::fs::Fs;
use crate::table::reader::TableContext;

/// A cursor over tables that do not overlap. The tables are read one after another.
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

/// Distributes tables among runs, and returns the runs. The tables are taken in the order of their
/// smallest keys, and each table is added to the first run with which it does not overlap.
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

/// Returns whether the key ranges of the tables are disjoint, so that no two tables share a user
/// key.
pub(super) fn are_disjoint(tables: &[&TableFacts], order: &UserComparator) -> bool {
    runs(tables, order).len() <= 1
}

/// Calls `visit` for each internal key of the tables, in order. The arguments are the key, the
/// numbers of the tables that contain the key, in ascending order, and the value from the last of
/// these tables.
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

/// The relation between tables and the tables that compactions made from them, which are called
/// heirs.
#[derive(Debug, Default)]
pub(super) struct Descent {
    /// For each table, its heirs: the tables that were made from it.
    heirs: BTreeMap<u64, BTreeSet<u64>>,
    /// Tables with an entry that is in no older table. If such a table was made from other tables,
    /// one of the compaction's inputs has been removed.
    done: BTreeSet<u64>,
}

impl Descent {
    /// Determines the relation by reading all tables.
    pub(super) fn find(
        fs: &dyn Fs,
        context: &TableContext,
        tables: &[&TableFacts],
    ) -> Result<Descent> {
        let mut descent = Descent::default();
        // An entry that is in no other table may have been in the damaged part of an older table.
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

    /// Returns whether the heirs of table `number` supersede the table's entries for the user key
    /// `key`.
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

    /// Returns the tables from which other tables were made.
    pub(super) fn ancestors(&self) -> impl Iterator<Item = u64> {
        self.heirs.keys().copied()
    }
}

/// Calls `emit` for the newest version of each user key, including tombstones, in key order.
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
