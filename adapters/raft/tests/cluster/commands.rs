//! Tests of the command.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::processes::{Cluster, PROGRAM};

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
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
