//! The fuzz target for a whole table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use minikv::files::TableCursor;
use minikv::fs::{Fs, MemFs};
use minikv::internals::table::{BlockReadOptions, Table, TableContext};
use minikv::stats::LevelTrace;
use minikv::{BloomFilterPolicy, DelimitedPrefix, Result};

use crate::parts::orders;

/// Compared parts of each entry: the lengths of key and value in one number, and the first bytes of
/// the key.
type Seen = Vec<(usize, u64)>;

fn walk(
    cursor: &mut TableCursor,
    mut valid: Result<bool>,
    step: fn(&mut TableCursor) -> Result<bool>,
    keys: &mut Vec<Vec<u8>>,
) -> Result<Seen> {
    let mut seen = Seen::new();
    while valid? {
        if keys.len() < 30 {
            keys.push(cursor.key().to_vec());
        }
        let head = cursor.key().iter().take(8).fold(0, |head, byte| head << 8 | u64::from(*byte));
        seen.push((cursor.key().len() ^ cursor.value().len() << 20, head));
        valid = step(cursor);
    }
    Ok(seen)
}

/// Opens the input as a table of plain keys and as a table of internal keys, with and without
/// paranoid checks; walks the table forward and backward; and looks up its keys with and without
/// filters.
pub fn table(data: &[u8]) {
    let fs = MemFs::new();
    let path = Path::new("/table");
    fs.create(path).unwrap().write(data).unwrap();
    for order in orders() {
        for paranoid in [false, true] {
            let context = TableContext {
                order: order.clone(),
                filter_policy: Some(Arc::new(BloomFilterPolicy::new(10))),
                prefix_extractor: Some(Arc::new(DelimitedPrefix::new(b'/'))),
                block_cache: None,
                paranoid,
            };
            let file = fs.open(path).unwrap();
            match Table::open(file, data.len() as u64, PathBuf::from("/table"), &context) {
                Ok(table) => read(&Arc::new(table)),
                Err(error) => assert!(error.is_corruption() || is_unsupported(&error), "{error}"),
            }
        }
    }
}

/// Returns whether the error reports something that this build does not know, rather than damage.
pub fn is_unsupported(error: &minikv::Error) -> bool {
    matches!(error, minikv::Error::Unsupported { .. })
}

fn read(table: &Arc<Table>) {
    let mut cursor = table.cursor(BlockReadOptions::default());
    let mut keys = Vec::new();
    let first = cursor.seek_to_first();
    let forward = walk(&mut cursor, first, TableCursor::next, &mut keys);
    let last = cursor.seek_to_last();
    let backward = walk(&mut cursor, last, TableCursor::prev, &mut keys);
    if let (Ok(forward), Ok(backward)) = (&forward, &backward) {
        assert!(forward.iter().eq(backward.iter().rev()), "back is the way that forward went");
    }
    keys.extend([Vec::new(), vec![0xff; 20]]);
    for key in &keys {
        let plain = BlockReadOptions { use_filter: false, ..BlockReadOptions::default() };
        let without = table.get(key, &plain, &mut LevelTrace::default());
        let with = table.get(key, &BlockReadOptions::default(), &mut LevelTrace::default());
        if let (Ok(Some(with)), Ok(without)) = (with, &without) {
            assert_eq!(Some(with), *without, "a filter finds nothing by itself");
        }
        assert_eq!(table.holds(key).ok(), without.ok().map(|found| found.is_some()));
        let _ = cursor.seek(key);
        let _ = table.approximate_offset_of(key);
    }
    let _ = (table.blocks(), table.pinned_bytes(), table.filter_error());
}
