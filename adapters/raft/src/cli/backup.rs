//! The subcommands `backup` and `restore`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use minikv_raft::service::LayoutArg;
use minikv_raft::store::{Origin, Store, StoreOptions};

use crate::cli::ClusterTarget;
use crate::cli::output::say;

#[derive(clap::Args)]
pub struct BackupArgs {
    #[command(flatten)]
    target: ClusterTarget,
    /// Directory of the backup; it must not exist.
    to: PathBuf,
}

#[derive(clap::Args)]
pub struct RestoreArgs {
    /// The directory that `backup` made.
    backup: PathBuf,
    /// Accept a database without a listing: `snapshots/ID/db` or `state-N` of a stopped node.
    #[arg(long)]
    unlisted: bool,
    /// Directory of the node; it must not exist.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Number of the node.
    #[arg(long)]
    id: u64,
    /// Address under which others will reach the node.
    #[arg(long, value_name = "HOST:PORT")]
    advertise: String,
    /// Layout: log and state in one database, or in two.
    #[arg(long, value_enum, default_value = "two")]
    layout: LayoutArg,
}

pub async fn backup(args: &BackupArgs) -> Result<ExitCode, String> {
    let client = args.target.client()?;
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    // Without a slash at the end, behind which the suffix would be a name in the directory.
    let to: PathBuf = args.to.components().collect();
    if to.exists() {
        return Err(format!("{}: exists already", to.display()));
    }
    // The backup gets its final name only after it is complete.
    let mut building = to.clone().into_os_string();
    building.push(".incomplete");
    let building = PathBuf::from(building);
    match fs::remove_dir_all(&building) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed(&building, error));
        }
        _ => fs::create_dir_all(&building).map_err(|e| failed(&building, e))?,
    }
    let summary = client.backup_into(&building).await.map_err(|e| e.to_string())?;
    let finish = || {
        File::open(&building)?.sync_all()?;
        fs::rename(&building, &to)?;
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    };
    finish().map_err(|e| failed(&to, e))?;
    let (files, bytes, index) = summary;
    say(format_args!("backup of {files} files, {bytes} bytes, up to entry {index} of the log"))?;
    Ok(ExitCode::SUCCESS)
}

pub fn restore(args: &RestoreArgs) -> Result<ExitCode, String> {
    let layout = Some(args.layout.into());
    let options = StoreOptions { layout, ..StoreOptions::default() };
    let origin = match args.unlisted {
        true => Origin::Database(&args.backup),
        false => Origin::Backup(&args.backup),
    };
    let restored = Store::restore(origin, &args.dir, options, args.id, &args.advertise);
    let last = restored.map_err(|e| e.to_string())?;
    say(format_args!("node {} has the state up to entry {} of the log", args.id, last.index))?;
    Ok(ExitCode::SUCCESS)
}
