//! `minikv watch`

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use minikv::{BatchOp, Db, WriteBatch};

use crate::args::{Dir, Global};
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::interrupt;
use crate::output::{
    Stdout, {self},
};

/// Print what another process writes, as it is committed
///
/// Prints the operations of each batch and then `commit`, in the form that `minikv batch` reads, so
/// `minikv watch | minikv --db COPY batch` keeps a copy up to date. Takes no lock and changes
/// nothing. Begins with the next write or, with --since, with the first write after that sequence
/// number.
///
/// Reads the logs of the writer. A writer removes its logs after a flush, unless the options
/// --keep-logs or --keep-logs-for of its command keep them. If changes are missing, the command
/// stops with an error and prints no later changes. Writes that were committed at the same time may
/// be printed as one batch.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
    /// Begin after this sequence number
    #[arg(long, value_name = "SEQUENCE")]
    since: Option<u64>,
    /// Milliseconds between two polls of the files
    #[arg(long, value_name = "MS", default_value_t = 100)]
    interval: u64,
    /// Print the changes so far, then stop
    #[arg(long)]
    once: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    if global.ignores_comparator() {
        return Err(CliError::Usage("watch cannot be used with --comparator ignore".to_string()));
    }
    let dir = global.db()?;
    let db = Db::open_read_only(&dir, global.options(&dir)?)?;
    let since = args.since.unwrap_or_else(|| db.sequence());
    let mut changes = db.changes_since(since)?;
    let mut stdout = Stdout::open()?;
    let at = Arc::new(AtomicU64::new(since));
    let shown = at.clone();
    let _guard = interrupt::on_interrupt(move || {
        let at = shown.load(Relaxed);
        output::say(format!("minikv: interrupted; continue with `minikv watch --since {at}`"));
    });
    loop {
        for batch in &mut changes {
            print(&batch?, global.format(), &mut stdout)?;
        }
        stdout.flush()?;
        at.store(changes.sequence(), Relaxed);
        if args.once {
            return stdout.finish();
        }
        std::thread::sleep(Duration::from_millis(args.interval));
    }
}

fn print(batch: &WriteBatch, format: Format, stdout: &mut Stdout) -> Result<()> {
    let mut text = Vec::new();
    for operation in batch {
        let (name, key, value) = match operation? {
            BatchOp::Put { key, value } => ("put", key, Some(value)),
            BatchOp::Delete { key } => ("delete", key, None),
        };
        encode(name, key, value, format, &mut text);
    }
    match format {
        Format::Json => text.extend_from_slice(b"{\"commit\":true}\n"),
        _ => text.extend_from_slice(b"commit\n"),
    }
    stdout.write(&text)
}

fn encode(name: &str, key: &[u8], value: Option<&[u8]>, format: Format, text: &mut Vec<u8>) {
    let (begin, after_name, after_key, end): (&[u8], &[u8], &[u8], &[u8]) = match format {
        Format::Json => (b"{\"", b"\":", b",\"value\":", b"}\n"),
        _ => (b"", b"\t", b"\t", b"\n"),
    };
    text.extend_from_slice(begin);
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(after_name);
    format.encode(key, text);
    if let Some(value) = value {
        text.extend_from_slice(after_key);
        format.encode(value, text);
    }
    text.extend_from_slice(end);
}
