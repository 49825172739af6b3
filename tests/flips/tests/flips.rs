//! Flips one bit of one register of a process that puts, flushes, compacts or gets, at a random
//! moment, as a processor that errs does. Then the process goes on. What comes of it is counted:
//!
//! | outcome | |
//! | --- | --- |
//! | none | the phase ends, and the database has what it should have |
//! | crash | a signal, a panic, or no end |
//! | told | an error, in the phase or when the database is read |
//! | silent | other entries than were put, and no error |
//!
//! After a crash the database must still have what it should have, or tell; after a crash among
//! puts, which leaves some of them, it is not read. Of the flips in flushes and compactions, one in
//! a hundred may be silent: a bit of a block that changes between its buffer and its checksum is
//! not noticed. `MINIKV_FLIPS` is the number of flips in each phase
//! (default 100), `MINIKV_SEED` seeds their places.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use minikv_flips::{PHASES, Phase, check};
use minikv_support::rng::Rng;
use nix::sys::ptrace;
use nix::sys::ptrace::regset::NT_PRFPREG;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// Time that a phase of a few milliseconds may take before it counts as one without an end.
const MAX_PHASE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    None,
    Crash,
    Told,
    Silent,
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Copies the files of a database.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Starts a process that waits to begin with the phase.
fn start(phase: Phase, dir: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_minikv-flips"))
        .arg(phase.name())
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn go(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

/// Waits for the end of a phase. Returns `None` if it does not end.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < MAX_PHASE {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// Returns how long a phase takes.
fn duration(phase: Phase, template: &Path, home: &Path) -> Duration {
    let mut all: Vec<_> = (0..5)
        .map(|_| {
            let dir = home.join("db");
            copy(template, &dir);
            let mut child = start(phase, &dir);
            let began = Instant::now();
            go(&mut child);
            let status = wait(&mut child).unwrap();
            assert!(status.success(), "{status}");
            assert_eq!(check(&dir), Ok(Ok(())), "without a flip");
            std::fs::remove_dir_all(&dir).unwrap();
            began.elapsed()
        })
        .collect();
    all.sort();
    all[2]
}

/// Flips a bit of a register. Returns false if the process has ended before.
fn flip(pid: Pid, rng: &mut Rng) -> bool {
    if ptrace::attach(pid).is_err() || !matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(..))) {
        return false;
    }
    let bit = rng.below(64);
    let flipped = match rng.below(27) {
        register @ 0..17 => flip_general(pid, register, 1 << bit),
        vector => flip_vector(pid, vector - 17, 1 << (bit % 32), rng.below(4)),
    };
    flipped.is_ok() & ptrace::detach(pid, None).is_ok()
}

fn flip_general(pid: Pid, register: usize, bit: u64) -> nix::Result<()> {
    let mut registers = ptrace::getregs(pid)?;
    let r = &mut registers;
    let all = [
        &mut r.rax, &mut r.rbx, &mut r.rcx, &mut r.rdx, &mut r.rsi, &mut r.rdi, &mut r.rbp,
        &mut r.rsp, &mut r.r8, &mut r.r9, &mut r.r10, &mut r.r11, &mut r.r12, &mut r.r13,
        &mut r.r14, &mut r.r15, &mut r.rip,
    ];
    for register in all.into_iter().skip(register).take(1) {
        *register ^= bit;
    }
    ptrace::setregs(pid, registers)
}

/// Flips a bit of one of the first ten vector registers, through which data is copied and compared.
fn flip_vector(pid: Pid, register: usize, bit: u32, word: usize) -> nix::Result<()> {
    let mut registers = ptrace::getregset::<NT_PRFPREG>(pid)?;
    registers.xmm_space[register * 4 + word] ^= bit;
    ptrace::setregset::<NT_PRFPREG>(pid, registers)
}

/// Runs the phase once, with a flip. Returns `None` if it ended before the flip.
fn try_flip(phase: Phase, dir: &Path, within: Duration, rng: &mut Rng) -> Option<Outcome> {
    let mut child = start(phase, dir);
    let moment = Duration::from_nanos(rng.below(within.as_nanos() as usize) as u64);
    let began = Instant::now();
    go(&mut child);
    while began.elapsed() < moment {
        std::hint::spin_loop();
    }
    if !flip(Pid::from_raw(child.id() as i32), rng) {
        let _ = child.wait();
        return None;
    }
    let status = wait(&mut child);
    let left = match phase {
        // What a process that ended in the middle of its puts left is a part of them.
        Phase::Put if status.is_none_or(|status| !status.success()) => Ok(Ok(())),
        _ => check(dir),
    };
    Some(match (status, left) {
        (_, Err(_)) => Outcome::Silent,
        (Some(status), _) if status.code() == Some(4) => Outcome::Silent,
        (_, Ok(Err(_))) => Outcome::Told,
        (Some(status), _) if status.success() => Outcome::None,
        (Some(status), _) if status.code() == Some(3) => Outcome::Told,
        // A signal, a panic, no end, or whatever a changed register made the exit code.
        _ => Outcome::Crash,
    })
}

#[test]
fn flipped_bits_in_flushes_and_compactions_are_hardly_ever_silent() {
    let home = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." });
    let (home, flips) = (home.unwrap(), setting("MINIKV_FLIPS", 100));
    let mut rng = Rng::new(setting("MINIKV_SEED", 1));
    let mut silent = 0;
    for phase in PHASES {
        let template = home.path().join(phase.name());
        phase.prepare(&template).unwrap();
        let within = duration(phase, &template, home.path());
        let mut outcomes = BTreeMap::<Outcome, u64>::new();
        while outcomes.values().sum::<u64>() < flips {
            let dir = home.path().join("db");
            copy(&template, &dir);
            if let Some(outcome) = try_flip(phase, &dir, within, &mut rng) {
                *outcomes.entry(outcome).or_default() += 1;
            }
            std::fs::remove_dir_all(&dir).unwrap();
        }
        let of = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
        println!(
            "{}: {flips} flipped bits in {within:.1?}: {} none, {} crash, {} told, {} silent",
            phase.name(),
            of(Outcome::None),
            of(Outcome::Crash),
            of(Outcome::Told),
            of(Outcome::Silent)
        );
        assert!(of(Outcome::Crash) > 0, "nothing was flipped");
        if matches!(phase, Phase::Flush | Phase::Compact) {
            silent += of(Outcome::Silent);
        }
    }
    assert!(silent <= 2 + flips / 50, "{silent} flips in flushes and compactions were silent");
}
