//! Messages to other nodes, sent over HTTP in postcard's format. The response is the `Result` that
//! openraft returned on the other node, in the same format.

use std::time::Duration;

use axum::http::{Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use openraft::error::{
    InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable,
};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AnyError, BasicNode, RaftNetwork, RaftNetworkFactory};
use openraft_rocksstore::TypeConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;

type Http = Client<HttpConnector, Full<Bytes>>;
type RpcResult<A, E = RaftError<u64>> = Result<A, RPCError<u64, BasicNode, E>>;

/// A factory of connections to other nodes. The connections share one pool.
pub struct Network {
    http: Http,
}

/// The connection to one node.
pub struct Peer {
    http: Http,
    target: u64,
    address: String,
}

impl Network {
    pub fn new() -> Network {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(2)));
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(20))
            .build(connector);
        Network { http }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Peer {
        Peer { http: self.http.clone(), target, address: node.addr.clone() }
    }
}

impl Peer {
    async fn post(&self, what: &str, body: Vec<u8>) -> Result<Bytes, AnyError> {
        let request = Request::post(format!("http://{}/raft/{what}", self.address))
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| AnyError::new(&e))?;
        let answer = self.http.request(request).await.map_err(|e| AnyError::new(&e))?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|e| AnyError::new(&e))?;
        match status {
            StatusCode::OK => Ok(body.to_bytes()),
            _ => Err(AnyError::error(format!("{} answers {what}: {status}", self.address))),
        }
    }

    async fn exchange<Q, A, E>(&self, what: &str, message: Q, option: RPCOption) -> RpcResult<A, E>
    where
        Q: Serialize,
        A: DeserializeOwned,
        E: std::error::Error + DeserializeOwned,
    {
        let format = |error: postcard::Error| NetworkError::new(&error);
        let body = postcard::to_stdvec(&message).map_err(format)?;
        let answer = tokio::time::timeout(option.hard_ttl(), self.post(what, body)).await;
        let body = match answer {
            Ok(Ok(body)) => body,
            Ok(Err(error)) => return Err(Unreachable::new(&error).into()),
            Err(late) => return Err(Unreachable::new(&late).into()),
        };
        let result: Result<A, E> = postcard::from_bytes(&body).map_err(format)?;
        result.map_err(|error| RemoteError::new(self.target, error).into())
    }
}

impl RaftNetwork<TypeConfig> for Peer {
    async fn append_entries(
        &mut self,
        message: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<AppendEntriesResponse<u64>> {
        self.exchange("append", message, option).await
    }

    async fn install_snapshot(
        &mut self,
        message: InstallSnapshotRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>> {
        self.exchange("snapshot", message, option).await
    }

    async fn vote(
        &mut self,
        message: VoteRequest<u64>,
        option: RPCOption,
    ) -> RpcResult<VoteResponse<u64>> {
        self.exchange("vote", message, option).await
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(Duration::from_millis(100)))
    }
}
