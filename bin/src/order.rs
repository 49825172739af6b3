//! A stand-in for a comparator that this build does not know.

use std::cmp::Ordering;
use std::path::Path;

use minikv::engine::{directory, version_set};
use minikv::fs::DiskFs;
use minikv::{BytewiseComparator, Comparator, Error};

use crate::error::{CliError, Result};

/// Has the name of a database's comparator, but not its order: whichever key comes first in a file
/// is taken for the lesser one. Good for visiting what files hold, not for looking up keys.
#[derive(Debug)]
pub struct AnyOrder {
    name: String,
}

impl AnyOrder {
    /// With the name of the comparator of the database in `dir`.
    pub fn of(dir: &Path) -> Result<AnyOrder> {
        if !directory::has_database(&DiskFs, dir)? {
            return Err(CliError::Db(Error::DatabaseMissing { path: dir.to_path_buf() }));
        }
        let name = match version_set::recover(&DiskFs, dir, BytewiseComparator.name()) {
            Err(Error::Unsupported { what: "comparator", name, .. }) => name,
            // Damage is for the command to report.
            _ => BytewiseComparator.name().to_string(),
        };
        Ok(AnyOrder { name })
    }
}

impl Comparator for AnyOrder {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if a == b { Ordering::Equal } else { Ordering::Less }
    }
}
