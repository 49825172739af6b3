//! Makes filesystems, and mounts them where nobody else sees it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use minikv::fs::{DiskFs, Fs};
use minikv_support::crash::workload::Disk;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::device::{Device, Op, Pages};
use crate::server::{Served, Server};

/// A kind of filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    /// Size of the disk in MiB: the least that `mkfs` takes, or little more.
    mib: u64,
    mkfs: &'static [&'static str],
    options: &'static str,
}

pub const EXT4: Kind = Kind {
    name: "ext4",
    mib: 64,
    mkfs: &["mkfs.ext4", "-q", "-F"],
    options: "noinit_itable,errors=remount-ro",
};
pub const XFS: Kind =
    Kind { name: "xfs", mib: 300, mkfs: &["mkfs.xfs", "-q", "-f"], options: "defaults" };
pub const BTRFS: Kind =
    Kind { name: "btrfs", mib: 128, mkfs: &["mkfs.btrfs", "-q", "-f"], options: "nodiscard" };

/// Disks that are served and mounted. All mounts end with the process.
pub struct Mounts {
    server: Arc<Server>,
    home: tempfile::TempDir,
}

/// Returns what `command` prints.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

impl Mounts {
    /// Leaves the mounts that other processes see, for the calling thread and those that it starts.
    ///
    /// # Errors
    /// Why disks cannot be served here: that takes root, FUSE and loop devices.
    pub fn new() -> Result<Mounts, String> {
        let none = None::<&str>;
        unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("unshare: {error}"))?;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
            .map_err(|error| format!("private mounts: {error}"))?;
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        mount(Some("tmpfs"), home.path(), Some("tmpfs"), MsFlags::empty(), none)
            .map_err(|error| format!("tmpfs: {error}"))?;
        let disks = home.path().join("disks");
        std::fs::create_dir(&disks).map_err(|error| error.to_string())?;
        let server = Server::mount(&disks).map_err(|error| format!("FUSE: {error}"))?;
        Ok(Mounts { server: Arc::new(server), home })
    }

    /// Makes an empty filesystem.
    pub fn make(&self, kind: Kind) -> Result<Pages, String> {
        let file = self.home.path().join(kind.name);
        File::create(&file)
            .and_then(|file| file.set_len(kind.mib << 20))
            .map_err(|error| error.to_string())?;
        run(Command::new(kind.mkfs[0]).args(&kind.mkfs[1..]).arg(&file))?;
        let pages = Pages::load(&file).map_err(|error| error.to_string());
        let _ = std::fs::remove_file(file);
        pages
    }

    /// Mounts a filesystem.
    pub fn mount(&self, kind: Kind, pages: Pages) -> Result<Mounted, String> {
        let served = self.server.serve(Device::new(kind.mib << 20, pages));
        let dir = self.home.path().join(served.number.to_string());
        std::fs::create_dir(&dir).map_err(|error| error.to_string())?;
        // Without direct I/O, the kernel waits for each answer before it asks for more.
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--direct-io=on"]).arg(served.path());
        let block_device = run(&mut losetup)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", kind.name, "-o", kind.options, &block_device]).arg(&dir);
        let mounted = run(&mut mount);
        // The kernel keeps the block device while it is mounted.
        run(Command::new("losetup").args(["-d", &block_device]))?;
        mounted?;
        Ok(Mounted { dir, served, block_device })
    }
}

/// A mounted filesystem. It is unmounted when this is dropped.
pub struct Mounted {
    dir: PathBuf,
    served: Served,
    block_device: String,
}

impl Mounted {
    pub fn device(&self) -> &Device {
        &self.served.device
    }

    /// Returns the filesystem as a workload sees it.
    pub fn disk(&self) -> MountedDisk {
        MountedDisk { dir: self.dir.join("db"), device: self.served.device.clone() }
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Lets ext4 find an error, after which the kernel accepts no more writes.
    pub fn turn_read_only(&self) -> io::Result<()> {
        let device = self.block_device.trim_start_matches("/dev/");
        std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "the test wants it")
    }

    /// Returns whether the kernel accepts no writes.
    pub fn is_read_only(&self) -> bool {
        let written = std::fs::write(self.dir.join("probe"), "");
        written.is_err_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
    }

    /// Lets the kernel write the pages of the database's chosen files, and not their metadata, as
    /// it does when it needs memory. It does not wait until they are written.
    pub fn write_back(&self, mut chosen: impl FnMut() -> bool) -> io::Result<()> {
        for entry in std::fs::read_dir(self.dir.join("db"))? {
            let path = entry?.path();
            // Closing any handle of the lock file would release the lock.
            if path.is_file() && !path.ends_with("LOCK") && chosen() {
                let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
                posix_fadvise(File::open(path)?, 0, 0, advice)?;
            }
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A process that another thread just started may still have files open.
        for _ in 0..100 {
            match run(Command::new("umount").arg(&self.dir)) {
                Ok(_) => break,
                Err(error) if error.contains("busy") => sleep(Duration::from_millis(20)),
                Err(error) => panic!("{error}"),
            }
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// A directory on a mounted filesystem, and its disk.
#[derive(Clone, Debug)]
pub struct MountedDisk {
    dir: PathBuf,
    device: Arc<Device>,
}

impl MountedDisk {
    /// Returns everything that the kernel asked the disk for.
    pub fn log(&self) -> Vec<Op> {
        self.device.log()
    }
}

impl Disk for MountedDisk {
    fn fs(&self) -> impl Fs {
        DiskFs
    }

    fn dir(&self) -> PathBuf {
        self.dir.clone()
    }

    fn op_count(&self) -> u64 {
        self.device.op_count()
    }
}
