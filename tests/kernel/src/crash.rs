//! Losses of power: the bytes that are left of a disk.

use minikv_support::rng::Rng;

use crate::device::{Op, Pages, SECTOR};

/// The part of the writes after the last flush that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// Some of them, in any order.
    Some,
    /// Some of their sectors.
    Sectors,
    /// The first ones, the last of which is torn.
    First,
}

/// All ways in which writes are left.
pub const LEFT: [Left; 5] =
    [Left::Nothing, Left::Everything, Left::Some, Left::Sectors, Left::First];

/// A disk at growing numbers of operations.
pub struct Past {
    log: Vec<Op>,
    /// The durable bytes after `done` operations.
    durable: Pages,
    done: usize,
    /// Number of flushes that the disk only says to have done.
    forgotten: usize,
}

impl Past {
    /// Begins with the disk before the first operation.
    pub fn new(pages: Pages, log: Vec<Op>) -> Past {
        Past { log, durable: pages, done: 0, forgotten: 0 }
    }

    /// Lets the disk forget the last flushes before a crash.
    pub fn forget(self, forgotten: usize) -> Past {
        Past { forgotten, ..self }
    }

    /// Returns what a loss of power after `number` operations leaves. `number` may not be less than
    /// that of the call before.
    pub fn crash(&mut self, number: usize, left: Left, rng: &mut Rng) -> Pages {
        let mut flushes = (self.done..number).rev().filter(|at| matches!(self.log[*at], Op::Flush));
        if let Some(flush) = flushes.nth(self.forgotten) {
            self.make_durable(flush + 1, rng);
        }
        let mut pages = self.durable.clone();
        let pending = &self.log[self.done..number];
        let kept = match left {
            Left::First => rng.below(pending.len() + 1),
            _ => pending.len(),
        };
        for (at, op) in pending[..kept].iter().enumerate() {
            let Op::Write { offset, data } = op else { continue };
            let torn = left == Left::Sectors || left == Left::First && at + 1 == kept;
            match left {
                Left::Nothing => {}
                Left::Some if rng.one_in(2) => {}
                _ if torn => write_sectors(&mut pages, *offset, data, rng),
                _ => pages.write(*offset, data),
            }
        }
        pages
    }

    /// Does the operations before `end`, the last of which is a flush.
    fn make_durable(&mut self, end: usize, rng: &mut Rng) {
        let mut pending = Vec::new();
        for op in &self.log[self.done..end] {
            match op {
                Op::Write { offset, data } => pending.push((*offset, data)),
                // It may have dropped what it was to write.
                Op::FailedFlush => pending.retain(|_| rng.one_in(2)),
                Op::Flush => {
                    for (offset, data) in pending.drain(..) {
                        self.durable.write(offset, data);
                    }
                }
            }
        }
        self.done = end;
    }
}

fn write_sectors(pages: &mut Pages, offset: u64, data: &[u8], rng: &mut Rng) {
    for (at, sector) in data.chunks(SECTOR).enumerate() {
        if rng.one_in(2) {
            pages.write(offset + (at * SECTOR) as u64, sector);
        }
    }
}
