//! A C++ program's `Logger`, which is told of the database's events.

use std::ffi::c_char;

use minikv::events::{Event, EventKind, Observer};

use crate::border::{State, export, pointer};
use crate::options::leveldb_options_t;

type Write = extern "C" fn(State, *const c_char, usize);

struct CppLogger {
    state: State,
    write: Write,
}

impl Observer for CppLogger {
    fn event(&self, event: &Event) {
        if let Some(text) = text(&event.kind) {
            (self.write)(self.state, pointer(text.as_bytes()), text.len());
        }
    }
}

/// Returns a line on an event, or `None` if there is nothing to say.
fn text(event: &EventKind) -> Option<String> {
    Some(match event {
        EventKind::Opened { path, tables, .. } => {
            format!("minikv opened {} with {} tables", path.display(), tables.len())
        }
        EventKind::FlushEnded { error: Some(error), .. } => format!("flush failed: {error}"),
        EventKind::FlushEnded { table: Some(table), took, .. } => {
            let micros = took.as_micros();
            format!("flushed to table #{}: {} bytes, {micros} us", table.number, table.file_bytes)
        }
        EventKind::CompactionEnded { error: Some(error), .. } => {
            format!("compaction failed: {error}")
        }
        EventKind::CompactionEnded { inputs, output_level, outputs, took, .. } => format!(
            "compacted {} tables to {} tables at level {output_level}: {} us",
            inputs.len(),
            outputs.len(),
            took.as_micros()
        ),
        EventKind::StallBegan { cause, .. } => format!("writes wait: {cause:?}"),
        EventKind::StallEnded { took, .. } => {
            format!("writes waited for {} us", took.as_micros())
        }
        EventKind::Closed { .. } => "closed".to_owned(),
        _ => return None,
    })
}

export! {
    fn cpp_options_set_logger(options: &mut leveldb_options_t, state: State, write: Write) {
        let logger = CppLogger { state, write };
        options.change(|options| options.observer(logger));
    }
}
