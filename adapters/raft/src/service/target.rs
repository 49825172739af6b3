//! The other nodes: how a node reaches them, and how it opens streams to them.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use openraft::AnyError;
use openraft::error::{NetworkError, Unreachable};

use crate::service::identity::Identity;
use crate::service::lease::Lease;
use crate::service::notices::notice;
use crate::service::stream::{PROTOCOL, Stream};
use crate::service::wire::{Answer, Wire};
use crate::store::Store;

/// A factory of connections to other nodes.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) identity: Arc<Identity>,
    pub(crate) wire: Wire,
    pub(crate) lease: Arc<Lease>,
    /// Time between two heartbeats.
    pub(crate) heartbeat: Duration,
    /// Time without progress of the log's disk after which this node stops leading.
    pub(crate) stall_limit: Duration,
    pub(crate) store: Arc<Store>,
    #[cfg(feature = "faults")]
    pub(crate) faults: Arc<super::faults::Faults>,
}

/// The node that a lane leads to.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) network: Network,
    pub(crate) id: u64,
    pub(crate) address: String,
}

impl Target {
    #[cfg(feature = "faults")]
    pub(crate) async fn check_faults(&self) -> Result<(), Unreachable> {
        self.network.faults.pass().await;
        match self.network.faults.ignores(self.id) {
            true => Err(unreachable("cut off by a test".into())),
            false => Ok(()),
        }
    }

    async fn open_stream(&self) -> Result<Stream, Unreachable> {
        let (network, path) = (&self.network, format!("/raft/{}/stream", self.id));
        let headers = network.identity.headers();
        let upgraded = network.wire.upgrade(&self.address, &path, headers, PROTOCOL).await;
        match upgraded.map_err(|error| unreachable(error.to_string()))? {
            Ok(upgraded) => Ok(Stream::new(upgraded)),
            Err(answer) => {
                self.note(&answer);
                Err(unreachable(self.refusal("stream", &answer)))
            }
        }
    }

    /// Records whether the other node takes messages of this one at all: a node of another cluster
    /// does not.
    pub(crate) fn note(&self, answer: &Answer) {
        let is_refused = matches!(answer.status, StatusCode::CONFLICT | StatusCode::NOT_FOUND);
        self.network.identity.sent(self.id, is_refused.then(|| answer.message()));
    }

    pub(crate) fn refusal(&self, what: &str, answer: &Answer) -> String {
        let body = String::from_utf8_lossy(&answer.body);
        format!("{} answers {what}: {} {body}", self.address, answer.status)
    }

    /// Sends a message over the stream `idle`, or over a new one, and waits for the answer.
    pub(crate) async fn call(
        &self,
        idle: Option<Stream>,
        message: &[u8],
        patience: Duration,
    ) -> Result<(Vec<u8>, Stream), Unreachable> {
        #[cfg(feature = "faults")]
        self.check_faults().await?;
        let mut stream = match idle {
            Some(stream) => stream,
            None => {
                let opened = tokio::time::timeout(patience, self.open_stream()).await;
                opened.unwrap_or_else(|_| Err(unreachable(format!("{}: timeout", self.address))))?
            }
        };
        let answer = stream.call(message, patience).await;
        let answer = answer.map_err(|error| {
            if error.kind() == std::io::ErrorKind::InvalidData {
                let (id, address) = (self.id, &self.address);
                notice(format_args!("closes the connection to node {id} at {address}: {error}"));
            }
            unreachable(format!("{}: {error}", self.address))
        })?;
        Ok((answer, stream))
    }
}

pub(crate) fn failed(what: String) -> NetworkError {
    NetworkError::new(&AnyError::error(what))
}

pub(crate) fn unreachable(what: String) -> Unreachable {
    Unreachable::new(&AnyError::error(what))
}
