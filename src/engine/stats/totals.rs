//! Counts of all reads of a database. Many threads add to these counts without contention.
//!
//! Counting must not slow down reads. Adding a trace to sums under a lock took 460 of the 6,400
//! instructions of a get from the block cache (callgrind; two tables searched). Here each thread
//! counts in a [`ReadTally`] of its own, with plain additions in the read path. This takes 70
//! instructions, 1.2 % of that get. The tallies are summed up on request.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::base::sync::{LockRank, Mutex};
use crate::engine::stats::trace::{ReadTally, ReadTrace};

/// Maximum number of living threads that each have a tally of their own. All other threads share
/// one tally, under a lock. A higher number takes about 2 KiB more per thread in each database that
/// the thread reads.
const MAX_OWN_TALLIES: usize = 64;

/// Counts of all reads. Thread-safe. The counters are read one after another, so a sum may include
/// part of a read in progress.
#[derive(Debug)]
pub(crate) struct ReadTotals {
    /// The tallies of threads, by thread number.
    own: [OnceLock<Box<ReadTally>>; MAX_OWN_TALLIES],
    /// The tally of all threads whose numbers are too high for `own`.
    shared: Mutex<ReadTally>,
}

impl Default for ReadTotals {
    fn default() -> ReadTotals {
        let shared = Mutex::ranked(LockRank::SharedTally, ReadTally::default());
        ReadTotals { own: [const { OnceLock::new() }; MAX_OWN_TALLIES], shared }
    }
}

impl ReadTotals {
    /// Returns the tally of the calling thread, if the thread has a tally of its own. No other
    /// thread may count in that tally.
    #[inline]
    pub(crate) fn own(&self) -> Option<&ReadTally> {
        Some(self.own.get(thread_number())?.get_or_init(Box::default))
    }

    /// Adds a get that was counted in `trace`, and then calls `then` with the tally to which the
    /// get was added.
    pub(crate) fn add_get(&self, trace: &ReadTrace, found: bool, then: impl FnOnce(&ReadTally)) {
        self.with(|tally| {
            tally.get(found);
            tally.add(trace);
            then(tally);
        });
    }

    /// Calls `add` with the tally to which the work of a cursor is added.
    pub(crate) fn add_scan(&self, add: impl FnOnce(&ReadTally)) {
        self.with(add);
    }

    fn with(&self, count: impl FnOnce(&ReadTally)) {
        match self.own() {
            Some(tally) => count(tally),
            None => count(&self.shared.lock()),
        }
    }

    /// Returns the sum of the counts, the number of gets, and the number of gets that found a
    /// value.
    pub(crate) fn sum(&self) -> (ReadTrace, u64, u64) {
        let mut sum = (ReadTrace::default(), 0, 0);
        let mut add = |tally: &ReadTally| {
            sum.0.add(&tally.load());
            sum.1 += tally.gets.load();
            sum.2 += tally.gets_found.load();
        };
        self.own.iter().filter_map(OnceLock::get).for_each(|tally| add(tally));
        add(&self.shared.lock());
        sum
    }
}

/// Thread numbers that no living thread has. The lock also orders accesses to a tally: all counts
/// made by a thread happen before another thread gets the same number.
static FREE: parking_lot::Mutex<FreeNumbers> =
    parking_lot::Mutex::new(FreeNumbers { given_back: BTreeSet::new(), next: 0 });

struct FreeNumbers {
    given_back: BTreeSet<usize>,
    next: usize,
}

/// A thread's number, which is given back when the thread ends.
struct Lease(usize);

impl Lease {
    fn take() -> Lease {
        let mut free = FREE.lock();
        let number = free.given_back.pop_first().unwrap_or_else(|| {
            free.next += 1;
            free.next - 1
        });
        Lease(number)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        NUMBER.set(NO_NUMBER);
        let mut free = FREE.lock();
        debug_assert!(self.0 < free.next, "a number was never given");
        let was_taken = free.given_back.insert(self.0);
        debug_assert!(was_taken, "two threads had one number");
    }
}

const NO_NUMBER: usize = usize::MAX;

thread_local! {
    /// The thread's number; [`NO_NUMBER`] before the thread's first read and after the thread's
    /// lease has ended.
    static NUMBER: Cell<usize> = const { Cell::new(NO_NUMBER) };
    static LEASE: Lease = Lease::take();
}

/// Returns a number that no other living thread has. The number is low if few threads are alive.
#[inline]
fn thread_number() -> usize {
    match NUMBER.get() {
        NO_NUMBER => take_number(),
        number => number,
    }
}

#[cold]
fn take_number() -> usize {
    let number = LEASE.try_with(|lease| lease.0).unwrap_or(NO_NUMBER);
    NUMBER.set(number);
    number
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn count(totals: &ReadTotals) {
        match totals.own() {
            Some(tally) => {
                tally.get(true);
                tally.levels[2].index_seeks.count(3);
            }
            None => {
                let mut trace = ReadTrace::default();
                trace.levels[2].index_seeks = 3;
                totals.add_get(&trace, true, |_| {});
            }
        }
    }

    #[test]
    fn threads_with_and_without_a_tally_of_their_own_sum_up() {
        const THREADS: usize = MAX_OWN_TALLIES + 40;
        const GETS: u64 = if cfg!(miri) { 3 } else { 1000 };
        let totals = ReadTotals::default();
        let (all_there, all_done) = (Barrier::new(THREADS), Barrier::new(THREADS));
        let numbers = Mutex::new(BTreeSet::new());
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    assert!(numbers.lock().insert(thread_number()), "two threads, one number");
                    all_there.wait();
                    (0..GETS).for_each(|_| count(&totals));
                    all_done.wait();
                });
            }
        });
        assert!(*numbers.lock().last().unwrap() >= MAX_OWN_TALLIES, "nobody had to share");
        let (trace, gets, found) = totals.sum();
        assert_eq!((gets, found), (THREADS as u64 * GETS, THREADS as u64 * GETS));
        assert_eq!(trace.levels[2].index_seeks, 3 * gets);
        assert_eq!(trace.total(), trace.levels[2]);
    }

    #[test]
    fn numbers_of_ended_threads_are_given_out_again() {
        let totals = ReadTotals::default();
        let mut highest = 0;
        for _ in 0..10 * MAX_OWN_TALLIES {
            let number = std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    count(&totals);
                    thread_number()
                });
                reader.join().unwrap()
            });
            highest = highest.max(number);
        }
        assert_eq!(totals.sum().1, 10 * MAX_OWN_TALLIES as u64);
        // Other tests run threads at the same time, but not enough to exceed this limit.
        assert!(highest < 5 * MAX_OWN_TALLIES, "{highest}");
    }

    #[test]
    fn a_read_while_the_thread_ends_counts_too() {
        static TOTALS: OnceLock<ReadTotals> = OnceLock::new();
        struct ReadsLast;
        impl Drop for ReadsLast {
            fn drop(&mut self) {
                count(TOTALS.get().unwrap());
            }
        }
        thread_local! {
            static LAST: ReadsLast = const { ReadsLast };
        }
        TOTALS.set(ReadTotals::default()).unwrap();
        // The order of the destructors is unspecified, so both orders are provoked here.
        std::thread::spawn(|| LAST.with(|_| count(TOTALS.get().unwrap()))).join().unwrap();
        std::thread::spawn(|| {
            count(TOTALS.get().unwrap());
            LAST.with(|_| ());
        })
        .join()
        .unwrap();
        assert_eq!(TOTALS.get().unwrap().sum().1, 4);
        // One of the two threads has given its number back before its last read, so it counts that
        // read in the shared tally.
        assert_eq!(TOTALS.get().unwrap().shared.lock().gets.load(), 1);
    }
}
