//! Tests of backups: several at once beside writes, and restores from damaged ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use minikv_raft::service::Read;

use crate::processes::{Cluster, PROGRAM, free_port};

/// Snapshots are made often, so that the one of a backup would not stay the latest.
const SMALL: [&str; 4] = ["--snapshot-every", "20", "--keep-entries", "5"];

fn restore(backup: &Path, to: &Path) -> Output {
    restore_at(backup, to, "127.0.0.1:1")
}

fn restore_at(backup: &Path, to: &Path, address: &str) -> Output {
    let _ = fs::remove_dir_all(to);
    Command::new(PROGRAM)
        .arg("restore")
        .arg(backup)
        .args(["--id", "1", "--advertise", address, "--dir"])
        .arg(to)
        .output()
        .unwrap()
}

/// Makes a backup of the cluster in `to`.
fn back_up(cluster: &Cluster, to: &Path) -> Output {
    let nodes = cluster.addresses().join(",");
    Command::new(PROGRAM).args(["backup", "--nodes", &nodes]).arg(to).output().unwrap()
}

fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn copy_dir(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_at_once_beside_writes_and_snapshots_all_succeed() {
    let cluster = Cluster::start(3, &SMALL).await;
    let client = Arc::new(cluster.client(30));
    for n in 0..40 {
        client.put(format!("old/{n:03}"), vec![n as u8; 100_000]).await.unwrap();
    }
    let (over, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writer = {
        let (client, over, written) = (client.clone(), over.clone(), written.clone());
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let n = written.fetch_add(1, Ordering::Relaxed);
                client.put(format!("new/{n:06}"), vec![7; 1000]).await.unwrap();
            }
        })
    };
    let mut backups = tokio::task::JoinSet::new();
    for number in 0..3 {
        let (client, dir) = (cluster.client(30), cluster.path(&format!("backup-{number}")));
        backups.spawn(async move {
            for round in 0..3 {
                let dir = dir.with_extension(round.to_string());
                fs::create_dir(&dir).unwrap();
                client.backup_into(&dir).await.unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
            }
        });
    }
    while let Some(done) = backups.join_next().await {
        done.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    assert!(written.load(Ordering::Relaxed) > 40, "too few writes for another snapshot");
    assert_success(&restore(&cluster.path("backup-2.2"), &cluster.path("restored")));
    // Nothing keeps the snapshots of the backups any more.
    let leader = cluster.leader().await;
    let snapshots = fs::read_dir(cluster.dir(leader).join("snapshots")).unwrap().count();
    assert!(snapshots <= 2, "{snapshots} snapshots are left");
}

/// A snapshot stays as long as a client reads from it, however slowly.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_can_be_read_after_newer_snapshots() {
    let cluster = Cluster::start(1, &SMALL).await;
    let client = cluster.client(30);
    client.put("a", "1").await.unwrap();
    let address = &cluster.nodes[0].address;
    let request =
        |method, path| async move { crate::processes::http(address, method, path, &[], b"").await };
    let (status, listing) = request("POST", "/v1/backup").await.unwrap();
    assert_eq!(status, 200, "{listing}");
    let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
    let id = listing["id"].as_str().unwrap();
    for n in 0..100 {
        client.put(format!("b/{n}"), "2").await.unwrap();
    }
    let path = format!("/v1/backup/{id}/0/0");
    assert_eq!(request("GET", path.as_str()).await.unwrap().0, 200);
    let whole = format!("/v1/backup/{id}");
    assert_eq!(request("DELETE", whole.as_str()).await.unwrap().0, 200);
    assert_eq!(request("GET", path.as_str()).await.unwrap().0, 410);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_flipped_or_missing_part_of_a_backup_is_an_error() {
    let cluster = Cluster::start(1, &SMALL).await;
    let client = cluster.client(30);
    for n in 0..300 {
        client.put(format!("key/{n:03}"), vec![n as u8; 20_000]).await.unwrap();
    }
    let backup = cluster.path("backup");
    assert_success(&back_up(&cluster, &backup));
    let (bad, to) = (cluster.path("bad"), cluster.path("restored"));
    assert_success(&restore(&backup, &to));

    let names: Vec<PathBuf> =
        fs::read_dir(&backup).unwrap().map(|file| file.unwrap().file_name().into()).collect();
    let is_part = |name: &&PathBuf| !name.ends_with("LOCK") && !name.ends_with("LOG");
    let mut tried = 0;
    for name in names.iter().filter(is_part) {
        let content = fs::read(backup.join(name)).unwrap();
        let mut flipped = content.clone();
        flipped[content.len() / 2] ^= 4;
        let changes = [
            ("cut in half", Some(&content[..content.len() / 2])),
            ("cut by a byte", Some(&content[..content.len() - 1])),
            ("flipped", Some(&flipped[..])),
            ("missing", None),
        ];
        for (what, content) in changes {
            copy_dir(&backup, &bad);
            match content {
                Some(content) => fs::write(bad.join(name), content).unwrap(),
                None => fs::remove_file(bad.join(name)).unwrap(),
            }
            let place = format!("{}, {what}", name.display());
            let restored = restore(&bad, &to);
            let words = String::from_utf8_lossy(&restored.stderr);
            assert_eq!(restored.status.code(), Some(1), "{place}: {words}");
            assert!(words.contains(bad.to_str().unwrap()), "{place}: `{words}` names no file");
            assert_eq!(words.lines().count(), 1, "{place}: {words}");
            assert!(!to.exists(), "{place}: a node was made");
            tried += 1;
        }
    }
    assert!(tried >= 16, "{tried} changes");
    println!("{tried} damaged backups were refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_may_be_named_with_a_slash_at_the_end() {
    let cluster = Cluster::start(1, &[]).await;
    cluster.client(10).put("a", "1").await.unwrap();
    for (number, end) in ["", "/", "//", "/."].into_iter().enumerate() {
        let backup = cluster.path(&format!("backup-{number}{end}"));
        let restored = cluster.path(&format!("restored-{number}{end}"));
        assert_success(&back_up(&cluster, &backup));
        assert_success(&restore(&backup, &restored));
        assert!(backup.join("BACKUP").exists() && restored.join("LIVE").exists(), "`{end}`");
    }
    let mut names: Vec<_> = fs::read_dir(cluster.path("")).unwrap().map(Result::unwrap).collect();
    names.retain(|file| file.file_name().to_string_lossy().contains('.'));
    assert!(names.is_empty(), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_directory_belongs_to_its_node_before_the_first_start() {
    let cluster = Cluster::start(1, &[]).await;
    cluster.client(10).put("a", "1").await.unwrap();
    let (backup, restored) = (cluster.path("backup"), cluster.path("restored"));
    assert_success(&back_up(&cluster, &backup));
    assert_success(&restore(&backup, &restored));
    let address = format!("127.0.0.1:{}", free_port());
    let serve = tokio::process::Command::new(PROGRAM)
        .args(["serve", "--id", "2", "--listen", &address, "--dir"])
        .arg(&restored)
        .kill_on_drop(true)
        .output();
    let ended = tokio::time::timeout(Duration::from_secs(20), serve).await;
    let ended = ended.expect("node 2 refuses the directory of node 1").unwrap();
    let words = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && words.contains("of node 1"), "{words}");
}

/// The log of a restored cluster begins so late that all sessions of the old one have expired.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_session_has_expired_goes_on_in_another_one() {
    let mut cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(20);
    client.put("a", "1").await.unwrap();
    let (backup, address) = (cluster.path("backup"), cluster.nodes[0].address.clone());
    assert_success(&back_up(&cluster, &backup));
    cluster.kill(1);
    assert_success(&restore_at(&backup, &cluster.dir(1), &address));
    cluster.run(1);
    cluster.leader().await;
    for value in ["2", "3"] {
        client.put("a", value).await.unwrap();
        let read = client.get(b"a", Read::Linearizable).await.unwrap();
        assert_eq!(read.as_deref(), Some(value.as_bytes()));
    }
}
