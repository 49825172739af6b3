//! `minikv diff A B`

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueHint;
use minikv::{BytewiseComparator, Comparator, Iter, Readable};
use serde_json::json;

use crate::args::Global;
use crate::codec::Format;
use crate::entry_reader::EntryReader;
use crate::error::{CliError, Result};
use crate::output::Stdout;
use crate::runs::Entry;
use crate::style::{Colour, Style};
use crate::system::stream_identity;
use crate::writer::is_same_dir;

/// Compare two databases, or a database and a dump
///
/// Prints the keys that are in one of them only, or have different values, in key order and in
/// --format: `-<TAB>KEY<TAB>VALUE` for an entry of A only, `+<TAB>KEY<TAB>VALUE` for an entry of B
/// only, and `~<TAB>KEY<TAB>A<TAB>B` for different values. A dump is read in the same format, and
/// must be in key order, as `dump` writes it. The memory does not depend on the number of entries.
///
/// The exit code is 0 if they are equal, 1 if they differ, and 2 or more after an error. Takes no
/// lock and changes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of a database, or a file of entries; `-` for stdin
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    a: PathBuf,
    /// Directory of a database, or a file of entries; `-` for stdin
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    b: PathBuf,
    /// Print only the numbers of added, removed, changed and equal entries
    #[arg(long)]
    summary: bool,
    /// Print the operations that turn A into B, in the form that `batch` reads
    #[arg(long, conflicts_with_all = ["json", "summary"])]
    batch: bool,
    /// Print JSON: a line for each difference, or one object with --summary
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    check_streams(&args)?;
    let orders = [&args.a, &args.b].map(|path| order_of(global, path));
    let [a, b] = orders;
    let order = match (a?, b?) {
        (Some(a), Some(b)) if a.name() != b.name() => {
            let what = format!("A is sorted by {}, and B by {}", a.name(), b.name());
            return Err(CliError::Usage(format!("{what}; diff needs one order of keys")));
        }
        (Some(order), _) | (None, Some(order)) => order,
        (None, None) => Arc::new(BytewiseComparator),
    };
    let mut a = Side::open(global, &args.a)?;
    let mut b = Side::open(global, &args.b)?;
    let mut report = Differences::open(global, &args)?;
    let (mut left, mut right) = (a.next(&*order)?, b.next(&*order)?);
    loop {
        let by_key = match (&left, &right) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => order.compare(a, b),
        };
        let from_a = if by_key.is_le() { left.take() } else { None };
        let from_b = if by_key.is_ge() { right.take() } else { None };
        if from_a.is_some() {
            left = a.next(&*order)?;
        }
        if from_b.is_some() {
            right = b.next(&*order)?;
        }
        report.add(from_a, from_b)?;
        // Only differences are printed, so one was found, and nobody wants to know the others.
        if report.stdout.is_closed() {
            break;
        }
    }
    report.finish(&args)
}

/// Returns an error if A and B are one stream, of which each would read a part.
fn check_streams(args: &Args) -> Result<()> {
    let is_stdin = |path: &Path| path.as_os_str() == "-";
    let is_one = stream_identity(&args.a).is_some_and(|a| stream_identity(&args.b) == Some(a));
    if is_one || is_stdin(&args.a) && is_stdin(&args.b) {
        let what = "A and B are the same stream, which can be read only once; name a file for one";
        return Err(CliError::Usage(what.to_string()));
    }
    Ok(())
}

/// Returns the order of the keys of the database in `path`, or `None` if it is a file.
fn order_of(global: &Global, path: &Path) -> Result<Option<Arc<dyn Comparator>>> {
    if path.is_dir() { global.comparator(path).map(Some) } else { Ok(None) }
}

/// The entries of a database, or of a file.
enum Side {
    Db(Box<Iter>),
    File { reader: Box<EntryReader>, last_key: Option<Vec<u8>> },
}

impl Side {
    fn open(global: &Global, path: &PathBuf) -> Result<Side> {
        let is_file = path.as_os_str() == "-" || path.exists() && !path.is_dir();
        if is_file {
            let reader = Box::new(EntryReader::open(Some(path), global.format())?);
            return Ok(Side::File { reader, last_key: None });
        }
        let is_open = global.db.as_deref().is_some_and(|db| is_same_dir(db, path));
        let shared = global.shared.clone().filter(|_| is_open);
        let global = Global { db: Some(path.clone()), shared, ..global.clone() };
        Ok(Side::Db(Box::new(super::open_for_reads(&global)?.iter())))
    }

    /// Returns the next entry, or `None` after the last entry.
    fn next(&mut self, order: &dyn Comparator) -> Result<Option<Entry>> {
        match self {
            Side::Db(entries) => {
                let Some(entry) = entries.next() else { return Ok(None) };
                let (key, value) = entry?;
                Ok(Some((key.to_vec(), value.to_vec())))
            }
            Side::File { reader, last_key } => {
                let Some((key, value)) = reader.next()? else { return Ok(None) };
                if last_key.as_ref().is_some_and(|last| order.compare(last, &key).is_ge()) {
                    let what = "its key is not above the one before it; load such entries into a \
                                database, and compare that";
                    return Err(reader.refuse(what));
                }
                *last_key = Some(key.clone());
                Ok(Some((key, value)))
            }
        }
    }
}

/// Form of the differences that are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Lines,
    Json,
    Batch,
    Summary,
}

/// Prints and counts differences.
struct Differences {
    stdout: Stdout,
    style: Style,
    form: Form,
    line: Vec<u8>,
    added: u64,
    removed: u64,
    changed: u64,
    equal: u64,
}

impl Differences {
    fn open(global: &Global, args: &Args) -> Result<Differences> {
        let style = Style::of_stdout(global);
        let form = match (args.summary, args.batch) {
            (true, _) => Form::Summary,
            (_, true) => Form::Batch,
            _ if args.json || style.format == Format::Json => Form::Json,
            _ => Form::Lines,
        };
        let mut stdout = Stdout::open_to_go_on()?;
        match (form, style.format) {
            (Form::Lines, Format::Csv) => stdout.line("change,key,a,b")?,
            (Form::Batch, Format::Csv) => stdout.line("operation,key,value")?,
            _ => {}
        }
        let line = Vec::new();
        Ok(Differences { stdout, style, form, line, added: 0, removed: 0, changed: 0, equal: 0 })
    }

    /// Prints a key that is in one or in both databases, if there is a difference.
    fn add(&mut self, a: Option<Entry>, b: Option<Entry>) -> Result<()> {
        let (counter, name, mark, colour) = match (&a, &b) {
            (Some(a), Some(b)) if a.1 == b.1 => {
                self.equal += 1;
                return Ok(());
            }
            (Some(_), Some(_)) => (&mut self.changed, "changed", "~", Colour::Yellow),
            (Some(_), None) => (&mut self.removed, "removed", "-", Colour::Red),
            _ => (&mut self.added, "added", "+", Colour::Green),
        };
        *counter += 1;
        let Some((key, _)) = a.as_ref().or(b.as_ref()) else { return Ok(()) };
        let values = [&a, &b].map(|entry| entry.as_ref().map(|(_, value)| value.as_slice()));
        self.line.clear();
        let (style, line) = (self.style, &mut self.line);
        match self.form {
            Form::Summary => return Ok(()),
            Form::Batch => push_operation(style.format, key, values[1], line),
            Form::Json => push_json(name, key, values, line),
            Form::Lines if style.format == Format::Csv => push_csv(name, key, values, line),
            Form::Lines => {
                style.coloured(colour, line, |line| line.extend_from_slice(mark.as_bytes()));
                line.push(b'\t');
                style.key(key, line);
                for value in values.into_iter().flatten() {
                    line.push(b'\t');
                    style.value(value, line);
                }
                line.push(b'\n');
            }
        }
        self.stdout.write(&self.line)
    }

    fn finish(mut self, args: &Args) -> Result<()> {
        let Differences { added, removed, changed, equal, .. } = self;
        if args.summary && args.json {
            self.stdout.json(&json!({
                "added": added, "removed": removed, "changed": changed, "equal": equal,
            }))?;
        } else if args.summary {
            let line =
                format!("{added} added, {removed} removed, {changed} changed, {equal} equal");
            self.stdout.line(line)?;
        }
        self.stdout.finish()?;
        let differs = added + removed + changed > 0;
        if differs { Err(CliError::Said { code: 1 }) } else { Ok(()) }
    }
}

/// Appends the operation that gives a key its value in B.
fn push_operation(format: Format, key: &[u8], value: Option<&[u8]>, line: &mut Vec<u8>) {
    let separator = if format == Format::Csv { b',' } else { b'\t' };
    line.extend_from_slice(if value.is_some() { b"put" } else { b"delete" });
    line.push(separator);
    format.encode(key, line);
    match value {
        Some(value) => {
            line.push(separator);
            format.encode(value, line);
        }
        None if format == Format::Csv => line.push(separator),
        None => {}
    }
    line.push(b'\n');
}

fn push_csv(name: &str, key: &[u8], values: [Option<&[u8]>; 2], line: &mut Vec<u8>) {
    line.extend_from_slice(name.as_bytes());
    line.push(b',');
    Format::Csv.encode(key, line);
    for value in values {
        line.push(b',');
        Format::Csv.encode(value.unwrap_or_default(), line);
    }
    line.push(b'\n');
}

fn push_json(name: &str, key: &[u8], values: [Option<&[u8]>; 2], line: &mut Vec<u8>) {
    line.extend_from_slice(format!("{{\"change\":\"{name}\",\"key\":").as_bytes());
    Format::Json.encode(key, line);
    for (side, value) in ["a", "b"].into_iter().zip(values) {
        if let Some(value) = value {
            line.extend_from_slice(format!(",\"{side}\":").as_bytes());
            Format::Json.encode(value, line);
        }
    }
    line.extend_from_slice(b"}\n");
}
