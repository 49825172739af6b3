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
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

use crate::service::error::ApiError;
use crate::service::network::sender;
use crate::service::node::Node;
use crate::service::rpc::{MESSAGE_LIMIT_BYTES, append};

/// The protocol that the connection switches to.
pub(crate) const PROTOCOL: HeaderValue = HeaderValue::from_static("minikv-raft");
const OK: u8 = 0;
const FAILED: u8 = 1;

/// A connection that carries messages and answers.
pub(crate) struct Stream {
    io: BufReader<TokioIo<Upgraded>>,
}

impl Stream {
    pub(crate) fn new(upgraded: Upgraded) -> Stream {
        Stream { io: BufReader::new(TokioIo::new(upgraded)) }
    }

    /// Sends a message and returns the answer. After an error, or if the caller stops waiting, the
    /// stream must not be used again.
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

    async fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut frame = Vec::with_capacity(4 + length);
        let length = u32::try_from(length).map_err(io::Error::other)?;
        frame.extend_from_slice(&length.to_be_bytes());
        parts.iter().for_each(|part| frame.extend_from_slice(part));
        self.io.write_all(&frame).await?;
        self.io.flush().await
    }

    /// Returns the next message or answer; `None` if the other side has ended the connection.
    async fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = match self.io.read_u32().await {
            Ok(length) => length as usize,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        if length > MESSAGE_LIMIT_BYTES {
            return Err(io::Error::other(format!("a message of {length} bytes")));
        }
        // The buffer grows with the bytes received, whatever length was announced.
        let mut content = Vec::new();
        let read = (&mut self.io).take(length as u64).read_to_end(&mut content).await?;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(content))
    }
}

/// The route: switches the protocol, and answers messages until the other side ends the connection.
pub(crate) async fn accept(State(node): State<Arc<Node>>, request: Request) -> Response {
    if request.headers().get(header::UPGRADE) != Some(&PROTOCOL) {
        let what = "this path needs `Upgrade: minikv-raft`";
        return ApiError::with(StatusCode::UPGRADE_REQUIRED, what).into_response();
    }
    let from = sender(request.headers());
    tokio::spawn(async move {
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            // The error needs no handling: the sender notices that the connection has ended, and
            // reconnects.
            let _ = answer_all(&node, from, Stream::new(upgraded)).await;
        }
    });
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, PROTOCOL);
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

#[cfg_attr(not(feature = "faults"), expect(unused_variables, reason = "for partitions in tests"))]
async fn answer_all(node: &Arc<Node>, from: Option<u64>, mut stream: Stream) -> io::Result<()> {
    while let Some(message) = stream.receive().await? {
        #[cfg(feature = "faults")]
        if from.is_some_and(|id| node.faults.ignores(id)) {
            return Ok(());
        }
        let answer = append(node, &message).await;
        #[cfg(feature = "faults")]
        node.faults.pass().await;
        match answer {
            Ok(answer) => stream.send(&[&[OK], &answer]).await?,
            Err(error) => stream.send(&[&[FAILED], error.message().as_bytes()]).await?,
        }
    }
    Ok(())
}
