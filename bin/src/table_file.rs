//! Opening a table file without a database.

use std::path::Path;

use minikv::Options;
use minikv::files::TableReader;

use crate::error::Result;

/// Opens a table file without a database around it.
pub fn open_table(path: &Path) -> Result<TableReader> {
    Ok(TableReader::open(path, &Options::default())?)
}
