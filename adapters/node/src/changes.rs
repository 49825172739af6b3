//! The changes of a database, as its logs have them.

use std::sync::{Arc, Mutex, PoisonError};

use minikv::follow::Changes;
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::error::Fault;
use crate::frames;
use crate::job::{Job, Reply, start};

/// Changes, and the error that has ended them.
struct Feed {
    changes: Changes,
    fault: Option<Fault>,
}

/// The batches that were committed after some sequence number.
#[napi]
pub struct NativeChanges {
    /// `None` once closed. `lib/changes.js` makes one call after the other.
    shared: Arc<Mutex<Option<Feed>>>,
}

impl NativeChanges {
    pub fn new(changes: Changes) -> NativeChanges {
        NativeChanges { shared: Arc::new(Mutex::new(Some(Feed { changes, fault: None }))) }
    }
}

impl Feed {
    /// Reads batches until they take more than `bytes` bytes, or there are no more for now. Returns
    /// them as frames. An error after the first batch is left to the next call.
    fn read(&mut self, bytes: usize) -> Result<Vec<u8>, Fault> {
        let mut frames = Vec::new();
        while self.fault.is_none() && frames.len() <= bytes {
            match self.changes.next() {
                Some(Ok(batch)) => frames::push_change(&mut frames, &batch)?,
                Some(Err(error)) => self.fault = Some(error.into()),
                None => break,
            }
        }
        match &self.fault {
            Some(fault) if frames.is_empty() => Err(fault.clone()),
            _ => Ok(frames),
        }
    }
}

#[napi]
impl NativeChanges {
    /// Returns a promise of the next batches, encoded as frames. Without any, the database has no
    /// more for now.
    #[napi(catch_unwind)]
    pub fn read(&self, bytes: f64) -> AsyncTask<Job> {
        let shared = self.shared.clone();
        start(move || {
            let mut feed = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let feed = feed.as_mut().ok_or_else(|| Fault::Other("closed".to_owned()))?;
            Ok(Reply::Frames(feed.read(bytes as usize)?))
        })
    }

    /// Releases the logs.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        drop(self.shared.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
