//! Traced gets that minikv makes in the files of a closed database. minikv reads LevelDB's files,
//! so LevelDB's levels and filters are measured in this way, too.

use std::path::Path;

use ::minikv::{Db, Options, ReadTrace};
use minikv_workloads::{Result, Shuffle, key, mix};

use super::{Blocks, Level};

/// Number of even numbers that fit in a key of 16 digits.
const EVEN_NUMBERS: u64 = 5_000_000_000_000_000;

/// The keys of a database: some even numbers, chosen at random. LevelDB's hash does not spread
/// consecutive numbers.
#[derive(Clone, Copy)]
pub struct Keys(Shuffle);

impl Keys {
    pub fn new(seed: u64) -> Keys {
        Keys(Shuffle::new(EVEN_NUMBERS, seed))
    }

    /// Returns the number of the key of an entry.
    pub fn at(&self, entry: u64) -> u64 {
        2 * self.0.at(entry)
    }
}

/// Keys to look up.
pub struct Lookups {
    pub keys: Keys,
    /// Number of entries in the database.
    pub entries: u64,
    /// Number of absent keys to look up, and number of present keys to look up.
    pub count: u64,
}

impl Lookups {
    /// Returns the numbers of present or of absent keys. The number of an absent key is one more
    /// than the number of a present key.
    pub fn numbers(&self, is_present: bool) -> impl Iterator<Item = u64> {
        let (keys, entries, absent) = (self.keys, self.entries, u64::from(!is_present));
        (0..self.count).map(move |n| keys.at(mix(!n) % entries) + absent)
    }
}

/// Looks keys up in the database in `dir`, and adds the data blocks searched at each level to
/// `levels`, which must be the levels of the database. Returns the sums over all levels.
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
