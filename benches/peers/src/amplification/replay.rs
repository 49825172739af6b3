//! Traces gets by minikv in the files of a closed database. minikv can read LevelDB's files, so the
//! levels and filters of LevelDB are also measured in this way.

use minikv::Readable;
use std::path::Path;

use ::minikv::{Db, Options, ReadTrace};
use minikv_workloads::{Result, Shuffle, key, mix};

use super::{Blocks, Level};

/// Number of even numbers that fit in a key of 16 digits.
const EVEN_NUMBERS: u64 = 5_000_000_000_000_000;

/// The keys of a database: even numbers chosen at random. Consecutive numbers are not used, because
/// LevelDB's hash function does not spread them.
#[derive(Clone, Copy)]
pub struct Keys(Shuffle);

impl Keys {
    pub fn new(seed: u64) -> Keys {
        Keys(Shuffle::new(EVEN_NUMBERS, seed))
    }

    /// Returns the number in the key of an entry.
    pub fn at(&self, entry: u64) -> u64 {
        2 * self.0.at(entry)
    }
}

/// Keys to look up.
pub struct Lookups {
    pub keys: Keys,
    /// Number of entries in the database.
    pub entries: u64,
    /// Number of absent keys to look up. The same number of present keys is looked up.
    pub count: u64,
}

impl Lookups {
    /// Returns the numbers in the keys to look up, which are all present or all absent. The number
    /// in an absent key is one more than the number in a present key.
    pub fn numbers(&self, is_present: bool) -> impl Iterator<Item = u64> {
        let (keys, entries, absent) = (self.keys, self.entries, u64::from(!is_present));
        (0..self.count).map(move |n| keys.at(mix(!n) % entries) + absent)
    }
}

/// Looks keys up in the database in `dir`, and stores the number of data blocks searched at each
/// level in `levels`, which must describe the levels of the database. Returns the totals over all
/// levels.
pub fn replay(
    dir: &Path,
    options: Options,
    lookups: &Lookups,
    levels: &mut [Level],
) -> Result<Blocks> {
    let db = Db::open_read_only(dir, options)?;
    for (level, found) in db.stats().levels.iter().enumerate() {
        let told = levels.iter().find(|told| told.level == level).copied().unwrap_or_default();
        if (found.files, found.bytes) != (told.tables, told.bytes) {
            return Err(format!("told of {told:?}, found {found:?}").into());
        }
    }
    let trace = |is_present| -> Result<ReadTrace> {
        let mut sum = ReadTrace::default();
        for number in lookups.numbers(is_present) {
            let (value, trace) = db.get_traced(key(number))?;
            if value.is_some() != is_present {
                return Err(format!("a wrong answer for key {number}").into());
            }
            sum.add(&trace);
        }
        Ok(sum)
    };
    let (absent, present) = (trace(false)?, trace(true)?);
    for (level, counts) in absent.levels.iter().zip(&present.levels).enumerate() {
        let blocks = Blocks { absent: counts.0.data_blocks(), present: counts.1.data_blocks() };
        if let Some(told) = levels.iter_mut().find(|told| told.level == level) {
            told.blocks = Some(blocks);
        }
    }
    Ok(Blocks { absent: absent.data_blocks(), present: present.data_blocks() })
}
