//! What processes have used, as the kernel counts it.

/// What processes have used up to now.
pub struct Usage {
    /// Bytes that the processes made the kernel write to the disk.
    pub written: u64,
    /// The most memory that one of them had at a time, in bytes.
    pub peak_memory: u64,
}

impl Usage {
    pub fn of(processes: &[u32]) -> Usage {
        let number = |process: u32, file: &str, name: &str| {
            let content = std::fs::read_to_string(format!("/proc/{process}/{file}"));
            let content = content.expect("a running process");
            let line = content.lines().find_map(|line| line.strip_prefix(name));
            let word = line.and_then(|line| line.split_whitespace().next());
            word.and_then(|word| word.parse::<u64>().ok()).expect("a count of the kernel")
        };
        let written = processes.iter().map(|process| number(*process, "io", "write_bytes:"));
        let memory = processes.iter().map(|process| number(*process, "status", "VmHWM:") << 10);
        Usage { written: written.sum(), peak_memory: memory.max().unwrap_or_default() }
    }
}
