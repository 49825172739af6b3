//! Reads minikv's counts.

use std::path::{Path, PathBuf};

use ::minikv::{Filters, Options};
use minikv_workloads::{Minikv, Result, Settings, Store};

use super::counted::Counted;
use super::replay::{Lookups, replay};
use super::{Case, Level, Measured};
use crate::engines::{Engine, minikv_options};

pub struct MinikvCounts {
    store: Minikv,
    dir: PathBuf,
    options: Options,
}

impl MinikvCounts {
    pub fn open(dir: &Path, settings: &Settings, case: Case) -> Result<MinikvCounts> {
        let options = options(settings, case);
        let describe = match case.engine {
            Engine::MinikvTable => "minikv, whole-table binary fuse filter 10 bits",
            _ => "minikv, LevelDB's per-block bloom 10 bits",
        };
        let describe = format!("{describe}, blocks 4 KiB, snappy");
        let store = Minikv::open(dir, options.clone(), settings, describe)?;
        Ok(MinikvCounts { store, dir: dir.to_owned(), options })
    }
}

/// Returns minikv's options with the filters of a case. If the case is LevelDB's, minikv reads the
/// files that LevelDB wrote, and the filters are those of [`Engine::Minikv`].
pub fn options(settings: &Settings, case: Case) -> Options {
    let options = minikv_options(settings);
    match case.engine {
        _ if !case.filters => options.filters(Filters::None),
        Engine::MinikvTable => options.filters(Filters::Table(10)),
        _ => options.filters(Filters::Block(10)),
    }
}

impl Counted for MinikvCounts {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn tell_writes(&self, measured: &mut Measured) -> Result<()> {
        let stats = self.store.db().stats();
        measured.log_bytes = Some(stats.wal_bytes);
        let levels = stats.levels.iter().enumerate().map(|(level, counts)| {
            let flushed = if level == 0 { stats.flush_bytes } else { 0 };
            Level {
                level,
                tables: counts.files,
                bytes: counts.bytes,
                written_bytes: Some(counts.bytes_written + flushed),
                blocks: None,
            }
        });
        let is_used = |level: &Level| level.tables > 0 || level.written_bytes > Some(0);
        measured.levels = levels.filter(is_used).collect();
        Ok(())
    }

    fn data_blocks(&self) -> Option<u64> {
        Some(self.store.db().stats().reads.data_blocks())
    }

    fn close(self: Box<Self>, lookups: &Lookups, measured: &mut Measured) -> Result<()> {
        let MinikvCounts { store, dir, options } = *self;
        drop(store);
        let traced = replay(&dir, options, lookups, &mut measured.levels)?;
        match measured.blocks {
            Some(blocks) if blocks == traced => Ok(()),
            blocks => Err(format!("statistics: {blocks:?}; traces: {traced:?}").into()),
        }
    }
}
