//! `minikv get KEY…`

use std::ffi::OsString;

use minikv::{KeyspaceKind, Readable, Snapshot};

use crate::args::Global;
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::keyspace::{InKeyspace, ReadScope};
use crate::output::{self, Stdout};
use crate::style::Style;

/// Print the values of keys
///
/// If stdout is not a terminal and --format is not given, writes the exact bytes of the values and
/// nothing else, not even between the values of several keys. On a terminal, or with --format, each
/// value is a line, on a terminal with printable Unicode as text. With --format and several keys,
/// each line is an entry as printed by `scan`: KEY<TAB>VALUE, or a JSON object.
///
/// --format does not change how the keys are read; --key-format does. An absent key is named on
/// stderr; the others are printed, and the exit code is 1.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keys to look up
    #[arg(required = true, value_name = "KEY", allow_negative_numbers = true)]
    keys: Vec<OsString>,
    #[command(flatten)]
    keyspace: InKeyspace,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let key_format = global.key_format.unwrap_or_default();
    let keys = args.keys.iter().map(|key| global.key_in(key_format, key));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let name = args.keyspace.name(global)?;
    let snapshot = super::open_for_reads(global)?;
    let db = name.of_reader(snapshot.clone())?;
    let mut stdout = Stdout::open_to_go_on()?;
    let shape = PrintedPart::of(global, keys.len());
    let style = Style::of_stdout(global);
    let mut missing = false;
    let mut text = Vec::new();
    for key in &keys {
        let Some(value) = db.get(key)? else {
            missing = true;
            stdout.flush()?;
            let shown = key_format.show(key);
            let next = match elsewhere(&db, &snapshot, key)? {
                Some(hint) => hint,
                None => next_step(global),
            };
            output::say(format!("minikv: key not found: {shown}; {next}"));
            continue;
        };
        text.clear();
        match shape {
            PrintedPart::Bytes => text.extend_from_slice(&value),
            PrintedPart::Entry => style.entry(key, &value, &mut text),
            PrintedPart::Line => {
                style.value(&value, &mut text);
                text.push(b'\n');
            }
        }
        stdout.write(&text)?;
    }
    stdout.finish()?;
    if missing { Err(CliError::NotFound) } else { Ok(()) }
}

/// Part of an entry to print.
#[derive(Clone, Copy)]
enum PrintedPart {
    Bytes,
    Line,
    Entry,
}

impl PrintedPart {
    fn of(global: &Global, keys: usize) -> PrintedPart {
        match (global.format, output::stdout_is_terminal()) {
            (Some(_), _) if keys > 1 => PrintedPart::Entry,
            (None, false) => PrintedPart::Bytes,
            _ => PrintedPart::Line,
        }
    }
}

/// Returns advice if there is another keyspace of the same name and the other kind, and it has the
/// key.
fn elsewhere(source: &ReadScope, db: &Snapshot, key: &[u8]) -> Result<Option<String>> {
    let ReadScope::Keyspace(keyspace) = source else { return Ok(None) };
    let (other, kind, advice) = match keyspace.is_expiring() {
        true => (KeyspaceKind::Ordinary, "ordinary", "leave --expiring out"),
        false => (KeyspaceKind::Expiring, "expiring", "give --expiring"),
    };
    let is_there = db.keyspace_of(other, keyspace.name())?.contains_key(key)?;
    Ok(is_there.then(|| format!("the {kind} keyspace of that name has it: {advice}")))
}

/// Returns advice for a user whose key was not found.
fn next_step(global: &Global) -> String {
    match (global.format, global.key_format) {
        (Some(Format::Hex), None) => "--key-format hex reads keys as hexadecimal".to_string(),
        (Some(Format::Json), None) => "--key-format json reads keys as JSON".to_string(),
        _ => "`minikv explain` shows where it was looked for".to_string(),
    }
}
