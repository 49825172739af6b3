//! Faulty clocks for nodes: clocks that run too fast or too slowly, and clocks that are set while a
//! node runs. They need Debian's `libfaketime`; without that package, nodes use the machine's
//! clocks.

use std::path::{Path, PathBuf};

use crate::rng::Rng;

/// One hour, in seconds.
pub const HOUR: i64 = 3600;

/// The faulty clocks of all nodes.
pub struct Clocks {
    library: PathBuf,
    /// Directory of the files that contain the error of each node's wall clock.
    dir: PathBuf,
    /// Speed of the clocks of each node, as a percentage of the speed of the machine's clock. A
    /// node's wall clock can be set only if the speed is 100.
    pub speeds: [u64; 6],
}

impl Clocks {
    /// Chooses random speeds for the clocks. Returns `None` if `libfaketime` is not installed.
    pub fn new(dir: &Path, rng: &mut Rng) -> Option<Clocks> {
        let library = library()?;
        // The lease tolerates clocks whose speeds differ by at most a tenth.
        let speeds = [(); 6].map(|()| [100, 100, 96, 104][rng.next(4) as usize]);
        Some(Clocks { library, dir: dir.to_path_buf(), speeds })
    }

    fn speed(&self, id: u64) -> u64 {
        self.speeds[(id as usize - 1) % self.speeds.len()]
    }

    fn file(&self, id: u64) -> PathBuf {
        self.dir.join(format!("clock-{id}"))
    }

    /// Sets the wall clock of a node so that it is off by `hours` hours. Does nothing if the speed
    /// of the node's clocks is not 100. Returns whether the clock was set.
    pub fn set(&self, id: u64, hours: i64) -> bool {
        if self.speed(id) != 100 {
            return false;
        }
        let file = self.file(id);
        std::fs::write(file.with_extension("new"), format!("{:+}\n", hours * HOUR)).unwrap();
        std::fs::rename(file.with_extension("new"), file).unwrap();
        true
    }

    /// Returns the environment variables for a node.
    pub fn environment(&self, id: u64) -> Vec<(&'static str, String)> {
        let library = ("LD_PRELOAD", self.library.display().to_string());
        match self.speed(id) {
            100 => {
                let file = self.file(id);
                if !file.exists() {
                    std::fs::write(&file, "+0\n").unwrap();
                }
                vec![
                    library,
                    ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
                    ("FAKETIME_NO_CACHE", "1".into()),
                    // Without this variable, the monotonic clock would be set, too.
                    ("DONT_FAKE_MONOTONIC", "1".into()),
                ]
            }
            speed => {
                let factor = format!("+0 x{}.{:02}", speed / 100, speed % 100);
                vec![library, ("FAKETIME", factor)]
            }
        }
    }
}

fn library() -> Option<PathBuf> {
    let mut roots = std::fs::read_dir("/usr/lib").ok()?.flatten();
    roots.find_map(|root| {
        let library = root.path().join("faketime/libfaketimeMT.so.1");
        library.exists().then_some(library)
    })
}
