//! A connection for the entries of the log, which are most of what nodes send each other. Its
//! messages are not wrapped in HTTP: one side writes messages and the other side answers, each in a
//! task of its own.
//!
//! The connection begins as `POST /raft/TO/stream` with `Upgrade: minikv-raft-3`, so that TLS, the
//! token and the check of the target apply to it as to all routes. After that, messages and answers
//! alternate, each in a frame:
//!
//! ```text
//! frame:    length of the content (4, big-endian) | checksum of it (4) | content | checksum (4)
//! message:  AppendEntriesRequest, in postcard's format
//! answer:   0 | AppendEntriesResponse      or      1 | what is wrong
//! progress: 2 | number of bytes of the message received so far (4)
//! ```
//!
//! The first checksum is the CRC-32C of the number of the frame in its direction (8, from 0) and of
//! the length; the second one continues it with the content. So damage on the way is noticed, and
//! so are frames that are missing or repeated. It ends the connection, and the message is sent
//! again over another one.
//!
//! While a long message arrives, the receiver reports its progress. The sender never has more than
//! a window of bytes under way ([`Pace`]), so that a long message does not fill the queues of a
//! slow link, where heartbeats would wait behind it. A message may take any time, as long as there
//! is progress. A connection on which nothing arrives is closed after a while, because the sender
//! may have vanished without closing it. A sender opens another one before that.

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

use crate::service::pace::Pace;

/// The protocol to which the HTTP connection switches. Nodes without `identity::VERSION` spoke
/// `minikv-raft`, which had no reports of progress, and those of version 1 spoke `minikv-raft-2`,
/// which had no checksums.
pub(crate) const PROTOCOL: HeaderValue = HeaderValue::from_static("minikv-raft-3");
/// Maximum size of a message, in bytes. Messages with entries (see `READ_BYTES` in `log.rs`) and
/// lists of files are far smaller.
pub(crate) const MAX_MESSAGE_BYTES: usize = 256 << 20;
/// Time after which a connection on which nothing arrives is closed. Longer than a sender waits for
/// progress; short in builds for tests.
const SILENCE: Duration = Duration::from_secs(if cfg!(feature = "faults") { 15 } else { 300 });
/// Time for which a sender keeps a connection that it does not use: the receiver must not close one
/// that is about to be used.
pub(crate) const MAX_IDLE: Duration = Duration::from_millis(SILENCE.as_millis() as u64 / 2);
const OK: u8 = 0;
const FAILED: u8 = 1;
const PROGRESS: u8 = 2;
/// Number of bytes received after which the receiver reports progress. Two reports fit into the
/// smallest window.
const REPORT_BYTES: usize = 16 << 10;
/// Size of the buffer for reading, in bytes.
const READ_BYTES: usize = 64 << 10;
const HEAD_BYTES: usize = 8;

/// A connection that carries messages in one direction and answers in the other.
pub(crate) struct Stream {
    io: BufReader<TokioIo<Upgraded>>,
    /// The window of the sender.
    pace: Pace,
    /// Numbers of the next frames.
    next_sent: u64,
    next_received: u64,
}

/// Returns the checksum of the head of a frame.
fn head_sum(number: u64, length: [u8; 4]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_be_bytes()), &length)
}

/// Builds the frame with this number.
fn frame(number: u64, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let bytes = u32::try_from(length).map_err(io::Error::other)?.to_be_bytes();
    let mut sum = head_sum(number, bytes);
    let mut frame = Vec::with_capacity(HEAD_BYTES + length + 4);
    frame.extend_from_slice(&bytes);
    frame.extend_from_slice(&sum.to_be_bytes());
    for part in parts {
        sum = crc32c::crc32c_append(sum, part);
        frame.extend_from_slice(part);
    }
    frame.extend_from_slice(&sum.to_be_bytes());
    Ok(frame)
}

fn damaged() -> io::Error {
    let what = "a message does not have its checksum: it was damaged on the way";
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Stream {
    pub(crate) fn new(upgraded: Upgraded) -> Stream {
        let io = BufReader::with_capacity(READ_BYTES, TokioIo::new(upgraded));
        Stream { io, pace: Pace::default(), next_sent: 0, next_received: 0 }
    }

    /// Sends a message and returns the answer. Fails if there is no progress for the time
    /// `patience`. The stream must not be used again after an error, or after the caller stopped
    /// waiting for the answer.
    pub(crate) async fn call(&mut self, message: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
        let frame = self.next_frame(&[message])?;
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
                    // The head of the frame is not counted.
                    Ok(bytes) => {
                        let arrived = HEAD_BYTES + u32::from_be_bytes(bytes) as usize;
                        self.pace.arrived(arrived, Instant::now());
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

    fn next_frame(&mut self, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
        let frame = frame(self.next_sent, parts)?;
        self.next_sent += 1;
        Ok(frame)
    }

    async fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let frame = self.next_frame(parts)?;
        self.io.write_all(&frame).await?;
        self.io.flush().await
    }

    /// Returns the next message, or `None` if the other side has closed the connection. Fails if
    /// nothing arrives for a while.
    pub(crate) async fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.receive_frame(true).await
    }

    async fn receive_frame(&mut self, reports: bool) -> io::Result<Option<Vec<u8>>> {
        let mut head = [0; HEAD_BYTES];
        match within(SILENCE, self.io.read_exact(&mut head)).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let [a, b, c, d, sum @ ..] = head;
        let (length, sum) = ([a, b, c, d], u32::from_be_bytes(sum));
        if sum != head_sum(self.next_received, length) {
            return Err(damaged());
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_MESSAGE_BYTES {
            return Err(io::Error::other(format!("a message of {length} bytes")));
        }
        // The buffer grows only as bytes arrive, regardless of the announced length.
        let (mut content, mut reported) = (Vec::new(), 0);
        while content.len() < length {
            let mut rest = (&mut self.io).take((length - content.len()) as u64);
            if within(SILENCE, rest.read_buf(&mut content)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let received = content.len();
            if reports && received >= reported + REPORT_BYTES && received < length {
                reported = received;
                self.send(&[&[PROGRESS], &(received as u32).to_be_bytes()]).await?;
            }
        }
        if within(SILENCE, self.io.read_u32()).await? != crc32c::crc32c_append(sum, &content) {
            return Err(damaged());
        }
        self.next_received += 1;
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
