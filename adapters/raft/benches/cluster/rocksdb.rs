//! A cluster of openraft nodes with openraft's own RocksDB store. The code of the node is in
//! `../rocksdb`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::http::{Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::json;

use crate::Cluster;
use crate::processes::Processes;

const PORT: u16 = 17_401;

/// Deadline of a put, as in minikv's clients.
const DEADLINE: Duration = Duration::from_secs(10);

/// The executable file of the node.
pub static COMMAND: OnceLock<PathBuf> = OnceLock::new();

type Http = Client<HttpConnector, Full<Bytes>>;

pub struct RocksDb {
    dir: PathBuf,
    processes: Processes,
    addresses: Vec<String>,
    connections: Vec<Http>,
    leader: AtomicUsize,
}

#[derive(Deserialize)]
struct Status {
    id: u64,
    leader: Option<u64>,
    term: u64,
    #[serde(default)]
    applied: Option<u64>,
}

impl RocksDb {
    fn serve(&self, node: usize) -> Child {
        let command = COMMAND.get().expect("the path of openraft-rocksdb");
        Command::new(command)
            .args(["--id", &(node + 1).to_string(), "--listen", &self.addresses[node], "--dir"])
            .arg(self.dir.join(format!("node-{}", node + 1)))
            .stderr(Stdio::null())
            .spawn()
            .expect("openraft-rocksdb, built in benches/rocksdb")
    }

    async fn call(
        &self,
        http: &Http,
        node: usize,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Bytes, String> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.addresses[node]))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| e.to_string())?;
        let exchange = async {
            let answer = http.request(request).await.map_err(|e| e.to_string())?;
            let status = answer.status();
            let body = answer.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
            match status {
                StatusCode::OK => Ok(body),
                _ => Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body))),
            }
        };
        let timed = tokio::time::timeout(DEADLINE, exchange).await;
        timed.unwrap_or_else(|_| Err(format!("{path}: no answer")))
    }
}

impl Cluster for RocksDb {
    async fn start(_: &str, nodes: usize, dir: &Path) -> RocksDb {
        let connect = || {
            let mut http = HttpConnector::new();
            http.set_nodelay(true);
            Client::builder(TokioExecutor::new()).build(http)
        };
        let addresses = (0..nodes).map(|node| format!("127.0.0.1:{}", PORT + node as u16));
        let cluster = RocksDb {
            dir: dir.into(),
            processes: Processes::default(),
            addresses: addresses.collect(),
            connections: (0..16).map(|_| connect()).collect(),
            leader: 0.into(),
        };
        (0..nodes).for_each(|node| cluster.restart(node));
        let named = (1..).map(|id: u64| id.to_string()).zip(cluster.addresses.iter());
        let members = json!(named.collect::<BTreeMap<_, _>>()).to_string();
        let http = &cluster.connections[0];
        for _ in 0..600 {
            let body = members.clone().into_bytes();
            if cluster.call(http, 0, Method::POST, "/init", body).await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        cluster.put(0, b"first".to_vec(), Vec::new()).await.expect("a leader");
        cluster
    }

    /// Sends a put to the leader. If the leader changes, sends the put to the new leader, as
    /// minikv's client does.
    async fn put(&self, client: usize, key: Vec<u8>, value: Vec<u8>) -> Result<(), String> {
        let http = &self.connections[client % self.connections.len()];
        let path = format!("/v1/kv/{}", String::from_utf8(key).map_err(|e| e.to_string())?);
        let start = Instant::now();
        loop {
            let (leader, value) = (self.leader.load(Relaxed), value.clone());
            match self.call(http, leader, Method::PUT, &path, value).await {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > DEADLINE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
            if let Some(leader) = self.leader().await {
                self.leader.store(leader, Relaxed);
            }
        }
    }

    /// Returns the node that claims to be the leader in the latest term. A leader that was killed
    /// and restarted may claim this until it hears of the new leader.
    async fn leader(&self) -> Option<usize> {
        let mut latest = None;
        for node in 0..self.addresses.len() {
            let http = &self.connections[0];
            let status = self.call(http, node, Method::GET, "/status", Vec::new()).await;
            let Ok(status) = status else { continue };
            let status: Status = serde_json::from_slice(&status).ok()?;
            if status.leader == Some(status.id) {
                latest = latest.max(Some((status.term, node)));
            }
        }
        latest.map(|(_, node)| node)
    }

    fn restart(&self, node: usize) {
        self.processes.set(node, self.serve(node));
    }

    async fn applied(&self, node: usize) -> Option<u64> {
        let http = &self.connections[0];
        let status = self.call(http, node, Method::GET, "/status", Vec::new()).await.ok()?;
        serde_json::from_slice::<Status>(&status).ok()?.applied
    }

    fn processes(&self) -> &Processes {
        &self.processes
    }
}
