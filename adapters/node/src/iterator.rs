//! Iterators.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::error::Fault;
use crate::job::{Job, Reply, start};
use crate::walk::Walk;

/// A walk over a range, and a flag that aborts its reads.
struct Shared {
    /// The walk, or `None` if the iterator is closed. The mutex is locked during a read;
    /// abstract-level ensures that no other call needs the walk during a read.
    walk: Mutex<Option<Walk>>,
    is_aborted: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Walk>> {
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An iterator over a range.
#[napi]
pub struct NativeIterator {
    shared: Arc<Shared>,
}

impl NativeIterator {
    pub fn new(walk: Walk) -> NativeIterator {
        let walk = Mutex::new(Some(walk));
        NativeIterator { shared: Arc::new(Shared { walk, is_aborted: AtomicBool::new(false) }) }
    }
}

#[napi]
impl NativeIterator {
    /// Returns a promise of the next entries, at most `entries` of them, encoded as frames. Reading
    /// stops when the total size of the entries exceeds `bytes` bytes.
    #[napi(catch_unwind)]
    pub fn read(&self, entries: u32, bytes: f64) -> AsyncTask<Job> {
        let shared = self.shared.clone();
        start(move || {
            let mut walk = shared.lock();
            let walk = walk.as_mut().ok_or_else(|| Fault::Other("closed".to_owned()))?;
            let frames = walk.read(entries as usize, bytes as usize, &shared.is_aborted)?;
            Ok(Reply::Frames(frames))
        })
    }

    /// Makes the next read begin at `target`.
    #[napi(catch_unwind)]
    pub fn seek(&self, target: &[u8]) {
        if let Some(walk) = self.shared.lock().as_mut() {
            walk.seek(target.to_vec());
        }
    }

    /// Aborts the running read and all later reads.
    #[napi(catch_unwind)]
    pub fn abort(&self) {
        self.shared.is_aborted.store(true, Relaxed);
    }

    /// Releases the iterator's snapshot and cursor.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        drop(self.shared.lock().take());
    }
}
