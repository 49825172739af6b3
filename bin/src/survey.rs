//! What the tables of a database hold, found by reading the files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

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

    /// How often theory lets these filters be wrong, for absent keys that fall where the keys
    /// are. `None` without filters.
    pub fn predicted_false_positive_rate(&self, policy: &BloomFilterPolicy) -> Option<f64> {
        let keys: u64 = self.keys_per_filter.iter().sum();
        let wrong = |&keys: &u64| {
            let bits = policy.filter_bits(keys as usize);
            let probes = policy.probes();
            keys as f64 * minikv::filter::math::false_positive_probability(bits, keys, probes)
        };
        (keys > 0).then(|| self.keys_per_filter.iter().map(wrong).sum::<f64>() / keys as f64)
    }
}

/// Opens a table file by itself, with no database around it.
pub fn open_table(path: &Path) -> Result<Table> {
    let file = DiskFs.open(path).map_err(|error| CliError::io("open", path, error))?;
    let file_bytes = file.len().map_err(|error| CliError::io("read", path, error))?;
    let context = TableContext {
        order: KeyOrder::Internal(InternalComparator::new(Arc::new(BytewiseComparator))),
        filter_policy: Some(Arc::new(BloomFilterPolicy::new(10))),
        block_cache: None,
        paranoid: false,
    };
    Ok(Table::open(file, file_bytes, path.to_path_buf(), &context)?)
}
