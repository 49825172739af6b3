//! Engines for unit tests.

use std::path::Path;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::options::Options;
use crate::fs::MemFs;

/// Returns the engine of a new, empty database in memory, in deterministic mode.
pub(crate) fn engine_in_memory() -> Arc<Engine> {
    let options = Options::default().create_if_missing(true).inline_background(Some(4));
    Engine::open(Path::new("/db"), options.fs(MemFs::new())).unwrap()
}
