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
    /// The disk after the last flush, with the first `done` operations and nothing else.
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
    /// that of the call before. Some sectors are left of the writes that the kernel had asked for
    /// and the disk had not done yet, unless nothing is left.
    pub fn crash(&mut self, number: usize, left: Left, rng: &mut Rng) -> Pages {
        let mut begins = self.log[self.done..number].iter().rev().filter_map(|op| match op {
            Op::Flush { begun } => Some(*begun),
            _ => None,
        });
        if let Some(begun) = begins.nth(self.forgotten) {
            self.make_durable(begun, rng);
        }
        let mut pages = self.durable.clone();
        let pending = &self.log[self.done..number];
        let kept = match left {
            Left::First => rng.below(pending.len() + 1),
            _ => pending.len(),
        };
        for (at, op) in pending[..kept].iter().enumerate() {
            let Op::Write { offset, data, .. } = op else { continue };
            let torn = left == Left::Sectors || left == Left::First && at + 1 == kept;
            match left {
                Left::Nothing => {}
                Left::Some if rng.one_in(2) => {}
                _ if torn => write_sectors(&mut pages, *offset, data, rng),
                _ => pages.write(*offset, data),
            }
        }
        for op in &self.log[number..] {
            match op {
                Op::Write { offset, data, begun } if *begun < number && left != Left::Nothing => {
                    write_sectors(&mut pages, *offset, data, rng);
                }
                _ => {}
            }
        }
        pages
    }

    /// Makes the writes before operation `end` durable, when a flush began.
    fn make_durable(&mut self, end: usize, rng: &mut Rng) {
        let mut pending = Vec::new();
        for (at, op) in self.log.iter().enumerate().take(end).skip(self.done) {
            match op {
                Op::Write { offset, data, .. } => pending.push((at, *offset, data)),
                // It may have dropped what it was to write.
                Op::FailedFlush => pending.retain(|_| rng.one_in(2)),
                Op::Flush { begun } => {
                    for (_, offset, data) in pending.extract_if(.., |(at, ..)| *at < *begun) {
                        self.durable.write(offset, data);
                    }
                }
            }
        }
        for (_, offset, data) in pending {
            self.durable.write(offset, data);
        }
        self.done = self.done.max(end);
    }
}

fn write_sectors(pages: &mut Pages, offset: u64, data: &[u8], rng: &mut Rng) {
    for (at, sector) in data.chunks(SECTOR).enumerate() {
        if rng.one_in(2) {
            pages.write(offset + (at * SECTOR) as u64, sector);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    /// The first byte of each of three sectors.
    fn bytes(pages: &Pages) -> [u8; 3] {
        [0, 1, 2].map(|at| {
            let mut byte = [0];
            pages.read(at * SECTOR as u64, &mut byte);
            byte[0]
        })
    }

    /// Writes that end after a flush began: one began before the flush, and one after it.
    fn past() -> Past {
        let device = Device::new(1 << 20, Pages::default());
        let sector = |at: u64, begun| {
            device.write(begun, at * SECTOR as u64, &[at as u8 + 1; SECTOR]).unwrap();
        };
        let slow = device.begin().0;
        sector(0, device.begin().0);
        let flush = device.begin().0;
        sector(1, slow);
        device.flush(flush).unwrap();
        sector(2, device.begin().0);
        Past::new(Pages::default(), device.log())
    }

    #[test]
    fn a_flush_makes_only_the_writes_durable_that_were_done_when_it_began() {
        for seed in 0..20 {
            let rng = &mut Rng::new(seed);
            assert_eq!(bytes(&past().crash(1, Left::Nothing, rng)), [0, 0, 0]);
            assert_eq!(bytes(&past().crash(3, Left::Nothing, rng)), [1, 0, 0]);
            assert_eq!(bytes(&past().crash(4, Left::Nothing, rng)), [1, 0, 0]);
            assert_eq!(bytes(&past().crash(4, Left::Everything, rng)), [1, 2, 3]);
        }
    }

    #[test]
    fn a_write_that_is_not_done_may_be_left_once_it_has_begun() {
        let mut left = [[0; 3]; 4];
        for seed in 0..40 {
            for (number, left) in left.iter_mut().enumerate() {
                let pages = past().crash(number, Left::Everything, &mut Rng::new(seed));
                for (count, byte) in left.iter_mut().zip(bytes(&pages)) {
                    *count += i32::from(byte != 0);
                }
            }
        }
        assert_eq!(left[0], [0, 0, 0]);
        assert!(left[1][0] == 40 && (1..40).contains(&left[1][1]) && left[1][2] == 0, "{left:?}");
        assert!(left[2] == [40, 40, 0] && left[3] == [40, 40, 0], "{left:?}");
    }
}
