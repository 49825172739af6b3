//! The databases that are compared, behind one trait.

use std::path::Path;

use minikv::{Compression, Db, Filters, Options};

use crate::c_api::{CDb, Library};

/// A database that is open. Errors are what it says.
pub trait Engine {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String>;

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// Makes a table of what is in memory. LevelDB has no such call: its compaction of everything
    /// does that first, and then finds nothing else if there are no other tables.
    fn flush(&self) -> Result<(), String>;

    fn compact(&self) -> Result<(), String>;

    /// Sees to it that the next open finds a table of what was put.
    fn settle(&self) -> Result<(), String>;

    /// Passes every entry in order, until `each` returns false.
    fn each(&self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), String>;

    fn close(self: Box<Self>) -> Result<(), String>;
}

/// Which database.
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
        .create_if_missing(true)
        .filters(Filters::Block(10))
        .compression(Compression::Snappy)
        .inline_background(Some(1))
}

fn told(error: minikv::Error) -> String {
    error.to_string()
}

impl Engine for Db {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        Db::put(self, key, value).map_err(told)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(Db::get(self, key).map_err(told)?.map(|value| value.to_vec()))
    }

    fn flush(&self) -> Result<(), String> {
        Db::flush(self).map_err(told)
    }

    fn compact(&self) -> Result<(), String> {
        self.compact_range(..).map_err(told)
    }

    fn settle(&self) -> Result<(), String> {
        Db::flush(self).map_err(told)
    }

    fn each(&self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), String> {
        for found in self.iter() {
            let (key, value) = found.map_err(told)?;
            if !each(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        Db::close(*self).map_err(told)
    }
}
