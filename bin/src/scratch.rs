//! Temporary directories for databases. They are removed when the command ends, even if it is
//! interrupted.

use std::path::Path;

use tempfile::TempDir;

use crate::error::{CliError, Result};
use crate::interrupt::{self, Guard};

/// A temporary directory, removed when dropped and when the process is interrupted.
pub struct Scratch {
    dir: TempDir,
    _guard: Guard,
}

impl Scratch {
    pub fn new() -> Result<Scratch> {
        let (dir, guard) = interrupt::make(|| {
            let dir = tempfile::Builder::new().prefix("minikv-").tempdir().map_err(|source| {
                CliError::io("create a directory in", &std::env::temp_dir(), source)
            })?;
            let path = dir.path().to_path_buf();
            let remove = move || {
                // Background threads may still be creating files, so the removal may have to be
                // repeated.
                let _ = (0..3).find(|_| std::fs::remove_dir_all(&path).is_ok());
            };
            Ok((dir, remove))
        })?;
        Ok(Scratch { dir, _guard: guard })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}
