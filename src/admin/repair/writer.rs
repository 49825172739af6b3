//! Writes the files that a repair creates, and moves files that leave the database to `lost/`.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::admin::repair::report::Quarantined;
use crate::base::{Error, Result};
use crate::engine::checkpoint::link_or_copy;
use crate::engine::open::directory::make_lost;
use crate::engine::options::Options;
use crate::engine::table_writer::{TableRun, Target};
use crate::engine::version::numbers::FileNumbers;
use crate::format::edit::NewFile;
use crate::format::key::InternalComparator;
use crate::format::name::{self, FileName};
use crate::fs::{Fs, sync_dir};

/// Creates new files in a database's directory.
pub(super) struct RepairWriter<'a> {
    /// The filesystem.
    pub fs: Arc<dyn Fs>,
    /// The database's directory.
    pub dir: &'a Path,
    /// The options for new tables.
    pub options: &'a Options,
    /// The order of internal keys.
    pub order: InternalComparator,
    /// The source of unused file numbers.
    pub numbers: FileNumbers,
}

impl RepairWriter<'_> {
    /// Returns the settings for writing new tables.
    pub(super) fn target(&self) -> Target<'_> {
        Target::new(&*self.fs, self.dir, self.options, &self.order)
    }

    /// Returns the settings for tables that do not have their names yet.
    fn unfinished(&self) -> Target<'_> {
        Target { name: name::temp_name, ..self.target() }
    }

    /// Writes the entries added by `fill` to a new table. If `fill` adds no entries, returns `None`
    /// and writes no file.
    pub(super) fn table(
        &self,
        level: usize,
        fill: impl FnOnce(&mut Tables<'_, '_>) -> Result<()>,
    ) -> Result<Option<NewFile>> {
        Ok(self.tables(level, u64::MAX, fill)?.pop())
    }

    /// Writes the entries added by `fill` to tables of about `max_bytes` bytes each. Returns the
    /// MANIFEST entries of these tables.
    ///
    /// A table gets its name when it is durable. The next repair would otherwise take one that a
    /// crash left unfinished for the damaged successor of its inputs.
    pub(super) fn tables(
        &self,
        level: usize,
        max_bytes: u64,
        fill: impl FnOnce(&mut Tables<'_, '_>) -> Result<()>,
    ) -> Result<Vec<NewFile>> {
        let mut tables = Tables { writer: self, run: TableRun::new(level, max_bytes) };
        fill(&mut tables)?;
        tables.run.end()?;
        let mut files = Vec::new();
        for (file, _) in tables.run.done {
            let from = self.unfinished().path(file.number);
            let renamed = self.fs.rename(&from, &self.target().path(file.number));
            renamed.map_err(|error| Error::io("rename", from, error))?;
            files.push(file);
        }
        Ok(files)
    }

    /// Gives a table an additional name, which contains a new number. Returns the MANIFEST entry
    /// for this name.
    pub(super) fn renumber(&self, path: &Path, file: &NewFile) -> Result<NewFile> {
        let number = self.numbers.take();
        link_or_copy(&*self.fs, path, &self.dir.join(name::table_name(number)))?;
        Ok(NewFile { number, ..file.clone() })
    }

    /// Links or copies files into `lost/`, durably, without removing the originals. Returns the
    /// original path, the new path and the reason for each file.
    pub(super) fn keep_aside(&self, files: &[(PathBuf, String)]) -> Result<Vec<Quarantined>> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let aside = make_lost(&*self.fs, self.dir)?;
        let mut taken = BTreeSet::new();
        let mut quarantined = Vec::new();
        for (path, why) in files {
            let Some(file) = path.file_name().and_then(|file| file.to_str()) else { continue };
            let mut kept = aside.join(file);
            let is_there = self.fs.exists(&kept);
            if is_there.map_err(|error| Error::io("look for", &kept, error))? {
                // Either an interrupted repair already put this file there, or an earlier repair
                // put a different file of the same name there.
                if self.are_alike(path, &kept)? || file == name::CURRENT {
                    quarantined.push(Quarantined { path: path.clone(), kept, why: why.clone() });
                    continue;
                }
                kept = aside.join(self.other_name(file));
            }
            if taken.insert(kept.clone()) {
                link_or_copy(&*self.fs, path, &kept)?;
            }
            quarantined.push(Quarantined { path: path.clone(), kept, why: why.clone() });
        }
        sync_dir(&*self.fs, &aside)?;
        sync_dir(&*self.fs, self.dir)?;
        Ok(quarantined)
    }

    /// Returns the file name `file`, with its number replaced by an unused number.
    fn other_name(&self, file: &str) -> String {
        let number = self.numbers.take();
        let renamed = match FileName::parse(file) {
            Some(FileName::Table { legacy_sst, .. }) => FileName::Table { number, legacy_sst },
            Some(FileName::Manifest(_)) => FileName::Manifest(number),
            _ => FileName::Log(number),
        };
        renamed.to_string()
    }

    fn are_alike(&self, one: &Path, other: &Path) -> Result<bool> {
        const CHUNK_BYTES: usize = 64 << 10;
        let open = |path: &Path| self.fs.open(path).map_err(|error| Error::io("open", path, error));
        let (a, b) = (open(one)?, open(other)?);
        let failed = |error| Error::io("read", one, error);
        let len = a.len().map_err(failed)?;
        if b.len().map_err(failed)? != len {
            return Ok(false);
        }
        let (mut left, mut right) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        let mut at = 0;
        while at < len {
            let read = a.read_at(&mut left, at).map_err(failed)?;
            if read == 0
                || b.read_at(&mut right, at).map_err(failed)? != read
                || left[..read] != right[..read]
            {
                return Ok(false);
            }
            at += read as u64;
        }
        Ok(true)
    }

    /// Removes the original names of files that are durable under another name.
    pub(super) fn remove(&self, files: impl Iterator<Item = PathBuf>) -> Result<()> {
        for path in files {
            match self.fs.remove(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::io("remove", path, error));
                }
                _ => {}
            }
        }
        sync_dir(&*self.fs, self.dir)
    }
}

/// Tables being written one after another.
pub(super) struct Tables<'w, 'a> {
    writer: &'w RepairWriter<'a>,
    run: TableRun,
}

impl Tables<'_, '_> {
    /// Adds an entry, as [`TableRun::add`] does.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.run.add(&self.writer.unfinished(), || self.writer.numbers.take(), key, value)
    }
}
