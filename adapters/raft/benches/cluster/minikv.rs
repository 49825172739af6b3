//! A cluster of `minikv-raft serve`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use minikv_raft::client::Client;
use minikv_raft::service::tls::Trust;

use crate::Cluster;

const PORT: u16 = 17_101;

pub struct Minikv {
    dir: PathBuf,
    layout: String,
    children: Vec<Child>,
    addresses: Vec<String>,
    clients: Vec<Client>,
}

impl Minikv {
    fn serve(&self, node: usize) -> Child {
        let own = env!("CARGO_BIN_EXE_minikv-raft");
        let (layout, command) = self.layout.split_once('=').unwrap_or((&self.layout, own));
        Command::new(command)
            .args(["serve", "--id", &(node + 1).to_string(), "--layout", layout])
            .args(["--listen", &self.addresses[node], "--dir"])
            .arg(self.dir.join(format!("node-{}", node + 1)))
            .stderr(Stdio::null())
            .spawn()
            .expect("a node")
    }

    fn client(&self) -> Client {
        let deadline = Duration::from_secs(10);
        Client::new(&self.addresses, &Trust::default(), deadline).expect("a client")
    }
}

impl Cluster for Minikv {
    async fn start(name: &str, nodes: usize, dir: &Path) -> Minikv {
        let addresses = (0..nodes).map(|node| format!("127.0.0.1:{}", PORT + node as u16));
        let mut cluster = Minikv {
            dir: dir.into(),
            layout: name.into(),
            children: Vec::new(),
            addresses: addresses.collect(),
            clients: Vec::new(),
        };
        for node in 0..nodes {
            let child = cluster.serve(node);
            cluster.children.push(child);
        }
        let members: Vec<(u64, String)> = (1..).zip(cluster.addresses.iter().cloned()).collect();
        cluster.client().init(&members).await.expect("a new cluster");
        cluster.clients = (0..16).map(|_| cluster.client()).collect();
        cluster.put(0, b"first".to_vec(), Vec::new()).await.expect("a leader");
        cluster
    }

    async fn put(&self, client: usize, key: Vec<u8>, value: Vec<u8>) -> Result<(), String> {
        let client = &self.clients[client % self.clients.len()];
        client.put(key, value).await.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn kill_leader(&mut self) -> usize {
        let leader = self.client().status().await.expect("a status").leader.expect("a leader");
        let node = leader as usize - 1;
        self.children[node].kill().and_then(|()| self.children[node].wait()).expect("a kill");
        node
    }

    async fn restart(&mut self, node: usize) {
        self.children[node] = self.serve(node);
    }

    async fn kill_follower(&mut self) -> usize {
        let leader =
            self.client().status().await.expect("a status").leader.expect("a leader") as usize - 1;
        let node = (leader + 1) % self.children.len();
        self.children[node].kill().and_then(|()| self.children[node].wait()).expect("a kill");
        node
    }

    async fn applied(&self, node: usize) -> Option<u64> {
        let (address, deadline) = (&self.addresses[node..=node], Duration::from_millis(500));
        let client = Client::new(address, &Trust::default(), deadline).expect("a client");
        client.status().await.ok()?.applied
    }

    fn processes(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }
}

impl Drop for Minikv {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}
