//! Planning the level of each table in the repaired database.
//!
//! The MANIFEST's contents before its first bad record are kept as far as they agree with the
//! files, because newer versions of a key must be in levels above those of older versions. Some
//! tables may be missing from the MANIFEST because edits were lost. Such a table gets a level only
//! if sequence numbers or key ranges prove that this order is preserved. Otherwise all tables are
//! merged by sequence number.

use std::path::Path;
use std::sync::Arc;

use crate::admin::repair::merge;
use crate::admin::survey::Survey;
use crate::admin::tables::TableFacts;
use crate::base::Result;
use crate::engine::compact::pick::level_for;
use crate::engine::options::Options;
use crate::engine::version::Version;
use crate::engine::version::obsolete::Trash;
use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::key::InternalComparator;

/// The plan for the tables of the repaired database.
#[derive(Debug)]
pub(super) enum RepairPlan {
    /// Each table is kept at its level in the new MANIFEST. A damaged table is rewritten at this
    /// level.
    Keep {
        /// The tables, ordered by level. Those of level 0 are ordered from the oldest to the
        /// newest.
        tables: Vec<KeptTable>,
    },
    /// All tables are merged into one sorted run.
    Merge {
        /// The level of the run.
        level: usize,
    },
}

/// A table to keep.
#[derive(Debug)]
pub(super) struct KeptTable {
    /// The table's entry in the new MANIFEST.
    pub file: NewFile,
    /// Whether the old MANIFEST names the table.
    pub is_named: bool,
    /// Whether the table must be rewritten.
    pub is_damaged: bool,
}

/// Returns the MANIFEST entry for a table.
fn as_file(facts: &TableFacts, level: usize) -> NewFile {
    NewFile {
        level,
        number: facts.number,
        file_bytes: facts.file_bytes,
        smallest: facts.smallest.clone(),
        largest: facts.largest.clone(),
    }
}

/// Returns the plan for the surveyed tables.
pub(super) fn plan(survey: &Survey, options: &Options, order: &InternalComparator) -> RepairPlan {
    let plan = match at_their_levels(survey, options, order) {
        Some(tables) => RepairPlan::Keep { tables },
        None => at_one_level(survey, options, order),
    };
    debug_assert!(plan.is_consistent(options, order), "{plan:?}");
    plan
}

/// Keeps the levels of the MANIFEST. Tables that are missing from the MANIFEST are assigned to
/// level 0. Returns `None` if older versions of a key might then hide newer versions.
fn at_their_levels(
    survey: &Survey,
    options: &Options,
    order: &InternalComparator,
) -> Option<Vec<KeptTable>> {
    let named = survey.named();
    let unnamed: Vec<&TableFacts> = survey
        .tables
        .values()
        .filter(|facts| !named.contains_key(&facts.number) && facts.entries > 0)
        .collect();
    let listed = survey.manifest.iter().flat_map(|manifest| manifest.files()).count();
    if listed != named.len() {
        // A table is listed at two levels, and nothing shows which level is right.
        return None;
    }
    if survey.distrust.is_some() && !unnamed.is_empty() {
        let has_all = named.keys().all(|number| survey.tables.contains_key(number));
        if !has_all || !are_later_flushes(survey, &unnamed) {
            return None;
        }
    }
    let mut tables = Vec::new();
    for (number, file) in &named {
        let Some(facts) = survey.tables.get(number).filter(|facts| facts.entries > 0) else {
            continue;
        };
        let is_damaged = facts.faults > 0;
        let file = match is_damaged {
            true => as_file(facts, file.level),
            false => (*file).clone(),
        };
        tables.push(KeptTable { file, is_named: true, is_damaged });
    }
    tables.extend(unnamed.iter().map(|facts| KeptTable {
        file: as_file(facts, 0),
        is_named: false,
        is_damaged: facts.faults > 0,
    }));
    tables.sort_by_key(|kept| (kept.file.level, kept.file.number));
    is_consistent(&tables, options, order).then_some(tables)
}

/// Returns a plan that assigns all tables to one sorted level. The tables are kept unchanged if
/// they are disjoint; otherwise they are merged.
fn at_one_level(survey: &Survey, options: &Options, order: &InternalComparator) -> RepairPlan {
    let named = survey.named();
    let all: Vec<&TableFacts> = survey.tables.values().collect();
    let bytes = all.iter().map(|facts| facts.file_bytes).fold(0, u64::saturating_add);
    let level = level_for(bytes, options);
    if merge::are_disjoint(&all, order.user()) {
        let tables = all.into_iter().filter(|facts| facts.entries > 0).map(|facts| KeptTable {
            file: as_file(facts, level),
            is_named: named.contains_key(&facts.number),
            is_damaged: facts.faults > 0,
        });
        return RepairPlan::Keep { tables: tables.collect() };
    }
    RepairPlan::Merge { level }
}

impl RepairPlan {
    /// Returns whether the plan is valid: kept tables must form a version, and the target level of
    /// a merge must be a sorted level.
    fn is_consistent(&self, options: &Options, order: &InternalComparator) -> bool {
        match self {
            RepairPlan::Keep { tables } => is_consistent(tables, options, order),
            RepairPlan::Merge { level } => (1..NUM_LEVELS).contains(level),
        }
    }
}

/// Returns whether the tables that are missing from the MANIFEST may come from flushes after its
/// last edit. Each of these tables must have a higher file number and higher sequence numbers than
/// the preceding one, and the first must have higher numbers than all tables in the MANIFEST.
fn are_later_flushes(survey: &Survey, unnamed: &[&TableFacts]) -> bool {
    let is_unnamed = |number: u64| unnamed.iter().any(|facts| facts.number == number);
    let before = survey.tables.values().filter(|facts| !is_unnamed(facts.number));
    let (mut number, mut seq) = (0, 0);
    for facts in before {
        number = number.max(facts.number);
        seq = seq.max(facts.max_seq);
    }
    unnamed.iter().all(|facts| {
        let is_later = facts.number > number && facts.min_seq > seq;
        (number, seq) = (facts.number, facts.max_seq);
        is_later
    })
}

fn is_consistent(tables: &[KeptTable], options: &Options, order: &InternalComparator) -> bool {
    let files: Vec<NewFile> = tables.iter().map(|kept| kept.file.clone()).collect();
    is_version(&files, options, order)
}

/// Returns whether tables form a version: the tables of each sorted level must be disjoint.
pub(super) fn is_version(files: &[NewFile], options: &Options, order: &InternalComparator) -> bool {
    let edit = VersionEdit { new_files: files.to_vec(), ..VersionEdit::default() };
    // This version is only checked, and never removes a table.
    let trash = Arc::new(Trash::new(options.fs.clone(), Path::new("")));
    let applied: Result<Version> = Version::default().apply(&edit, order, &trash);
    applied.is_ok()
}
