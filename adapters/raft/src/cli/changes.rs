//! The subcommands `batch`, which makes changes, and `watch`, which shows them. A change is a line,
//! `put<TAB>KEY<TAB>VALUE` or `delete<TAB>KEY`, with keys and values escaped as by `scan`.

use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use bytes::Bytes;
use minikv_raft::command::Op;
use minikv_raft::watch::{Change, ChangeId};

use crate::cli::ClusterTarget;
use crate::cli::output::{finish, say};

#[derive(clap::Args)]
pub struct BatchArgs {
    #[command(flatten)]
    target: ClusterTarget,
    /// File with the operations [default: standard input]
    file: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct WatchArgs {
    #[command(flatten)]
    target: ClusterTarget,
    /// Show only changes of keys that begin with this prefix.
    #[arg(long, default_value = "")]
    prefix: String,
    /// Begin after this change: the id that `watch` prints, or the index of an entry of the log
    /// [default: the latest]
    #[arg(long, value_name = "ID")]
    after: Option<ChangeId>,
    /// End after this number of changes.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Applies each group of operations that ends with `commit`, or with the end of the input, as one
/// atomic batch.
pub async fn batch(args: &BatchArgs) -> Result<ExitCode, String> {
    let client = args.target.client()?;
    let input: Box<dyn BufRead> = match &args.file {
        None => Box::new(BufReader::new(std::io::stdin())),
        Some(path) => {
            let file = std::fs::File::open(path);
            Box::new(BufReader::new(file.map_err(|e| format!("{}: {e}", path.display()))?))
        }
    };
    let (mut ops, mut lines) = (Vec::new(), input.split(b'\n').enumerate());
    loop {
        let line = lines.next();
        let is_end = line.is_none();
        let mut is_commit = is_end && !ops.is_empty();
        if let Some((number, line)) = line {
            let line = line.map_err(|e| format!("line {}: {e}", number + 1))?;
            match parse(&line).map_err(|what| format!("line {}: {what}", number + 1))? {
                Some(op) => ops.push(op),
                None => is_commit = true,
            }
        }
        if is_commit {
            let count = ops.len();
            let done = client.write(Vec::new(), std::mem::take(&mut ops)).await;
            done.map_err(|e| e.to_string())?;
            say(format_args!("committed {count}"))?;
        }
        if is_end {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

pub async fn watch(args: &WatchArgs) -> Result<ExitCode, String> {
    let client = args.target.client()?;
    let (mut left, mut failure) = (args.limit.unwrap_or(u64::MAX), None);
    let print = |change: Change| {
        let mut out = std::io::stdout().lock();
        let (id, key) = (change.id, change.key.escape_ascii());
        let printed = match change.value {
            Some(value) => writeln!(out, "{id}\tput\t{key}\t{}", value.escape_ascii()),
            None => writeln!(out, "{id}\tdelete\t{key}"),
        };
        failure = printed.and_then(|()| out.flush()).err();
        left -= 1;
        match failure.is_some() || left == 0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    if args.limit != Some(0) {
        let watched = client.watch(args.prefix.as_bytes(), args.after, print).await;
        watched.map_err(|e| e.to_string())?;
    }
    finish(failure.map_or(Ok(()), Err))
}

/// Parses an operation. Returns `None` for `commit`.
fn parse(line: &[u8]) -> Result<Option<Op>, String> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
    match fields[..] {
        [b"commit"] => Ok(None),
        [b"put", key, value] => Ok(Some(Op { key: unescape(key)?, value: Some(unescape(value)?) })),
        [b"delete", key] => Ok(Some(Op { key: unescape(key)?, value: None })),
        _ => Err("neither put<TAB>KEY<TAB>VALUE, delete<TAB>KEY nor commit".into()),
    }
}

fn unescape(text: &[u8]) -> Result<Bytes, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let wrong = || format!("`{}` has a wrong escape", text.escape_ascii());
        let (&kind, after) = rest.split_first().ok_or_else(wrong)?;
        rest = after;
        bytes.push(match kind {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'\\' | b'\'' | b'"' => kind,
            b'x' => {
                let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
                rest = after;
                let digit = |at: usize| (digits[at] as char).to_digit(16).ok_or_else(wrong);
                (digit(0)? * 16 + digit(1)?) as u8
            }
            _ => return Err(wrong()),
        });
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_bytes_are_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        let text = all.escape_ascii().to_string();
        assert_eq!(unescape(text.as_bytes()).unwrap(), all);
        for wrong in [r"\", r"\x", r"\x4", r"\xzz", r"\q"] {
            assert!(unescape(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lines_that_are_no_operations_are_refused() {
        for wrong in ["", "put", "put\ta", "put\ta\tb\tc", "delete", "Put\ta\tb", "commit\t"] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
