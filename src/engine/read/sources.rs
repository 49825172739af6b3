//! The sources of a cursor: the writes of a transaction, and the memtables and tables of a view,
//! except for the tables that a prefix scan can skip.

use std::sync::Arc;

use crate::base::Result;
use crate::engine::read::level::{LevelCursor, Run};
use crate::engine::read::merge::Source;
use crate::engine::read::point::OwnedPoint;
use crate::engine::read::prefix_scan::PrefixScan;
use crate::format::edit::NUM_LEVELS;
use crate::table::counts::LevelTrace;

/// Returns the sources of a cursor at `point`, newest first: the writes of the transaction that
/// reads, each memtable, each table of level 0,
/// and each sorted level. Queries of prefix filters in level 0 are counted in `trace`.
///
/// # Errors
/// Corruption and I/O errors of opening the tables of level 0.
pub(crate) fn sources(
    point: &OwnedPoint,
    scan: Option<&Arc<PrefixScan>>,
    trace: &mut LevelTrace,
) -> Result<Vec<Source>> {
    let (state, view, options) = (point.state(), &point.view, point.options);
    let order = state.order.user();
    let own = point.own.iter().map(|own| Source::Own(Box::new(own.clone())));
    let memtables = view.memtables().map(|mem| Source::Mem(mem.cursor()));
    let mut sources: Vec<Source> = own.chain(memtables).collect();
    for file in view.version.level(0) {
        if scan.is_some_and(|scan| !scan.range().overlaps(order, file.range())) {
            continue;
        }
        let table = state.tables.table(&file.slot)?;
        if scan.is_none_or(|scan| scan.admits(&table, trace)) {
            sources.push(Source::Table(Box::new(table.cursor(options)), file.clone()));
        }
    }
    for level in 1..NUM_LEVELS {
        if !view.version.level(level).is_empty() {
            let files = Run::Level(view.clone(), level);
            let cursor = LevelCursor::new(state.clone(), files, options, scan.cloned());
            sources.push(Source::Level(Box::new(cursor)));
        }
    }
    Ok(sources)
}
