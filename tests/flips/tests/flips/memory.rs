//! Entries in the memory of a process.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;

use memchr::memmem;
use minikv_support::rng::Rng;
use nix::unistd::Pid;

use crate::place::mappings;

/// Number of bytes between a key and its value in memtables: sequence number and kind, and in C++
/// the length of the value. In a batch or log there is only the length.
const BETWEEN: RangeInclusive<usize> = 8..=9;

/// Flips a bit of an entry in the memtable of a process that waits. Returns the number of the bit,
/// from the beginning of the key; `None` if there is no such entry.
pub fn flip(pid: Pid, key: &[u8], value: &[u8], rng: &mut Rng) -> Option<usize> {
    let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem")).ok()?;
    let (at, bytes) = find(pid, &memory, key, value).unwrap()?;
    let bit = rng.below(bytes * 8);
    let (at, mut byte) = (at + bit as u64 / 8, [0]);
    memory.read_exact_at(&mut byte, at).unwrap();
    memory.write_all_at(&[byte[0] ^ 1 << (bit % 8)], at).unwrap();
    Some(bit)
}

/// Returns the address of the entry and its length, from the beginning of its key to the end of its
/// value.
fn find(pid: Pid, memory: &File, key: &[u8], value: &[u8]) -> io::Result<Option<(u64, usize)>> {
    let values = memmem::Finder::new(value);
    let mappings = mappings(pid).unwrap_or_default();
    for mapping in mappings.iter().filter(|m| m.writable && matches!(&*m.file, "" | "[heap]")) {
        let mut bytes = vec![0; (mapping.end - mapping.first) as usize];
        memory.read_exact_at(&mut bytes, mapping.first)?;
        for at in values.find_iter(&bytes) {
            let mut begins = BETWEEN.filter_map(|between| at.checked_sub(between + key.len()));
            if let Some(first) = begins.find(|&first| bytes[first..].starts_with(key)) {
                return Ok(Some((mapping.first + first as u64, at + value.len() - first)));
            }
        }
    }
    Ok(None)
}
