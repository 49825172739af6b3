//! Serves disks to the kernel, each as a file of a FUSE filesystem. Loop devices make block devices
//! of these files: their writes and flushes become writes and fsyncs here.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use crate::device::Device;
use crate::late::Late;

/// Time for which the kernel may believe what it was told.
const TTL: Duration = Duration::from_secs(3600);

type Devices = Arc<Mutex<BTreeMap<u64, Arc<Device>>>>;

/// A mounted filesystem whose files are disks.
pub struct Server {
    devices: Devices,
    next: AtomicU64,
    dir: PathBuf,
    _session: BackgroundSession,
}

impl Server {
    /// Mounts the filesystem at `dir`.
    pub fn mount(dir: &Path) -> io::Result<Server> {
        let devices = Devices::default();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("disks".to_owned())];
        let session = fuser::spawn_mount(
            Disks { devices: devices.clone(), late: Late::default() },
            dir,
            &config,
        )?;
        let next = AtomicU64::new(2);
        Ok(Server { devices, next, dir: dir.to_owned(), _session: session })
    }

    /// Makes a file of a device.
    pub fn serve(self: &Arc<Self>, device: Device) -> Served {
        let (number, device) = (self.next.fetch_add(1, Relaxed), Arc::new(device));
        self.devices.lock().expect("no panic before").insert(number, device.clone());
        Served { server: self.clone(), number, device }
    }
}

/// A disk with a file, which is gone when this is dropped.
pub struct Served {
    server: Arc<Server>,
    pub number: u64,
    pub device: Arc<Device>,
}

impl Served {
    pub fn path(&self) -> PathBuf {
        self.server.dir.join(self.number.to_string())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.devices.lock().expect("no panic before").remove(&self.number);
    }
}

struct Disks {
    devices: Devices,
    late: Late,
}

impl Disks {
    fn device(&self, INodeNo(number): INodeNo) -> Result<Arc<Device>, Errno> {
        self.devices.lock().expect("no panic before").get(&number).cloned().ok_or(Errno::ENOENT)
    }

    fn attributes(&self, ino: INodeNo) -> Result<FileAttr, Errno> {
        let is_root = ino == INodeNo::ROOT;
        let size = if is_root { 0 } else { self.device(ino)?.bytes };
        Ok(FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Disks {
    /// Lets the kernel ask for more before it has an answer.
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(|_| io::ErrorKind::Unsupported.into())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| name.parse().ok()).unwrap_or(0);
        match self.attributes(INodeNo(number)) {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.device(ino) {
            Ok(device) => {
                let length = u64::from(size).min(device.bytes.saturating_sub(offset));
                let mut bytes = vec![0; length as usize];
                device.read(offset, &mut bytes);
                reply.data(&bytes);
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let device = match self.device(ino) {
            Ok(device) => device,
            Err(error) => return reply.error(error),
        };
        let (begun, delay) = device.begin();
        let data = data.to_vec();
        self.late.do_after(delay, move || match device.write(begun, offset, &data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        });
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let device = match self.device(ino) {
            Ok(device) => device,
            Err(error) => return reply.error(error),
        };
        let (begun, delay) = device.begin();
        self.late.do_after(delay, move || match device.flush(begun) {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}
