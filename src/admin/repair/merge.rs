//! Merging tables whose levels are not known, by sequence number.
//!
//! Of each key the version with the highest sequence number is the newest, wherever it lies. But
//! among tables that no MANIFEST places may be obsolete ones: inputs of a compaction that is done,
//! whose removal was cut short. What the compaction dropped, deleted keys above all, is still in
//! them, and the tombstone that hid it may be gone. They give themselves away: in a database no
//! entry is in two tables, so of two tables that share one, the one with the higher number was
//! made from the other.
//!
//! - What the older has within the key range of the newer is *superseded*: the compaction had it
//!   in hand, and wrote it or dropped it.
//! - If the newer also has entries that no older table has, another input is gone already, so the
//!   compaction was done: all of the older table is superseded.
//! - If not, the compaction may have been cut short, and what the older table has outside of the
//!   newer one's range is taken: it may be in no other.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::admin::tables::{SoundEntries, TableFacts};
use crate::base::Result;
use crate::format::key::{UserComparator, user_key};
use crate::fs::Fs;
use crate::table::reader::TableContext;

/// Tables that do not overlap, read one after the other.
struct Run<'a> {
    tables: std::vec::IntoIter<&'a TableFacts>,
    entries: Option<(u64, SoundEntries)>,
}

impl Run<'_> {
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

/// Puts tables into as few runs as a look at each range gives.
fn runs<'a>(tables: &[&'a TableFacts], order: &UserComparator) -> Vec<Run<'a>> {
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
    runs.into_iter().map(|run| Run { tables: run.into_iter(), entries: None }).collect()
}

/// Whether no two of the tables share a user key, as far as their ranges tell.
pub fn are_disjoint(tables: &[&TableFacts], order: &UserComparator) -> bool {
    runs(tables, order).len() <= 1
}

/// Calls `visit` for each internal key of the tables, in order: with the numbers of the tables
/// that have it, ascending, and the value that the last of them has.
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
        let is_first = |run: &&Run<'_>| order.compare(run.key(), &key) == Ordering::Equal;
        let mut holders: Vec<(u64, &[u8])> = live
            .iter()
            .filter(is_first)
            .filter_map(|run| run.entries.as_ref())
            .map(|(number, entries)| (*number, entries.value()))
            .collect();
        holders.sort_by_key(|(number, _)| *number);
        let numbers: Vec<u64> = holders.iter().map(|(number, _)| *number).collect();
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

/// Which tables were made from which.
#[derive(Debug, Default)]
pub struct Descent {
    /// For each table, those made from it.
    heirs: BTreeMap<u64, BTreeSet<u64>>,
    /// Tables made from some of which one is gone.
    done: BTreeSet<u64>,
}

impl Descent {
    /// Reads all tables to find out.
    pub fn find(fs: &dyn Fs, context: &TableContext, tables: &[&TableFacts]) -> Result<Descent> {
        let mut descent = Descent::default();
        // An entry that is nowhere else may have been in what is damaged.
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

    /// Whether what the table `number` has of a user key is superseded.
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

    /// The tables of which others were made.
    pub fn ancestors(&self) -> impl Iterator<Item = u64> {
        self.heirs.keys().copied()
    }
}

/// Calls `emit` with the newest version of each user key, tombstones too, in order.
pub fn newest(
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
        let last = last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(user);
        emit(key, value)
    })
}
