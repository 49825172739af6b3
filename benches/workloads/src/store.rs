//! The interface that an engine implements to be measured.

/// An error of an engine, or of a check of what it returned.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of all functions here.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// The options that differ between workloads. The others are the same for all: filters of 10 bits
/// per key, blocks of 4 KiB, the log on, checksums verified, and snappy if the engine has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Size of a memtable, in bytes.
    pub write_buffer_bytes: usize,
    /// Size of the block cache, in bytes.
    pub cache_bytes: usize,
    /// Whether the database is opened for transactions, which is another kind of database in some
    /// engines.
    pub transactions: bool,
}

/// Takes an entry.
pub type Sink<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// Passes entries to a sink, in ascending order of their keys.
pub type Source<'a> = dyn FnMut(&mut Sink<'_>) -> Result<()> + 'a;

/// A transaction of some engine, as the function sees it that runs in it.
pub trait Transact {
    /// Passes the value of `key` to `found`. The transaction fails if another one changes the entry
    /// before it is committed.
    ///
    /// # Errors
    /// Errors of the engine.
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// Sets one value.
    ///
    /// # Errors
    /// Errors of the engine.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its writes are visible.
    Committed,
    /// It has failed, because what it had read was changed.
    Conflict,
    /// The engine has no such transactions.
    Unsupported,
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards larger keys.
    Forward,
    /// Towards smaller keys.
    Backward,
}

/// An open database of some engine. Dropping it closes it.
pub trait Store: Send + Sync {
    /// Sets one value. With `sync`, returns when the write survives a power loss.
    ///
    /// # Errors
    /// Errors of the engine.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;

    /// Sets all values atomically.
    ///
    /// # Errors
    /// Errors of the engine.
    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()>;

    /// Deletes one key.
    ///
    /// # Errors
    /// Errors of the engine.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Deletes all keys from `from` on, up to `to`, which is excluded. An engine without such an
    /// operation deletes them one by one.
    ///
    /// # Errors
    /// Errors of the engine.
    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        self.scan(Some(from), Direction::Forward, &mut |key, _| {
            let is_in = key < to;
            if is_in {
                keys.push(key.to_vec());
            }
            is_in
        })?;
        keys.iter().try_for_each(|key| self.delete(key))
    }

    /// Loads sorted entries into the empty database by the fastest way that the engine has, and
    /// makes them durable. The default is batches.
    ///
    /// # Errors
    /// Errors of the engine and of `entries`.
    fn load_sorted(&mut self, entries: &mut Source<'_>) -> Result<()> {
        const BATCH: usize = 1000;
        let mut batch: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(BATCH);
        let write = |batch: &mut Vec<(Vec<u8>, Vec<u8>)>| {
            let refs: Vec<Entry<'_>> = batch.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            self.put_batch(&refs)?;
            batch.clear();
            Ok(())
        };
        entries(&mut |key, value| {
            batch.push((key.to_vec(), value.to_vec()));
            if batch.len() == BATCH { write(&mut batch) } else { Ok(()) }
        })?;
        let last = batch.pop();
        write(&mut batch)?;
        last.map_or(Ok(()), |(key, value)| self.put(&key, &value, true))
    }

    /// Runs `body` in an optimistic, serializable transaction, unsynced.
    ///
    /// # Errors
    /// Errors of the engine and of `body`.
    fn transact(&self, _body: &mut dyn FnMut(&mut dyn Transact) -> Result<()>) -> Result<Ended> {
        Ok(Ended::Unsupported)
    }

    /// Passes the value of `key` to `found`. Returns whether there is one.
    ///
    /// # Errors
    /// Errors of the engine.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Passes entries to `visit` until it returns false: forward from the first key not below
    /// `from`, or backward from the last key not above it. Without `from`, starts at the first or
    /// last key.
    ///
    /// # Errors
    /// Errors of the engine.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()>;

    /// Compacts everything, including memory, and waits for it.
    ///
    /// # Errors
    /// Errors of the engine.
    fn compact(&mut self) -> Result<()>;

    /// Like [`compact`](Store::compact), while other threads use the database. Returns false if the
    /// engine cannot.
    ///
    /// # Errors
    /// Errors of the engine.
    fn compact_beside(&self) -> Result<bool> {
        Ok(false)
    }

    /// Waits until background work is done. Returns false if the engine does not support that; the
    /// runner then waits until the process uses no processor time.
    ///
    /// # Errors
    /// Errors of the engine.
    fn wait_idle(&self) -> Result<bool> {
        Ok(false)
    }

    /// Returns the engine's name, version and options in one line.
    fn describe(&self) -> String;
}
