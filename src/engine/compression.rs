//! The compression of a database's tables: what the existing tables have, and what new tables get.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::base::{Error, Result};
use crate::engine::options::Options;
use crate::format::compress::{Compression, Method};
use crate::format::handle::BlockHandle;
use crate::format::name;
use crate::fs::Fs;
use crate::table::compression::{compression_of, compression_of_blocks};

/// Number of tables that are examined to find a compressed one. A higher number makes it slower to
/// open a database without compression.
const MAX_TABLES: usize = 8;

/// The compression of a database's new tables, and of the tables that it had when it was opened.
/// [`Db::compression`](crate::Db::compression) returns it.
///
/// A table is readable to programs that know its compression:
///
/// | compression | who reads it |
/// | --- | --- |
/// | none | everyone |
/// | snappy | LevelDB, goleveldb and Chromium, but not Minecraft, and not Bitcoin Core |
/// | zstd | LevelDB after 1.23 |
/// | zlib, deflate | Minecraft |
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableCompression {
    /// The compression of new tables.
    pub new: Compression,
    /// Names of the compressions of the newest and of the oldest compressed table: `snappy`,
    /// `zstd`, `zlib` or `deflate`. One name if both are the same; `none` if the tables are not
    /// compressed, although they could be. Empty if the tables are too small to show a compression,
    /// or if there are none.
    pub found: Vec<&'static str>,
}

impl TableCompression {
    /// Decides on the compression of new tables: the one that the options name, or else the one of
    /// the newest compressed table, or else none if the tables are not compressed or cannot be
    /// opened, or else snappy. `tables` are the numbers of all tables, each with the undamaged data
    /// blocks if the table was found to be damaged.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the options name no compression, and that of the tables is not
    /// included in this build; a read error that prevents the decision. Damaged tables, and tables
    /// that cannot be opened, are left out.
    pub(crate) fn decide<'a>(
        fs: &dyn Fs,
        dir: &Path,
        options: &Options,
        tables: impl Iterator<Item = (u64, &'a [BlockHandle])>,
    ) -> Result<TableCompression> {
        let mut tables: Vec<_> = tables.collect();
        tables.sort_unstable_by_key(|(number, _)| Reverse(*number));
        let newest = tables.iter().take(MAX_TABLES).copied();
        let oldest = tables.iter().rev().take(MAX_TABLES).copied();
        let found = first_compressed(fs, dir, newest).and_then(|newest| {
            let more = newest.found.is_some() && tables.len() > 1;
            let oldest = more.then(|| first_compressed(fs, dir, oldest)).transpose()?;
            Ok((newest, oldest.unwrap_or_default()))
        });
        let (newest, oldest) = match (found, options.compression) {
            // The choice does not depend on the tables, which may be readable later.
            (Err(_), Some(_)) => Default::default(),
            (found, _) => found?,
        };
        let new = match (options.compression, &newest.found) {
            (Some(compression), _) => compression,
            // Every program reads tables that are not compressed.
            (None, None) if newest.has_unopened => Compression::None,
            (None, None) => Compression::default(),
            (None, Some((method, path))) => {
                method.compression().map_err(|error| error.in_file(path))?
            }
        };
        let found = [newest.found, oldest.found].into_iter().flatten();
        let mut methods: Vec<Method> = found.map(|(method, _)| method).collect();
        methods.dedup();
        let found = methods.iter().map(|method| method.name()).collect();
        Ok(TableCompression { new, found })
    }

    /// Returns a sentence for the user if a program that reads the tables that were found cannot
    /// read the new ones, or if no other program can read all tables.
    pub fn warning(&self) -> Option<String> {
        let new = self.new.method();
        let tables = self.found.join(" and ");
        let methods: Vec<Method> =
            self.found.iter().filter_map(|name| Method::named(name)).collect();
        let old = methods.first().copied();
        if let Some(who) = excluded(new, old.unwrap_or(Method::Snappy)) {
            let new = new.name();
            let text = match old {
                None => format!("new tables are compressed with {new}"),
                Some(_) => {
                    format!("the tables so far are compressed with {tables}, new ones with {new}")
                }
            };
            return Some(format!("{text}, which {who} cannot read"));
        }
        let is_mixed = methods.iter().any(|method| is_leveldb(*method))
            && methods.iter().any(|method| is_minecraft(*method));
        is_mixed.then(|| {
            format!(
                "some tables are compressed with {}, others with {}, and hardly any program reads \
                 both; new ones get {}, and a compaction of everything leaves only those",
                self.found[0],
                self.found[1],
                new.name()
            )
        })
    }
}

/// The compression of an open database's tables, which is found out when someone asks for it: if
/// the options name a compression, an open need not read any table.
#[derive(Debug)]
pub(crate) struct Compressions {
    /// The compression of new tables.
    pub new: Compression,
    /// Numbers of the tables at open that are examined.
    tables: Vec<u64>,
    found: OnceLock<TableCompression>,
}

impl Compressions {
    /// Decides on the compression of new tables as [`TableCompression::decide`] does. `tables` are
    /// the numbers of all tables.
    ///
    /// # Errors
    /// As [`TableCompression::decide`].
    pub(crate) fn at_open(
        fs: &dyn Fs,
        dir: &Path,
        options: &Options,
        mut tables: Vec<u64>,
    ) -> Result<Compressions> {
        if let Some(new) = options.compression {
            tables.sort_unstable();
            let middle = MAX_TABLES.min(tables.len())..tables.len().saturating_sub(MAX_TABLES);
            if !middle.is_empty() {
                tables.drain(middle);
            }
            return Ok(Compressions { new, tables, found: OnceLock::new() });
        }
        let tables = tables.iter().map(|number| (*number, &[][..]));
        let found = TableCompression::decide(fs, dir, options, tables)?;
        Ok(Compressions { new: found.new, tables: Vec::new(), found: OnceLock::from(found) })
    }

    /// Returns the compression of new tables and of the tables at open, except those that cannot be
    /// read any more.
    pub(crate) fn get(&self, fs: &dyn Fs, dir: &Path, options: &Options) -> &TableCompression {
        self.found.get_or_init(|| {
            let tables = self.tables.iter().map(|number| (*number, &[][..]));
            let found = TableCompression::decide(fs, dir, options, tables);
            found.unwrap_or(TableCompression { new: self.new, found: Vec::new() })
        })
    }
}

/// The result of an examination of some tables.
#[derive(Default)]
struct Examined {
    /// The method and the path of the first table that is compressed. If there is none, the first
    /// table that shows that it is not.
    found: Option<(Method, PathBuf)>,
    /// Whether a table could not be opened.
    has_unopened: bool,
}

/// Examines the tables until one is compressed.
fn first_compressed<'a>(
    fs: &dyn Fs,
    dir: &Path,
    tables: impl Iterator<Item = (u64, &'a [BlockHandle])>,
) -> Result<Examined> {
    let (mut failed, mut plain, mut has_unopened) = (None, None, false);
    for (number, blocks) in tables {
        let mut path = dir.join(name::table_name(number));
        let file = fs.open(&path).or_else(|error| {
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            path = dir.join(name::legacy_table_name(number));
            fs.open(&path)
        });
        let Ok(file) = file else {
            has_unopened = true;
            continue;
        };
        let method = match compression_of(&*file, &path) {
            Err(Error::Corruption(_)) => compression_of_blocks(&*file, &path, blocks),
            method => method,
        };
        match method {
            Ok(Some(Method::None)) => plain = plain.or(Some((Method::None, path))),
            Ok(Some(method)) => return Ok(Examined { found: Some((method, path)), has_unopened }),
            Ok(None) | Err(Error::Corruption(_)) => {}
            Err(error @ Error::Unsupported { .. }) => return Err(error),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    // Without this error, a disk that fails to read for a moment would change the compression.
    failed.map_or(Ok(Examined { found: plain, has_unopened }), Err)
}

fn is_leveldb(method: Method) -> bool {
    matches!(method, Method::Snappy | Method::Zstd)
}

fn is_minecraft(method: Method) -> bool {
    matches!(method, Method::Zlib | Method::Deflate)
}

/// Returns the programs that read tables of the method `old`, but not of the method `new`.
fn excluded(new: Method, old: Method) -> Option<&'static str> {
    match (new, old) {
        (new, old) if new == old || new == Method::None => None,
        (new, old) if is_minecraft(new) && is_minecraft(old) => None,
        (_, old) if is_minecraft(old) => Some("Minecraft"),
        (Method::Snappy, Method::None) => {
            Some("a program whose LevelDB is built without snappy, such as Bitcoin Core,")
        }
        (Method::Snappy, _) => None,
        (Method::Zstd, _) => Some("LevelDB 1.23 and older, and goleveldb,"),
        _ => Some("LevelDB and goleveldb"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::Db;
    use crate::bulk::{SortedTable, TableWriter};
    use crate::fs::MemFs;
    use crate::fs::sim::{Fault, OpKind, SimFs};

    fn on(fs: &MemFs) -> Options {
        Options::default().create_if_missing(true).fs(fs.clone())
    }

    /// Writes a table of entries that begin with `prefix`, with these options.
    fn write_table(options: Options, prefix: &str) {
        let db = Db::open("/db", options).unwrap();
        put_entries(&db, prefix);
        db.flush().unwrap();
        db.close().unwrap();
    }

    fn put_entries(db: &Db, prefix: &str) {
        (0..500).for_each(|i| db.put(format!("{prefix}{i:05}"), "text text text").unwrap());
    }

    /// Returns the methods of all tables in the directory, oldest first.
    fn methods(fs: &MemFs) -> Vec<Method> {
        let mut tables: Vec<_> = fs.list(Path::new("/db")).unwrap();
        tables.retain(|name| name.ends_with(".ldb"));
        tables.sort();
        let method = |name| {
            let path = Path::new("/db").join(name);
            compression_of(&*fs.open(&path).unwrap(), &path).unwrap().unwrap()
        };
        tables.into_iter().map(method).collect()
    }

    /// Returns the path and the contents of the newest table.
    fn last_table(fs: &MemFs) -> (PathBuf, Vec<u8>) {
        let mut tables: Vec<_> = fs.list(Path::new("/db")).unwrap();
        tables.retain(|name| name.ends_with(".ldb"));
        let path = Path::new("/db").join(tables.iter().max().unwrap());
        let file = fs.open(&path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        (path, bytes)
    }

    /// Returns every compression of this build, with its method.
    fn every() -> Vec<(Compression, Method)> {
        let all = ["none", "snappy", "zstd", "zlib", "deflate"].into_iter();
        let all: Vec<_> = all.filter_map(|name| name.parse::<Compression>().ok()).collect();
        all.into_iter().map(|compression| (compression, compression.method())).collect()
    }

    #[test]
    fn new_databases_get_snappy() {
        let fs = MemFs::new();
        let db = Db::open("/db", on(&fs)).unwrap();
        assert_eq!((db.compression().new, db.compression().found.len()), (Compression::Snappy, 0));
        assert_eq!(db.compression().warning(), None);
        drop(db);
        write_table(on(&fs), "a");
        assert_eq!(methods(&fs), [Method::Snappy]);
    }

    #[test]
    fn flushes_compactions_and_repairs_keep_the_compression_of_the_tables() {
        for (compression, method) in every() {
            let fs = MemFs::new();
            write_table(on(&fs).compression(compression), "a");
            write_table(on(&fs), "b");
            assert_eq!(methods(&fs), [method, method], "a flush");

            let db = Db::open("/db", on(&fs)).unwrap();
            assert_eq!(db.compression().found, [method.name()]);
            assert_eq!(db.compression().warning(), None);
            db.delete("a00000").unwrap();
            db.compact_range(..).unwrap();
            db.close().unwrap();
            assert_eq!(methods(&fs), [method], "a compaction");

            // The repair writes the undamaged blocks to a new table.
            let (table, bytes) = last_table(&fs);
            let mut file = fs.create(&table).unwrap();
            file.write(&bytes[..100]).unwrap();
            file.write(&[!bytes[100]]).unwrap();
            file.write(&bytes[101..]).unwrap();
            drop(file);
            let report = crate::repair("/db", &on(&fs), Default::default()).unwrap();
            assert!(!report.new_tables.is_empty(), "{report:?}");
            assert_eq!(methods(&fs), [method], "a repair");
        }
    }

    #[test]
    fn a_repair_of_tables_without_an_index_keeps_the_compression_of_their_blocks() {
        for (compression, method) in every() {
            let fs = MemFs::new();
            write_table(on(&fs).compression(compression), "a");
            let (table, bytes) = last_table(&fs);
            fs.create(&table).unwrap().write(&bytes[..bytes.len() - 60]).unwrap();
            let report = crate::repair("/db", &on(&fs), Default::default()).unwrap();
            assert!(!report.new_tables.is_empty(), "{report:?}");
            assert_eq!(methods(&fs), [method]);
        }
    }

    #[test]
    fn tables_of_another_compression_are_rewritten_by_an_ingest() {
        for (compression, method) in every() {
            let fs = MemFs::new();
            write_table(on(&fs).compression(compression), "a");
            let ingest = |dir: &str, options: &Options, open: bool| {
                let mut writer = TableWriter::create(dir, options).unwrap();
                (0..500).for_each(|i| writer.put(format!("b{i:05}"), "text text text").unwrap());
                let mut tables = writer.finish().unwrap();
                if open {
                    tables = vec![SortedTable::open(tables[0].path(), options).unwrap()];
                }
                let db = Db::open("/db", on(&fs)).unwrap();
                let rewritten = db.ingest(&tables).unwrap().rewritten_tables;
                db.close().unwrap();
                (rewritten, methods(&fs).pop().unwrap())
            };
            let is_snappy = method == Method::Snappy;
            assert_eq!(ingest("/one", &on(&fs), false), (u64::from(!is_snappy), method));
            assert_eq!(ingest("/two", &on(&fs), true), (u64::from(!is_snappy), method));
            let same = on(&fs).compression(compression);
            assert_eq!(ingest("/three", &same, false), (0, method));
            let chosen = on(&fs).compression(Compression::Snappy);
            assert_eq!(ingest("/four", &chosen, false), (0, Method::Snappy));
        }
    }

    #[test]
    fn the_newest_compressed_table_decides_in_a_mixture() {
        for (first, _) in every() {
            for (second, method) in every() {
                let fs = MemFs::new();
                write_table(on(&fs).compression(first), "a");
                write_table(on(&fs).compression(second), "b");
                write_table(on(&fs), "c");
                let kept = if method == Method::None { first.method() } else { method };
                assert_eq!(methods(&fs)[1..], [method, kept], "{first} and {second}");
            }
        }
    }

    /// Makes a database of three tables, one of which is compressed, and returns its filesystem.
    fn of_three_tables(compressed: Compression) -> (SimFs, Options) {
        let fs = SimFs::new(1);
        let options = Options::default().create_if_missing(true).fs(fs.clone());
        write_table(options.clone().compression(Compression::None), "a");
        write_table(options.clone().compression(compressed), "b");
        write_table(options.clone().compression(Compression::None), "c");
        (fs, options)
    }

    #[test]
    fn an_open_that_names_a_compression_reads_no_table_for_it() {
        let (fs, options) = of_three_tables(Compression::Snappy);
        let opened = Arc::new(AtomicUsize::new(0));
        let count = opened.clone();
        fs.set_hook(move |op| {
            let is_table = op.path.extension().is_some_and(|ending| ending == "ldb");
            count.fetch_add(usize::from(op.kind == OpKind::Open && is_table), Relaxed);
        });
        let db = Db::open("/db", options.compression(Compression::None)).unwrap();
        assert_eq!(opened.load(Relaxed), 0);
        let compression = db.compression();
        assert_eq!((compression.new, &compression.found[..]), (Compression::None, &["snappy"][..]));
        assert!(opened.load(Relaxed) > 0);
    }

    #[test]
    fn a_table_that_cannot_be_opened_does_not_fail_the_open() {
        const EACCES: i32 = 13;
        let (fs, options) = of_three_tables(Compression::Snappy);
        let mut tables = fs.list(Path::new("/db")).unwrap();
        tables.retain(|name| name.ends_with(".ldb"));
        tables.sort();
        let open_without = |closed: &[&str]| {
            fs.clear_faults();
            for name in closed {
                fs.inject(
                    Fault::os_error(EACCES).on(&[OpKind::Open]).path(&format!("*{name}")).sticky(),
                );
            }
            let db = Db::open("/db", options.clone()).unwrap();
            (db.compression().new, db.compression().found.clone())
        };
        let [first, second, third] = &tables[..] else { panic!("{tables:?}") };
        assert_eq!(open_without(&[third]), (Compression::Snappy, vec!["snappy"]));
        // Only the compressed table cannot be opened.
        assert_eq!(open_without(&[second]), (Compression::None, vec!["none"]));
        // Every program reads what is not compressed.
        assert_eq!(open_without(&[first, second, third]), (Compression::None, vec![]));
        assert_eq!(open_without(&[]), (Compression::Snappy, vec!["snappy"]));
    }

    #[test]
    fn the_warning_names_the_programs_that_cannot_read_new_tables() {
        let warning = |new: Method, found: &[Method]| {
            let new = new.compression().unwrap_or(Compression::Snappy);
            let found = found.iter().map(|method| method.name()).collect();
            TableCompression { new, found }.warning()
        };
        assert_eq!(warning(Method::Snappy, &[]), None);
        assert_eq!(warning(Method::None, &[Method::Deflate]), None);
        assert_eq!(warning(Method::Snappy, &[Method::Zstd, Method::Snappy]), None);
        assert_eq!(warning(Method::Snappy, &[Method::Snappy, Method::None]), None);
        assert_eq!(
            warning(Method::Snappy, &[Method::Deflate, Method::Zlib]).unwrap(),
            "the tables so far are compressed with deflate and zlib, new ones with snappy, which \
             Minecraft cannot read"
        );
        let core = warning(Method::Snappy, &[Method::None]).unwrap();
        assert!(core.ends_with("such as Bitcoin Core, cannot read"), "{core}");
        let mixed = warning(Method::Snappy, &[Method::Snappy, Method::Deflate]).unwrap();
        assert!(mixed.contains("others with deflate"), "{mixed}");
        #[cfg(feature = "zlib")]
        {
            assert_eq!(warning(Method::Deflate, &[Method::Zlib]), None);
            assert_eq!(
                warning(Method::Zlib, &[]).unwrap(),
                "new tables are compressed with zlib, which LevelDB and goleveldb cannot read"
            );
        }
    }
}
