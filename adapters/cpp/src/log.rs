//! A C++ program's `Logger`, which is told of the database's events.

use std::ffi::c_char;

use minikv::{Event, EventKind};

use crate::border::{State, export, pointer};
use crate::options::leveldb_options_t;

type Write = extern "C" fn(State, *const c_char, usize);

struct CppLogger {
    state: State,
    write: Write,
}

impl minikv::Observer for CppLogger {
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
        EventKind::FlushEnded { table: Some(table), micros, .. } => {
            format!("flushed to table #{}: {} bytes, {micros} us", table.number, table.file_bytes)
        }
        EventKind::CompactionEnded { error: Some(error), .. } => {
            format!("compaction failed: {error}")
        }
        EventKind::CompactionEnded { inputs, output_level, outputs, micros, .. } => format!(
            "compacted {} tables to {} tables at level {output_level}: {micros} us",
            inputs.len(),
            outputs.len()
        ),
        EventKind::StallBegan { cause, .. } => format!("writes wait: {cause:?}"),
        EventKind::StallEnded { micros, .. } => format!("writes waited for {micros} us"),
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
