//! The databases that are compared, behind one trait; minikv's.

use minikv::Db;

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

pub(crate) fn told(error: minikv::Error) -> String {
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
