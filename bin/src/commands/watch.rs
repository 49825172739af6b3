//! `minikv watch`

use std::time::Duration;

use minikv::{BatchOp, Db, WriteBatch};

use crate::args::{Dir, Global};
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::output::Stdout;
use crate::tally::Tally;

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
/// be printed as one batch. An interrupt ends the output after a whole batch, unless nobody reads
/// the batch for two seconds, and says where to continue.
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
    // Each operation has a sequence number, so the count is the sequence number of the last one.
    let printed = Tally::starting_at(since);
    let _guard =
        printed.say_on_interrupt(|at| format!("continue with `minikv watch --since {at}`"));
    loop {
        while let Some(batch) = changes.next() {
            let text = text_of(&batch?, global.format())?;
            // A part of a batch would be applied at the other end of a pipe.
            printed.write(changes.sequence() - printed.count(), || {
                stdout.write(&text)?;
                stdout.flush()
            })?;
        }
        if args.once {
            return stdout.finish();
        }
        std::thread::sleep(Duration::from_millis(args.interval));
    }
}

/// Returns the lines of a batch and the line that ends it.
fn text_of(batch: &WriteBatch, format: Format) -> Result<Vec<u8>> {
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
    Ok(text)
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
