//! Loading by tables that are written outside of the database, for `load --sorted` and
//! `load --sort`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use minikv::{Error, Options, SortedTable, TableWriter};

use super::count;
use crate::args::Global;
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::input::Lines;
use crate::interrupt;
use crate::keyspace::{Name, Target};
use crate::output::{self, Progress};

/// Name of the folder, in the database's directory, of the files that are written on the way.
const FOLDER: &str = "minikv-load";

/// Size of the entries that are sorted in memory at a time, in bytes. More of them take more memory
/// and make fewer files to merge.
const CHUNK_BYTES: usize = 256 << 20;

/// Bytes of memory that an entry takes beside its key and value.
const ENTRY_OVERHEAD_BYTES: usize = 80;

type Entry = (Vec<u8>, Vec<u8>);

/// Loads all lines at once, or none: `sort` says whether they come in any order.
pub fn run(global: &Global, name: &Name, mut lines: Lines, sort: bool) -> Result<()> {
    if sort {
        global.needs_byte_order("--sort")?;
    }
    let db = super::open(global, true)?;
    let target = name.of_writer(&db)?;
    let options = global.options(db.path())?;
    let folder = Folder::create(db.path())?;
    let path = folder.0.clone();
    let guard = interrupt::on_interrupt(move || {
        let _ = fs::remove_dir_all(&path);
        output::say("minikv: interrupted; nothing was loaded");
    });
    let mut source = Source { lines: &mut lines, format: global.format(), target };
    let written = match sort {
        true => source.sort(&folder.0, &options, CHUNK_BYTES),
        false => source.write_tables(&folder.0, &options),
    };
    let tables = written.map_err(|error| error.after("nothing was loaded".to_owned()))?;
    drop(guard);
    let ingested = db.ingest(&tables)?;
    drop(folder);
    db.close()?;
    let tables = count(ingested.tables, "table", "tables");
    output::say(format!("loaded {} in {tables}", count(ingested.entries, "entry", "entries")));
    Ok(())
}

/// The folder for files that are written on the way; removed when dropped. The database's lock
/// keeps others from using it.
struct Folder(PathBuf);

impl Folder {
    fn create(db: &Path) -> Result<Folder> {
        let dir = db.join(FOLDER);
        // What a load that was killed left. A link is not followed.
        if fs::symlink_metadata(&dir).is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(&dir).map_err(|error| CliError::io("remove", &dir, error))?;
        }
        fs::create_dir(&dir).map_err(|error| CliError::io("create", &dir, error))?;
        Ok(Folder(dir))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Source<'a> {
    lines: &'a mut Lines,
    format: Format,
    target: Target,
}

impl Source<'_> {
    /// Returns the next entry, or `None` at the end.
    fn next(&mut self) -> Result<Option<Entry>> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        match self.format.decode_entry(line) {
            Ok(entry) => Ok(Some(entry)),
            Err(what) => Err(self.refuse(what)),
        }
    }

    fn refuse(&self, what: impl std::fmt::Display) -> CliError {
        CliError::Usage(format!("{}: {what}", self.lines.place()))
    }

    /// Writes entries that come in ascending order.
    fn write_tables(&mut self, folder: &Path, options: &Options) -> Result<Vec<SortedTable>> {
        let progress = Progress::bytes("loading", self.lines.total_bytes());
        let mut writer = TableWriter::create(folder.join("tables"), options)?;
        while let Some((key, value)) = self.next()? {
            match self.target.put_in_table(&mut writer, &key, &value) {
                Err(Error::InvalidArgument { what }) => {
                    return Err(self.refuse(format!("{what} (--sort sorts)")));
                }
                added => added?,
            }
            progress.set(self.lines.bytes_read());
        }
        Ok(writer.finish()?)
    }

    /// Writes entries that come in any order. Of entries with the same key the last one counts.
    fn sort(
        &mut self,
        folder: &Path,
        options: &Options,
        chunk_bytes: usize,
    ) -> Result<Vec<SortedTable>> {
        let progress = Progress::bytes("sorting", self.lines.total_bytes());
        let mut runs = Vec::new();
        loop {
            let chunk = self.next_chunk(chunk_bytes, &progress)?;
            if chunk.is_empty() {
                break;
            }
            let path = folder.join(format!("run{}", runs.len()));
            runs.push(Run::write(path, &chunk)?);
        }
        drop(progress);
        let mut writer = TableWriter::create(folder.join("tables"), options)?;
        merge(runs, |key, value| Ok(self.target.put_in_table(&mut writer, key, value)?))?;
        Ok(writer.finish()?)
    }

    /// Returns the next entries of about `chunk_bytes`, sorted, one of each key.
    fn next_chunk(&mut self, chunk_bytes: usize, progress: &Progress) -> Result<Vec<Entry>> {
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        while bytes < chunk_bytes
            && let Some((key, value)) = self.next()?
        {
            bytes += key.len() + value.len() + ENTRY_OVERHEAD_BYTES;
            chunk.push((key, value));
            progress.set(self.lines.bytes_read());
        }
        chunk.reverse();
        chunk.sort_by(|a, b| a.0.cmp(&b.0));
        // The sort is stable, so the last of several entries of a key is the first now.
        chunk.dedup_by(|next, first| next.0 == first.0);
        Ok(chunk)
    }
}

/// Sorted entries in a file: key length, value length (8 bytes each, little-endian), key, value.
struct Run {
    path: PathBuf,
    file: BufReader<File>,
}

impl Run {
    fn write(path: PathBuf, entries: &[Entry]) -> Result<Run> {
        let failed = |error| CliError::io("write", &path, error);
        let mut file = BufWriter::new(File::create_new(&path).map_err(failed)?);
        for (key, value) in entries {
            let lens = [key, value].map(|bytes| (bytes.len() as u64).to_le_bytes());
            let parts = [&lens[0][..], &lens[1], key, value];
            parts.iter().try_for_each(|part| file.write_all(part)).map_err(failed)?;
        }
        file.flush().map_err(failed)?;
        let file = File::open(&path).map_err(|error| CliError::io("open", &path, error))?;
        Ok(Run { file: BufReader::with_capacity(1 << 20, file), path })
    }

    fn next(&mut self) -> Result<Option<Entry>> {
        let mut lens = [0; 16];
        match self.file.read_exact(&mut lens) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read.map_err(|error| CliError::io("read", &self.path, error))?,
        }
        let (key, value) = lens.split_at(8);
        let mut bytes = |len: &[u8]| {
            let len = u64::from_le_bytes(len.try_into().expect("eight bytes"));
            let mut bytes = vec![0; len as usize];
            let read = self.file.read_exact(&mut bytes);
            read.map(|()| bytes).map_err(|error| CliError::io("read", &self.path, error))
        };
        Ok(Some((bytes(key)?, bytes(value)?)))
    }
}

/// Calls `each` with the entries of all runs in ascending order. Of several entries of a key, the
/// one of the last run counts.
fn merge(mut runs: Vec<Run>, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    let mut heads = BinaryHeap::new();
    for (at, run) in runs.iter_mut().enumerate() {
        heads.extend(run.next()?.map(|(key, value)| Reverse((key, Reverse(at), value))));
    }
    let mut last_key = None;
    while let Some(Reverse((key, Reverse(at), value))) = heads.pop() {
        if last_key.as_ref() != Some(&key) {
            each(&key, &value)?;
            last_key = Some(key);
        }
        heads.extend(runs[at].next()?.map(|(key, value)| Reverse((key, Reverse(at), value))));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_merged_and_the_last_one_counts() {
        let home = tempfile::tempdir().unwrap();
        let entries = |keys: &str, value: &str| -> Vec<Entry> {
            keys.bytes().map(|key| (vec![key], value.as_bytes().to_vec())).collect()
        };
        let runs = [entries("ace", "0"), entries("abe", "1"), entries("", ""), entries("e", "3")];
        let run = |(at, run): (usize, &Vec<Entry>)| {
            Run::write(home.path().join(at.to_string()), run).unwrap()
        };
        let runs: Vec<_> = runs.iter().enumerate().map(run).collect();
        let mut merged = String::new();
        merge(runs, |key, value| {
            merged += &format!("{}{} ", key.escape_ascii(), value.escape_ascii());
            Ok(())
        })
        .unwrap();
        assert_eq!(merged, "a1 b1 c0 e3 ");
    }
}
