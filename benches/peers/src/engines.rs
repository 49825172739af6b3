//! The engines, and how each is opened.

use std::path::Path;
use std::sync::Arc;

use minikv::{BloomFilterPolicy, FilterLayout, Options};
use minikv_workloads::{Minikv, Result, Settings, Store};

/// An engine, with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// minikv with LevelDB's filter blocks.
    Minikv,
    /// minikv with one filter for each table.
    MinikvTable,
    LevelDb,
    #[cfg(feature = "rocksdb")]
    RocksDb,
    #[cfg(feature = "fjall")]
    Fjall,
    #[cfg(feature = "redb")]
    Redb,
}

/// What is built in, in the order of the table.
pub const ENGINES: &[Engine] = &[
    Engine::Minikv,
    Engine::MinikvTable,
    Engine::LevelDb,
    #[cfg(feature = "rocksdb")]
    Engine::RocksDb,
    #[cfg(feature = "fjall")]
    Engine::Fjall,
    #[cfg(feature = "redb")]
    Engine::Redb,
];

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::Minikv => "minikv",
            Engine::MinikvTable => "minikv-table",
            Engine::LevelDb => "leveldb",
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => "rocksdb",
            #[cfg(feature = "fjall")]
            Engine::Fjall => "fjall",
            #[cfg(feature = "redb")]
            Engine::Redb => "redb",
        }
    }

    pub fn parse(name: &str) -> Result<Engine, String> {
        ENGINES.iter().find(|engine| engine.name() == name).copied().ok_or_else(|| {
            let names: Vec<&str> = ENGINES.iter().map(|engine| engine.name()).collect();
            format!("this build has {}", names.join(", "))
        })
    }

    pub fn is_minikv(self) -> bool {
        matches!(self, Engine::Minikv | Engine::MinikvTable)
    }

    /// Whether it is a log-structured merge tree, which redb is not.
    pub fn is_lsm(self) -> bool {
        #[cfg(feature = "redb")]
        return self != Engine::Redb;
        #[cfg(not(feature = "redb"))]
        true
    }

    /// Opens or makes a database.
    pub fn open(self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        Ok(match self {
            Engine::Minikv | Engine::MinikvTable => self.open_minikv(dir, settings)?,
            Engine::LevelDb => Box::new(crate::leveldb::LevelDb::open(dir, settings)?),
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => Box::new(crate::rocksdb_store::RocksDb::open(dir, settings)?),
            #[cfg(feature = "fjall")]
            Engine::Fjall => Box::new(crate::fjall_store::Fjall::open(dir, settings)?),
            #[cfg(feature = "redb")]
            Engine::Redb => Box::new(crate::redb_store::Redb::open(dir, settings)?),
        })
    }

    fn open_minikv(self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let options = Options::default()
            .write_buffer_bytes(settings.write_buffer_bytes)
            .block_cache_bytes(settings.cache_bytes);
        let (options, filter) = match self {
            Engine::MinikvTable => (options.filter(FilterLayout::Table, 10), "whole-table"),
            _ => {
                let policy = BloomFilterPolicy::new(10);
                (options.filter_policy(Some(Arc::new(policy))), "LevelDB's per-block")
            }
        };
        let describe = format!(
            "minikv, {filter} bloom 10 bits, blocks 4 KiB, snappy, checksums verified; CRC-32C \
             in hardware"
        );
        Ok(Box::new(Minikv::open(dir, options, describe)?))
    }
}
