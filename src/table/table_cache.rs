//! A cache of open tables. The number of open tables is bounded.
//!
//! Each file of a version has a [`TableSlot`], which holds the table while it is open, so that a
//! lookup finds the table with one atomic load and without a lock. The cache keeps a ring of the
//! slots whose tables are open, and closes tables by the clock algorithm: a hand moves around the
//! ring, skips each slot that was used since the hand last passed the slot, and closes the table of
//! the first slot that was not used. A closed table stays in memory until its last user drops it.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use crate::base::process::ProcessId;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{ArcSwapOption, LockRank, Mutex, MutexGuard};
use crate::base::{Error, Result};
use crate::format::name::{legacy_table_name, table_name};
use crate::fs::{FileLock, Fs, ReadFile, check_not_replaced};
use crate::table::block_cache::budget::OpenTables;
use crate::table::reader::{Table, TableContext};

/// A table file, whether or not it is open. Thread-safe; shared by all versions that contain the
/// file.
#[derive(Debug)]
pub struct TableSlot {
    /// The file number.
    pub number: u64,
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// The open table. Set only under the ring's lock and while the slot is in the ring.
    pub table: ArcSwapOption<Table>,
    /// Whether the table was used since the clock's hand last passed the slot.
    pub used: AtomicBool,
    /// Locked while the file is being opened, so that other threads wait instead of opening the
    /// file a second time. This lock is taken before the ring's lock.
    opening: Mutex<()>,
    /// The file and its path, if the slot keeps the file open even while the table is closed.
    held: OnceLock<(Arc<dyn ReadFile>, PathBuf)>,
}

impl TableSlot {
    /// Creates a slot for a file that is not open yet.
    pub fn new(number: u64, file_bytes: u64) -> TableSlot {
        TableSlot {
            number,
            file_bytes,
            table: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
            opening: Mutex::ranked(LockRank::Opening, ()),
            held: OnceLock::new(),
        }
    }

    /// Makes the slot keep the table's file open, so that the file's name may be removed or given
    /// to another file. Only the first call has an effect.
    pub fn hold(&self, file: Arc<dyn ReadFile>, path: PathBuf) {
        let _ = self.held.set((file, path));
    }

    /// Returns whether [`TableSlot::hold`] gave the slot the table's file.
    pub fn has_file(&self) -> bool {
        self.held.get().is_some()
    }

    /// Returns whether the slot has a file that stays readable after the file's name is removed.
    pub fn is_held(&self) -> bool {
        self.held.get().is_some_and(|(file, _)| file.is_held())
    }

    #[inline]
    fn touch(&self) {
        // Load first: an unconditional store would take the cache line away from every other
        // reader.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }
}

/// The ring of the clock algorithm: the slots whose tables are open.
#[derive(Debug, Default)]
struct Ring {
    slots: Vec<Weak<TableSlot>>,
    hand: usize,
    /// Number of tables that are being opened and will then be added to the ring.
    opening: usize,
    #[cfg(test)]
    opened: u64,
}

impl Ring {
    /// Closes tables until at most `most` are open. Returns the closed tables, so that the caller
    /// can drop them without holding the lock.
    fn close_down_to(&mut self, most: usize) -> Vec<Arc<Table>> {
        let mut closed = Vec::new();
        while self.slots.len() > most {
            self.hand %= self.slots.len();
            match self.slots[self.hand].upgrade() {
                Some(slot) if slot.used.swap(false, Ordering::Relaxed) => self.hand += 1,
                Some(slot) => {
                    closed.extend(slot.table.swap(None));
                    self.slots.swap_remove(self.hand);
                }
                None => {
                    self.slots.swap_remove(self.hand);
                }
            }
        }
        closed
    }
}

/// A table being opened. The ring counts it until this value is dropped, which also happens if a
/// filter policy panics.
struct OpeningTable<'a>(&'a Mutex<Ring>);

impl<'a> OpeningTable<'a> {
    /// Stops counting the table. Returns the ring's lock, so that the caller can add the table to
    /// the ring.
    fn end(self) -> MutexGuard<'a, Ring> {
        let ring = self.0;
        std::mem::forget(self);
        let mut ring = ring.lock();
        debug_assert!(ring.opening > 0, "a table that nobody opens");
        ring.opening -= 1;
        ring
    }
}

impl Drop for OpeningTable<'_> {
    fn drop(&mut self) {
        self.0.lock().opening -= 1;
    }
}

/// Opens the tables of one directory and keeps them open. Thread-safe. During I/O, only the lock of
/// the table's slot is held.
#[derive(Debug)]
pub struct TableCache {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    context: TableContext,
    capacity: usize,
    /// Whether the files of tables are mapped.
    maps_files: bool,
    ring: Mutex<Ring>,
    /// The lock of the directory; `None` if no lock guards the cache.
    lock: Option<Weak<dyn FileLock>>,
    /// The process whose threads open the tables.
    process: ProcessId,
}

impl TableCache {
    /// Creates a cache of at most `capacity` (at least 1) open tables of `dir`. Tables that readers
    /// still use after the cache closed them are not counted.
    pub fn new(
        fs: Arc<dyn Fs>,
        dir: PathBuf,
        context: TableContext,
        capacity: usize,
    ) -> TableCache {
        let ring = Mutex::ranked(LockRank::OpenTables, Ring::default());
        let process = ProcessId::current();
        let (capacity, maps_files) = (capacity.max(1), false);
        TableCache { fs, dir, context, capacity, maps_files, ring, lock: None, process }
    }

    /// Makes the cache map the files of the tables that it opens, if `yes`.
    pub fn map_files(mut self, yes: bool) -> TableCache {
        self.maps_files = yes;
        self
    }

    /// Makes the cache refuse to open tables once the lock file of `lock`, the directory's lock,
    /// has been replaced: the files may then belong to another database.
    pub fn guarded_by(mut self, lock: &Arc<dyn FileLock>) -> TableCache {
        self.lock = Some(Arc::downgrade(lock));
        self
    }

    /// Returns the open table of `slot`, opening it if necessary.
    ///
    /// # Errors
    /// If the table must be opened: an I/O error (`NotFound` if there is neither a `.ldb` nor an
    /// `.sst` file with the table's number), or an error of [`Table::open`].
    pub fn table(&self, slot: &Arc<TableSlot>) -> Result<Arc<Table>> {
        match slot.table.load_full() {
            Some(table) => {
                slot.touch();
                Ok(table)
            }
            None => self.open(slot),
        }
    }

    /// Calls `f` with the open table of `slot` and returns the result of `f`. If the table is
    /// already open, its reference count does not change.
    ///
    /// # Errors
    /// Errors of [`TableCache::table`] and of `f`.
    #[inline]
    pub fn with<R>(
        &self,
        slot: &Arc<TableSlot>,
        f: impl FnOnce(&Arc<Table>) -> Result<R>,
    ) -> Result<R> {
        let guard = slot.table.load();
        if let Some(table) = &*guard {
            slot.touch();
            return f(table);
        }
        drop(guard);
        f(&self.open(slot)?)
    }

    /// Returns the number of tables now open.
    pub fn open_tables(&self) -> usize {
        self.ring.lock().slots.iter().filter(|slot| slot.strong_count() > 0).count()
    }

    /// Returns how many times a table was opened.
    #[cfg(test)]
    pub fn opened(&self) -> u64 {
        self.ring.lock().opened
    }

    /// Returns the memory that the indexes and filters of open tables take, in bytes.
    pub fn pinned_bytes(&self) -> usize {
        let slots: Vec<_> = self.ring.lock().slots.iter().filter_map(Weak::upgrade).collect();
        slots.iter().filter_map(|slot| Some(slot.table.load().as_ref()?.pinned_bytes())).sum()
    }

    /// Returns the settings common to all tables.
    pub fn context(&self) -> &TableContext {
        &self.context
    }

    #[cold]
    fn open(&self, slot: &Arc<TableSlot>) -> Result<Arc<Table>> {
        let opening = self.process.lock(&slot.opening);
        let _one_at_a_time = opening.ok_or_else(|| self.opened_elsewhere(slot.number))?;
        if let Some(table) = slot.table.load_full() {
            slot.touch();
            return Ok(table);
        }
        let closed = {
            let mut ring = self.ring.lock();
            ring.opening += 1;
            let most = self.capacity.saturating_sub(ring.opening);
            ring.close_down_to(most)
        };
        drop(closed);
        let opening = OpeningTable(&self.ring);
        let opened = self.open_file(slot);
        let mut ring = opening.end();
        let table = opened?;
        #[cfg(test)]
        {
            ring.opened += 1;
        }
        ring.slots.push(Arc::downgrade(slot));
        slot.used.store(true, Ordering::Relaxed);
        slot.table.store(Some(table.clone()));
        // While this table was being opened, other threads may have filled the rest of the ring.
        let closed = ring.close_down_to(self.capacity);
        debug_assert!(ring.slots.len() <= self.capacity, "more tables are open than may be");
        drop(ring);
        drop(closed);
        if let Some(cache) = &self.context.block_cache {
            cache.close_tables();
        }
        Ok(table)
    }

    #[cold]
    fn opened_elsewhere(&self, number: u64) -> Error {
        let path = self.dir.join(table_name(number));
        Error::invalid(format!(
            "process {} was opening {} when this process was forked from it: a forked process has \
             to open the database itself",
            self.process,
            path.display()
        ))
    }

    fn open_file(&self, slot: &TableSlot) -> Result<Arc<Table>> {
        let (file, path) = match slot.held.get() {
            Some(held) => held.clone(),
            None => self.find(slot.number)?,
        };
        // Check the lock only after the file was opened: if the lock file has not been replaced by
        // now, the opened file belongs to this database.
        check_not_replaced(self.lock.as_ref()).map_err(|error| Error::io("read", &path, error))?;
        if self.maps_files {
            file.map();
        }
        Ok(Arc::new(Table::open(file, slot.file_bytes, path, &self.context)?))
    }

    /// Opens the file of a table. LevelDB before 1.14 used the extension `.sst` for tables.
    fn find(&self, number: u64) -> Result<(Arc<dyn ReadFile>, PathBuf)> {
        let path = self.dir.join(table_name(number));
        let error = match self.fs.open_table(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) => error,
        };
        if error.kind() == io::ErrorKind::NotFound {
            let old = self.dir.join(legacy_table_name(number));
            match self.fs.open_table(&old) {
                Ok(file) => return Ok((file, old)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("open", old, error)),
            }
        }
        Err(Error::io("open", path, error))
    }
}

impl OpenTables for TableCache {
    fn pinned_bytes(&self) -> u64 {
        TableCache::pinned_bytes(self) as u64
    }

    fn close_some(&self, bytes: u64) -> u64 {
        let mut ring = self.ring.lock();
        let (mut all, mut closed_bytes) = (Vec::new(), 0);
        while closed_bytes < bytes && ring.slots.len() > 1 {
            let most = ring.slots.len() - 1;
            let closed = ring.close_down_to(most);
            closed_bytes += closed.iter().map(|table| table.pinned_bytes() as u64).sum::<u64>();
            all.extend(closed);
        }
        drop(ring);
        drop(all);
        closed_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::process::in_time;
    use crate::filter::FilterPolicy;
    use crate::filter::policy::FilterGenerator;
    use crate::format::key::{KeyKind, internal_key};
    use crate::table::counts::LevelTrace;
    use crate::table::reader::BlockReadOptions;
    use crate::table::testing::{MemDir, build, context_of, internal_order, small_blocks};

    /// Creates a cache of tables 1 to 5. The value in each table is the table's number. Table 5 is
    /// an `.sst` file.
    fn cache(capacity: usize) -> (Arc<MemDir>, TableCache, Vec<Arc<TableSlot>>) {
        let options = small_blocks(internal_order());
        let mut dir = MemDir::default();
        let mut slots = Vec::new();
        for number in 1..=5u64 {
            let key = internal_key(b"number", 1, KeyKind::Value);
            let bytes = build(&options, &vec![(key, vec![number as u8])]).0;
            slots.push(Arc::new(TableSlot::new(number, bytes.len() as u64)));
            let name = if number == 5 { "000005.sst".into() } else { format!("{number:06}.ldb") };
            dir.files.insert(Path::new("db").join(name), bytes);
        }
        let dir = Arc::new(dir);
        let context = context_of(&options);
        (dir.clone(), TableCache::new(dir, "db".into(), context, capacity), slots)
    }

    fn number_in(cache: &TableCache, slot: &Arc<TableSlot>) -> u8 {
        let key = internal_key(b"number", 1, KeyKind::Value);
        cache
            .with(slot, |table| {
                let options = BlockReadOptions::default();
                table.get(&key, &options, &mut LevelTrace::default())
            })
            .unwrap()
            .unwrap()
            .value[0]
    }

    fn open_numbers(slots: &[Arc<TableSlot>]) -> Vec<u64> {
        slots.iter().filter(|slot| slot.table.load().is_some()).map(|slot| slot.number).collect()
    }

    #[test]
    fn tables_stay_open_up_to_the_capacity() {
        let (_, cache, slots) = cache(3);
        for _ in 0..3 {
            for slot in &slots {
                assert_eq!(u64::from(number_in(&cache, slot)), slot.number);
                assert!(cache.open_tables() <= 3);
                assert_eq!(cache.open_tables(), open_numbers(&slots).len());
            }
        }
        assert!(cache.pinned_bytes() > 0);
    }

    #[test]
    fn a_forked_child_does_not_wait_for_a_table_that_a_thread_of_its_parent_opens() {
        let (_, mut cache, slots) = cache(3);
        cache.process = ProcessId::other();
        assert_eq!(number_in(&cache, &slots[0]), 1);
        let _opening = slots[1].opening.lock();
        let slot = slots[1].clone();
        let error = in_time(move || cache.table(&slot)).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert!(error.to_string().contains("forked"), "{error}");
    }

    #[test]
    fn the_clock_spares_used_tables() {
        let (dir, cache, slots) = cache(3);
        for slot in &slots[..4] {
            number_in(&cache, slot);
        }
        // When the fourth table was opened, all three open tables had been used, so the hand
        // skipped each of them once and then closed the first.
        assert_eq!(open_numbers(&slots), [2, 3, 4]);
        number_in(&cache, &slots[2]);
        number_in(&cache, &slots[4]);
        assert!(open_numbers(&slots).contains(&3));
        cache.table(&slots[2]).unwrap();
        number_in(&cache, &slots[0]);
        assert!(open_numbers(&slots).contains(&3));
        assert_eq!(cache.opened(), 6);
        let opens = dir.opens.load(Ordering::Relaxed);
        number_in(&cache, &slots[2]);
        assert_eq!(dir.opens.load(Ordering::Relaxed), opens);
    }

    #[test]
    fn tables_are_closed_until_enough_memory_is_free_but_not_the_last_one() {
        let (_, cache, slots) = cache(5);
        for slot in &slots {
            number_in(&cache, slot);
        }
        let tables: &dyn OpenTables = &cache;
        let of_one = tables.pinned_bytes() / 5;
        assert!(of_one > 1 && tables.pinned_bytes() == cache.pinned_bytes() as u64);
        assert_eq!((tables.close_some(0), cache.open_tables()), (0, 5));
        assert_eq!((tables.close_some(of_one + 1), cache.open_tables()), (2 * of_one, 3));
        assert_eq!((tables.close_some(of_one), tables.pinned_bytes()), (of_one, 2 * of_one));
        assert_eq!((tables.close_some(u64::MAX), tables.pinned_bytes()), (of_one, of_one));
    }

    /// A filter policy whose `name` panics.
    #[derive(Debug)]
    struct Nameless;

    impl FilterPolicy for Nameless {
        fn name(&self) -> &str {
            std::panic::resume_unwind(Box::new("no name"))
        }

        fn create(&self, _: &[&[u8]], _: &mut Vec<u8>) {}

        fn may_match(&self, _: &[u8], _: &[u8]) -> bool {
            true
        }

        fn generator(&self) -> Box<dyn FilterGenerator> {
            unreachable!("nothing is written")
        }
    }

    #[test]
    fn a_panic_while_a_table_is_opened_takes_no_place_in_the_cache() {
        let (_, mut cache, slots) = cache(3);
        let policy = cache.context.filter_policy.replace(Arc::new(Nameless));
        for slot in &slots {
            let open = std::panic::AssertUnwindSafe(|| cache.table(slot));
            assert!(std::panic::catch_unwind(open).is_err());
        }
        assert_eq!(cache.ring.lock().opening, 0);
        cache.context.filter_policy = policy;
        for slot in &slots {
            assert_eq!(u64::from(number_in(&cache, slot)), slot.number);
        }
        assert_eq!(cache.open_tables(), 3);
    }

    #[test]
    fn a_missing_file_is_named() {
        let (_, cache, slots) = cache(3);
        let missing = Arc::new(TableSlot::new(77, 1000));
        let error = cache.table(&missing).unwrap_err();
        assert_eq!(error.io_kind(), Some(io::ErrorKind::NotFound));
        assert!(error.to_string().contains("000077.ldb"), "{error}");
        assert_eq!(cache.open_tables(), 0);
        // After the failures, the cache can still hold as many open tables as before.
        for slot in &slots {
            number_in(&cache, slot);
        }
        assert_eq!(cache.open_tables(), 3);
    }

    #[test]
    fn dropped_slots_leave_room() {
        let (_, cache, mut slots) = cache(2);
        number_in(&cache, &slots[0]);
        number_in(&cache, &slots[1]);
        let table = cache.table(&slots[0]).unwrap();
        slots.drain(..2);
        assert_eq!((cache.open_tables(), Arc::strong_count(&table)), (0, 1));
        number_in(&cache, &slots[0]);
        number_in(&cache, &slots[1]);
        assert_eq!(open_numbers(&slots), [3, 4]);
    }

    #[test]
    fn many_threads_open_a_table_once() {
        let (dir, cache, slots) = cache(5);
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for slot in &slots {
                        start.wait();
                        assert_eq!(u64::from(number_in(&cache, slot)), slot.number);
                    }
                });
            }
        });
        assert_eq!(cache.opened(), 5);
        assert_eq!(dir.opens.load(Ordering::Relaxed), 6); // one more for the .sst
    }

    #[test]
    fn threads_over_more_tables_than_fit_get_right_answers() {
        const READS: usize = if cfg!(miri) { 20 } else { 500 };
        let (_, cache, slots) = cache(2);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (cache, slots) = (&cache, &slots);
                scope.spawn(move || {
                    for i in 0..READS {
                        let slot = &slots[(i * 7 + thread * 3 + i / 5) % 5];
                        assert_eq!(u64::from(number_in(cache, slot)), slot.number);
                        if i % 50 == 0 {
                            let own = Arc::new(TableSlot::new(slot.number, slot.file_bytes));
                            assert_eq!(u64::from(number_in(cache, &own)), own.number);
                        }
                    }
                });
            }
        });
        assert_eq!(cache.open_tables(), open_numbers(&slots).len());
        assert_eq!(cache.ring.lock().opening, 0);
    }
}
