//! Nodes that run as processes. The processes can be killed, stopped, and cut off from each other.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use minikv_raft::client::Client;
use minikv_raft::service::Status;
use minikv_raft::service::tls::Trust;
use tempfile::TempDir;

use crate::clocks::Clocks;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_minikv-raft");

/// Returns a free port. The port is below the range from which the operating system assigns ports.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let start = 12_000 + (std::process::id() % 1500) as u16 * 12;
        let port = 12_000 + (start - 12_000 + step) % 20_000;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub struct Cluster {
    home: TempDir,
    pub nodes: Vec<Process>,
    extra: Vec<String>,
    /// Maximum number of files that each node may open, unless it is the limit of this process.
    pub descriptors: Option<u32>,
    /// Whether each node has a loopback address of its own: 127.0.0.11 for node 1, and so on.
    pub has_own_hosts: bool,
    /// The faulty clocks of the nodes, unless the nodes use the machine's clocks.
    pub clocks: Option<Clocks>,
}

pub struct Process {
    pub id: u64,
    pub address: String,
    child: Option<Child>,
    is_stopped: bool,
}

impl Cluster {
    /// Starts a cluster and waits for a leader. `extra` contains additional options for each node.
    pub async fn start(nodes: u64, extra: &[&str]) -> Cluster {
        let mut cluster = Cluster::without_nodes(extra);
        cluster.init(nodes).await;
        cluster
    }

    /// Starts the nodes of a new cluster and waits for a leader.
    pub async fn init(&mut self, nodes: u64) {
        let members: Vec<(u64, String)> = (0..nodes).map(|_| self.add()).collect();
        self.client(10).init(&members).await.unwrap();
        self.leader().await;
    }

    pub fn without_nodes(extra: &[&str]) -> Cluster {
        let extra = extra.iter().map(ToString::to_string).collect();
        let (home, nodes) = (tempfile::tempdir().unwrap(), Vec::new());
        Cluster { home, nodes, extra, descriptors: None, has_own_hosts: false, clocks: None }
    }

    pub fn dir(&self, id: u64) -> PathBuf {
        self.home.path().join(format!("node-{id}"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Starts another node, which is not part of the cluster yet. Returns the number and the
    /// address of the node.
    pub fn add(&mut self) -> (u64, String) {
        let id = self.nodes.len() as u64 + 1;
        let host = if self.has_own_hosts { 10 + id } else { 1 };
        let address = format!("127.0.0.{host}:{}", free_port());
        self.nodes.push(Process { id, address: address.clone(), child: None, is_stopped: false });
        self.run(id);
        (id, address)
    }

    pub fn run(&mut self, id: u64) {
        let dir = self.dir(id);
        let node = &mut self.nodes[id as usize - 1];
        let clocks = self.clocks.as_ref().map(|clocks| clocks.environment(id));
        let environment = clocks.unwrap_or_default();
        node.child =
            Some(serve(&dir, id, &node.address, &self.extra, self.descriptors, environment));
    }

    /// Returns the number of the process of a running node.
    pub fn process(&self, id: u64) -> u32 {
        self.nodes[id as usize - 1].child.as_ref().unwrap().id()
    }

    pub fn is_running(&self, id: u64) -> bool {
        let node = &self.nodes[id as usize - 1];
        node.child.is_some() && !node.is_stopped
    }

    /// Kills a node, as `kill -9` does.
    pub fn kill(&mut self, id: u64) {
        let node = &mut self.nodes[id as usize - 1];
        if let Some(mut child) = node.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        node.is_stopped = false;
    }

    /// Returns whether the process of a node has ended by itself.
    pub fn has_ended(&mut self, id: u64) -> bool {
        let child = &mut self.nodes[id as usize - 1].child;
        child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some())
    }

    /// Stops a node with SIGSTOP, or continues it with SIGCONT.
    pub fn set_stopped(&mut self, id: u64, is_stopped: bool) {
        let node = &mut self.nodes[id as usize - 1];
        let Some(child) = &node.child else { return };
        let signal = if is_stopped { "-STOP" } else { "-CONT" };
        let sent = Command::new("kill").arg(signal).arg(child.id().to_string()).status().unwrap();
        assert!(sent.success());
        node.is_stopped = is_stopped;
    }

    /// Returns the numbers of all nodes except `id`.
    pub fn others(&self, id: u64) -> Vec<u64> {
        self.nodes.iter().map(|node| node.id).filter(|other| *other != id).collect()
    }

    /// Cuts a node off from all other nodes.
    pub async fn cut_off(&self, id: u64) {
        self.ignore(id, &self.others(id)).await;
    }

    /// Reconnects a node that was cut off.
    pub async fn reconnect(&self, id: u64) {
        self.ignore(id, &[]).await;
    }

    /// Makes a node ignore `others`: the node neither sends messages to them nor accepts messages
    /// from them.
    async fn ignore(&self, id: u64, others: &[u64]) {
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        let body = format!("[{}]", others.join(","));
        let address = &self.nodes[id as usize - 1].address;
        let (status, _) =
            http(address, "POST", "/test/ignore", &[], body.as_bytes()).await.unwrap();
        assert_eq!(status, 200);
    }

    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    pub fn client(&self, seconds: u64) -> Client {
        client_of(&self.addresses(), Duration::from_secs(seconds))
    }

    /// Returns a client that knows only the addresses of the nodes `ids`.
    pub fn client_of(&self, ids: &[u64], deadline: Duration) -> Client {
        let address = |id: &u64| self.nodes[*id as usize - 1].address.clone();
        client_of(&ids.iter().map(address).collect::<Vec<_>>(), deadline)
    }

    pub async fn status(&self, id: u64) -> Option<Status> {
        self.client_of(&[id], Duration::from_millis(500)).status().await.ok()
    }

    /// Waits for a leader, and returns the number of the leader.
    pub async fn leader(&self) -> u64 {
        let found = wait_for(|| async {
            for node in &self.nodes {
                if self.is_running(node.id)
                    && let Some(status) = self.status(node.id).await
                    && status.role == "Leader"
                {
                    return Some(node.id);
                }
            }
            None
        });
        found.await.expect("a leader within 30 seconds")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for id in 1..=self.nodes.len() as u64 {
            self.kill(id);
        }
    }
}

pub fn client_of(addresses: &[String], deadline: Duration) -> Client {
    Client::new(addresses, &Trust::default(), deadline).unwrap()
}

pub fn serve(
    dir: &Path,
    id: u64,
    address: &str,
    extra: &[String],
    descriptors: Option<u32>,
    environment: Vec<(&'static str, String)>,
) -> Child {
    let limit = descriptors.map_or(String::new(), |count| format!("ulimit -n {count}; "));
    Command::new("sh")
        .args(["-c", &format!("{limit}exec \"$0\" \"$@\""), PROGRAM])
        .args(["serve", "--id", &id.to_string(), "--listen", address, "--dir"])
        .arg(dir)
        .args(extra)
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Calls `ask` repeatedly until it returns a value, for at most 30 seconds.
pub async fn wait_for<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F) -> Option<T> {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        if let Some(found) = ask().await {
            return Some(found);
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    None
}

/// Sends an HTTP request over a plain TCP connection. Returns the status and the body of the
/// response.
pub async fn http(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<(u16, String)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        request += &format!("host: {address}\r\n");
    }
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("content-length: {}\r\n\r\n", body.len());
    stream.write_all(request.as_bytes()).await?;
    // A server that refuses a body may close the connection before it has read the whole body.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_string());
    Ok((status, body))
}
