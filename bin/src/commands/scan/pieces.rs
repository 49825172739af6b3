//! Divides a range into pieces, which threads can read. The indexes of tables determine the pieces.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::vec;

use minikv::Comparator;
use minikv::files::{FileName, NUM_LEVELS, NewFile, recover_manifest, user_key};
use minikv::fs::DiskFs;

use crate::commands::range::Range;
use crate::table_file::open_table;

/// Size of the table blocks in a piece, in bytes. Smaller pieces need more seeks, larger pieces
/// more memory.
const PIECE_BYTES: u64 = 512 << 10;

/// Pieces of a range, in the order in which they are printed. Together, the pieces always cover the
/// whole range. The tables only determine where the range is cut.
pub struct Pieces {
    /// Part of the range that is not in a piece yet.
    rest: Option<Range>,
    reverse: bool,
    order: Arc<dyn Comparator>,
    dir: PathBuf,
    /// Tables whose indexes determine the next cuts and have not been read yet.
    tables: vec::IntoIter<NewFile>,
    /// Keys at which the range is cut next.
    cuts: VecDeque<Vec<u8>>,
    /// Size of the blocks since the last cut, in bytes.
    bytes: u64,
}

impl Pieces {
    /// Returns the pieces of `range` in the database in `dir`, whose keys are sorted by `order`.
    pub fn of(dir: PathBuf, order: Arc<dyn Comparator>, range: Range, reverse: bool) -> Pieces {
        let recovered = recover_manifest(&DiskFs, &dir, order.name());
        let files = recovered.map_or(Vec::new(), |recovered| recovered.edit.new_files);
        let mut tables = largest_run(files);
        tables.retain(|table| range.overlaps(&*order, &table.smallest, &table.largest));
        tables.sort_by(|a, b| order.compare(user_key(&a.smallest), user_key(&b.smallest)));
        if reverse {
            tables.reverse();
        }
        let (tables, cuts) = (tables.into_iter(), VecDeque::new());
        Pieces { rest: Some(range), reverse, order, dir, tables, cuts, bytes: 0 }
    }

    /// Adds a cut after every [`PIECE_BYTES`] of a table. If the table cannot be read, adds no cut:
    /// the scan reports the error when it reads the entries of the table.
    fn cut(&mut self, table: &NewFile) {
        let name = FileName::Table { number: table.number, legacy_sst: false };
        let path = self.dir.join(name.to_string());
        let Ok(mut blocks) = open_table(&path).and_then(|table| Ok(table.blocks()?)) else {
            return;
        };
        // A block ends at its separator and begins after the separator of the preceding block.
        let mut before: Vec<_> =
            blocks.iter_mut().map(|b| std::mem::take(&mut b.separator)).collect();
        if self.reverse {
            blocks.reverse();
            before.pop();
            before.reverse();
        }
        for (block, key) in blocks.iter().zip(before) {
            self.bytes += block.handle.size;
            if self.bytes >= PIECE_BYTES {
                self.bytes = 0;
                self.cuts.push_back(user_key(&key).to_vec());
            }
        }
    }
}

impl Iterator for Pieces {
    type Item = Range;

    fn next(&mut self) -> Option<Range> {
        loop {
            let Some(cut) = self.cuts.pop_front() else {
                let Some(table) = self.tables.next() else { return self.rest.take() };
                self.cut(&table);
                continue;
            };
            let rest = self.rest.as_mut()?;
            if rest.has_inside(&*self.order, &cut) {
                return Some(rest.split_off(cut, self.reverse));
            }
        }
    }
}

/// Returns the tables of the level with the most bytes. If that is level 0, whose tables overlap,
/// returns only the largest table of the level.
fn largest_run(files: Vec<NewFile>) -> Vec<NewFile> {
    let bytes = |level| {
        let of_level = files.iter().filter(|file| file.level == level);
        of_level.fold(0, |sum: u64, file| sum.saturating_add(file.file_bytes))
    };
    let level = (0..NUM_LEVELS).max_by_key(|&level| bytes(level)).unwrap_or(0);
    let mut run: Vec<_> = files.into_iter().filter(|file| file.level == level).collect();
    if level == 0 {
        run.sort_by_key(|file| file.file_bytes);
        run.drain(..run.len().saturating_sub(1));
    }
    run
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use minikv::{BytewiseComparator, Compression, Db, IndexedDbComparator, Options};

    use super::*;

    /// Returns the key of the entry `number` of an object store of IndexedDB.
    fn key(number: u64) -> Vec<u8> {
        [&b"\0\x01\x01\x01\x03"[..], &(number as f64).to_le_bytes()].concat()
    }

    /// Creates a database of 8 MB with tables in two levels.
    fn database(dir: PathBuf, order: Arc<dyn Comparator>) {
        let options = Options::default().create_if_missing(true).comparator(order);
        let db = Db::open(dir, options.compression(Compression::None)).unwrap();
        for number in 0..8000u64 {
            db.put(key(number * 7919 % 8000), [number as u8; 1000]).unwrap();
        }
        db.compact_range(..).unwrap();
        db.put(key(77), "in the log").unwrap();
        db.close().unwrap();
    }

    fn range(from: Option<u64>, to: Option<u64>) -> Range {
        Range::between(from.map(key).unwrap_or_default(), to.map(key))
    }

    #[test]
    fn pieces_are_the_range_in_parts_of_about_one_size() {
        let orders: [Arc<dyn Comparator>; 2] =
            [Arc::new(BytewiseComparator), Arc::new(IndexedDbComparator)];
        for order in orders {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path().join("db");
            database(dir.clone(), order.clone());
            let mut ends = [key(1000), key(5000)];
            ends.sort_by(|a, b| order.compare(a, b));
            let [from, to] = ends;
            let ranges = [
                (range(None, None), 12..18),
                (Range::between(from.clone(), Some(to.clone())), 1..12),
                (Range::between(from, None), 1..18),
                (Range::between(Vec::new(), Some(to.clone())), 1..18),
                (Range::between(to.clone(), Some(to)), 1..2),
            ];
            for (range, count) in ranges {
                let of = |reverse| {
                    let range = range.clone();
                    Pieces::of(dir.clone(), order.clone(), range, reverse).collect::<Vec<_>>()
                };
                let (forward, mut back) = (of(false), of(true));
                back.reverse();
                for pieces in [forward, back] {
                    assert!(count.contains(&pieces.len()), "{} of {count:?}", pieces.len());
                    let whole = pieces.iter().cloned().reduce(|a, b| a.joined(b)).unwrap();
                    assert_eq!(whole, range);
                    let ascends = |piece: &Range| match piece.clone().bounds() {
                        (std::ops::Bound::Included(from), std::ops::Bound::Excluded(to)) => {
                            order.compare(&from, &to) == Ordering::Less
                        }
                        _ => true,
                    };
                    assert!(pieces.len() == 1 || pieces.iter().all(ascends));
                }
            }
            // If the files of the database are missing, the range is not cut.
            std::fs::remove_dir_all(&dir).unwrap();
            let pieces = Pieces::of(dir, order, range(None, None), false);
            assert_eq!(pieces.collect::<Vec<_>>(), [range(None, None)]);
        }
    }
}
