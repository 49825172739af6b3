//! The counts of RocksDB.

use std::path::{Path, PathBuf};

use minikv_workloads::{Result, Settings, Store};
use rocksdb::statistics::Ticker;

use super::Measured;
use super::counted::Counted;
use super::replay::Lookups;
use super::told::{self, Tables, Written};
use crate::rocksdb_store::RocksDb;

pub struct RocksDbCounts {
    store: RocksDb,
    dir: PathBuf,
}

impl RocksDbCounts {
    pub fn open(dir: &Path, settings: &Settings, filters: bool) -> Result<RocksDbCounts> {
        let store = RocksDb::open_counted(dir, settings, filters)?;
        Ok(RocksDbCounts { store, dir: dir.to_owned() })
    }
}

impl Counted for RocksDbCounts {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn tell_writes(&self, measured: &mut Measured) -> Result<()> {
        let mut tables = Tables::new();
        for table in self.store.tables()? {
            let (number, bytes) = tables.entry(usize::try_from(table.level)?).or_default();
            *number += 1;
            *bytes += table.size as u64;
        }
        measured.log_bytes = Some(self.store.ticker(Ticker::WalFileBytes));
        measured.levels = told::joined(&tables, &Written::new());
        Ok(())
    }

    fn data_blocks(&self) -> Option<u64> {
        let tickers = [Ticker::BlockCacheDataHit, Ticker::BlockCacheDataMiss];
        Some(tickers.map(|ticker| self.store.ticker(ticker)).iter().sum())
    }

    fn close(self: Box<Self>, _: &Lookups, measured: &mut Measured) -> Result<()> {
        let RocksDbCounts { store, dir } = *self;
        let tickers = [Ticker::FlushWriteBytes, Ticker::CompactWriteBytes];
        let counted: u64 = tickers.map(|ticker| store.ticker(ticker)).iter().sum();
        // RocksDB writes the last events to `LOG` when the database is closed.
        drop(store);
        let written = told::rocksdb_written(&std::fs::read_to_string(dir.join("LOG"))?)?;
        let logged: u64 = written.values().sum();
        // The tickers count all writes of flushes and compactions, but the events count only
        // tables.
        if logged > counted || counted - logged > counted / 1000 {
            return Err(format!("RocksDB counted {counted} bytes, but logged {logged}").into());
        }
        let tables = measured.levels.iter().map(|l| (l.level, (l.tables, l.bytes))).collect();
        measured.levels = told::joined(&tables, &written);
        Ok(())
    }
}
