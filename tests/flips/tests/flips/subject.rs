//! A process that does a phase, and the bit that is flipped in it.
//!
//! Moments and limits are in processor time of that process, so that they mean the same on a busy
//! machine.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use minikv_flips::{Kind, any_entry};
use minikv_support::rng::Rng;
use nix::sys::ptrace;
use nix::sys::ptrace::regset::NT_PRFPREG;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::time::ClockId;
use nix::unistd::Pid;

use crate::memory;
use crate::place::Place;

/// The program that does the phases.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_minikv-flips");

/// Time without any work after which a process counts as one that waits for ever.
const MAX_STALL: Duration = Duration::from_secs(3);

/// Names of the registers that [`flip_general`] changes, in its order.
const NAMES: [&str; 17] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip",
];

/// A bit that was flipped, of a register or of an entry in memory.
#[derive(Debug)]
pub struct Flip {
    pub register: String,
    pub bit: usize,
    pub place: Place,
}

/// A process that waits to begin with its work, or works.
pub struct Subject {
    child: Child,
    clock: ClockId,
    begun: Duration,
}

impl Subject {
    /// Starts a process that waits for [`Subject::go`].
    pub fn start(kind: Kind, what: &str, dir: &Path) -> Subject {
        let mut child = Command::new(PROGRAM)
            .args([kind.name(), what])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if what != "check" {
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
        }
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(child.id() as i32)).unwrap();
        let begun = clock.now().unwrap().into();
        Subject { child, clock, begun }
    }

    pub fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Returns whether the process has ended, and leaves its end to [`Subject::wait`].
    fn ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(waitid(Id::Pid(self.pid()), flags), Ok(WaitStatus::StillAlive))
    }

    /// Returns the processor time since [`Subject::start`].
    pub fn used(&self) -> Duration {
        Duration::from(self.clock.now().unwrap()).saturating_sub(self.begun)
    }

    /// Waits for the end. Returns how long the work took, and `None` instead of how it ended if it
    /// takes more than `max`, or waits for ever.
    pub fn wait(&mut self, max: Duration) -> (Duration, Option<ExitStatus>) {
        let (mut worked, mut since) = (self.used(), Instant::now());
        while !self.ended() {
            let used = self.used();
            if used > worked {
                (worked, since) = (used, Instant::now());
            }
            if used > max || since.elapsed() > MAX_STALL {
                self.child.kill().unwrap();
                self.child.wait().unwrap();
                return (used, None);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        (self.used(), Some(self.child.wait().unwrap()))
    }

    /// Flips a bit of an entry in memory. To be called before [`Subject::go`].
    pub fn flip_memory(&self, rng: &mut Rng) -> Flip {
        let (key, value) = any_entry(rng);
        let bit = memory::flip(self.pid(), &key, &value, rng).expect("the entry in a memtable");
        let register = format!("the entry {}", key.escape_ascii());
        Flip { register, bit, place: Place::default() }
    }

    /// Flips a bit of a register of a thread that works, as soon as the process has worked for
    /// `moment`. Returns `None` if it has ended before, or does nothing.
    pub fn flip(&mut self, moment: Duration, rng: &mut Rng) -> Option<Flip> {
        let (mut worked, mut since) = (self.used(), Instant::now());
        while !self.ended() {
            let used = self.used();
            if used > worked {
                (worked, since) = (used, Instant::now());
            }
            if since.elapsed() > MAX_STALL {
                self.child.kill().unwrap();
                break;
            }
            if used >= moment {
                let working = threads_at_work(self.pid());
                if let Some(&thread) = working.get(rng.below(working.len().max(1)))
                    && let Some(flip) = flip(self.pid(), thread, rng)
                {
                    return Some(flip);
                }
            }
            let rest = moment.saturating_sub(used);
            std::thread::sleep(rest.clamp(Duration::from_micros(20), Duration::from_millis(1)) / 2);
        }
        let _ = self.child.wait();
        None
    }
}

/// Returns the threads of a process that have something to do.
fn threads_at_work(pid: Pid) -> Vec<Pid> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let working = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let state = text.rsplit_once(") ")?.1.chars().next()?;
        let id = task.file_name().to_str()?.parse().ok()?;
        (state == 'R').then(|| Pid::from_raw(id))
    });
    working.collect()
}

/// Flips a bit of a register. Returns `None` if the thread has ended before.
fn flip(process: Pid, thread: Pid, rng: &mut Rng) -> Option<Flip> {
    ptrace::attach(thread).ok()?;
    if !matches!(waitpid(thread, Some(WaitPidFlag::__WALL)), Ok(WaitStatus::Stopped(..))) {
        return None;
    }
    let flip = flip_stopped(thread, rng);
    // A thread that is not let go would never end. One that has ended meanwhile must be waited for,
    // or its process would never end.
    if ptrace::detach(thread, None).is_err() && thread != process {
        let _ = waitpid(thread, Some(WaitPidFlag::__WALL));
        return None;
    }
    flip
}

fn flip_stopped(thread: Pid, rng: &mut Rng) -> Option<Flip> {
    let before = ptrace::getregs(thread).ok()?;
    let place = Place::of(thread, before.rip, before.rsp, Path::new(PROGRAM));
    let bit = rng.below(64);
    let (register, bit, flipped) = match rng.below(27) {
        register @ 0..17 => {
            (NAMES[register].to_owned(), bit, flip_general(thread, register, 1 << bit))
        }
        vector => {
            let (register, bit) = (vector - 17, bit % 32 + 32 * rng.below(4));
            (format!("xmm{register}"), bit, flip_vector(thread, register, bit))
        }
    };
    flipped.is_ok().then_some(Flip { register, bit, place })
}

fn flip_general(thread: Pid, register: usize, bit: u64) -> nix::Result<()> {
    let mut registers = ptrace::getregs(thread)?;
    let r = &mut registers;
    let all = [
        &mut r.rax, &mut r.rbx, &mut r.rcx, &mut r.rdx, &mut r.rsi, &mut r.rdi, &mut r.rbp,
        &mut r.rsp, &mut r.r8, &mut r.r9, &mut r.r10, &mut r.r11, &mut r.r12, &mut r.r13,
        &mut r.r14, &mut r.r15, &mut r.rip,
    ];
    for register in all.into_iter().skip(register).take(1) {
        *register ^= bit;
    }
    ptrace::setregs(thread, registers)
}

/// Flips a bit of one of the first ten vector registers, through which data is copied and compared.
fn flip_vector(thread: Pid, register: usize, bit: usize) -> nix::Result<()> {
    let mut registers = ptrace::getregset::<NT_PRFPREG>(thread)?;
    registers.xmm_space[register * 4 + bit / 32] ^= 1 << (bit % 32);
    ptrace::setregset::<NT_PRFPREG>(thread, registers)
}
