//! A cluster of etcd nodes, and a client for two methods of etcd's gRPC interface: put and status.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::Cluster;
use crate::processes::Processes;

const CLIENT_PORT: u16 = 17_201;
const PEER_PORT: u16 = 17_301;

type Http = Client<HttpConnector, Full<Bytes>>;

pub struct Etcd {
    dir: PathBuf,
    nodes: usize,
    processes: Processes,
    connections: Vec<Http>,
    leader: std::sync::atomic::AtomicUsize,
}

/// Appends a field of type `bytes` to a protobuf message.
fn field(number: u8, bytes: &[u8], message: &mut Vec<u8>) {
    message.push(number << 3 | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        message.push(length as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend_from_slice(bytes);
}

/// Returns the value of the numeric field `wanted` of a protobuf message.
fn number(mut message: &[u8], wanted: u64) -> Option<u64> {
    let varint = |message: &mut &[u8]| {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (byte, rest) = message.split_first()?;
            *message = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    };
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let value = varint(&mut message)?;
        match (tag & 7, tag >> 3 == wanted) {
            (0, true) => return Some(value),
            (0, false) => {}
            (2, _) => message = message.get(value as usize..)?,
            _ => return None,
        }
    }
    None
}

impl Etcd {
    fn serve(&self, node: usize) -> Child {
        let peer = |node: usize| format!("http://127.0.0.1:{}", PEER_PORT + node as u16);
        let client = format!("http://127.0.0.1:{}", CLIENT_PORT + node as u16);
        let members: Vec<String> =
            (0..self.nodes).map(|node| format!("n{node}={}", peer(node))).collect();
        Command::new("etcd")
            .args(["--name", &format!("n{node}"), "--data-dir"])
            .arg(self.dir.join(format!("n{node}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer(node), "--initial-advertise-peer-urls", &peer(node)])
            .args(["--initial-cluster", &members.join(",")])
            .args(["--heartbeat-interval", "100", "--election-timeout", "600"])
            .args(["--quota-backend-bytes", "8589934592"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd, from the packages etcd-server and etcd-client")
    }

    /// Calls a method of one node, and returns the protobuf message in the response.
    async fn call(
        &self,
        http: &Http,
        node: usize,
        method: &str,
        message: &[u8],
    ) -> Result<Bytes, String> {
        let mut body = vec![0];
        body.extend_from_slice(&(message.len() as u32).to_be_bytes());
        body.extend_from_slice(message);
        let uri = format!("http://127.0.0.1:{}/etcdserverpb.{method}", CLIENT_PORT + node as u16);
        let request = axum::http::Request::post(uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| e.to_string())?;
        let exchange = async {
            let answer = http.request(request).await.map_err(|e| e.to_string())?;
            let early = answer.headers().get("grpc-status").cloned();
            let body = answer.into_body().collect().await.map_err(|e| e.to_string())?;
            let status = body.trailers().and_then(|t| t.get("grpc-status").cloned()).or(early);
            match status {
                Some(status) if status == "0" => Ok(body.to_bytes().slice(5..)),
                status => Err(format!("{method}: {status:?}")),
            }
        };
        let timed = tokio::time::timeout(Duration::from_secs(2), exchange).await;
        timed.unwrap_or_else(|_| Err(format!("{method}: no answer")))
    }
}

impl Cluster for Etcd {
    async fn start(_: &str, nodes: usize, dir: &Path) -> Etcd {
        let connect = || {
            let mut http = HttpConnector::new();
            http.set_nodelay(true);
            Client::builder(TokioExecutor::new()).http2_only(true).build(http)
        };
        let mut cluster = Etcd {
            dir: dir.into(),
            nodes,
            processes: Processes::default(),
            connections: (0..16).map(|_| connect()).collect(),
            leader: 0.into(),
        };
        (0..nodes).for_each(|node| cluster.restart(node));
        for _ in 0..600 {
            if cluster.put(0, b"first".to_vec(), Vec::new()).await.is_ok()
                && let Some(leader) = cluster.leader().await
            {
                cluster.leader = leader.into();
                return cluster;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("etcd has no leader");
    }

    /// Sends a put to the leader, as minikv's clients do. Other etcd nodes would forward the put to
    /// the leader.
    async fn put(&self, client: usize, key: Vec<u8>, value: Vec<u8>) -> Result<(), String> {
        use std::sync::atomic::Ordering::Relaxed;
        let mut message = Vec::new();
        field(1, &key, &mut message);
        field(2, &value, &mut message);
        let http = &self.connections[client % self.connections.len()];
        let result = self.call(http, self.leader.load(Relaxed), "KV/Put", &message).await;
        if result.is_err()
            && let Some(leader) = self.leader().await
        {
            self.leader.store(leader, Relaxed);
        }
        result.map(|_| ())
    }

    /// Returns the node that is the leader. In a `StatusResponse`, field 4 is the leader and field
    /// 1 is a header. Field 2 of the header is the member that answers.
    async fn leader(&self) -> Option<usize> {
        for node in 0..self.nodes {
            let status = self.call(&self.connections[0], node, "Maintenance/Status", b"").await;
            let Ok(status) = status else { continue };
            let header_bytes = *status.get(1)? as usize;
            let header = status.get(2..2 + header_bytes)?;
            if number(&status, 4).is_some_and(|leader| number(header, 2) == Some(leader)) {
                return Some(node);
            }
        }
        None
    }

    fn restart(&self, node: usize) {
        self.processes.set(node, self.serve(node));
    }

    async fn applied(&self, node: usize) -> Option<u64> {
        let http = &self.connections[0];
        let status = self.call(http, node, "Maintenance/Status", b"").await.ok()?;
        number(&status, 7)
    }

    fn processes(&self) -> &Processes {
        &self.processes
    }
}
