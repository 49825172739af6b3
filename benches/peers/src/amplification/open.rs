//! Opens the database of a case, and enables the counters of its engine.

use std::path::Path;

use minikv_workloads::{Result, Settings};

use super::counted::Counted;
use super::{Case, leveldb, minikv};
use crate::engines::Engine;

impl Case {
    /// Creates a database.
    pub fn open(self, dir: &Path, settings: &Settings) -> Result<Box<dyn Counted>> {
        Ok(match self.engine {
            Engine::Minikv | Engine::MinikvTable | Engine::MinikvMapped => {
                Box::new(minikv::MinikvCounts::open(dir, settings, self)?)
            }
            Engine::LevelDb => Box::new(leveldb::LevelDbCounts::open(dir, settings, self.filters)?),
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => {
                Box::new(super::rocksdb::RocksDbCounts::open(dir, settings, self.filters)?)
            }
            #[cfg(feature = "fjall")]
            Engine::Fjall => {
                Box::new(super::fjall::FjallCounts::open(dir, settings, self.filters)?)
            }
            #[cfg(feature = "redb")]
            Engine::Redb => return Err("redb has no levels".into()),
        })
    }
}
