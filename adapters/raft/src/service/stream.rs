//! A connection for the entries of the log, which are most of what nodes send each other. Its
//! messages are not wrapped in HTTP: one side writes messages and the other side answers, each in a
//! task of its own.
//!
//! The connection begins as `POST /raft/TO/stream` with `Upgrade: minikv-raft-2`, so that TLS, the
//! token and the check of the target apply to it as to all routes. After that, messages and answers
//! alternate:
//!
//! ```text
//! message:  length (4, big-endian) | AppendEntriesRequest, in postcard's format
//! answer:   length (4) | 0 | AppendEntriesResponse      or      length (4) | 1 | what is wrong
//! progress: length (4) | 2 | number of bytes of the message received so far (4)
//! ```
//!
//! While a long message arrives, the receiver reports its progress. The sender never has more than
//! a window of bytes under way ([`Pace`]), so that a long message does not fill the queues of a
//! slow link, where heartbeats would wait behind it. A message may take any time, as long as there
//! is progress.

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

use crate::service::pace::Pace;

/// The protocol to which the HTTP connection switches. Nodes without `identity::VERSION` spoke
/// `minikv-raft`, which had no reports of progress.
pub(crate) const PROTOCOL: HeaderValue = HeaderValue::from_static("minikv-raft-2");
/// Maximum size of a message, in bytes. Messages with entries (see `READ_BYTES` in `log.rs`) and
/// lists of files are far smaller.
pub(crate) const MESSAGE_LIMIT_BYTES: usize = 256 << 20;
const OK: u8 = 0;
const FAILED: u8 = 1;
const PROGRESS: u8 = 2;
/// Number of bytes received after which the receiver reports progress. Two reports fit into the
/// smallest window.
const REPORT_BYTES: usize = 16 << 10;
/// Size of the buffer for reading, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A connection that carries messages in one direction and answers in the other.
pub(crate) struct Stream {
    io: BufReader<TokioIo<Upgraded>>,
    /// The window of the sender.
    pace: Pace,
}

impl Stream {
    pub(crate) fn new(upgraded: Upgraded) -> Stream {
        let io = BufReader::with_capacity(READ_BYTES, TokioIo::new(upgraded));
        Stream { io, pace: Pace::default() }
    }

    /// Sends a message and returns the answer. Fails if there is no progress for the time
    /// `patience`. The stream must not be used again after an error, or after the caller stopped
    /// waiting for the answer.
    pub(crate) async fn call(&mut self, message: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
        let length = u32::try_from(message.len()).map_err(io::Error::other)?;
        let frame = [&length.to_be_bytes(), message].concat();
        self.pace.begin();
        let mut sent = 0;
        loop {
            let free = self.pace.free().min(frame.len() - sent);
            if free > 0 {
                let part = &frame[sent..sent + free];
                sent += free;
                self.pace.sent(sent, Instant::now());
                let write = async {
                    self.io.write_all(part).await?;
                    self.io.flush().await
                };
                within(patience, write).await?;
                continue;
            }
            let Some(mut answer) = within(patience, self.receive_frame(false)).await? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            match answer.first() {
                Some(&OK) if sent == frame.len() => {
                    answer.remove(0);
                    return Ok(answer);
                }
                Some(&PROGRESS) => match answer[1..].try_into() {
                    // The length of the message is not counted.
                    Ok(bytes) => {
                        self.pace.arrived(4 + u32::from_be_bytes(bytes) as usize, Instant::now());
                    }
                    Err(_) => return Err(io::Error::other("a malformed report of progress")),
                },
                _ => {
                    let what = String::from_utf8_lossy(answer.get(1..).unwrap_or_default());
                    return Err(io::Error::other(what));
                }
            }
        }
    }

    /// Sends the answer to the last message.
    pub(crate) async fn answer(&mut self, answer: Result<&[u8], String>) -> io::Result<()> {
        match answer {
            Ok(answer) => self.send(&[&[OK], answer]).await,
            Err(what) => self.send(&[&[FAILED], what.as_bytes()]).await,
        }
    }

    async fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut frame = Vec::with_capacity(4 + length);
        let length = u32::try_from(length).map_err(io::Error::other)?;
        frame.extend_from_slice(&length.to_be_bytes());
        parts.iter().for_each(|part| frame.extend_from_slice(part));
        self.io.write_all(&frame).await?;
        self.io.flush().await
    }

    /// Returns the next message, or `None` if the other side has closed the connection.
    pub(crate) async fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.receive_frame(true).await
    }

    async fn receive_frame(&mut self, reports: bool) -> io::Result<Option<Vec<u8>>> {
        let length = match self.io.read_u32().await {
            Ok(length) => length as usize,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        if length > MESSAGE_LIMIT_BYTES {
            return Err(io::Error::other(format!("a message of {length} bytes")));
        }
        // The buffer grows only as bytes arrive, regardless of the announced length.
        let (mut content, mut reported) = (Vec::new(), 0);
        while content.len() < length {
            let mut rest = (&mut self.io).take((length - content.len()) as u64);
            if rest.read_buf(&mut content).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let received = content.len();
            if reports && received >= reported + REPORT_BYTES && received < length {
                reported = received;
                self.send(&[&[PROGRESS], &(received as u32).to_be_bytes()]).await?;
            }
        }
        Ok(Some(content))
    }
}

/// Limits the time of one step of a transfer.
async fn within<T>(patience: Duration, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(patience, step).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::other(format!("no progress for {} ms", patience.as_millis()))),
    }
}
