//! A connection to another node that carries one message at a time, for as long as the message
//! needs: whoever waits for the answer may give up, and ask for it again later.

use std::time::{Duration, Instant};

use openraft::error::Unreachable;
use tokio::task::JoinHandle;

use crate::service::stream::{MAX_IDLE, Stream};
use crate::service::target::{Target, unreachable};

type Landed = (Result<Vec<u8>, Unreachable>, Option<Stream>);

/// A connection, which is opened when it is first needed, and the message under way on it.
#[derive(Default)]
pub(crate) struct Lane {
    idle: Option<IdleStream>,
    flight: Option<Flight>,
}

/// A stream that no message has used since some time. The mutex is only there to make a `Lane`
/// `Sync`; nothing waits for it.
struct IdleStream(std::sync::Mutex<Box<Stream>>, Instant);

struct Flight {
    task: JoinHandle<Landed>,
    sent: Instant,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Lane {
    /// Returns whether a message is under way, or its answer has not been taken yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.flight.is_some()
    }

    /// Gives up the message under way, and the connection with it.
    pub(crate) fn abandon(&mut self) {
        self.flight = None;
    }

    /// Sends a message, which is given up if there is no progress for the time `patience`.
    pub(crate) fn send(&mut self, to: &Target, message: Vec<u8>, patience: Duration) {
        let idle = self.idle.take().filter(|idle| idle.1.elapsed() < MAX_IDLE);
        let idle = idle.map(|idle| idle.0.into_inner());
        let idle = idle.map(|stream| *stream.unwrap_or_else(std::sync::PoisonError::into_inner));
        let (to, sent) = (to.clone(), Instant::now());
        let task = tokio::spawn(async move {
            match to.call(idle, &message, patience).await {
                Ok((answer, stream)) => (Ok(answer), Some(stream)),
                Err(error) => (Err(error), None),
            }
        });
        self.flight = Some(Flight { task, sent });
    }

    /// Waits for the answer to the message under way. Returns the answer and the time at which the
    /// message was sent. If the caller stops waiting, a later call continues.
    pub(crate) async fn answer(&mut self) -> (Instant, Result<Vec<u8>, Unreachable>) {
        let Some(flight) = &mut self.flight else {
            return (Instant::now(), Err(unreachable("nothing is under way".into())));
        };
        let sent = flight.sent;
        let landed = (&mut flight.task).await;
        self.flight = None;
        match landed {
            Ok((answer, stream)) => {
                let boxed = |stream| std::sync::Mutex::new(Box::new(stream));
                self.idle = stream.map(|stream| IdleStream(boxed(stream), Instant::now()));
                (sent, answer)
            }
            Err(error) => (sent, Err(unreachable(format!("a task: {error}")))),
        }
    }
}
