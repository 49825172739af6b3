//! The engines, and the functions that open their databases.

use std::path::Path;

use minikv::{Filters, Options};
use minikv_workloads::{Minikv, Result, Settings, Store};

/// An engine with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// minikv with LevelDB's filter blocks.
    Minikv,
    /// minikv with one filter per table.
    MinikvTable,
    /// minikv with LevelDB's filter blocks and mapped tables.
    MinikvMapped,
    LevelDb,
    #[cfg(feature = "rocksdb")]
    RocksDb,
    #[cfg(feature = "fjall")]
    Fjall,
    #[cfg(feature = "redb")]
    Redb,
}

/// The engines in this build, in the order in which the table of results lists them.
pub const ENGINES: &[Engine] = &[
    Engine::Minikv,
    Engine::MinikvTable,
    Engine::MinikvMapped,
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
            Engine::MinikvMapped => "minikv-mapped",
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
        matches!(self, Engine::Minikv | Engine::MinikvTable | Engine::MinikvMapped)
    }

    /// Returns the workloads that the engine runs unless it is named on the command line: those
    /// that differ from [`Engine::Minikv`]'s. `None` stands for all.
    pub fn own_workloads(self) -> Option<&'static [&'static str]> {
        match self {
            Engine::MinikvTable => Some(&["readmissing", "readmissing-cache8m"]),
            Engine::MinikvMapped => {
                Some(&["readrandom-cache8m", "readmissing-cache8m", "readrandom-4k"])
            }
            _ => None,
        }
    }

    /// Returns whether the engine is a log-structured merge tree. redb is the only engine that is
    /// not.
    pub fn is_lsm(self) -> bool {
        #[cfg(feature = "redb")]
        return self != Engine::Redb;
        #[cfg(not(feature = "redb"))]
        true
    }

    /// Opens or creates a database.
    pub fn open(self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        Ok(match self {
            Engine::Minikv | Engine::MinikvTable | Engine::MinikvMapped => {
                self.open_minikv(dir, settings)?
            }
            Engine::LevelDb => Box::new(crate::leveldb::LevelDb::open(dir, settings)?),
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb if settings.transactions => {
                Box::new(crate::rocksdb_store::RocksTransactions::open(dir, settings)?)
            }
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => Box::new(crate::rocksdb_store::RocksDb::open(dir, settings)?),
            #[cfg(feature = "fjall")]
            Engine::Fjall => Box::new(crate::fjall_store::Fjall::open(dir, settings)?),
            #[cfg(feature = "redb")]
            Engine::Redb => Box::new(crate::redb_store::Redb::open(dir, settings)?),
        })
    }

    fn open_minikv(self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let is_mapped = self == Engine::MinikvMapped;
        let options = minikv_options(settings).map_tables(is_mapped);
        let (options, filter) = match self {
            Engine::MinikvTable => {
                (options.filters(Filters::Table(10)), "whole-table binary fuse filter")
            }
            _ => (options.filters(Filters::Block(10)), "LevelDB's per-block bloom"),
        };
        let describe = format!(
            "minikv, {filter} 10 bits, blocks 4 KiB, snappy, checksums verified; CRC-32C in \
             hardware{}",
            if is_mapped { "; tables mapped" } else { "" }
        );
        Ok(Box::new(Minikv::open(dir, options, settings, describe)?))
    }
}

/// Returns minikv's default options, with the sizes from `settings`.
pub fn minikv_options(settings: &Settings) -> Options {
    Options::default()
        .write_buffer_bytes(settings.write_buffer_bytes)
        .block_cache_bytes(settings.cache_bytes)
}

#[cfg(test)]
mod tests {
    use minikv_workloads::{Direction, Plan, Runner, WORKLOADS};

    use super::*;

    fn plan() -> Plan {
        Plan { entries: 1000, settings: Settings::new(1 << 20, 1 << 20), ..Plan::default() }
    }

    #[test]
    fn every_engine_runs_every_workload() {
        for engine in ENGINES {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("db");
            let open = |dir: &Path, settings: &Settings| engine.open(dir, settings);
            let mut runner = Runner::new(plan(), &dir, &open);
            for workload in WORKLOADS {
                let ran = runner.run(workload);
                assert!(ran.is_ok(), "{}, {}: {ran:?}", engine.name(), workload.name);
            }
        }
    }

    /// Returns the first keys that a scan visits, at most three.
    fn scan(store: &dyn Store, from: Option<&str>, direction: Direction) -> String {
        let mut keys = Vec::new();
        let visit = &mut |key: &[u8], _: &[u8]| {
            keys.push(String::from_utf8(key.to_vec()).unwrap());
            keys.len() < 3
        };
        store.scan(from.map(str::as_bytes), direction, visit).unwrap();
        keys.join(" ")
    }

    #[test]
    fn every_engine_scans_both_ways_from_anywhere() {
        for engine in ENGINES {
            let home = tempfile::tempdir().unwrap();
            let store = engine.open(&home.path().join("db"), &plan().settings).unwrap();
            for key in ["b", "d", "f", "h"] {
                store.put(key.as_bytes(), b"value", false).unwrap();
            }
            let name = engine.name();
            let forward = |from| scan(&*store, from, Direction::Forward);
            let backward = |from| scan(&*store, from, Direction::Backward);
            assert_eq!(forward(None), "b d f", "{name}");
            assert_eq!(forward(Some("d")), "d f h", "{name}");
            assert_eq!(forward(Some("g")), "h", "{name}");
            assert_eq!(forward(Some("i")), "", "{name}");
            assert_eq!(backward(None), "h f d", "{name}");
            assert_eq!(backward(Some("d")), "d b", "{name}");
            assert_eq!(backward(Some("e")), "d b", "{name}");
            assert_eq!(backward(Some("z")), "h f d", "{name}");
            assert_eq!(backward(Some("a")), "", "{name}");
        }
    }
}
