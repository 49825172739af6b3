//! Bulk loading for `load --sorted` and `load --sort`. The commands write entries to tables, and
//! the database then ingests these tables.

use std::fs;
use std::path::{Path, PathBuf};

use minikv::bulk::{SortedTable, TableWriter};
use minikv::{Error, Options};

use super::count;
use crate::args::Global;
use crate::entry_reader::EntryReader;
use crate::error::{CliError, Result};
use crate::interrupt;
use crate::keyspace::{Name, Target};
use crate::output::{self, Progress};
use crate::runs::{Entry, Merging, Run, merge, merge_to_few};

/// Name of the folder for temporary files in the database's directory.
const FOLDER: &str = "minikv-load";

/// Total size of the entries that are sorted in memory at once, in bytes. A larger size takes more
/// memory and leaves fewer files to merge.
const CHUNK_BYTES: usize = 256 << 20;

/// Maximum number of files that are merged at once. A higher number takes more memory and open
/// files, but fewer passes over the entries.
const MAX_MERGED_RUNS: usize = 64;

/// Memory used by an entry in addition to its key and value, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 80;

/// Loads the entries of all lines, or none of them if an error occurs. If `sort` is true, the lines
/// may be in any order.
pub fn run(global: &Global, name: &Name, mut entries: EntryReader, sort: bool) -> Result<()> {
    if sort {
        global.needs_byte_order("--sort")?;
    }
    let db = super::open(global, true)?;
    let target = name.of_writer(&db)?;
    let options = global.options(db.path())?.compression(db.compression().new);
    let folder = Folder::create(db.path())?;
    let path = folder.0.clone();
    let guard = interrupt::on_interrupt(move || {
        let _ = fs::remove_dir_all(&path);
        output::say("minikv: interrupted; nothing was loaded");
    });
    let mut source = BulkSource { entries: &mut entries, target };
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

/// The folder for temporary files. Dropping the value removes the folder. The database's lock keeps
/// other processes from using the folder.
struct Folder(PathBuf);

impl Folder {
    fn create(db: &Path) -> Result<Folder> {
        let dir = db.join(FOLDER);
        // Removes the folder that a killed load has left. A symbolic link is not followed.
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

struct BulkSource<'a> {
    entries: &'a mut EntryReader,
    target: Target,
}

impl BulkSource<'_> {
    /// Writes the entries, which must be in ascending order, to tables.
    fn write_tables(&mut self, folder: &Path, options: &Options) -> Result<Vec<SortedTable>> {
        let progress = Progress::bytes("loading", self.entries.total_bytes());
        let mut writer = TableWriter::create(folder.join("tables"), options)?;
        while let Some((key, value)) = self.entries.next()? {
            match self.target.put_in_table(&mut writer, &key, &value) {
                Err(Error::InvalidArgument { what }) => {
                    return Err(self.entries.refuse(format!("{what}; --sort accepts any order")));
                }
                added => added?,
            }
            progress.set(self.entries.bytes_read());
        }
        Ok(writer.finish()?)
    }

    /// Sorts the entries and writes them to tables. If several entries have the same key, only the
    /// last of these entries is kept.
    fn sort(
        &mut self,
        folder: &Path,
        options: &Options,
        chunk_bytes: usize,
    ) -> Result<Vec<SortedTable>> {
        let progress = Progress::bytes("sorting", self.entries.total_bytes());
        let mut runs = Vec::new();
        loop {
            let chunk = self.next_chunk(chunk_bytes, &progress)?;
            if chunk.is_empty() {
                break;
            }
            let path = folder.join(format!("run0-{}", runs.len()));
            runs.push(Run::write(path, &chunk)?);
        }
        drop(progress);
        let runs = merge_to_few(runs, folder, MAX_MERGED_RUNS)?;
        let mut writer = TableWriter::create(folder.join("tables"), options)?;
        let progress = Merging::of(&runs);
        merge(runs, &progress, |key, value| {
            Ok(self.target.put_in_table(&mut writer, key, value)?)
        })?;
        Ok(writer.finish()?)
    }

    /// Reads entries until their total size is about `chunk_bytes` bytes. Returns them sorted, with
    /// one entry per key.
    fn next_chunk(&mut self, chunk_bytes: usize, progress: &Progress) -> Result<Vec<Entry>> {
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        while bytes < chunk_bytes
            && let Some((key, value)) = self.entries.next()?
        {
            bytes += key.len() + value.len() + ENTRY_OVERHEAD_BYTES;
            chunk.push((key, value));
            progress.set(self.entries.bytes_read());
        }
        chunk.reverse();
        chunk.sort_by(|a, b| a.0.cmp(&b.0));
        // The sort is stable, so the last of several entries with the same key is now the first of
        // them.
        chunk.dedup_by(|next, first| next.0 == first.0);
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use minikv::Db;

    use super::*;
    use crate::codec::Format;

    #[test]
    fn entries_are_sorted_in_chunks() {
        let home = tempfile::tempdir().unwrap();
        // Each key occurs twice, and the two occurrences are in distant chunks.
        let line = |i: u32| format!("k{:05}\t{i}\n", i * 7919 % 5000);
        let text: String = (0..10_000).map(line).collect();
        let mut entries = EntryReader::of(text.leak().as_bytes(), Format::Escaped);
        let options = Options::default().create_if_missing(true);
        let db = Db::open(home.path().join("db"), options.clone()).unwrap();
        let target = Target::All(db.clone());
        let mut source = BulkSource { entries: &mut entries, target };
        let tables = source.sort(home.path(), &options, 8000).unwrap();
        let runs = fs::read_dir(home.path()).unwrap().count();
        assert!((3..=MAX_MERGED_RUNS + 2).contains(&runs), "{runs} files");
        db.ingest(&tables).unwrap();
        assert_eq!(db.iter().count(), 5000);
        for (entry, i) in db.iter().zip(0u32..) {
            let (key, value) = entry.unwrap();
            assert_eq!(key, format!("k{i:05}"));
            let value: u32 = std::str::from_utf8(&value).unwrap().parse().unwrap();
            assert!(value >= 5000 && value * 7919 % 5000 == i, "{value} of {i}");
        }
    }
}
