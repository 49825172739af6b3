//! A cluster of `minikv-raft serve` processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use minikv_raft::client::Client;
use minikv_raft::service::tls::Trust;

use crate::Cluster;
use crate::processes::Processes;

const PORT: u16 = 17_101;

pub struct Minikv {
    dir: PathBuf,
    layout: String,
    processes: Processes,
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
            processes: Processes::default(),
            addresses: addresses.collect(),
            clients: Vec::new(),
        };
        (0..nodes).for_each(|node| cluster.restart(node));
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

    async fn leader(&self) -> Option<usize> {
        Some(self.client().status().await.ok()?.leader? as usize - 1)
    }

    fn restart(&self, node: usize) {
        self.processes.set(node, self.serve(node));
    }

    async fn applied(&self, node: usize) -> Option<u64> {
        let (address, deadline) = (&self.addresses[node..=node], Duration::from_millis(500));
        let client = Client::new(address, &Trust::default(), deadline).expect("a client");
        client.status().await.ok()?.applied
    }

    fn processes(&self) -> &Processes {
        &self.processes
    }
}
