//! A connection for the entries of the log, which are most of what nodes send each other. Its
//! messages are not wrapped in HTTP: one side writes messages and the other side answers, each in a
//! task of its own.
//!
//! The connection begins as `POST /raft/TO/stream` with `Upgrade: minikv-raft`, so that TLS, the
//! token and the check of the target apply to it as to all routes. After that, messages and answers
//! alternate:
//!
//! ```text
//! message:  length (4, big-endian) | AppendEntriesRequest, in postcard's format
//! answer:   length (4) | 0 | AppendEntriesResponse      or      length (4) | 1 | what is wrong
//! ```

use std::io;

use axum::http::HeaderValue;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

/// The protocol to which the HTTP connection switches.
pub(crate) const PROTOCOL: HeaderValue = HeaderValue::from_static("minikv-raft");
/// Maximum size of a message, in bytes. Messages with entries (see `READ_BYTES` in `log.rs`) and
/// lists of files are far smaller.
pub(crate) const MESSAGE_LIMIT_BYTES: usize = 256 << 20;
const OK: u8 = 0;
const FAILED: u8 = 1;

/// A connection that carries messages in one direction and answers in the other.
pub(crate) struct Stream {
    io: BufReader<TokioIo<Upgraded>>,
}

impl Stream {
    pub(crate) fn new(upgraded: Upgraded) -> Stream {
        Stream { io: BufReader::new(TokioIo::new(upgraded)) }
    }

    /// Sends a message and returns the answer. The stream must not be used again after an error, or
    /// after the caller stopped waiting for the answer.
    pub(crate) async fn call(&mut self, message: &[u8]) -> io::Result<Vec<u8>> {
        self.send(&[message]).await?;
        let Some(mut answer) = self.receive().await? else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        match answer.first() {
            Some(&OK) => {
                answer.remove(0);
                Ok(answer)
            }
            _ => {
                Err(io::Error::other(String::from_utf8_lossy(answer.get(1..).unwrap_or_default())))
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

    /// Returns the next message or answer, or `None` if the other side has closed the connection.
    pub(crate) async fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = match self.io.read_u32().await {
            Ok(length) => length as usize,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        if length > MESSAGE_LIMIT_BYTES {
            return Err(io::Error::other(format!("a message of {length} bytes")));
        }
        // The buffer grows only as bytes arrive, regardless of the announced length.
        let mut content = Vec::new();
        let read = (&mut self.io).take(length as u64).read_to_end(&mut content).await?;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(content))
    }
}
