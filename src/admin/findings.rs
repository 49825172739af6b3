//! What a look over a database's files finds wrong with them.

use std::path::Path;

use crate::base::Error;
use crate::base::error::Corruption;

/// Faults told one by one; more are counted. It bounds the memory that a report takes.
const MAX_TOLD: usize = 10_000;

/// How far a look over all files is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes read so far.
    pub done_bytes: u64,
    /// Bytes of all files that are to be read.
    pub total_bytes: u64,
}

/// Collects what is found.
pub struct Findings<'a> {
    /// What is wrong.
    pub faults: Vec<Corruption>,
    /// How many faults there are, those not kept in `faults` included.
    pub fault_count: u64,
    /// What is in order, but worth telling: a log that ends in a torn record, say.
    pub notes: Vec<Corruption>,
    /// The first thing that this build does not know.
    pub unsupported: Option<Error>,
    /// The first error of the filesystem, but for files that are not there.
    pub io: Option<Error>,
    /// Whether another process may be writing the files.
    pub beside_writer: bool,
    progress: Progress,
    tell: &'a mut dyn FnMut(Progress),
}

impl<'a> Findings<'a> {
    /// Nothing yet; `tell` is told how far it is.
    pub fn new(tell: &'a mut dyn FnMut(Progress)) -> Findings<'a> {
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

    /// Takes note of an error in the file `path`.
    pub fn fault(&mut self, error: Error, path: &Path) {
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

    /// Takes note of something that is in order.
    pub fn note(&mut self, path: &Path, offset: Option<u64>, what: String) {
        if self.notes.len() < MAX_TOLD {
            let path = Some(path.to_path_buf());
            self.notes.push(Corruption { path, offset, what, ..Corruption::default() });
        }
    }

    /// There are so many bytes more to read.
    pub fn expect(&mut self, bytes: u64) {
        self.progress.total_bytes = self.progress.total_bytes.saturating_add(bytes);
    }

    /// So many bytes more were read.
    pub fn advance(&mut self, bytes: u64) {
        let done = self.progress.done_bytes.saturating_add(bytes);
        self.progress.done_bytes = done.min(self.progress.total_bytes);
        (self.tell)(self.progress);
    }
}
