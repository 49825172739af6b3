//! Disks of sparse pages in memory, which record every write and every flush, and fail or answer
//! late on demand.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use minikv_support::rng::Rng;

/// Size of a page in bytes.
const PAGE: usize = 4096;

/// Size in bytes of the unit that a disk writes as a whole.
pub const SECTOR: usize = 512;

type Page = Arc<[u8; PAGE]>;

/// The bytes of a disk. A page that is missing holds zeros. A clone shares the pages.
#[derive(Clone, Debug, Default)]
pub struct Pages(HashMap<u64, Page>);

impl Pages {
    /// Reads the disk in a file.
    pub fn load(path: &Path) -> io::Result<Pages> {
        let bytes = std::fs::read(path)?;
        let mut pages = Pages::default();
        for (at, page) in bytes.chunks(PAGE).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                pages.write((at * PAGE) as u64, page);
            }
        }
        Ok(pages)
    }

    pub fn read(&self, offset: u64, buf: &mut [u8]) {
        let (mut page, mut within) = (offset / PAGE as u64, offset as usize % PAGE);
        let mut rest = buf;
        while !rest.is_empty() {
            let length = rest.len().min(PAGE - within);
            let (head, tail) = rest.split_at_mut(length);
            match self.0.get(&page) {
                Some(bytes) => head.copy_from_slice(&bytes[within..within + length]),
                None => head.fill(0),
            }
            (page, within, rest) = (page + 1, 0, tail);
        }
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let (mut page, mut within) = (offset / PAGE as u64, offset as usize % PAGE);
        let mut rest = data;
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(rest.len().min(PAGE - within));
            let bytes = self.0.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(bytes)[within..within + head.len()].copy_from_slice(head);
            (page, within, rest) = (page + 1, 0, tail);
        }
    }
}

/// A request of the kernel that is done. `begun` is the number of operations that were done when
/// the kernel asked for it.
#[derive(Clone, Debug)]
pub enum Op {
    Write {
        offset: u64,
        data: Arc<[u8]>,
        begun: usize,
    },
    /// The writes that were done when it began are durable.
    Flush {
        begun: usize,
    },
    /// A flush that failed: what was written since the last one may be lost for good.
    FailedFlush,
}

/// Returns the number of requests that were done after one for which the kernel asked later.
pub fn overtaken(log: &[Op]) -> usize {
    let (mut latest, mut overtaken) = (0, 0);
    for op in log {
        let (Op::Write { begun, .. } | Op::Flush { begun }) = op else { continue };
        overtaken += usize::from(*begun < latest);
        latest = latest.max(*begun);
    }
    overtaken
}

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The next flush, once.
    Flush,
    /// The next write, once.
    Write,
    /// All writes and flushes from now on.
    Everything,
}

/// A disk.
#[derive(Debug)]
pub struct Device {
    /// Its size in bytes.
    pub bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pages: Pages,
    log: Vec<Op>,
    /// The number of the operation that fails, and how.
    fault: Option<(usize, Fault)>,
    /// Number of operations that failed.
    failed: u64,
    /// Draws the delays of answers; if it is `None`, each answer comes at once.
    delays: Option<Rng>,
}

/// One of as many answers is late by [`LATE_MILLIS`] at least.
const LATE_ONE_IN: usize = 12;

/// Least and greatest delay of a late answer, in milliseconds.
pub const LATE_MILLIS: (u64, u64) = (20, 200);

impl State {
    /// Returns whether the operation that comes now fails.
    fn fails(&mut self, is_flush: bool) -> bool {
        let fails = match self.fault {
            Some((at, _)) if self.log.len() < at => false,
            Some((_, Fault::Everything)) => true,
            Some((_, fault)) => (fault == Fault::Flush) == is_flush,
            None => false,
        };
        if fails {
            self.failed += 1;
            self.fault.take_if(|(_, fault)| *fault != Fault::Everything);
        }
        fails
    }
}

impl Device {
    pub fn new(bytes: u64, pages: Pages) -> Device {
        Device { bytes, state: Mutex::new(State { pages, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is locked")
    }

    /// Lets something fail once `at` operations were done.
    pub fn fail(&self, at: usize, fault: Fault) {
        self.state().fault = Some((at, fault));
    }

    /// Returns the number of operations that failed.
    pub fn failed(&self) -> u64 {
        self.state().failed
    }

    /// Returns the number of operations so far.
    pub fn op_count(&self) -> u64 {
        self.state().log.len() as u64
    }

    /// Returns everything that the kernel asked for so far.
    pub fn log(&self) -> Vec<Op> {
        self.state().log.clone()
    }

    pub fn read(&self, offset: u64, buf: &mut [u8]) {
        self.state().pages.read(offset, buf);
    }

    /// Lets the disk answer late from now on, by delays that `seed` determines, or at once.
    pub fn answer_late(&self, seed: Option<u64>) {
        self.state().delays = seed.map(Rng::new);
    }

    /// Begins an operation. Returns the number of operations that are done, and the delay after
    /// which the new one is to be done.
    pub fn begin(&self) -> (usize, Duration) {
        let mut state = self.state();
        let begun = state.log.len();
        let Some(rng) = &mut state.delays else { return (begun, Duration::ZERO) };
        let (least, most) = LATE_MILLIS;
        let micros = match rng.one_in(LATE_ONE_IN) {
            true => 1000 * (least + rng.below((most - least + 1) as usize) as u64),
            false => rng.below(2000) as u64,
        };
        (begun, Duration::from_micros(micros))
    }

    /// Does a write for which [`Device::begin`] returned `begun`.
    ///
    /// # Errors
    /// The fault that was asked for.
    pub fn write(&self, begun: usize, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        if state.fails(false) {
            return Err(failure());
        }
        state.pages.write(offset, data);
        state.log.push(Op::Write { offset, data: data.into(), begun });
        Ok(())
    }

    /// Does a flush for which [`Device::begin`] returned `begun`.
    ///
    /// # Errors
    /// The fault that was asked for.
    pub fn flush(&self, begun: usize) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.fails(true);
        state.log.push(if fails { Op::FailedFlush } else { Op::Flush { begun } });
        if fails { Err(failure()) } else { Ok(()) }
    }
}

fn failure() -> io::Error {
    io::Error::other("the disk fails, as it was asked to")
}
