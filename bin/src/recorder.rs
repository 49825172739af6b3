//! The recorder of the command that this process traces.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minikv::{Comparator, Options};
use minikv_instrument::trace::Recorder;

/// Recorder of the traced command, while it runs.
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

/// Records databases until dropped.
#[must_use]
pub struct Recording {
    /// The recorder of these databases.
    pub recorder: Recorder,
}

impl Drop for Recording {
    fn drop(&mut self) {
        *current() = None;
    }
}

/// Returns `options` with `comparator`. While this process traces a command, databases opened with
/// the returned options are recorded.
pub fn observed(options: Options, comparator: Arc<dyn Comparator>) -> Options {
    let options = options.comparator(comparator.clone());
    match &*current() {
        Some(recorder) => recorder.observe(options, comparator),
        None => options,
    }
}

/// Begins to record databases, with at most `most_lookups` lookups for each.
pub fn begin(most_lookups: usize) -> Recording {
    let recorder = Recorder::new(most_lookups);
    *current() = Some(recorder.clone());
    Recording { recorder }
}

fn current() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}
