//! Opening a table file without a database.

use std::path::Path;
use std::sync::Arc;

use minikv::fs::{DiskFs, Fs};
use minikv::internals::format::key::{InternalComparator, KeyOrder};
use minikv::internals::table::{Table, TableContext};
use minikv::{BloomFilterPolicy, BytewiseComparator};

use crate::error::{CliError, Result};

/// Opens a table file without a database around it.
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
