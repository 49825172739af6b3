//! Directories for databases that live as long as a command, also if it is interrupted.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

use tempfile::TempDir;

use crate::error::{CliError, Result};

const EXIT_CODE_INTERRUPTED: i32 = 130;

static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static HANDLER: Once = Once::new();

/// A temporary directory, removed when dropped and when the process is asked to end.
pub struct Scratch {
    dir: TempDir,
}

impl Scratch {
    pub fn new() -> Result<Scratch> {
        // Without a handler the directory outlives an interrupt: no reason to refuse the command.
        HANDLER.call_once(|| drop(ctrlc::set_handler(end_interrupted)));
        let dir = tempfile::Builder::new().prefix("minikv-").tempdir().map_err(|source| {
            CliError::io("create a directory in", &std::env::temp_dir(), source)
        })?;
        LIVE.lock().unwrap_or_else(|e| e.into_inner()).push(dir.path().to_path_buf());
        Ok(Scratch { dir })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        LIVE.lock().unwrap_or_else(|e| e.into_inner()).retain(|path| path != self.dir.path());
    }
}

fn end_interrupted() {
    let live = LIVE.lock().unwrap_or_else(|e| e.into_inner());
    for path in live.iter() {
        // Background threads may still make files, so removing can find new ones.
        let _ = (0..3).find(|_| std::fs::remove_dir_all(path).is_ok());
    }
    std::process::exit(EXIT_CODE_INTERRUPTED);
}
