//! Tests clients that watch changes and reconnect.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use minikv_raft::client::{Client, ClientError, ClientResult};
use minikv_raft::command::Op;
use minikv_raft::watch::{Change, ChangeId};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};

use crate::processes::{Cluster, client_of, free_port, http, wait_for};
use crate::rng::Rng;

/// An event: its id, and its data.
type Event = (String, String);

struct Watcher {
    lines: Lines<BufReader<TcpStream>>,
}

impl Watcher {
    /// Begins to watch keys with the prefix `w/`, after the event `last` or, without it, after the
    /// entry 0.
    async fn connect(address: &str, last: Option<&str>) -> Watcher {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let (query, header) = match last {
            Some(id) => ("", format!("last-event-id: {id}\r\n")),
            None => ("&after=0", String::new()),
        };
        let request =
            format!("GET /v1/watch?prefix=w/{query} HTTP/1.1\r\nhost: {address}\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next_line().await.unwrap().unwrap();
        assert!(status.contains(" 200 "), "{status}, after {last:?}");
        Watcher { lines }
    }

    async fn next(&mut self) -> Event {
        let (mut id, mut data) = (None, None);
        let read = async {
            while id.is_none() || data.is_none() {
                let line = self.lines.next_line().await.unwrap().expect("the stream goes on");
                if line == "event: progress" {
                    // Its id follows, and no data.
                    self.lines.next_line().await.unwrap();
                } else if let Some(text) = line.strip_prefix("id: ") {
                    id = Some(text.to_string());
                } else if let Some(text) = line.strip_prefix("data: ") {
                    data = Some(text.to_string());
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), read).await.expect("an event");
        (id.unwrap(), data.unwrap())
    }
}

/// Watches until `count` events have arrived. Reconnects whenever `stay` says so: after that many
/// events of a connection.
async fn watch(address: &str, count: usize, mut stay: impl FnMut() -> usize) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    while events.len() < count {
        let last = events.last().map(|(id, _)| id.clone());
        let mut watcher = Watcher::connect(address, last.as_deref()).await;
        for _ in 0..stay().min(count - events.len()) {
            events.push(watcher.next().await);
        }
    }
    events
}

fn key_of(event: &Event) -> String {
    let data: serde_json::Value = serde_json::from_str(&event.1).unwrap();
    data["key"].as_str().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_reconnects_after_any_event_loses_and_repeats_nothing() {
    let cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(10);
    let name = |n: usize| format!("w/{n:04}");
    client.put(name(0), "alone").await.unwrap();
    let put = |n| Op { key: Bytes::from(name(n)), value: Some(Bytes::from("in a batch")) };
    client.write(vec![], (1..=1000).map(put).collect()).await.unwrap();
    client.put(name(1001), "alone").await.unwrap();
    let expected: Vec<String> = (0..1002).map(name).collect();
    for every in [1, 2, 3, 7, 10, 100, 333, 1001] {
        let events = watch(&cluster.nodes[0].address, 1002, || every).await;
        let keys: Vec<String> = events.iter().map(key_of).collect();
        assert!(keys == expected, "reconnecting after every {every} events");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_reconnect_beside_writers_see_every_change_once() {
    const WRITERS: usize = 12;
    const PUTS: usize = 100;
    let cluster = Cluster::start(1, &[]).await;
    let address = &cluster.nodes[0].address;
    let writers = (0..WRITERS).map(|writer| {
        let client = cluster.client(10);
        async move {
            for n in 0..PUTS {
                client.put(format!("w/{writer:02}/{n:03}"), "x").await.unwrap();
            }
        }
    });
    let watcher = |seed| {
        let mut rng = Rng(seed);
        watch(address, WRITERS * PUTS, move || 1 + rng.next(9) as usize)
    };
    let writing = futures_util::future::join_all(writers);
    let whole = watch(address, WRITERS * PUTS, || usize::MAX);
    let (_, truth, first, second) = tokio::join!(writing, whole, watcher(1), watcher(2));
    assert!(first == truth && second == truth);
    // The stream without reconnections has every put, those of each writer in its order.
    for writer in 0..WRITERS {
        let mine = format!("w/{writer:02}/");
        let keys = truth.iter().map(key_of).filter(|key| key.starts_with(&mine));
        let expected = (0..PUTS).map(|n| format!("{mine}{n:03}"));
        assert!(keys.eq(expected), "writer {writer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_no_event_is_refused() {
    let cluster = Cluster::start(1, &[]).await;
    let index = cluster.client(5).put("w/1", "x").await.unwrap();
    let address = &cluster.nodes[0].address;
    for id in ["", "x", "1-", "-1", "1-2-3", &index.to_string(), "999999-0"] {
        let headers = [("last-event-id", id)];
        let (status, words) = http(address, "GET", "/v1/watch", &headers, b"").await.unwrap();
        assert_eq!(status, 410, "`{id}`: {words}");
    }
    let (status, words) = http(address, "GET", "/v1/watch?after=x", &[], b"").await.unwrap();
    assert!(status == 400 && words.contains("INDEX-POSITION"), "{status} {words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_a_follower_does_not_know_yet_is_refused_there() {
    let cluster = Cluster::start(3, &[]).await;
    let index = cluster.client(10).put("w/1", "x").await.unwrap();
    let leader = cluster.leader().await;
    let headers = [("last-event-id", "999999-0")];
    for node in &cluster.nodes {
        let watched = http(&node.address, "GET", "/v1/watch", &headers, b"");
        let answered = tokio::time::timeout(Duration::from_secs(10), watched).await;
        let (status, words) = answered.expect("no stream begins").unwrap();
        match node.id == leader {
            true => assert!(status == 410 && words.contains("ends at"), "{status} {words}"),
            false => assert!(status == 503 && words.contains("behind"), "{status} {words}"),
        }
    }
    // The client takes the leader's word for it, and no follower's.
    let (client, each) = (cluster.client(10), |_| ControlFlow::Break(()));
    let watched = client.watch(b"w/", "999999-0".parse().ok(), each);
    let refused = tokio::time::timeout(Duration::from_secs(20), watched).await.expect("an end");
    assert!(matches!(refused, Err(ClientError::Refused(410, _))), "{refused:?}");
    let before = ChangeId::end_of(index - 1);
    client.watch(b"w/", Some(before), each).await.unwrap();
}

/// Watches until the next change, and returns its key.
async fn next_key(watcher: Client) -> ClientResult<Bytes> {
    let mut key = Bytes::new();
    let each = |change: Change| {
        key = change.key;
        ControlFlow::Break(())
    };
    watcher.watch(b"w/", None, each).await?;
    Ok(key)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_watched_in_vain_goes_on_at_another_node() {
    let mut cluster = Cluster::start(3, &[]).await;
    let deadline = Duration::from_secs(3);
    let watcher = cluster.client_of(&[1, 2, 3], deadline);
    let watching = tokio::spawn(next_key(watcher));
    tokio::time::sleep(2 * deadline).await;
    // The client watches the first node.
    cluster.kill(1);
    cluster.run(1);
    cluster.client(20).put("w/1", "x").await.unwrap();
    let seen = tokio::time::timeout(Duration::from_secs(30), watching).await.unwrap().unwrap();
    assert_eq!(seen, Ok(Bytes::from("w/1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_a_quiet_prefix_goes_on_at_a_node_that_was_restarted_since() {
    let mut cluster = Cluster::start(3, &[]).await;
    let watcher = cluster.client_of(&[1, 2, 3], Duration::from_secs(10));
    let watching = tokio::spawn(next_key(watcher));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let index = cluster.client(20).put("x", "1").await.unwrap();
    // Time for an event that tells how far the first node has looked.
    tokio::time::sleep(Duration::from_secs(6)).await;
    for id in [2, 3] {
        cluster.kill(id);
        cluster.run(id);
        let cluster = &cluster;
        let applied = wait_for(|| async move {
            cluster.status(id).await.filter(|status| status.applied >= Some(index))
        });
        assert!(applied.await.is_some(), "node {id} has not caught up");
    }
    cluster.kill(1);
    cluster.run(1);
    cluster.client(20).put("w/1", "x").await.unwrap();
    let seen = tokio::time::timeout(Duration::from_secs(30), watching).await.unwrap().unwrap();
    assert_eq!(seen, Ok(Bytes::from("w/1")));
}

/// Answers every connection with `answer`.
async fn serve_always(listener: TcpListener, answer: &'static str) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_forgotten_speaks_for_no_node_that_is_not_reached() {
    const GONE: &str =
        "HTTP/1.1 410 -\r\nconnection: close\r\ncontent-length: 13\r\n\r\n{\"error\":\"x\"}";
    const CHANGE: &str = "HTTP/1.1 200 -\r\ncontent-type: text/event-stream\r\n\r\ndata: \
        {\"index\":9,\"position\":0,\"key\":\"w/1\",\"value\":\"x\"}\n\n";
    let forgetful = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let later = format!("127.0.0.1:{}", free_port());
    let addresses = [forgetful.local_addr().unwrap().to_string(), later.clone()];
    tokio::spawn(serve_always(forgetful, GONE));
    let client = client_of(&addresses, Duration::from_secs(3));
    let each = |_| ControlFlow::Break(());
    // The other node is reached by nobody, and the deadline ends.
    let refused = client.watch(b"w/", "5-0".parse().ok(), each).await;
    assert!(matches!(refused, Err(ClientError::Refused(410, _))), "{refused:?}");
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        serve_always(TcpListener::bind(later).await.unwrap(), CHANGE).await;
    });
    client.watch(b"w/", "5-0".parse().ok(), each).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_watches_goes_on_at_another_node() {
    const PUTS: usize = 150;
    let mut cluster = Cluster::start(3, &[]).await;
    let (watcher, writer) = (cluster.client(20), cluster.client(20));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let watching = tokio::spawn(async move {
        let mut seen = Vec::new();
        let after = "0".parse().ok();
        let each = |change: Change| {
            seen.push(String::from_utf8(change.key.to_vec()).unwrap());
            counted.store(seen.len(), Ordering::Relaxed);
            if seen.len() < PUTS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        watcher.watch(b"w/", after, each).await.unwrap();
        seen
    });
    for n in 0..PUTS {
        writer.put(format!("w/{n:03}"), "x").await.unwrap();
        if n % 50 == 20 {
            // A node forgets the changes from before it starts: the client must have reached the
            // next node before that one ends, too.
            let count = count.clone();
            let has_gone_on = wait_for(|| {
                let seen = count.load(Ordering::Relaxed);
                async move { (seen + 20 > n).then_some(()) }
            });
            assert!(has_gone_on.await.is_some(), "after {n} puts");
            // The client begins with the first node, and then takes the next ones.
            let id = 1 + (n / 50) as u64;
            cluster.kill(id);
            cluster.run(id);
        }
    }
    let seen = tokio::time::timeout(Duration::from_secs(30), watching).await.unwrap().unwrap();
    let expected = (0..PUTS).map(|n| format!("w/{n:03}"));
    assert!(seen.iter().eq(expected.collect::<Vec<_>>().iter()), "{seen:?}");
}
