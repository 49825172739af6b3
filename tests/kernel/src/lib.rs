//! Disks for the filesystems of the kernel: what a loss of power leaves of ext4, XFS and btrfs, as
//! the kernel itself reads it when it mounts them again. Nothing here shares an assumption with
//! [`minikv::fs::SimFs`] about what filesystems do.

pub mod clients;
pub mod crash;
pub mod device;
pub mod late;
pub mod mounts;
pub mod server;
