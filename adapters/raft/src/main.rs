//! The command `minikv-raft`.

mod cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::process::ExitCode;

use clap::Parser;
use minikv_raft::service::notice;

fn main() -> ExitCode {
    match cli::run(cli::Args::parse()) {
        Ok(code) => code,
        Err(message) => {
            notice(message);
            ExitCode::from(1)
        }
    }
}
