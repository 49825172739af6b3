//! The subcommand `serve`, which runs a node.

use std::process::ExitCode;

use minikv_raft::service::{Listening, Node, NodeOptions, notice};
use tokio::signal::unix::{SignalKind, signal};

pub async fn run(options: &NodeOptions) -> Result<ExitCode, String> {
    let node = Node::start(options).await?;
    let listening = Listening::bind(options).await?;
    notice(format_args!("node {} listens on {}", options.id, options.listen));
    let mut end = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    let stop = async move {
        tokio::select! {
            _ = end.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    node.serve(listening, stop).await?;
    Ok(ExitCode::SUCCESS)
}
