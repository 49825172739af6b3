//! Repeats the lookups on a database that was loaded with the advised filters.

use crate::advice::LevelAdvice;
use crate::advice::plan::FilterKind;
use minikv::Readable;
use minikv::files::NUM_LEVELS;
use serde::Serialize;

use super::lookups::Lookup;
use super::source::Source;
use crate::error::Result;
use crate::text::Table;
use crate::text::{size, thousands};

/// Block reads by the lookups in a database that was loaded with a separate filter size for each
/// level.
#[derive(Serialize)]
pub struct Rewritten {
    /// Size of the filters in the files, in bytes.
    pub filter_bytes: u64,
    /// Average number of data blocks per get that were searched in vain.
    pub in_vain_per_get: f64,
    levels: Vec<RewrittenLevel>,
}

/// The filters at one level of a database that was loaded with the advised filters.
#[derive(Serialize)]
struct RewrittenLevel {
    level: usize,
    tables: u64,
    /// Number of tables that compactions moved into the level without rewriting them. Moved tables
    /// keep the filters of the level for which they were written.
    moved_in: u64,
    keys: u64,
    filter_bytes: u64,
    advised_bits: u32,
    /// Size in bytes that the level's filters would have if all tables of the level had the advised
    /// filters.
    advised_filter_bytes: u64,
}

impl Rewritten {
    /// Runs `lookups` on a database that was loaded with the filters advised for each level.
    pub fn of(source: &Source, lookups: &[Lookup], advice: &LevelAdvice) -> Result<Rewritten> {
        let db = source.open()?;
        let (mut blocks, mut needed) = (0, 0);
        for lookup in lookups {
            let (value, trace) = db.get_traced(&lookup.key)?;
            blocks += trace.data_blocks();
            // A get that finds its value in a table needs one block; all other blocks were searched
            // in vain.
            needed += u64::from(value.is_some() && trace.memtable_hits == 0);
        }
        let held = source.survey(Vec::new())?;
        let (tables, filters) = (source.tables_per_level(), source.own_filters()?);
        // If the advice does not include a level, the advice for the next deeper level applies. If
        // the advice includes no deeper level either, the advice for the deepest included level
        // applies.
        let advised = |level| {
            let share = advice.levels.iter().find(|share| share.level >= level);
            share.or(advice.levels.last()).map_or(0, |share| share.advised_bits)
        };
        let kind = FilterKind::of(advice.filters).0;
        let level = |level: usize| RewrittenLevel {
            level,
            tables: tables[level],
            moved_in: source.stats.as_ref().map_or(0, |stats| stats.levels[level].moves),
            keys: held.levels[level].keys,
            filter_bytes: filters[level],
            advised_bits: advised(level),
            advised_filter_bytes: held.levels[level].filter_bytes(kind, advised(level)),
        };
        Ok(Rewritten {
            filter_bytes: filters.iter().sum(),
            in_vain_per_get: (blocks - needed) as f64 / lookups.len().max(1) as f64,
            levels: (0..NUM_LEVELS).filter(|&l| tables[l] > 0).map(level).collect(),
        })
    }

    pub fn text(&self) -> String {
        let mut table = Table::new([
            "level",
            "tables",
            "moved in",
            "keys",
            "filters",
            "bits/key",
            "advised",
            "advised bytes",
        ]);
        for level in &self.levels {
            let bits = level.filter_bytes as f64 * 8.0 / level.keys.max(1) as f64;
            table.row([
                &format!("L{}", level.level),
                &thousands(level.tables),
                &thousands(level.moved_in),
                &thousands(level.keys),
                &size(level.filter_bytes),
                &format!("{bits:.1}"),
                &level.advised_bits.to_string(),
                &size(level.advised_filter_bytes),
            ]);
        }
        format!(
            "Loaded again with these options: {} of filters, and a get searches {:.4} data blocks \
             in vain.\n{table}",
            size(self.filter_bytes),
            self.in_vain_per_get
        )
    }
}
