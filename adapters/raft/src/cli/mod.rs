//! Subcommands. Each subcommand that does more than send one request to a node has its own file.

mod backup;
mod changes;
mod cluster;
mod entries;
mod output;
mod serve;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use minikv_raft::client::Client;
use minikv_raft::service::tls::Trust;
use minikv_raft::service::{NodeOptions, notice};

use crate::cli::output::say;

/// A replicated key-value store on minikv
#[derive(Parser)]
#[command(name = "minikv-raft", version)]
pub struct Args {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Run a node
    Serve(Box<NodeOptions>),
    /// Run a cluster on this machine until Ctrl-C
    Cluster(cluster::ClusterArgs),
    /// Create a cluster of nodes that are already running
    Init(InitArgs),
    /// Add a running node to the cluster
    Join(JoinArgs),
    /// Remove a node from the cluster
    Leave(LeaveArgs),
    /// Show what a node knows of the cluster, as JSON
    Status(ClusterTarget),
    /// Set the value of a key
    Put(entries::PutArgs),
    /// Print the value of a key
    Get(entries::GetArgs),
    /// Delete a key
    Delete(entries::DeleteArgs),
    /// Print entries in the order of their keys
    Scan(entries::ScanArgs),
    /// Apply operations, one a line, as atomic batches
    Batch(changes::BatchArgs),
    /// Print changes as they happen
    Watch(changes::WatchArgs),
    /// Copy the state of the cluster into a new directory
    Backup(backup::BackupArgs),
    /// Make the first node of a new cluster from a backup
    Restore(backup::RestoreArgs),
}

/// The cluster that a subcommand sends requests to.
#[derive(Clone, clap::Args)]
pub struct ClusterTarget {
    /// Addresses of nodes of the cluster. One address is enough.
    #[arg(
        long,
        value_name = "HOST:PORT,...",
        value_delimiter = ',',
        default_value = "127.0.0.1:7101",
        env = "MINIKV_NODES"
    )]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub trust: Trust,
    /// Time until a request fails, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    pub timeout: u64,
}

impl ClusterTarget {
    pub fn client(&self) -> Result<Client, String> {
        let deadline = Duration::from_secs(self.timeout);
        Client::new(&self.nodes, &self.trust, deadline).map_err(|e| e.to_string())
    }
}

/// Time after which a command says what it waits for.
const SILENT: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
struct InitArgs {
    #[command(flatten)]
    target: ClusterTarget,
    /// Nodes of the new cluster, including the node that receives the request [default: only that
    /// node]
    #[arg(value_name = "ID=HOST:PORT", value_parser = parse_member)]
    members: Vec<(u64, String)>,
}

#[derive(clap::Args)]
struct JoinArgs {
    #[command(flatten)]
    target: ClusterTarget,
    /// Node to add.
    #[arg(value_name = "ID=HOST:PORT", value_parser = parse_member)]
    member: (u64, String),
}

#[derive(clap::Args)]
struct LeaveArgs {
    #[command(flatten)]
    target: ClusterTarget,
    /// Number of the node.
    id: u64,
}

fn parse_member(text: &str) -> Result<(u64, String), String> {
    let member = text.split_once('=').and_then(|(id, address)| {
        let has_port =
            address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Some((id.parse().ok()?, has_port.then(|| address.to_string())?))
    });
    member.ok_or_else(|| format!("`{text}` is not ID=HOST:PORT"))
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<ExitCode, String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|e| e.to_string())?;
    let result = runtime.block_on(run_command(args.command));
    runtime.shutdown_timeout(Duration::from_secs(2));
    result
}

async fn run_command(command: CliCommand) -> Result<ExitCode, String> {
    let status = match command {
        CliCommand::Serve(options) => return serve::run(&options).await,
        CliCommand::Cluster(args) => return cluster::run(&args).await,
        CliCommand::Put(args) => return entries::put(&args).await,
        CliCommand::Get(args) => return entries::get(&args).await,
        CliCommand::Delete(args) => return entries::delete(&args).await,
        CliCommand::Scan(args) => return entries::scan(&args).await,
        CliCommand::Batch(args) => return changes::batch(&args).await,
        CliCommand::Watch(args) => return changes::watch(&args).await,
        CliCommand::Backup(args) => return backup::backup(&args).await,
        CliCommand::Restore(args) => return backup::restore(&args),
        CliCommand::Init(args) => args.target.client()?.init(&args.members).await,
        CliCommand::Join(args) => {
            let (id, address) = &args.member;
            // The new node receives all data before it joins, which may take long.
            let timeout = args.target.timeout.max(600);
            let client = ClusterTarget { timeout, ..args.target.clone() }.client()?;
            let join = client.join(*id, address);
            tokio::pin!(join);
            match tokio::time::timeout(SILENT, &mut join).await {
                Ok(joined) => joined,
                Err(_) => {
                    notice(format_args!(
                        "waits until node {id} at {address} has the data of the cluster: up to \
                         {timeout} s, or 15 s without an answer from it"
                    ));
                    join.await
                }
            }
        }
        CliCommand::Leave(args) => args.target.client()?.leave(args.id).await,
        CliCommand::Status(target) => target.client()?.status().await,
    };
    let status = status.map_err(|e| e.to_string())?;
    say(serde_json::to_string_pretty(&status).map_err(|e| e.to_string())?)?;
    Ok(ExitCode::SUCCESS)
}
