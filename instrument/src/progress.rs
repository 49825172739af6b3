//! Progress of long measurements.

use std::sync::OnceLock;

/// Shows how far a measurement is, until it is dropped.
pub trait Meter {
    /// Shows the number of steps done so far.
    fn set(&self, position: u64);
}

/// Begins to show a measurement named `what` of `total` steps; `None` if the number is not known.
pub type Begin = fn(what: &'static str, total: Option<u64>) -> Box<dyn Meter>;

static BEGIN: OnceLock<Begin> = OnceLock::new();

/// Sets who shows the progress of this process's measurements. The first call counts. Without a
/// call, nobody does.
pub fn show_with(begin: Begin) {
    let _is_first = BEGIN.set(begin);
}

/// The progress of one measurement.
pub(crate) struct Progress(Option<Box<dyn Meter>>);

impl Progress {
    pub fn counter(what: &'static str) -> Progress {
        Progress(BEGIN.get().map(|begin| begin(what, None)))
    }

    pub fn steps(what: &'static str, total: u64) -> Progress {
        Progress(BEGIN.get().map(|begin| begin(what, Some(total))))
    }

    pub fn set(&self, position: u64) {
        if let Some(meter) = &self.0 {
            meter.set(position);
        }
    }
}
