//! The engines that are compared, by name.

use std::path::Path;

use minikv::{Compression, Db, Filters, Options};

use crate::c_api::{CDb, Library};
use crate::engine::{Engine, told};

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Minikv,
    LevelDb,
    RocksDb,
}

pub const ENGINES: [Kind; 3] = [Kind::Minikv, Kind::LevelDb, Kind::RocksDb];

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Minikv => "minikv",
            Kind::LevelDb => "leveldb",
            Kind::RocksDb => "rocksdb",
        }
    }

    /// Returns whether the library can be used here.
    pub fn installed(self) -> bool {
        self == Kind::Minikv || Library::load(self.name()).is_some()
    }

    /// Opens a database, and makes it if it is missing. With `paranoid`, everything that is read is
    /// checked; else the options are those that are given without a word, but for filters.
    pub fn open(self, dir: &Path, paranoid: bool) -> Result<Box<dyn Engine>, String> {
        if self == Kind::Minikv {
            let db = Db::open(dir, options().paranoid_checks(paranoid)).map_err(told)?;
            return Ok(Box::new(db));
        }
        let library = Library::load(self.name()).ok_or("the library is not installed")?;
        Ok(Box::new(CDb::open(library, dir, paranoid)?))
    }
}

/// Returns options with which all work is done by the thread that asks for it.
fn options() -> Options {
    Options::default()
        .verify_compression(std::env::var_os("MINIKV_FLIPS_VERIFY").is_some())
        .create_if_missing(true)
        .filters(Filters::Block(10))
        .compression(Compression::Snappy)
        .inline_background(Some(1))
}
