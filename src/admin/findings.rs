//! The faults that a survey finds in a database's files.

use std::path::Path;

use crate::base::Error;
use crate::base::error::Corruption;

/// Maximum number of faults, and of notes, that are kept. Further faults are only counted, and
/// further notes are dropped. With a higher limit, a report can take more memory.
const MAX_TOLD: usize = 10_000;

/// The progress of a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Number of bytes read so far.
    pub done_bytes: u64,
    /// Total number of bytes to read.
    pub total_bytes: u64,
}

/// A collection of faults and notes.
pub(crate) struct Findings<'a> {
    /// The faults.
    pub faults: Vec<Corruption>,
    /// Number of faults, including those not kept in `faults`.
    pub fault_count: u64,
    /// Facts that are not faults but are worth reporting, such as an incomplete record at the end
    /// of a log.
    pub notes: Vec<Corruption>,
    /// The first format or feature that this build does not know.
    pub unsupported: Option<Error>,
    /// The first I/O error other than a missing file (`NotFound`).
    pub io: Option<Error>,
    /// Whether another process may be writing the files.
    pub beside_writer: bool,
    progress: Progress,
    tell: &'a mut dyn FnMut(Progress),
}

impl<'a> Findings<'a> {
    /// Creates an empty collection, which reports its progress by calling `tell`.
    pub(crate) fn new(tell: &'a mut dyn FnMut(Progress)) -> Findings<'a> {
        Findings {
            faults: Vec::new(),
            fault_count: 0,
            notes: Vec::new(),
            unsupported: None,
            io: None,
            beside_writer: false,
            progress: Progress { done_bytes: 0, total_bytes: 0 },
            tell,
        }
    }

    /// Records an error in the file `path`.
    pub(crate) fn fault(&mut self, error: Error, path: &Path) {
        let fault = match error.in_file(path) {
            Error::Corruption(corruption) => *corruption,
            error @ Error::Unsupported { .. } => {
                let what = match &error {
                    Error::Unsupported { what, name, .. } => {
                        format!("cannot be checked: unsupported {what} {name}")
                    }
                    _ => error.to_string(),
                };
                self.unsupported.get_or_insert(error);
                Corruption { path: Some(path.to_path_buf()), what, ..Corruption::default() }
            }
            error => {
                let what = match &error {
                    Error::Io { op, source, .. } => format!("cannot {op} it: {source}"),
                    _ => error.to_string(),
                };
                if error.io_kind() != Some(std::io::ErrorKind::NotFound) {
                    self.io.get_or_insert(error);
                }
                Corruption { path: Some(path.to_path_buf()), what, ..Corruption::default() }
            }
        };
        self.fault_count += 1;
        if self.faults.len() < MAX_TOLD {
            self.faults.push(fault);
        }
    }

    /// Records a fact that is not a fault.
    pub(crate) fn note(&mut self, path: &Path, offset: Option<u64>, what: String) {
        if self.notes.len() < MAX_TOLD {
            let path = Some(path.to_path_buf());
            self.notes.push(Corruption { path, offset, what, ..Corruption::default() });
        }
    }

    /// Adds `bytes` to the number of bytes to read.
    pub(crate) fn expect(&mut self, bytes: u64) {
        self.progress.total_bytes = self.progress.total_bytes.saturating_add(bytes);
    }

    /// Adds `bytes` to the number of bytes read.
    pub(crate) fn advance(&mut self, bytes: u64) {
        let done = self.progress.done_bytes.saturating_add(bytes);
        self.progress.done_bytes = done.min(self.progress.total_bytes);
        (self.tell)(self.progress);
    }
}
