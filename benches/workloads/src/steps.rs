//! The timed loops.
//!
//! Every put and delete is timed, but only every eighth get and seek, so that reading the clock
//! takes little of the time. If one thread runs both gets and puts, all of them are timed. Every
//! value read is checked, at the same cost for each engine.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use crate::data::{Key, Shuffle, Values, is_removed, key, number_of};
use crate::measure::Timings;
use crate::store::{Direction, Ended, Entry, Failure, Follower, Result, Space, Store};

/// Exponent of the Zipf distribution: the constant used by YCSB.
const ZIPF_EXPONENT: f64 = 0.99;
const TIME_EVERY: u64 = 8;
/// Number of entries that transactions change. The fewer entries, the more conflicts.
const HOT: u64 = 100;
/// Number of threads that run transactions.
const TRANSACTING: u64 = 4;
/// Number of puts before each sync of the `sync` workload.
pub const PUTS_PER_SYNC: u64 = 100;
/// Suffix that turns a present key into an absent key, as in db_bench.
const MISSING_SUFFIX: u8 = b'.';

/// Number of operations, the total time, and the latencies of single operations.
#[derive(Debug)]
pub struct Done {
    pub operations: u64,
    pub time: Duration,
    pub timings: Timings,
}

/// A database, and the properties of its entries.
#[derive(Clone, Copy)]
pub struct Loaded<'a> {
    pub store: &'a dyn Store,
    pub values: &'a Values,
    /// Number of entries. Their keys have the numbers from 0 to `entries - 1`.
    pub entries: u64,
    /// The oldest and the newest generation among the values.
    pub generations: (u32, u32),
    pub seed: u64,
}

fn wrong(number: u64, what: &str) -> Failure {
    format!("key {}: {what}", String::from_utf8_lossy(&key(number))).into()
}

/// The order in which entries are written.
#[derive(Clone, Copy)]
pub enum Order {
    Sequential,
    Shuffled(Shuffle),
}

impl Order {
    fn at(self, position: u64) -> u64 {
        match self {
            Order::Sequential => position,
            Order::Shuffled(shuffle) => shuffle.at(position),
        }
    }
}

impl Loaded<'_> {
    fn rng(&self, thread: u64) -> SmallRng {
        rng(self.seed, thread)
    }

    /// Gets an entry and checks it.
    fn get(&self, number: u64) -> Result<()> {
        let mut generation = None;
        let key = key(number);
        let is_there = self.store.get(&key, &mut |value| {
            generation = self.values.generation_of(number, value);
        })?;
        match generation {
            Some(g) if self.generations.0 <= g && g <= self.generations.1 => Ok(()),
            Some(_) => Err(wrong(number, "an old value")),
            None if is_there => Err(wrong(number, "a wrong value")),
            None => Err(wrong(number, "not found")),
        }
    }

    /// Checks some random entries, untimed.
    pub fn check_some(&self) -> Result<()> {
        let mut rng = self.rng(99);
        (0..1000.min(self.entries)).try_for_each(|_| self.get(rng.random_range(0..self.entries)))
    }

    /// Checks that some random entries are absent, untimed.
    pub fn check_gone(&self) -> Result<()> {
        let mut rng = self.rng(98);
        for _ in 0..1000.min(self.entries) {
            let number = rng.random_range(0..self.entries);
            if self.store.get(&key(number), &mut |_| {})? {
                return Err(wrong(number, "still there, though it was deleted"));
            }
        }
        Ok(())
    }

    /// Puts the entries at `positions` in `order` one by one, with values of `generation`. Returns
    /// the latencies.
    fn put_each(
        &self,
        positions: impl Iterator<Item = u64>,
        order: Order,
        generation: u32,
        sync: bool,
    ) -> Result<Timings> {
        let (mut timings, mut value) = (Timings::new(), Vec::new());
        let mut last = Instant::now();
        for position in positions {
            let number = order.at(position);
            self.values.fill(number, generation, &mut value);
            self.store.put(&key(number), &value, sync)?;
            let now = Instant::now();
            timings.record(now - last);
            last = now;
        }
        Ok(timings)
    }

    pub fn put(&self, order: Order, generation: u32) -> Result<Done> {
        timed(self.entries, || self.put_each(0..self.entries, order, generation, false))
    }

    pub fn put_synced(&self, threads: u64, order: Order, generation: u32) -> Result<Done> {
        parallel(threads, self.entries, |thread| {
            let positions = (thread..self.entries).step_by(threads as usize);
            self.put_each(positions, order, generation, true)
        })
    }

    /// Puts the first `count` entries of `order`, untimed.
    pub fn put_some(&self, order: Order, count: u64, generation: u32) -> Result<()> {
        self.put_each(0..count, order, generation, false).map(drop)
    }

    /// Checks that the first `count` entries of `order` have values of `generation`, untimed.
    pub fn check_put(&self, order: Order, count: u64, generation: u32) -> Result<()> {
        let put = Loaded { generations: (generation, generation), ..*self };
        (0..count).try_for_each(|position| put.get(order.at(position)))
    }

    /// Puts all entries, distributed over `threads` threads. The puts are unsynced, but each thread
    /// syncs after every hundred puts. Each sync counts as an operation, and the latencies are
    /// those of the syncs. Returns the work done.
    pub fn put_and_sync(&self, threads: u64, order: Order, generation: u32) -> Result<Done> {
        let syncs = self.entries / PUTS_PER_SYNC;
        parallel(threads, syncs, |thread| {
            let mut timings = Timings::new();
            for sync in (thread..syncs).step_by(threads as usize) {
                let first = sync * PUTS_PER_SYNC;
                self.put_each(first..first + PUTS_PER_SYNC, order, generation, false)?;
                let start = Instant::now();
                self.store.sync()?;
                timings.record(start.elapsed());
            }
            Ok(timings)
        })
    }

    /// Puts `puts` entries in each of `rounds` rounds. The generation of the values begins at
    /// `generation` and increases by 1 in each round. At the end of a round, `follower` catches up
    /// and gets the last entry. These two steps count as one operation. Some other entries of the
    /// round are checked, untimed. Returns the work done.
    pub fn follow(
        &self,
        follower: &dyn Follower,
        rounds: u32,
        puts: u64,
        order: Order,
        generation: u32,
    ) -> Result<Done> {
        let (mut timings, mut time) = (Timings::new(), Duration::ZERO);
        let get = |number, generation| {
            let mut found = None;
            let key = key(number);
            follower.get(&key, &mut |value| found = self.values.generation_of(number, value))?;
            match found == Some(generation) {
                true => Ok(()),
                false => Err(wrong(number, "a follower does not show what was put before")),
            }
        };
        for round in 0..rounds {
            let generation = generation + round;
            let positions = || {
                let first = u64::from(round) * puts;
                (first..first + puts).map(|position| position % self.entries)
            };
            self.put_each(positions(), order, generation, false)?;
            let last = positions().next_back().map_or(0, |position| order.at(position));
            let start = Instant::now();
            follower.catch_up()?;
            get(last, generation)?;
            let taken = start.elapsed();
            timings.record(taken);
            time += taken;
            let mut some = positions().step_by(10);
            some.try_for_each(|position| get(order.at(position), generation))?;
        }
        Ok(Done { operations: u64::from(rounds), time, timings })
    }

    /// Checks that a scan shows all entries, untimed.
    pub fn check_all_there(&self) -> Result<()> {
        match self.scan_from(None, Direction::Forward, self.entries + 1)? {
            seen if seen == self.entries => Ok(()),
            seen => Err(format!("a scan saw {seen} of {} entries", self.entries).into()),
        }
    }

    /// Checks that a scan shows the entries that the compaction filter keeps, untimed.
    pub fn check_filtered(&self) -> Result<()> {
        let mut kept = (0..self.entries).filter(|number| !is_removed(&key(*number)));
        let mut failure = None;
        self.store.scan(None, Direction::Forward, &mut |found, value| {
            let expected = kept.next();
            let is_right = expected.is_some_and(|number| {
                found == key(number) && self.values.generation_of(number, value).is_some()
            });
            if !is_right {
                let found = String::from_utf8_lossy(found);
                failure = Some(format!("a scan shows {found} instead of {expected:?}"));
            }
            is_right
        })?;
        match failure.or(kept.next().map(|number| format!("{number} is missing in a scan"))) {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    /// Runs transactions on several threads until `operations` transactions are committed. Each
    /// transaction adds 1 to the generations of two random entries among the first `HOT` entries.
    /// No addition may be lost. Returns the work done and the number of conflicts.
    pub fn transact(&self, operations: u64) -> Result<(Done, u64)> {
        let hot = HOT.min(self.entries);
        let conflicts = AtomicU64::new(0);
        let each = operations.div_ceil(TRANSACTING);
        let done = parallel(TRANSACTING, each * TRANSACTING, |thread| {
            let (mut rng, mut timings) = (self.rng(thread), Timings::new());
            let mut value = Vec::new();
            for _ in 0..each {
                let first = rng.random_range(0..hot);
                let second = rng.random_range(0..hot);
                let start = Instant::now();
                loop {
                    let ended = self.store.transact(&mut |transaction| {
                        for number in [first, second] {
                            let mut generation = None;
                            transaction.get(&key(number), &mut |value| {
                                generation = self.values.generation_of(number, value);
                            })?;
                            let generation = generation.ok_or_else(|| wrong(number, "not read"))?;
                            self.values.fill(number, generation + 1, &mut value);
                            transaction.put(&key(number), &value)?;
                        }
                        Ok(())
                    })?;
                    match ended {
                        Ended::Committed => break,
                        Ended::Conflict => conflicts.fetch_add(1, Ordering::Relaxed),
                    };
                }
                timings.record(start.elapsed());
            }
            Ok(timings)
        })?;
        let mut additions = 0;
        for number in 0..hot {
            self.store.get(&key(number), &mut |value| {
                additions += u64::from(self.values.generation_of(number, value).unwrap_or(0));
            })?;
        }
        match additions == 2 * done.operations {
            true => Ok((done, conflicts.into_inner())),
            false => {
                Err(format!("{additions} additions of {} are there", 2 * done.operations).into())
            }
        }
    }

    /// Puts all entries in batches. Each entry counts as an operation, but each latency is that of
    /// a whole batch. Returns the work done.
    pub fn put_batches(&self, order: Order, batch: u64, generation: u32) -> Result<Done> {
        timed(self.entries, || {
            let mut timings = Timings::new();
            let mut entries: Vec<(Key, Vec<u8>)> = vec![Default::default(); batch as usize];
            let mut last = Instant::now();
            for start in (0..self.entries).step_by(batch as usize) {
                let len = batch.min(self.entries - start);
                for (position, (to, value)) in (start..start + len).zip(&mut entries) {
                    let number = order.at(position);
                    *to = key(number);
                    self.values.fill(number, generation, value);
                }
                let filled = &entries[..len as usize];
                let refs: Vec<Entry<'_>> = filled.iter().map(|(k, v)| (&k[..], &v[..])).collect();
                self.store.put_batch(&refs)?;
                let now = Instant::now();
                timings.record(now - last);
                last = now;
            }
            Ok(timings)
        })
    }

    pub fn delete(&self, order: Order) -> Result<Done> {
        timed(self.entries, || {
            let mut timings = Timings::new();
            let mut last = Instant::now();
            for position in 0..self.entries {
                self.store.delete(&key(order.at(position)))?;
                let now = Instant::now();
                timings.record(now - last);
                last = now;
            }
            Ok(timings)
        })
    }

    /// Gets random entries whose numbers are below `limit`, from `threads` threads. Returns the
    /// work done.
    pub fn gets(&self, operations: u64, limit: u64, threads: u64) -> Result<Done> {
        parallel(threads, operations, |thread| {
            random(&mut self.rng(thread), operations / threads, limit, |number| self.get(number))
        })
    }

    pub fn gets_of_missing(&self, operations: u64) -> Result<Done> {
        let mut missing = [MISSING_SUFFIX; crate::data::KEY_BYTES + 1];
        let ask = |number| {
            missing[..crate::data::KEY_BYTES].copy_from_slice(&key(number));
            match self.store.get(&missing, &mut |_| {})? {
                true => Err(wrong(number, "found with a byte more, which was never put")),
                false => Ok(()),
            }
        };
        timed(operations, || random(&mut self.rng(0), operations, self.entries, ask))
    }

    /// Scans all entries `passes` times, after one untimed scan. Returns the work done.
    pub fn scan_all(&self, direction: Direction, passes: u64) -> Result<Done> {
        let pass = || -> Result<()> {
            let seen = self.scan_from(None, direction, self.entries + 1)?;
            if seen != self.entries {
                return Err(format!("a scan saw {seen} of {} entries", self.entries).into());
            }
            Ok(())
        };
        pass()?;
        timed(self.entries * passes, || {
            (0..passes).try_for_each(|_| pass())?;
            Ok(Timings::new())
        })
    }

    /// Seeks to random entries, and reads `len` entries after each seek. Returns the work done.
    pub fn seeks(&self, operations: u64, len: u64) -> Result<Done> {
        timed(operations, || {
            random(&mut self.rng(0), operations, self.entries, |number| {
                let seen = self.scan_from(Some(number), Direction::Forward, len)?;
                match seen == len.min(self.entries - number) {
                    true => Ok(()),
                    false => Err(wrong(number, "a scan from here ends too early")),
                }
            })
        })
    }

    /// Scans up to `limit` entries, and checks them. Returns the number of entries scanned.
    fn scan_from(&self, from: Option<u64>, direction: Direction, limit: u64) -> Result<u64> {
        let first = from.unwrap_or(match direction {
            Direction::Forward => 0,
            Direction::Backward => self.entries - 1,
        });
        let (mut seen, mut failure) = (0, None);
        let from = from.map(key);
        self.store.scan(from.as_ref().map(|key| &key[..]), direction, &mut |key, value| {
            let expected = match direction {
                Direction::Forward => first + seen,
                Direction::Backward => first.wrapping_sub(seen),
            };
            if number_of(key) != Some(expected) {
                failure = Some(wrong(expected, "a scan has another key in its place"));
            } else if self.values.generation_of(expected, value).is_none() {
                failure = Some(wrong(expected, "a wrong value in a scan"));
            }
            seen += 1;
            failure.is_none() && seen < limit
        })?;
        failure.map_or(Ok(seen), Err)
    }

    /// Gets and puts entries whose popularity has the Zipf distribution of YCSB; `gets_percent`
    /// percent of the operations are gets. Returns the work done.
    pub fn ycsb(&self, operations: u64, gets_percent: u32, generation: u32) -> Result<Done> {
        let ranks = Zipf::new(self.entries as f64, ZIPF_EXPONENT).map_err(|e| e.to_string())?;
        // Scatters the popular entries over all keys.
        let places = Shuffle::new(self.entries, self.seed);
        let (mut rng, mut value) = (self.rng(0), Vec::new());
        timed(operations, || {
            let mut timings = Timings::new();
            let mut last = Instant::now();
            for _ in 0..operations {
                let number = places.at(ranks.sample(&mut rng) as u64 - 1);
                if rng.random_range(0..100) < gets_percent {
                    self.get(number)?;
                } else {
                    self.values.fill(number, generation, &mut value);
                    self.store.put(&key(number), &value, false)?;
                }
                let now = Instant::now();
                timings.record(now - last);
                last = now;
            }
            Ok(timings)
        })
    }

    /// Gets random entries in one thread, while another thread puts random entries until the gets
    /// are done. Returns the work of each thread.
    pub fn gets_while_putting(&self, gets: u64, generation: u32) -> Result<(Done, Done)> {
        let is_over = AtomicBool::new(false);
        let barrier = Barrier::new(2);
        let put = || -> Result<Done> {
            let (mut rng, mut value, mut puts) = (self.rng(1), Vec::new(), 0);
            let mut timings = Timings::new();
            barrier.wait();
            let start = Instant::now();
            let mut last = start;
            while puts == 0 || !is_over.load(Ordering::Relaxed) {
                let number = rng.random_range(0..self.entries);
                self.values.fill(number, generation, &mut value);
                self.store.put(&key(number), &value, false)?;
                let now = Instant::now();
                timings.record(now - last);
                last = now;
                puts += 1;
            }
            Ok(Done { operations: puts, time: start.elapsed(), timings })
        };
        let get = || -> Result<Done> {
            barrier.wait();
            let done =
                timed(gets, || random(&mut self.rng(0), gets, self.entries, |n| self.get(n)));
            is_over.store(true, Ordering::Relaxed);
            done
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(put);
            let gets = get();
            Ok((gets?, writer.join().expect("the writer does not panic")?))
        })
    }
}

/// Entries in several spaces, each of which has the same keys.
pub struct Spread<'a> {
    pub spaces: &'a [Box<dyn Space + 'a>],
    pub values: &'a Values,
    /// Number of entries, in all spaces together.
    pub entries: u64,
    pub seed: u64,
}

impl Spread<'_> {
    /// Returns the space of an entry, and the entry's key in that space.
    fn place(&self, number: u64) -> (&dyn Space, Key) {
        let count = self.spaces.len() as u64;
        (&*self.spaces[(number % count) as usize], key(number / count))
    }

    /// Puts all entries, and then gets random entries. Returns the work done by the puts and by the
    /// gets.
    pub fn put_and_get(&self, order: Order, gets: u64) -> Result<(Done, Done)> {
        let puts = timed(self.entries, || {
            let (mut timings, mut value) = (Timings::new(), Vec::new());
            let mut last = Instant::now();
            for position in 0..self.entries {
                let number = order.at(position);
                self.values.fill(number, 0, &mut value);
                let (space, key) = self.place(number);
                space.put(&key, &value)?;
                let now = Instant::now();
                timings.record(now - last);
                last = now;
            }
            Ok(timings)
        })?;
        let get = |number| {
            let (space, key) = self.place(number);
            let mut generation = None;
            space.get(&key, &mut |value| generation = self.values.generation_of(number, value))?;
            match generation {
                Some(_) => Ok(()),
                None => Err(wrong(number, "its value is not in its place")),
            }
        };
        let gets = timed(gets, || random(&mut rng(self.seed, 0), gets, self.entries, get))?;
        Ok((puts, gets))
    }
}

fn rng(seed: u64, thread: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(thread))
}

/// Calls `operation` with random numbers below `limit`. Returns the latencies of one in
/// [`TIME_EVERY`] calls.
fn random(
    rng: &mut SmallRng,
    operations: u64,
    limit: u64,
    mut operation: impl FnMut(u64) -> Result<()>,
) -> Result<Timings> {
    let mut timings = Timings::new();
    for i in 0..operations {
        let number = rng.random_range(0..limit);
        if i % TIME_EVERY == 0 {
            let start = Instant::now();
            operation(number)?;
            timings.record(start.elapsed());
        } else {
            operation(number)?;
        }
    }
    Ok(timings)
}

fn timed(operations: u64, work: impl FnOnce() -> Result<Timings>) -> Result<Done> {
    let start = Instant::now();
    let timings = work()?;
    Ok(Done { operations, time: start.elapsed(), timings })
}

/// Runs `work` on each of `threads` threads, which start together. Returns the work done by all
/// threads.
fn parallel(
    threads: u64,
    operations: u64,
    work: impl Fn(u64) -> Result<Timings> + Sync,
) -> Result<Done> {
    if threads <= 1 {
        return timed(operations, || work(0));
    }
    let barrier = Barrier::new(threads as usize + 1);
    let (barrier, work) = (&barrier, &work);
    std::thread::scope(|scope| {
        let start_one = |thread| {
            scope.spawn(move || {
                barrier.wait();
                work(thread)
            })
        };
        let running: Vec<_> = (0..threads).map(start_one).collect();
        barrier.wait();
        let start = Instant::now();
        let mut timings = Timings::new();
        for thread in running {
            timings.add(&thread.join().expect("a workload does not panic")?);
        }
        Ok(Done { operations, time: start.elapsed(), timings })
    })
}
