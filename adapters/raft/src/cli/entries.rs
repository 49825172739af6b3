//! The subcommands `put`, `get`, `delete` and `scan`.

use std::io::{IsTerminal, Read as _, Write};
use std::process::ExitCode;

use bytes::Bytes;
use minikv_raft::service::{Read, notice};

use crate::cli::ClusterTarget;
use crate::cli::output::finish;

/// The exit code if a key is absent or a condition does not hold.
const NOT_FOUND: u8 = 1;
const PAGE: usize = 1000;

#[derive(clap::Args)]
pub struct PutArgs {
    #[command(flatten)]
    target: ClusterTarget,
    key: String,
    /// The value; `-` reads it from standard input, and `@FILE` from a file.
    value: String,
    /// Put only if the key has this value.
    #[arg(long, value_name = "OLD", conflicts_with = "if_absent")]
    if_value: Option<String>,
    /// Put only if the key has no value.
    #[arg(long)]
    if_absent: bool,
}

#[derive(clap::Args)]
pub struct GetArgs {
    #[command(flatten)]
    target: ClusterTarget,
    key: String,
    /// Consistency of the read.
    #[arg(long, value_enum, default_value = "linearizable")]
    read: Read,
}

#[derive(clap::Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    target: ClusterTarget,
    key: String,
}

#[derive(clap::Args)]
pub struct ScanArgs {
    #[command(flatten)]
    target: ClusterTarget,
    /// Print only keys that begin with this prefix.
    #[arg(long, default_value = "")]
    prefix: String,
    /// Maximum number of entries to print.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Consistency of each page's read.
    #[arg(long, value_enum, default_value = "linearizable")]
    read: Read,
}

pub async fn put(args: &PutArgs) -> Result<ExitCode, String> {
    let client = args.target.client()?;
    let (key, value) = (Bytes::from(args.key.clone()), value_of(&args.value)?);
    if !args.if_absent && args.if_value.is_none() {
        client.put(key, value).await.map_err(|e| e.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let expected = args.if_value.clone().map(Bytes::from);
    let done = client.compare_and_set(key, expected, Some(value)).await;
    match done.map_err(|e| e.to_string())? {
        true => Ok(ExitCode::SUCCESS),
        false => {
            notice(format_args!("the condition does not hold: {}", args.key));
            Ok(ExitCode::from(NOT_FOUND))
        }
    }
}

/// Returns the value that an argument stands for.
fn value_of(argument: &str) -> Result<Bytes, String> {
    let mut bytes = Vec::new();
    if argument == "-" {
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|e| format!("standard input: {e}"))?;
        return Ok(bytes.into());
    }
    match argument.strip_prefix('@') {
        Some(file) => Ok(std::fs::read(file).map_err(|e| format!("{file}: {e}"))?.into()),
        None => Ok(Bytes::from(argument.to_string())),
    }
}

pub async fn get(args: &GetArgs) -> Result<ExitCode, String> {
    let value = args.target.client()?.get(args.key.as_bytes(), args.read).await;
    match value.map_err(|e| e.to_string())? {
        Some(value) => {
            let mut out = std::io::stdout().lock();
            let written = match out.is_terminal() {
                true => writeln!(out, "{}", value.escape_ascii()),
                false => out.write_all(&value),
            };
            finish(written.and_then(|()| out.flush()))
        }
        None => {
            notice(format_args!("key not found: {}", args.key));
            Ok(ExitCode::from(NOT_FOUND))
        }
    }
}

pub async fn delete(args: &DeleteArgs) -> Result<ExitCode, String> {
    let client = args.target.client()?;
    client.delete(args.key.clone()).await.map_err(|e| e.to_string())?;
    Ok(ExitCode::SUCCESS)
}

pub async fn scan(args: &ScanArgs) -> Result<ExitCode, String> {
    let client = args.target.client()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let (mut left, mut after) = (args.limit.unwrap_or(usize::MAX), None::<Bytes>);
    while left > 0 {
        let page =
            client.range(args.prefix.as_bytes(), after.as_deref(), left.min(PAGE), args.read);
        let (entries, more) = page.await.map_err(|e| e.to_string())?;
        for (key, value) in &entries {
            let printed = writeln!(out, "{}\t{}", key.escape_ascii(), value.escape_ascii());
            if printed.is_err() {
                return finish(printed);
            }
        }
        left -= entries.len().min(left);
        after = entries.last().map(|(key, _)| key.clone());
        if !more {
            break;
        }
    }
    finish(out.flush())
}
