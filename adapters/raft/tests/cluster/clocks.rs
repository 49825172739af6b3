//! Clocks of nodes that run too fast or too slowly, or are set while the node runs, by means of
//! Debian's `libfaketime`. Without that package, nodes use the machine's clocks.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::faults::Rng;
use crate::processes::{Cluster, wait_for};

/// An hour, in seconds.
const HOUR: i64 = 3600;

/// The clocks of the nodes.
pub struct Clocks {
    library: PathBuf,
    /// Directory of the files that say how far a node's wall clock is off.
    dir: PathBuf,
    /// Speed of the clocks of each node, in percent of the machine's. The wall clock can only be
    /// set at a speed of 100.
    speeds: [u64; 6],
}

impl Clocks {
    /// Draws the speeds of clocks. Returns `None` if the library is not installed.
    pub fn new(dir: &Path, rng: &mut Rng) -> Option<Clocks> {
        let library = library()?;
        // The lease tolerates clocks whose speeds differ by up to a tenth.
        let speeds = [(); 6].map(|()| [100, 100, 96, 104][rng.next(4) as usize]);
        Some(Clocks { library, dir: dir.to_path_buf(), speeds })
    }

    fn speed(&self, id: u64) -> u64 {
        self.speeds[(id as usize - 1) % self.speeds.len()]
    }

    fn file(&self, id: u64) -> PathBuf {
        self.dir.join(format!("clock-{id}"))
    }

    /// Sets the wall clock of a node wrong by some hours, unless the node's clocks run at another
    /// speed than the machine's. Returns whether the clock was set.
    pub fn set(&self, id: u64, hours: i64) -> bool {
        if self.speed(id) != 100 {
            return false;
        }
        let file = self.file(id);
        std::fs::write(file.with_extension("new"), format!("{:+}\n", hours * HOUR)).unwrap();
        std::fs::rename(file.with_extension("new"), file).unwrap();
        true
    }

    /// Returns the environment of a node.
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
                    // Only the wall clock can be set.
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

/// Returns the time by a node's wall clock, which is the `Date` of its answer.
async fn date(address: &str) -> Option<SystemTime> {
    let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
    let request = "GET /v1/status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let date = answer.lines().find_map(|line| line.strip_prefix("date: "));
    Some(httpdate::parse_http_date(date.expect("a date")).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_shows_the_time_that_its_clock_is_set_to() {
    let mut cluster = Cluster::without_nodes(&[]);
    let Some(mut clocks) = Clocks::new(&cluster.path(""), &mut Rng(1)) else {
        println!("skipped: libfaketime is not installed");
        return;
    };
    clocks.speeds = [100; 6];
    cluster.clocks = Some(clocks);
    cluster.init(1).await;
    let hours_ahead = async || {
        let ahead = date(&cluster.nodes[0].address).await?.duration_since(SystemTime::now());
        Some((ahead.map_or(0.0, |ahead| ahead.as_secs_f64()) / HOUR as f64).round())
    };
    assert_eq!(hours_ahead().await, Some(0.0));
    assert!(cluster.clocks.as_ref().unwrap().set(1, 3));
    let is_ahead = async || (hours_ahead().await? == 3.0).then_some(());
    wait_for(is_ahead).await.expect("three hours");
}
