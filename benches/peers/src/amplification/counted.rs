//! The interface to the counters of an engine.

use std::path::Path;

use minikv_workloads::{Result, Settings, Store};

use super::replay::Lookups;
use super::{Case, Measured, leveldb, minikv};
use crate::engines::Engine;

/// An open database whose counters can be read.
pub trait Counted {
    fn store(&self) -> &dyn Store;

    /// Adds the engine's own counts for its levels and its log.
    fn tell_writes(&self, measured: &mut Measured) -> Result<()>;

    /// Returns the number of data blocks that gets have searched so far, from a cache or from
    /// files, or `None` if the engine does not count data blocks.
    fn data_blocks(&self) -> Option<u64>;

    /// Closes the database, and adds the counts that are taken from its directory.
    fn close(self: Box<Self>, lookups: &Lookups, measured: &mut Measured) -> Result<()>;
}

impl Case {
    /// Creates a database.
    pub fn open(self, dir: &Path, settings: &Settings) -> Result<Box<dyn Counted>> {
        Ok(match self.engine {
            Engine::Minikv | Engine::MinikvTable => {
                Box::new(minikv::Counts::open(dir, settings, self)?)
            }
            Engine::LevelDb => Box::new(leveldb::Counts::open(dir, settings, self.filters)?),
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => Box::new(super::rocksdb::Counts::open(dir, settings, self.filters)?),
            #[cfg(feature = "fjall")]
            Engine::Fjall => Box::new(super::fjall::Counts::open(dir, settings, self.filters)?),
            #[cfg(feature = "redb")]
            Engine::Redb => return Err("redb has no levels".into()),
        })
    }
}
