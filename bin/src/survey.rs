//! What the tables of a database hold, found by reading the files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use minikv::filter::math::false_positive_probability;
use minikv::format::key::{InternalComparator, KeyOrder};
use minikv::format::name::FileName;
use minikv::fs::{DiskFs, Fs};
use minikv::table::{Table, TableContext};
use minikv::{BloomFilterPolicy, BytewiseComparator};

use crate::error::{CliError, Result};

/// The span of data-block offsets that shares one filter: LevelDB's `kFilterBase`.
const FILTER_SPAN_BYTES: u64 = 2048;

/// Sums over the tables of a directory.
#[derive(Debug, Default)]
pub struct Survey {
    pub tables: u64,
    pub data_blocks: u64,
    pub entries: u64,
    /// Bytes of filter blocks.
    pub filter_bytes: u64,
    /// For each filter, how many keys it was made of.
    pub keys_per_filter: Vec<u64>,
}

impl Survey {
    /// Reads every table in `dir`.
    pub fn of(dir: &Path) -> Result<Survey> {
        let mut survey = Survey::default();
        let names = DiskFs.list(dir).map_err(|error| CliError::io("list", dir, error))?;
        for name in names {
            if let Some(FileName::Table { .. }) = FileName::parse(&name) {
                survey.add(&open_table(&dir.join(name))?)?;
            }
        }
        Ok(survey)
    }

    fn add(&mut self, table: &Table) -> Result<()> {
        let mut keys_per_span = BTreeMap::new();
        for block in table.blocks()? {
            let (_, contents) = table.read_block(block.handle, true)?;
            let mut cursor = contents.cursor();
            let mut entries = 0;
            let mut valid = cursor.seek_to_first()?;
            while valid {
                entries += 1;
                valid = cursor.next()?;
            }
            self.data_blocks += 1;
            self.entries += entries;
            *keys_per_span.entry(block.handle.offset / FILTER_SPAN_BYTES).or_insert(0) += entries;
        }
        self.tables += 1;
        if let Some(filter) = table.filter() {
            self.filter_bytes += filter.bytes as u64;
            self.keys_per_filter.extend(keys_per_span.into_values());
        }
        Ok(())
    }

    /// How often these filters should be wrong, for absent keys that fall where the keys are.
    /// `None` without filters.
    pub fn predict(&self, policy: &BloomFilterPolicy) -> Option<Prediction> {
        let mut filters = BTreeMap::new();
        for &keys in &self.keys_per_filter {
            *filters.entry(keys).or_insert(0) += keys;
        }
        let all_keys: u64 = filters.values().sum();
        let mut sum = Prediction::default();
        for (keys, weight) in filters {
            let (bits, probes) = (policy.filter_bits(keys as usize), policy.probes());
            let weight = weight as f64 / all_keys as f64;
            sum.independent += weight * false_positive_probability(bits, keys, probes);
            sum.double_hashing += weight * double_hashing_probability(bits, keys, probes);
        }
        (all_keys > 0).then_some(sum)
    }
}

/// How often filters should be wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prediction {
    /// If the probes of a key were independent: the formula of the textbooks.
    pub independent: f64,
    /// With probes at equal distances, as LevelDB has them.
    pub double_hashing: f64,
}

/// The false-positive probability when the probes of a key lie at `h + i * delta` modulo `bits`.
///
/// Where `delta` has a factor in common with `bits`, probes coincide: such a key sets fewer bits,
/// and fewer must be set for an absent one. With the few hundred bits of a filter for one data
/// block that happens often enough to be seen.
fn double_hashing_probability(bits: u64, keys: u64, probes: u32) -> f64 {
    let distinct = |delta| u64::from(probes).min(bits / greatest_common_divisor(bits, delta));
    let mean = (0..bits).map(distinct).sum::<u64>() as f64 / bits as f64;
    let clear = (mean * keys as f64 * (-1.0 / bits as f64).ln_1p()).exp();
    let all_set = |delta| (1.0 - clear).powi(distinct(delta) as i32);
    (0..bits).map(all_set).sum::<f64>() / bits as f64
}

/// The greatest common divisor; of 0 and `a` it is `a`.
fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Opens a table file by itself, with no database around it.
pub fn open_table(path: &Path) -> Result<Table> {
    let file = DiskFs.open(path).map_err(|error| CliError::io("open", path, error))?;
    let file_bytes = file.len().map_err(|error| CliError::io("read", path, error))?;
    let context = TableContext {
        order: KeyOrder::Internal(InternalComparator::new(Arc::new(BytewiseComparator))),
        filter_policy: Some(Arc::new(BloomFilterPolicy::new(10))),
        prefix_extractor: None,
        block_cache: None,
        paranoid: false,
    };
    Ok(Table::open(file, file_bytes, path.to_path_buf(), &context)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Rng;
    use minikv::FilterPolicy;

    /// Builds filters of random keys and asks them for others: the prediction is near what comes
    /// out, and the textbook's is not.
    #[test]
    fn double_hashing_is_predicted() {
        let policy = BloomFilterPolicy::new(10);
        let mut rng = Rng::new(42);
        let keys_per_filter = 19;
        let (mut asked, mut wrong) = (0.0, 0.0);
        for _ in 0..2000 {
            let keys: Vec<_> = (0..keys_per_filter).map(|_| rng.next().to_le_bytes()).collect();
            let mut filter = Vec::new();
            policy.create(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>(), &mut filter);
            for _ in 0..100 {
                asked += 1.0;
                wrong += f64::from(u8::from(policy.may_match(&rng.next().to_le_bytes(), &filter)));
            }
        }
        let survey = Survey { keys_per_filter: vec![keys_per_filter], ..Survey::default() };
        let predicted = survey.predict(&policy).unwrap();
        let measured = wrong / asked;
        assert!(
            (measured / predicted.double_hashing - 1.0).abs() < 0.1,
            "{measured} {predicted:?}"
        );
        assert!(measured / predicted.independent > 1.25, "{measured} {predicted:?}");
    }
}
