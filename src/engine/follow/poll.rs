//! Refreshes at an interval.

use std::sync::Arc;
use std::time::Duration;

use crate::base::Result;
use crate::base::sync::thread;
use crate::engine::follow::{Followed, Refreshed};

/// Iterator over the changes of a database that another process writes: see
/// [`ReadOnlyDb::follow`](crate::ReadOnlyDb::follow).
#[derive(Debug)]
pub struct Follow {
    followed: Arc<Followed>,
    poll_interval: Duration,
    is_first: bool,
}

impl Follow {
    pub(crate) fn new(followed: Arc<Followed>, poll_interval: Duration) -> Follow {
        Follow { followed, poll_interval, is_first: true }
    }
}

impl Iterator for Follow {
    type Item = Result<Refreshed>;

    fn next(&mut self) -> Option<Result<Refreshed>> {
        loop {
            if !std::mem::take(&mut self.is_first) {
                thread::sleep(self.poll_interval);
            }
            match self.followed.refresh() {
                Ok(refreshed) if !refreshed.changed => {}
                result => return Some(result),
            }
        }
    }
}
