//! The recorder of the command that this process traces.

use std::sync::{Arc, OnceLock};

use minikv::{Comparator, Options};
use minikv_instrument::trace::Recorder;

/// Recorder of the traced command.
static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Returns `options` with `comparator`. If this process traces a command, databases opened with the
/// returned options are recorded.
pub fn observed(options: Options, comparator: Arc<dyn Comparator>) -> Options {
    let options = options.comparator(comparator.clone());
    match RECORDER.get() {
        Some(recorder) => recorder.observe(options, comparator),
        None => options,
    }
}

/// Begins to record databases, with at most `most_lookups` lookups for each. Returns the recorder.
pub fn begin(most_lookups: usize) -> &'static Recorder {
    RECORDER.get_or_init(|| Recorder::new(most_lookups))
}
