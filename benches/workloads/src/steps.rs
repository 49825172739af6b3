//! The timed loops.
//!
//! Every put and delete is timed, and every eighth get and seek, so that reading the clock takes up
//! little of the time. Every value is checked when it is read, at the same cost for each engine.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use crate::data::{Key, Shuffle, Values, key, number_of};
use crate::measure::Timings;
use crate::store::{Direction, Ended, Entry, Failure, Result, Store};

/// Exponent of the Zipf distribution: the constant used by YCSB.
const ZIPF_EXPONENT: f64 = 0.99;
const TIME_EVERY: u64 = 8;
/// Number of entries that transactions change. With fewer, there are more conflicts.
const HOT: u64 = 100;
/// Number of threads with transactions.
const TRANSACTING: u64 = 4;
/// Suffix of a present key that makes an absent key, as in db_bench.
const MISSING_SUFFIX: u8 = b'.';

/// The number of operations, the time that they took, and the latencies of single operations.
#[derive(Debug)]
pub struct Done {
    pub operations: u64,
    pub time: Duration,
    pub timings: Timings,
}

/// A database, and what is known about its entries.
#[derive(Clone, Copy)]
pub struct Loaded<'a> {
    pub store: &'a dyn Store,
    pub values: &'a Values,
    /// Number of entries: the keys of all smaller numbers are present.
    pub entries: u64,
    /// The oldest and the newest generation of the values.
    pub generations: (u32, u32),
    pub seed: u64,
}

fn wrong(number: u64, what: &str) -> Failure {
    format!("key {}: {what}", String::from_utf8_lossy(&key(number))).into()
}

/// The order in which numbers are written.
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
        SmallRng::seed_from_u64(self.seed.wrapping_mul(1000).wrapping_add(thread))
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

    /// Checks some entries, untimed.
    pub fn check_some(&self) -> Result<()> {
        let mut rng = self.rng(99);
        (0..1000.min(self.entries)).try_for_each(|_| self.get(rng.random_range(0..self.entries)))
    }

    /// Checks that some entries are gone, untimed.
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

    /// Puts the entries at `positions` one by one, with values of `generation`. Returns the
    /// latencies.
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

    /// Checks that a scan shows all entries, untimed.
    pub fn check_all_there(&self) -> Result<()> {
        match self.scan_from(None, Direction::Forward, self.entries + 1)? {
            seen if seen == self.entries => Ok(()),
            seen => Err(format!("a scan saw {seen} of {} entries", self.entries).into()),
        }
    }

    /// Adds 1 to the generations of two of the first entries in each transaction, by several
    /// threads, until `operations` transactions are committed. Returns the work done and the number
    /// of conflicts; `None` if the engine has no such transactions. No addition may be lost.
    pub fn transact(&self, operations: u64) -> Result<Option<(Done, u64)>> {
        let hot = HOT.min(self.entries);
        let (conflicts, is_supported) = (AtomicU64::new(0), AtomicBool::new(true));
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
                        Ended::Unsupported => {
                            is_supported.store(false, Ordering::Relaxed);
                            return Ok(timings);
                        }
                    };
                }
                timings.record(start.elapsed());
            }
            Ok(timings)
        })?;
        if !is_supported.into_inner() {
            return Ok(None);
        }
        let mut additions = 0;
        for number in 0..hot {
            self.store.get(&key(number), &mut |value| {
                additions += u64::from(self.values.generation_of(number, value).unwrap_or(0));
            })?;
        }
        match additions == 2 * done.operations {
            true => Ok(Some((done, conflicts.into_inner()))),
            false => {
                Err(format!("{additions} additions of {} are there", 2 * done.operations).into())
            }
        }
    }

    /// Puts all entries in batches. An operation is an entry; a latency is that of a batch. Returns
    /// the work done.
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

    /// Runs `operation` on random numbers below `limit`. Returns the latencies.
    fn random(
        &self,
        operations: u64,
        limit: u64,
        thread: u64,
        mut operation: impl FnMut(u64) -> Result<()>,
    ) -> Result<Timings> {
        let (mut rng, mut timings) = (self.rng(thread), Timings::new());
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

    /// Gets random entries below `limit`. Returns the work done.
    pub fn gets(&self, operations: u64, limit: u64, threads: u64) -> Result<Done> {
        parallel(threads, operations, |thread| {
            self.random(operations / threads, limit, thread, |number| self.get(number))
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
        timed(operations, || self.random(operations, self.entries, 0, ask))
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

    /// Seeks to random entries, and reads `len` entries from each.
    pub fn seeks(&self, operations: u64, len: u64) -> Result<Done> {
        timed(operations, || {
            self.random(operations, self.entries, 0, |number| {
                let seen = self.scan_from(Some(number), Direction::Forward, len)?;
                match seen == len.min(self.entries - number) {
                    true => Ok(()),
                    false => Err(wrong(number, "a scan from here ends too early")),
                }
            })
        })
    }

    /// Scans up to `limit` entries and checks that they are the expected ones. Returns their
    /// number.
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

    /// Gets and puts entries with YCSB's zipfian popularity; `gets_percent` of the operations are
    /// gets. Returns the work done.
    pub fn ycsb(&self, operations: u64, gets_percent: u32, generation: u32) -> Result<Done> {
        let ranks = Zipf::new(self.entries as f64, ZIPF_EXPONENT).map_err(|e| e.to_string())?;
        // The popular entries are spread over all keys.
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

    /// One thread gets random entries, while another puts random entries until the first is done.
    /// Returns the work of each.
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
            let done = timed(gets, || self.random(gets, self.entries, 0, |n| self.get(n)));
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

fn timed(operations: u64, work: impl FnOnce() -> Result<Timings>) -> Result<Done> {
    let start = Instant::now();
    let timings = work()?;
    Ok(Done { operations, time: start.elapsed(), timings })
}

/// Runs `work` on each of `threads` threads, which start together. Returns the work done by all.
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
