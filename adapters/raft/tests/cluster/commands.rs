//! Tests of the command.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::processes::{Cluster, PROGRAM, free_port, http};

fn run(arguments: &[&str], input: &[u8]) -> Output {
    run_to(Stdio::piped(), arguments, input)
}

/// Runs a command whose stdout is a pipe without a reader.
fn run_unread(arguments: &[&str], input: &[u8]) -> Output {
    run_to(unread(), arguments, input)
}

fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Stdio::from(writer)
}

fn run_to(stdout: Stdio, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its arguments may end before it reads its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn values_come_from_files_and_changes_go_in_and_out() {
    let cluster = Cluster::start(1, &[]).await;
    let nodes = cluster.nodes[0].address.clone();
    let with = |command: &str, rest: &[&str], input: &[u8]| {
        run(&[&[command, "--nodes", &nodes], rest].concat(), input)
    };
    stdout(&with("put", &["piped", "-"], b"\x00two\nlines"));
    assert_eq!(with("get", &["piped"], b"").stdout, b"\x00two\nlines");
    let file = cluster.path("value");
    std::fs::write(&file, b"of a file").unwrap();
    stdout(&with("put", &["file", &format!("@{}", file.display())], b""));
    assert_eq!(with("get", &["file"], b"").stdout, b"of a file");
    let missing = with("put", &["x", "@/no/such/file"], b"");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/no/such/file"));

    let operations = b"put\tb/1\t\\x00one\ncommit\nput\tb/2\ttwo\ndelete\tfile\n";
    assert_eq!(stdout(&with("batch", &[], operations)), "committed 1\ncommitted 2\n");
    assert_eq!(stdout(&with("scan", &["--prefix", "b/"], b"")), "b/1\t\\x00one\nb/2\ttwo\n");
    let wrong = with("batch", &[], b"put\tc\td\nfrob\n");
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("line 2"));

    let watched = stdout(&with("watch", &["--after", "0", "--limit", "5"], b""));
    let lines: Vec<&str> = watched.lines().collect();
    let changes: Vec<&str> = lines.iter().map(|line| line.split_once('\t').unwrap().1).collect();
    let expected = [
        "put\tpiped\t\\x00two\\nlines",
        "put\tfile\tof a file",
        "put\tb/1\t\\x00one",
        "put\tb/2\ttwo",
        "delete\tfile",
    ];
    assert_eq!(changes, expected);
    // It continues within a batch.
    let (id, _) = lines[3].split_once('\t').unwrap();
    let rest = stdout(&with("watch", &["--after", id, "--limit", "1"], b""));
    assert_eq!(rest.trim_end(), lines[4]);
}

#[test]
fn a_folder_of_three_nodes_is_not_run_as_five() {
    let home = tempfile::tempdir().unwrap();
    for id in 1..=3 {
        std::fs::create_dir(home.path().join(format!("node-{id}"))).unwrap();
    }
    let output = run(&["cluster", "--nodes", "5", home.path().to_str().unwrap()], b"");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("--nodes 3"), "{words}");
}

#[test]
fn a_node_says_that_it_listens_only_when_it_does() {
    let home = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = home.path().join("node");
    let serve = ["serve", "--id", "1", "--listen", &address, "--dir", dir.to_str().unwrap()];
    let output = run(&serve, b"");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("in use"), "{words}");
    assert!(!words.contains("listens on"), "{words}");

    let output = run(&[&serve[..], &["--max-request-bytes", "500000000"]].concat(), b"");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && words.contains("from 1 to"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_output_nobody_reads_applies_all_its_groups() {
    let cluster = Cluster::start(1, &[]).await;
    let nodes = cluster.nodes[0].address.clone();
    let groups = b"put\ta\t1\ncommit\nput\tb\t2\ncommit\nput\tc\t3\n";
    let ran = run_unread(&["batch", "--nodes", &nodes], groups);
    assert_eq!((ran.status.code(), stdout(&ran).as_str()), (Some(0), ""));
    assert_eq!(stdout(&run(&["scan", "--nodes", &nodes], b"")), "a\t1\nb\t2\nc\t3\n");
}

/// Returns the arguments of a command that sends a request to `node`.
fn to<'a>(node: &'a str, command: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&[command, "--nodes", node], rest].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_stdout_changes_no_exit_code() {
    let mut cluster = Cluster::without_nodes(&[]);
    let ((_, first), (_, second)) = (cluster.add(), cluster.add());
    let (backup, restored) = (cluster.path("backup"), cluster.path("restored"));
    let (backup, restored) = (backup.to_str().unwrap(), restored.to_str().unwrap());
    let member = format!("2={second}");
    let restore = ["restore", backup, "--dir", restored, "--id", "1", "--advertise", &first];
    let cases = [
        (to(&first, "init", &[]), 0),
        (to(&first, "join", &[&member]), 0),
        (to(&first, "status", &[]), 0),
        (to(&first, "put", &["a", "1"]), 0),
        (to(&first, "get", &["a"]), 0),
        (to(&first, "get", &["b"]), 1),
        (to(&first, "scan", &[]), 0),
        (to(&first, "backup", &[backup]), 0),
        (restore.to_vec(), 0),
        (to(&first, "leave", &["2"]), 0),
    ];
    for (arguments, code) in cases {
        let ran = run_unread(&arguments, b"");
        let words = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_messages_nobody_reads_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let _node = tokio::process::Command::new(PROGRAM)
        .args(["serve", "--id", "1", "--listen", &address, "--dir"])
        .arg(home.path().join("node"))
        .stderr(unread())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    stdout(&run(&["init", "--nodes", &address], b""));
    // The node says that it refuses this.
    let (status, words) = http(&address, "POST", "/raft/claim", &[], b"{}").await.unwrap();
    assert!(status == 400 && words.contains("checksum"), "{status} {words}");
    stdout(&run(&["put", "--nodes", &address, "a", "1"], b""));
}
