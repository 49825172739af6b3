//! `minikv dump [FILE]`

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::count;
use super::entries::{Entries, JsonValues};
use crate::args::Global;
use crate::error::{CliError, Result};
use crate::interrupt;
use crate::keyspace::InKeyspace;
use crate::output::{self, Progress, Stdout};
use crate::style::Style;
use crate::system::is_readable_by_all;
use crate::writer::check_not_lock;

const BUFFER_BYTES: usize = 128 << 10;
const ENTRIES_PER_PROGRESS: u64 = 4096;

/// Write every entry in key order
///
/// Writes one entry per line, in --format, from which `load` restores the same database. FILE is
/// created or replaced only once the dump is complete. With --comparator ignore, entries are in the
/// order in which they are in the database's files, and the keys must fit in memory.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to write [default: stdout, also `-`]
    file: Option<PathBuf>,
    #[command(flatten)]
    keyspace: InKeyspace,
    #[command(flatten)]
    json_values: JsonValues,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let json_values = args.json_values.check(global)?;
    let db = Entries::open(global, &args.keyspace)?;
    let file = args.file.filter(|path| path.as_os_str() != "-");
    let Some(path) = file else {
        let mut stdout = Stdout::open()?;
        let style = Style::of_stdout(global).with_json_values(json_values);
        write_entries(&db, style, |line| stdout.write(line))?;
        return stdout.finish();
    };
    check_not_lock(&path)?;
    let style = Style::plain(global.format()).with_json_values(json_values);
    let entries = match replaceable(&path)? {
        Some(target) => write_whole(&db, style, &target)?,
        None => write_in_place(&db, style, &path)?,
    };
    output::say(format!("dumped {}", count(entries, "entry", "entries")));
    Ok(())
}

/// Returns the regular file that a finished dump may replace, with symbolic links resolved. Returns
/// `None` for a device, a named pipe or another special file: /dev/stdout, for example, must not
/// become a regular file.
fn replaceable(path: &Path) -> Result<Option<PathBuf>> {
    let here = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some(path.to_path_buf()));
        }
        Err(error) => return Err(CliError::io("query", path, error)),
    };
    if !here.is_symlink() {
        return Ok(here.is_file().then(|| path.to_path_buf()));
    }
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    Ok(fs::canonicalize(path).ok().filter(|_| is_file))
}

fn write_in_place(db: &Entries, style: Style, path: &Path) -> Result<u64> {
    if path.is_dir() {
        let given = path.display();
        let what = format!("{given} is a directory, not a file to write; `--db {given}` dumps it");
        return Err(CliError::Usage(what));
    }
    let file = fs::OpenOptions::new().write(true).truncate(true).open(path);
    let file = file.map_err(|error| CliError::io("open", path, error))?;
    let mut writer = BufWriter::with_capacity(BUFFER_BYTES, file);
    let closed = |error: io::Error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::ClosedPipe,
        _ => CliError::io("write", path, error),
    };
    let entries = write_entries(db, style, |line| writer.write_all(line).map_err(closed))?;
    writer.flush().map_err(closed)?;
    Ok(entries)
}

/// Writes entries to a temporary file beside `path`, and renames the complete file to `path`.
/// Returns the number of entries.
fn write_whole(db: &Entries, style: Style, path: &Path) -> Result<u64> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let failed = |op: &'static str| move |error: io::Error| CliError::io(op, path, error);
    let (file, _guard) = interrupt::make(|| {
        let file = is_readable_by_all(tempfile::Builder::new().prefix(".minikv-dump-"))
            .tempfile_in(dir.unwrap_or(Path::new(".")))
            .map_err(failed("create"))?;
        let (temporary, target) = (file.path().to_path_buf(), path.display().to_string());
        let remove = move || {
            let _ = fs::remove_file(&temporary);
            output::say(format!("minikv: interrupted; {target} is as it was before"));
        };
        Ok((file, remove))
    })?;
    let mut writer = BufWriter::with_capacity(BUFFER_BYTES, file);
    let write = |line: &[u8]| writer.write_all(line).map_err(failed("write"));
    let entries = write_entries(db, style, write)?;
    let file = writer.into_inner().map_err(|error| failed("write")(error.into_error()))?;
    file.as_file().sync_all().map_err(failed("sync"))?;
    file.persist(path).map_err(|error| failed("create")(error.error))?;
    Ok(entries)
}

fn write_entries(
    db: &Entries,
    style: Style,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let progress = Progress::counter("dumping");
    let mut line = Vec::new();
    if let Some(header) = style.format.header(false) {
        write(format!("{header}\n").as_bytes())?;
    }
    let mut entries = 0;
    db.each(|key, value| {
        line.clear();
        style.entry(key, value, &mut line);
        write(&line)?;
        entries += 1;
        if entries % ENTRIES_PER_PROGRESS == 0 {
            progress.set(entries);
        }
        Ok(true)
    })?;
    Ok(entries)
}
