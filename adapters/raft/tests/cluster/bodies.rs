//! Tests valid and invalid requests of clients, and the responses to these requests.

use std::time::Duration;

use bytes::Bytes;
use minikv_raft::client::ClientError;
use minikv_raft::service::Read;

use crate::processes::{Cluster, PROGRAM, http, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_serves_every_kind_of_request() {
    let cluster = Cluster::start(3, &[]).await;
    let client = cluster.client(10);
    client.put("fruit/apple", "red").await.unwrap();
    client.put(&b"fruit/\xff\x00?&%"[..], &b"\x00\xfe"[..]).await.unwrap();
    for read in [Read::Linearizable, Read::Lease, Read::Stale] {
        let value = wait_for(|| async { client.get(b"fruit/apple", read).await.unwrap() }).await;
        assert_eq!(value.as_deref(), Some(&b"red"[..]), "{read:?}");
    }
    let odd = client.get(b"fruit/\xff\x00?&%", Read::Linearizable).await.unwrap();
    assert_eq!(odd.as_deref(), Some(&b"\x00\xfe"[..]));

    let set = |expected: Option<&'static str>, value: &'static str| {
        client.compare_and_set("cas", expected.map(Bytes::from), Some(value.into()))
    };
    assert!(!set(Some("1"), "2").await.unwrap());
    assert!(set(None, "1").await.unwrap());
    assert!(!set(None, "2").await.unwrap());
    assert!(set(Some("1"), "2").await.unwrap());

    for n in 0..25 {
        client.put(format!("page/{n:02}"), n.to_string()).await.unwrap();
    }
    let (first, more) = client.range(b"page/", None, 10, Read::Linearizable).await.unwrap();
    assert!(more && first.len() == 10 && first[9].0 == "page/09");
    let after = Some(&b"page/19"[..]);
    let (last, more) = client.range(b"page/", after, 10, Read::Linearizable).await.unwrap();
    assert!(!more && last.len() == 5 && last[0].0 == "page/20");
    client.delete("page/03").await.unwrap();
    assert_eq!(client.get(b"page/03", Read::Linearizable).await.unwrap(), None);

    let leader = cluster.leader().await;
    let address = &cluster.nodes[leader as usize - 1].address;
    let (status, metrics) = http(address, "GET", "/metrics", &[], b"").await.unwrap();
    assert!(status == 200 && metrics.contains("minikv_raft_is_leader 1"));
    let (status, page) = http(address, "GET", "/", &[], b"").await.unwrap();
    assert!(status == 200 && page.contains("leader"));
    assert_eq!(http(address, "GET", "/health", &[], b"").await.unwrap().0, 200);

    // A node that is not the leader redirects the request to the leader.
    let other = cluster.nodes.iter().find(|node| node.id != leader).unwrap();
    for method in ["GET", "PUT"] {
        let (status, body) = http(&other.address, method, "/v1/kv/cas", &[], b"").await.unwrap();
        assert_eq!(status, 307, "{method}");
        assert!(body.contains(address.as_str()), "{body}");
    }
}

/// The request may be a repeated one, whose first attempt was applied.
const EXPIRED: &str =
    "the session has expired: this attempt changed nothing; an earlier one may have";
const EMPTY_KEY: &[u8] = b"{\"ops\":[{\"key\":\"\",\"value\":\"x\"}]}";

#[tokio::test(flavor = "multi_thread")]
async fn bad_and_oversized_requests_get_answers_that_say_so() {
    let cluster = Cluster::start(1, &["--max-request-bytes", "10000"]).await;
    let address = &cluster.nodes[0].address;
    let long_key = format!("/v1/kv/{}", "k".repeat(40_000));
    let large = vec![b'x'; 10_001];
    let session = [("minikv-session", "1")];
    let strange = [("minikv-session", "x"), ("minikv-sequence", "1")];
    let unknown = [("minikv-session", "77"), ("minikv-sequence", "1")];
    let json = [("content-type", "application/json")];
    let id = cluster.status(1).await.unwrap().cluster.unwrap();
    let offer: &[u8] = b"{\"id\":\"../x\",\"files\":[]}";
    let version = ("raft-version", "2");
    let peer = [version, ("raft-from", "1"), ("raft-cluster", id.as_str())];
    let sum = |path: &str, body: &[u8]| {
        crc32c::crc32c_append(crc32c::crc32c(path.as_bytes()), body).to_string()
    };
    let sums = (sum("/raft/1/append", b"\xff\xff"), sum("/raft/1/snapshot", offer));
    let [append, offered] =
        [&sums.0, &sums.1].map(|sum| [&peer[..], &[("raft-crc32c", sum.as_str())]].concat());
    let older = [("raft-version", "1"), ("raft-cluster", id.as_str())];
    type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a [u8], u16, &'a str);
    let cases: &[Case<'_>] = &[
        ("GET", "/v1/kv/missing", &[], b"", 404, "no value"),
        ("GET", "/v1/kv/%zz", &[], b"", 400, "percent"),
        ("GET", "/v1/kv/k?read=fresh", &[], b"", 400, "`read` cannot be `fresh`"),
        ("GET", "/v1/kv/k?reed=stale", &[], b"", 400, "`reed` is unknown"),
        ("PUT", &long_key, &[], b"v", 413, "32768"),
        ("PUT", "/v1/kv/k", &[], &large, 413, "limit"),
        ("PUT", "/v1/kv/k", &session, b"v", 400, "go together"),
        ("PUT", "/v1/kv/k", &strange, b"v", 400, "not a number"),
        ("PUT", "/v1/kv/k", &unknown, b"v", 410, EXPIRED),
        ("POST", "/v1/kv/k", &[], b"v", 405, "method"),
        ("GET", "/v2/kv/k", &[], b"", 404, "no such path"),
        ("POST", "/v1/batch", &json, b"{", 400, "the body"),
        ("POST", "/v1/batch", &json, b"{\"ops\":[{\"key\":\"a\"}]}", 400, "value"),
        ("POST", "/v1/batch", &json, b"{\"ops\":[{\"key\":1,\"value\":null}]}", 400, "base64"),
        ("POST", "/v1/compare-and-set", &json, b"{\"key\":\"a\",\"value\":\"b\"}", 400, "expected"),
        ("GET", "/v1/range?limit=0", &[], b"", 400, "`limit`"),
        ("GET", "/v1/range?limit=x", &[], b"", 400, "`limit`"),
        ("POST", "/v1/cluster/init", &json, b"{}", 409, "already"),
        ("POST", "/v1/cluster/join", &json, b"{\"id\":2,\"address\":\"x\"}", 400, "HOST:PORT"),
        ("POST", "/v1/cluster/leave", &json, b"{\"id\":9}", 404, "no node 9"),
        ("POST", "/raft/1/append", &append, b"\xff\xff", 400, "not a message"),
        ("POST", "/raft/1/append", &append, b"\xff\xfe", 400, "checksum"),
        ("POST", "/raft/1/vote", &append, b"\xff\xff", 400, "checksum"),
        ("POST", "/raft/1/vote", &peer, b"", 400, "checksum"),
        ("POST", "/raft/2/append", &[], b"", 404, "this is node 1"),
        ("POST", "/raft/1/snapshot", &offered, offer, 400, "strange"),
        ("POST", "/raft/1/append", &[version], b"", 409, "names no cluster"),
        ("POST", "/raft/1/append", &older, b"", 409, "messages of version 1; this node knows 2"),
        ("POST", "/raft/1/stream", &older, b"", 409, "messages of version 1; this node knows 2"),
        ("POST", "/raft/1/append", &[], b"", 409, "messages of version 0; this node knows 2"),
        ("POST", "/v1/batch", &[], b"{\"ops\":[]}", 415, "application/json"),
        ("GET", "/v1/kv/", &[], b"", 400, "at least one byte"),
        ("PUT", "/v1/kv/", &[], b"v", 400, "at least one byte"),
        ("POST", "/v1/batch", &json, EMPTY_KEY, 400, "at least one byte"),
        ("GET", "/v1/backup/x/0/0", &[], b"", 410, "no longer keeps"),
    ];
    for (method, path, headers, body, status, words) in cases {
        let (got, text) = http(address, method, path, headers, body).await.unwrap();
        let path = &path[..path.len().min(40)];
        assert_eq!(got, *status, "{method} {path}: {text}");
        assert!(text.contains(words), "{method} {path}: {text}");
    }
    // After all these requests, the node still works.
    cluster.client(5).put("k", "v").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_sent_twice_is_applied_once() {
    let cluster = Cluster::start(3, &[]).await;
    let client = cluster.client(10);
    let leader = cluster.leader().await;
    let address = cluster.nodes[leader as usize - 1].address.clone();
    let (_, body) = http(&address, "POST", "/v1/sessions", &[], b"").await.unwrap();
    let session: String = body.chars().filter(char::is_ascii_digit).collect();
    let cas = async |sequence: &str, expected: &str, value: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("minikv-session", session.as_str()),
            ("minikv-sequence", sequence),
        ];
        let body = format!("{{\"key\":\"n\",\"expected\":{expected},\"value\":{value}}}");
        let path = "/v1/compare-and-set";
        http(&address, "POST", path, &headers, body.as_bytes()).await.unwrap()
    };
    let first = cas("1", "null", "\"1\"").await;
    assert_eq!(first.0, 200);
    client.put("n", "other").await.unwrap();
    // The test repeats the request with the same sequence number. The request gets the answer of
    // the first one and changes nothing.
    assert_eq!(cas("1", "null", "\"1\"").await, first);
    assert_eq!(client.get(b"n", Read::Linearizable).await.unwrap().as_deref(), Some(&b"other"[..]));
    assert_eq!(cas("2", "\"other\"", "\"2\"").await.0, 200);
    let (status, text) = cas("1", "null", "\"1\"").await;
    assert!(status == 409 && text.contains("later"), "{status} {text}");
    assert_eq!(client.get(b"n", Read::Linearizable).await.unwrap().as_deref(), Some(&b"2"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_gets_every_change_in_order() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(5);
    let before = client.put("w/0", "zero").await.unwrap();
    let address = &cluster.nodes[0].address;
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = "GET /v1/watch?prefix=w/&after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    // The node accepts `after=0`, because it still has all changes since the first log entry.
    stream.write_all(request.as_bytes()).await.unwrap();
    client.put("other", "x").await.unwrap();
    client.put("w/1", "one").await.unwrap();
    client.delete("w/0").await.unwrap();
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    let wanted = "\"w/0\",\"value\":null";
    let read = async {
        while !text.contains(wanted) {
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "{text}");
            text += &String::from_utf8_lossy(&buffer[..read]);
        }
    };
    tokio::time::timeout(Duration::from_secs(10), read).await.unwrap();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part} in {text}"));
    assert!(at("\"value\":\"zero\"") < at("\"value\":\"one\""));
    assert!(at("\"value\":\"one\"") < at(wanted));
    assert!(!text.contains("other") && text.contains(&format!("id: {before}-0\n")));
}

#[test]
fn a_node_does_not_listen_to_others_without_tls_and_a_token() {
    let home = tempfile::tempdir().unwrap();
    let run = |listen: &str| {
        let output = std::process::Command::new(PROGRAM)
            .args(["serve", "--id", "1", "--listen", listen, "--dir"])
            .arg(home.path().join("node"))
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for listen in ["0.0.0.0:7999", "[::]:7999", "192.0.2.1:7999"] {
        let (code, words) = run(listen);
        assert_eq!(code, Some(1), "{words}");
        for part in ["--cert", "--ca", "--token-file"] {
            assert!(words.contains(part), "{words}");
        }
    }
    assert!(!home.path().join("node").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_and_the_token_are_needed_once_they_are_set() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let names = vec!["localhost".to_string(), "127.0.0.1".to_string()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(path("cert"), made.cert.pem()).unwrap();
    std::fs::write(path("key"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(path("token"), "0123456789abcdef0123\n").unwrap();
    std::fs::write(path("wrong"), "0123456789abcdef0124\n").unwrap();
    let option = |name: &str| path(name).display().to_string();
    let (cert, key, token) = (option("cert"), option("key"), option("token"));
    let extra =
        ["--cert", &cert, "--key", &key, "--ca", &cert, "--token-file", &token].map(String::from);
    let cluster = Cluster::without_nodes(&extra.each_ref().map(String::as_str));
    let mut cluster = cluster;
    let members: Vec<_> = (0..3).map(|_| cluster.add()).collect();
    let client = |token: Option<&str>, ca: Option<&str>| {
        let trust =
            minikv_raft::service::tls::Trust { ca: ca.map(&path), token_file: token.map(&path) };
        let deadline = Duration::from_secs(if token == Some("token") { 20 } else { 2 });
        minikv_raft::client::Client::new(&cluster.addresses(), &trust, deadline).unwrap()
    };
    let good = client(Some("token"), Some("cert"));
    good.init(&members).await.unwrap();
    // The nodes also send their messages to each other over TLS.
    good.put("k", "v").await.unwrap();
    assert_eq!(good.get(b"k", Read::Linearizable).await.unwrap().as_deref(), Some(&b"v"[..]));

    for wrong in [client(None, Some("cert")), client(Some("wrong"), Some("cert"))] {
        let refused = wrong.status().await.unwrap_err();
        assert!(matches!(refused, ClientError::Refused(401, _)), "{refused}");
    }
    let plain = client(Some("token"), None).status().await.unwrap_err();
    let says_tls = |what: &str| what.contains("speaks TLS") && what.contains("--ca");
    assert!(matches!(&plain, ClientError::Refused(400, what) if says_tls(what)), "{plain}");
}
