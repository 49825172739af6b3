//! The subcommand `cluster`, which runs a cluster of processes on this machine.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use minikv_raft::client::{Client, ClientError};
use minikv_raft::service::tls::Trust;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::output::say;

#[derive(clap::Args)]
pub struct ClusterArgs {
    /// Number of nodes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = few)]
    nodes: u16,
    /// Port of the first node; the other nodes use the ports that follow.
    #[arg(long, default_value_t = 7101)]
    port: u16,
    /// Directory that contains the directories of the nodes.
    dir: PathBuf,
}

const MAX_NODES: u16 = 9;

fn few(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX_NODES).contains(number));
    number.ok_or_else(|| format!("from 1 to {MAX_NODES}"))
}

/// Refuses another number of nodes than the directory has.
fn check_nodes(args: &ClusterArgs) -> Result<(), String> {
    let has_node = |id: &u16| args.dir.join(format!("node-{id}")).exists();
    match (1..=MAX_NODES).filter(has_node).count() {
        0 => Ok(()),
        found if found == usize::from(args.nodes) => Ok(()),
        found => Err(format!(
            "{}: holds {found} nodes, not {}; give --nodes {found}, or a new directory",
            args.dir.display(),
            args.nodes
        )),
    }
}

pub async fn run(args: &ClusterArgs) -> Result<ExitCode, String> {
    check_nodes(args)?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut members = Vec::new();
    for id in 1..=args.nodes {
        let port = args.port.checked_add(id - 1).ok_or("the ports go past 65535")?;
        members.push((u64::from(id), format!("127.0.0.1:{port}")));
    }
    let mut children = Vec::new();
    for (id, address) in &members {
        let child = Command::new(&program)
            .args(["serve", "--id", &id.to_string(), "--listen", address, "--dir"])
            .arg(args.dir.join(format!("node-{id}")))
            .kill_on_drop(true)
            .spawn();
        children.push(child.map_err(|e| format!("{}: {e}", program.display()))?);
    }
    let first = vec![members[0].1.clone()];
    let client = Client::new(&first, &Trust::default(), Duration::from_secs(20));
    let client = client.map_err(|e| e.to_string())?;
    match client.init(&members).await {
        // Status 409 means that an earlier run has created the cluster.
        Ok(_) | Err(ClientError::Refused(409, _)) => {}
        Err(error) => return Err(error.to_string()),
    }
    for (id, address) in &members {
        say(format_args!("node {id}: http://{address}/"))?;
    }
    say("Ctrl-C ends the cluster.")?;
    let mut end = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    tokio::select! {
        result = all_end(&mut children) => return result,
        _ = tokio::signal::ctrl_c() => {}
        _ = end.recv() => {}
    }
    // When the user presses Ctrl-C, the terminal signals the nodes, too. Nodes that got no signal
    // are killed, which does no harm.
    for child in &mut children {
        let _ = tokio::time::timeout(Duration::from_secs(2), child.wait()).await;
        let _ = child.kill().await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until all nodes have ended. If one node is killed, the others continue.
async fn all_end(children: &mut [Child]) -> Result<ExitCode, String> {
    for child in children {
        child.wait().await.map_err(|e| e.to_string())?;
    }
    Err("all nodes have ended".into())
}
