//! What an engine has to do to be measured.

/// Whatever went wrong, in an engine or in a check of what it read.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of everything here.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// The options that workloads differ in. The others are the same for all: filters of 10 bits a
/// key, blocks of 4 KiB, the log on, checksums verified, and snappy where the engine has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How much a memtable holds, in bytes.
    pub write_buffer_bytes: usize,
    /// The block cache, in bytes.
    pub cache_bytes: usize,
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To larger keys.
    Forward,
    /// To smaller keys.
    Backward,
}

/// An open database of some engine. Dropping it closes it.
pub trait Store: Send + Sync {
    /// Sets one value. With `sync` it returns when the write would survive a loss of power.
    ///
    /// # Errors
    /// The engine's.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;

    /// Sets all values or none.
    ///
    /// # Errors
    /// The engine's.
    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()>;

    /// Deletes one key.
    ///
    /// # Errors
    /// The engine's.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Passes the value of `key` to `found`, and says whether there is one.
    ///
    /// # Errors
    /// The engine's.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Passes entries to `visit` until it returns false: forward from the first key that is not
    /// below `from`, backward from the last one that is not above it, or from the end there is.
    ///
    /// # Errors
    /// The engine's.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()>;

    /// Compacts everything, what is in memory too, and waits for it.
    ///
    /// # Errors
    /// The engine's.
    fn compact(&mut self) -> Result<()>;

    /// Waits until background work is done, and says whether it is. Of an engine that cannot tell
    /// the runner waits until the process uses no processor time.
    ///
    /// # Errors
    /// The engine's.
    fn wait_idle(&self) -> Result<bool> {
        Ok(false)
    }

    /// The engine with its version, and the options it runs with, on one line.
    fn describe(&self) -> String;
}
