//! The place in its code where a process was stopped.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::Pid;

/// Number of words of the stack in which return addresses are looked for.
const STACK_WORDS: usize = 512;

/// Number of functions of the stack that are named.
const NAMED: usize = 6;

/// A mapping of a process: its addresses, whether it is code, whether it may be written, and its
/// file, which is empty for memory of no file.
pub struct Mapping {
    pub first: u64,
    pub end: u64,
    offset: u64,
    code: bool,
    pub writable: bool,
    pub file: String,
}

/// An address, as the file that it is from has it, and what the stack points to.
#[derive(Debug, Default)]
pub struct Place {
    file: String,
    address: u64,
    /// Addresses in the code of the program itself, innermost first. Some are left of calls that
    /// have ended.
    stack: Vec<u64>,
}

pub fn mappings(pid: Pid) -> Option<Vec<Mapping>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let parsed = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (first, end) = words.next()?.split_once('-')?;
        let allowed = words.next()?;
        let (code, writable) = (allowed.contains('x'), allowed.contains('w'));
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (first, end, offset) = (number(first)?, number(end)?, number(words.next()?)?);
        let file = words.nth(2).unwrap_or_default().to_owned();
        Some(Mapping { first, end, offset, code, writable, file })
    });
    Some(parsed.collect())
}

impl Place {
    /// Returns the place of a stopped thread. It is empty where the system does not give it.
    pub fn of(pid: Pid, instruction: u64, stack: u64, program: &Path) -> Place {
        let Some(mappings) = mappings(pid) else { return Place::default() };
        let base = |file: &str| mappings.iter().find(|m| m.file == file && m.offset == 0);
        let relative = |address: u64| {
            let at = mappings.iter().find(|m| m.code && (m.first..m.end).contains(&address))?;
            Some((at.file.as_str(), address - base(&at.file)?.first))
        };
        let (file, address) = relative(instruction).unwrap_or(("?", instruction));
        let mut bytes = vec![0; STACK_WORDS * 8];
        let read = std::fs::File::open(format!("/proc/{pid}/mem"))
            .and_then(|memory| memory.read_at(&mut bytes, stack))
            .unwrap_or(0);
        let words = bytes[..read].chunks_exact(8).map(|word| word.try_into().expect("8 bytes"));
        let stack = words
            .filter_map(|word| relative(u64::from_le_bytes(word)))
            .filter(|(file, _)| Path::new(file) == program)
            // The call, not what follows it.
            .map(|(_, address)| address - 1)
            .collect();
        Place { file: file.to_owned(), address, stack }
    }

    /// Returns the functions, if `addr2line` is installed.
    pub fn describe(&self, program: &Path) -> String {
        let name = self.file.rsplit('/').next().unwrap_or_default();
        let mut text = format!("{name}+{:#x}", self.address);
        if Path::new(&self.file) == program {
            let mut inlined = symbols(program, &[self.address], false);
            // The symbol, and the line of the innermost code that is the program's own.
            let symbol = inlined.drain(..1.min(inlined.len())).next().unwrap_or_default();
            text += &format!(" {symbol} at {}", inlined.last().unwrap_or(&symbol));
        }
        let mut callers = symbols(program, &self.stack, true);
        callers.dedup();
        callers.truncate(NAMED);
        text + "; stack: " + &callers.join(" < ")
    }
}

/// Returns the function of each address, or (`only_own` is false) also those it is inlined in.
fn symbols(program: &Path, addresses: &[u64], only_own: bool) -> Vec<String> {
    let mut command = Command::new("addr2line");
    command.args(["-f", "-C", "-e"]).arg(program);
    if !only_own {
        command.arg("-i");
    }
    let Ok(output) = command.args(addresses.iter().map(|a| format!("{a:#x}"))).output() else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<_> = text.lines().collect();
    let mut named = Vec::new();
    for pair in lines.chunks_exact(2) {
        // A file's own name and its line are enough.
        let line = pair[1].rsplit('/').next().unwrap_or_default();
        let own = !only_own || pair[0].contains("minikv") || pair[0].contains("snap");
        if own && pair[0] != "??" {
            named.push(format!("{} ({line})", pair[0]));
        }
    }
    named
}
