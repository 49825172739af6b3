//! The sum of all reads, counted by many threads without contention.
//!
//! Counting must not slow what it counts. A lock and a copy of the counters took 4 % of a get
//! from the cache, an atomic addition for each event as much. So each thread counts in a
//! [`ReadTally`] of its own, with plain additions, straight from the read path; the sum is made
//! when somebody asks.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::base::stats::{ReadTally, ReadTrace};

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
        ReadTotals { own: [const { OnceLock::new() }; OWN_TALLIES], shared: Mutex::default() }
    }
}

impl ReadTotals {
    /// The tally of this thread, if it has one of its own. Only for use by this thread.
    #[inline]
    pub fn own(&self) -> Option<&ReadTally> {
        Some(self.own.get(thread_number())?.get_or_init(Box::default))
    }

    /// Adds a get that was counted in `trace`.
    pub fn add_get(&self, trace: &ReadTrace, found: bool) {
        self.with(|tally| {
            tally.get(found);
            tally.add(trace);
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
static FREE: Mutex<FreeNumbers> = Mutex::new(FreeNumbers { given_back: BTreeSet::new(), next: 0 });

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
