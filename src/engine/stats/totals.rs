//! The sum of all reads, counted by many threads without contention.
//!
//! Counting must not slow what it counts. Folding a trace into sums under a lock took 460 of the
//! 6,400 instructions of a get from the block cache (callgrind; two tables asked). Here each
//! thread counts in a [`ReadTally`] of its own, with plain additions, straight from the read path:
//! 70 instructions, 1.2 % of that get. The sum is made when somebody asks.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::base::sync::{LockRank, Mutex};
use crate::engine::stats::trace::{ReadTally, ReadTrace};

/// So many threads that live at once have a tally of their own; the others share one.
const OWN_TALLIES: usize = 64;

/// The sum of all reads. Thread-safe; the counters are read one after the other, so a sum made
/// during a read may have a part of it.
#[derive(Debug)]
pub struct ReadTotals {
    /// By the number of the thread that counts there.
    own: [OnceLock<Box<ReadTally>>; OWN_TALLIES],
    /// Where threads with a higher number take turns.
    shared: Mutex<ReadTally>,
}

impl Default for ReadTotals {
    fn default() -> ReadTotals {
        let shared = Mutex::ranked(LockRank::Leaf, ReadTally::default());
        ReadTotals { own: [const { OnceLock::new() }; OWN_TALLIES], shared }
    }
}

impl ReadTotals {
    /// The tally of this thread, if it has one of its own. Only for use by this thread.
    #[inline]
    pub fn own(&self) -> Option<&ReadTally> {
        Some(self.own.get(thread_number())?.get_or_init(Box::default))
    }

    /// Adds a get that was counted in `trace`, and then calls `then` with where it was added.
    pub fn add_get(&self, trace: &ReadTrace, found: bool, then: impl FnOnce(&ReadTally)) {
        self.with(|tally| {
            tally.get(found);
            tally.add(trace);
            then(tally);
        });
    }

    /// Adds what a cursor did.
    pub fn add_scan(&self, trace: &ReadTrace) {
        self.with(|tally| tally.add(trace));
    }

    fn with(&self, count: impl FnOnce(&ReadTally)) {
        match self.own() {
            Some(tally) => count(tally),
            None => count(&self.shared.lock()),
        }
    }

    /// The sum of the reads, the gets among them, and those of the gets that found something.
    pub fn sum(&self) -> (ReadTrace, u64, u64) {
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

/// Numbers that threads had and have no more. The lock orders what one owner of a number counted
/// before what the next one counts.
static FREE: parking_lot::Mutex<FreeNumbers> =
    parking_lot::Mutex::new(FreeNumbers { given_back: BTreeSet::new(), next: 0 });

struct FreeNumbers {
    given_back: BTreeSet<usize>,
    next: usize,
}

/// Gives the thread's number back when the thread ends.
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
        FREE.lock().given_back.insert(self.0);
    }
}

const NO_NUMBER: usize = usize::MAX;

thread_local! {
    /// The thread's number; none before the first read, nor after the lease has ended.
    static NUMBER: Cell<usize> = const { Cell::new(NO_NUMBER) };
    static LEASE: Lease = Lease::take();
}

/// A number that no other living thread has, and low if few are alive.
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
        const THREADS: usize = OWN_TALLIES + 40;
        const GETS: u64 = 1000;
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
        assert!(*numbers.lock().last().unwrap() >= OWN_TALLIES, "nobody had to share");
        let (trace, gets, found) = totals.sum();
        assert_eq!((gets, found), (THREADS as u64 * GETS, THREADS as u64 * GETS));
        assert_eq!(trace.levels[2].index_seeks, 3 * gets);
        assert_eq!(trace.total(), trace.levels[2]);
    }

    #[test]
    fn numbers_of_ended_threads_are_given_out_again() {
        let totals = ReadTotals::default();
        let mut highest = 0;
        for _ in 0..10 * OWN_TALLIES {
            let number = std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    count(&totals);
                    thread_number()
                });
                reader.join().unwrap()
            });
            highest = highest.max(number);
        }
        assert_eq!(totals.sum().1, 10 * OWN_TALLIES as u64);
        // Other tests have threads too, but not that many.
        assert!(highest < 5 * OWN_TALLIES, "{highest}");
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
        // Destructors run in one order or the other: both come up here.
        std::thread::spawn(|| LAST.with(|_| count(TOTALS.get().unwrap()))).join().unwrap();
        std::thread::spawn(|| {
            count(TOTALS.get().unwrap());
            LAST.with(|_| ());
        })
        .join()
        .unwrap();
        assert_eq!(TOTALS.get().unwrap().sum().1, 4);
        // The number is gone by then: another thread may have it.
        assert_eq!(TOTALS.get().unwrap().shared.lock().gets.load(), 1);
    }
}
