//! The files of a directory, packed in one input.
//!
//! ```text
//! file    1 byte kind | 1 byte number | 3 bytes length, little-endian | its bytes
//! ```
//! A length that exceeds the input stands for the rest of the input.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use minikv::Options;
use minikv::fs::{Fs, MemFs};

/// The database's directory.
pub const DIR: &str = "/db";

/// Length of the header before each file's bytes.
const HEAD_BYTES: usize = 5;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Current,
    Manifest,
    Log,
    Table,
    OldTable,
    Temp,
}

const KINDS: [Kind; 6] =
    [Kind::Current, Kind::Manifest, Kind::Log, Kind::Table, Kind::OldTable, Kind::Temp];

impl Kind {
    fn name(self, number: u8) -> String {
        match self {
            Kind::Current => "CURRENT".to_owned(),
            Kind::Manifest => format!("MANIFEST-{number:06}"),
            Kind::Log => format!("{number:06}.log"),
            Kind::Table => format!("{number:06}.ldb"),
            Kind::OldTable => format!("{number:06}.sst"),
            Kind::Temp => format!("{number:06}.dbtmp"),
        }
    }
}

/// Returns the files of an input: kind, number, and the range of their bytes.
pub fn split(data: &[u8]) -> Vec<(Kind, u8, Range<usize>)> {
    let mut files = Vec::new();
    let mut at = 0;
    while let Some(&[kind, number, a, b, c]) = data.get(at..at + HEAD_BYTES) {
        let start = at + HEAD_BYTES;
        let len = u32::from_le_bytes([a, b, c, 0]) as usize;
        at = start.saturating_add(len).min(data.len());
        files.push((KINDS[kind as usize % KINDS.len()], number, start..at));
    }
    files
}

/// Packs files into an input. Leaves out files that do not belong to a database, or whose number is
/// too high.
pub fn pack(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut packed = Vec::new();
    for (name, bytes) in files {
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        let number = digits.parse().unwrap_or(0);
        let Some(kind) = KINDS.iter().position(|kind| kind.name(number) == *name) else { continue };
        packed.extend_from_slice(&[kind as u8, number]);
        packed.extend_from_slice(&(bytes.len() as u32).to_le_bytes()[..3]);
        packed.extend_from_slice(bytes);
    }
    packed
}

/// Creates a filesystem with the files of an input in [`DIR`].
pub fn load(data: &[u8]) -> MemFs {
    let files = split(data).into_iter();
    fill(files.map(|(kind, number, range)| (kind.name(number), &data[range])))
}

/// Creates a filesystem with these files in [`DIR`].
pub fn fill<'a>(files: impl Iterator<Item = (String, &'a [u8])>) -> MemFs {
    let fs = MemFs::new();
    fs.create_dir(Path::new(DIR)).unwrap();
    for (name, bytes) in files {
        fs.create(&Path::new(DIR).join(name)).unwrap().write(bytes).unwrap();
    }
    fs
}

/// Returns the files in [`DIR`], by name.
pub fn contents(fs: &MemFs) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let file = fs.open(&Path::new(DIR).join(&name)).ok()?;
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        Some((name, bytes))
    };
    fs.list(Path::new(DIR)).unwrap().into_iter().filter_map(read).collect()
}

/// Returns options for this filesystem, without any randomness.
pub fn options(fs: &MemFs) -> Options {
    Options::default().fs(fs.clone()).inline_background(Some(1))
}
