//! Reads fjall's counts.

use std::path::Path;

use fjall::AbstractTree;
use minikv_workloads::{Result, Settings, Store};

use super::counted::Counted;
use super::replay::Lookups;
use super::{Level, Measured};
use crate::fjall_store::Fjall;

pub struct FjallCounts(Fjall);

impl FjallCounts {
    pub fn open(dir: &Path, settings: &Settings, filters: bool) -> Result<FjallCounts> {
        Ok(FjallCounts(Fjall::open_scaled(dir, settings, filters)?))
    }
}

impl Counted for FjallCounts {
    fn store(&self) -> &dyn Store {
        &self.0
    }

    fn tell_writes(&self, measured: &mut Measured) -> Result<()> {
        let version = self.0.keyspace().tree.current_version();
        let levels = version.iter_levels().enumerate().map(|(level, held)| Level {
            level,
            tables: held.table_count() as u64,
            bytes: held.size(),
            ..Level::default()
        });
        measured.levels = levels.filter(|level| level.tables > 0).collect();
        Ok(())
    }

    #[cfg(feature = "metrics")]
    fn data_blocks(&self) -> Option<u64> {
        Some(self.0.keyspace().metrics().data_block_load_count() as u64)
    }

    #[cfg(not(feature = "metrics"))]
    fn data_blocks(&self) -> Option<u64> {
        None
    }

    fn close(self: Box<Self>, _: &Lookups, _: &mut Measured) -> Result<()> {
        Ok(())
    }
}
