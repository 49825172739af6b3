//! Resources used by processes, as the kernel counts them.

/// Resources that processes have used so far.
pub struct Usage {
    /// Number of bytes that the processes caused the kernel to write to the disk.
    pub written: u64,
    /// Peak memory of the process that used the most memory, in bytes.
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
