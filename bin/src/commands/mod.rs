//! The commands, each in its own file.

mod backup;
mod backups;
mod batch;
mod bench;
mod bulk;
mod checkpoint;
mod compact;
mod completions;
mod condition;
mod delete;
mod demo;
mod destroy;
mod diff;
mod dump;
mod entries;
mod explain;
mod get;
mod inspect;
mod keyspaces;
mod load;
mod man;
mod put;
mod range;
mod readamp;
mod repair;
mod restore;
mod scan;
mod shell;
mod stats;
mod top;
pub mod trace;
mod tree;
mod verify;
mod watch;

use std::ops::Deref;
use std::path::Path;

use clap::Subcommand;
use minikv::{Compression, Db, ReadOnlyDb, Recovery, Snapshot};
use minikv_instrument::text::{count, size, thousands};

use crate::args::{Cli, Global};
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::output;
use crate::writer::Writer;

/// The commands, in the order of the help page.
#[derive(Debug, Subcommand)]
pub enum Command {
    Put(put::Args),
    Get(get::Args),
    Delete(delete::Args),
    Scan(scan::Args),
    Load(load::Args),
    Batch(batch::Args),
    Watch(watch::Args),
    Dump(dump::Args),
    Diff(diff::Args),
    Shell(shell::Args),
    Explain(explain::Args),
    Keyspaces(keyspaces::Args),
    Stats(stats::Args),
    Tree(tree::Args),
    Top(top::Args),
    Compact(compact::Args),
    Verify(verify::Args),
    Repair(repair::Args),
    Checkpoint(checkpoint::Args),
    Backup(backup::Args),
    Backups(backups::Args),
    Restore(restore::Args),
    Destroy(destroy::Args),
    Inspect(inspect::Args),
    Readamp(readamp::Args),
    Demo(demo::Args),
    Trace(trace::Args),
    Bench(bench::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Runs the command.
pub fn run(cli: Cli) -> Result<()> {
    let Cli { global, command } = cli;
    let global = &global.with_dir(command.dir())?;
    check_csv(global, &command)?;
    match command {
        Command::Put(args) => put::run(global, args),
        Command::Get(args) => get::run(global, args),
        Command::Delete(args) => delete::run(global, args),
        Command::Scan(args) => scan::run(global, args),
        Command::Load(args) => load::run(global, args),
        Command::Batch(args) => batch::run(global, args),
        Command::Watch(args) => watch::run(global, args),
        Command::Dump(args) => dump::run(global, args),
        Command::Diff(args) => diff::run(global, args),
        Command::Shell(args) => shell::run(global, args),
        Command::Explain(args) => explain::run(global, args),
        Command::Keyspaces(args) => keyspaces::run(global, args),
        Command::Stats(args) => stats::run(global, args),
        Command::Tree(args) => tree::run(global, args),
        Command::Top(args) => top::run(global, args),
        Command::Compact(args) => compact::run(global, args),
        Command::Verify(args) => verify::run(global, args),
        Command::Repair(args) => repair::run(global, args),
        Command::Checkpoint(args) => checkpoint::run(global, args),
        Command::Backup(args) => backup::run(global, args),
        Command::Backups(args) => backups::run(global, args),
        Command::Restore(args) => restore::run(global, args),
        Command::Destroy(args) => destroy::run(global, args),
        Command::Inspect(args) => inspect::run(global, args),
        Command::Readamp(args) => readamp::run(global, args),
        Command::Demo(args) => demo::run(global, args),
        Command::Trace(args) => trace::run(global, args),
        Command::Bench(args) => bench::run(global, args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}

/// Returns an error if CSV is given as the format of something other than entries.
fn check_csv(global: &Global, command: &Command) -> Result<()> {
    let lacks_csv = matches!(
        command,
        Command::Get(_) | Command::Watch(_) | Command::Inspect(_) | Command::Repair(_)
    );
    let refused = |what: &str| Err(CliError::Usage(what.to_string()));
    match (global.format, global.key_format) {
        (_, Some(Format::Csv)) => refused("CSV is a format of entries; give another --key-format"),
        (Some(Format::Csv), _) if lacks_csv => {
            refused("--format csv works with scan, load, batch, dump, diff and readamp")
        }
        _ => Ok(()),
    }
}

impl Command {
    /// Returns the directory of the database that was given as an argument, if any.
    fn dir(&self) -> Option<&Path> {
        let dir = match self {
            Command::Scan(args) => &args.dir,
            Command::Shell(args) => &args.dir,
            Command::Watch(args) => &args.dir,
            Command::Keyspaces(args) => &args.dir,
            Command::Stats(args) => &args.dir,
            Command::Tree(args) => &args.dir,
            Command::Top(args) => &args.dir,
            Command::Compact(args) => &args.dir,
            Command::Verify(args) => &args.dir,
            Command::Repair(args) => &args.dir,
            Command::Destroy(args) => &args.dir,
            Command::Readamp(args) => return args.dir(),
            _ => return None,
        };
        dir.dir.as_deref()
    }

    /// Returns whether the command opens and locks the database itself, so that no other part of
    /// this process may have it open.
    fn locks_by_itself(&self) -> bool {
        matches!(
            self,
            Command::Repair(_)
                | Command::Checkpoint(_)
                | Command::Backup(_)
                | Command::Restore(_)
                | Command::Destroy(_)
                | Command::Trace(_)
        )
    }
}

/// A database that is open for writing.
struct Writable {
    db: Db,
    /// Whether the database stays open for later commands of `minikv shell`.
    stays_open: bool,
}

impl Deref for Writable {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

impl Writable {
    /// Syncs and closes the database, unless it stays open.
    fn close(self) -> Result<()> {
        if self.stays_open { Ok(()) } else { Ok(self.db.close()?) }
    }
}

/// Opens the database for writing.
fn open(global: &Global, create: bool) -> Result<Writable> {
    let open = || open_new(global, create);
    match &global.shared {
        Some(shared) => Ok(Writable { db: shared.writer(&global.db()?, open)?, stays_open: true }),
        None => Ok(Writable { db: open()?, stays_open: false }),
    }
}

fn open_new(global: &Global, create: bool) -> Result<Db> {
    let dir = global.db()?;
    if create {
        check_parent(&dir)?;
    }
    // In a shell script, each put runs in its own process. If each process continues the last log,
    // the database does not write a new table after every few puts.
    let options = global.options(&dir)?.create_if_missing(create).reuse_logs(true);
    let db = Db::open(&dir, options)?;
    report_lost_logs(db.recovery());
    let compression = db.compression();
    if let Some(warning) =
        compression.warning().or_else(|| minecraft_warning(&dir, compression.new))
    {
        output::say(format!("minikv: {}: {warning}", dir.display()));
    }
    Ok(db)
}

/// Returns a warning if the directory is in a world of Minecraft, and new tables get a compression
/// that Minecraft cannot read. A world without compressed tables does not show its compression.
fn minecraft_warning(dir: &Path, new: Compression) -> Option<String> {
    if matches!(new, Compression::None | Compression::Zlib(_) | Compression::Deflate(_)) {
        return None;
    }
    let is_in_world = dir.join("../level.dat").is_file() && dir.join("../levelname.txt").is_file();
    is_in_world.then(|| {
        format!(
            "this is a world of Minecraft, which cannot read the new tables, compressed with \
             {new}; give --compression deflate"
        )
    })
}

/// Returns an error if the parent of the directory to create does not exist, because that is
/// usually a typing error.
fn check_parent(dir: &Path) -> Result<()> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent {
        Some(parent) if !parent.is_dir() && !dir.exists() => Err(CliError::Io {
            op: "create",
            name: dir.display().to_string(),
            source: std::io::Error::new(
                std::io::ErrorKind::NotFound,
                format!("there is no directory {} to create it in", parent.display()),
            ),
        }),
        _ => Ok(()),
    }
}

/// Returns the state of the database at this moment. Takes no lock and changes no file.
fn open_for_reads(global: &Global) -> Result<Snapshot> {
    match &global.shared {
        Some(shared) => shared.snapshot(|| open_read_only(global)),
        None => Ok(open_read_only(global)?.snapshot()),
    }
}

/// Opens the database for reading, without taking its lock and without changing any file.
fn open_read_only(global: &Global) -> Result<ReadOnlyDb> {
    let dir = global.db()?;
    let options = global.options(&dir)?;
    let db = Db::open_read_only(&dir, options)?;
    report_lost_logs(db.recovery());
    if let Some(writer) = Writer::of(&dir) {
        writer.say(&dir);
    }
    Ok(db)
}

/// Reports on stderr which logs were not replayed completely.
fn report_lost_logs(recovery: &Recovery) {
    for lost in &recovery.lost {
        let log = lost.path.display().to_string();
        let why = if lost.why.starts_with(&log) {
            lost.why.clone()
        } else {
            format!("{log} at offset {}: {}", lost.offset, lost.why)
        };
        output::say(format!("minikv: {why}; from there on, {} bytes are left out", lost.bytes));
    }
}
