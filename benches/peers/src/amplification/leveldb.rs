//! Reads LevelDB's own counts, and takes further counts from LevelDB's directory with minikv.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use minikv_workloads::{Result, Settings, Store};

use super::counted::Counted;
use super::minikv::options;
use super::replay::{Lookups, replay};
use super::{Case, Measured, told};
use crate::engines::Engine;
use crate::leveldb::LevelDb;

pub struct LevelDbCounts {
    store: LevelDb,
    dir: PathBuf,
    settings: Settings,
    filters: bool,
}

impl LevelDbCounts {
    pub fn open(dir: &Path, settings: &Settings, filters: bool) -> Result<LevelDbCounts> {
        let store = LevelDb::open_with(dir, settings, filters)?;
        Ok(LevelDbCounts { store, dir: dir.to_owned(), settings: *settings, filters })
    }

    fn property(&self, name: &CStr) -> Result<String> {
        Ok(self.store.property(name).ok_or("LevelDB lacks a property")?)
    }
}

impl Counted for LevelDbCounts {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn tell_writes(&self, measured: &mut Measured) -> Result<()> {
        let tables = told::leveldb_tables(&self.property(c"leveldb.sstables")?)?;
        let written = told::leveldb_written(&self.property(c"leveldb.stats")?)?;
        measured.levels = told::joined(&tables, &written);
        Ok(())
    }

    fn data_blocks(&self) -> Option<u64> {
        None
    }

    fn close(self: Box<Self>, lookups: &Lookups, measured: &mut Measured) -> Result<()> {
        let LevelDbCounts { store, dir, settings, filters } = *self;
        drop(store);
        let options = options(&settings, Case { engine: Engine::LevelDb, filters });
        measured.blocks = Some(replay(&dir, options, lookups, &mut measured.levels)?);
        Ok(())
    }
}
