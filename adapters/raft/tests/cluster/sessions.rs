//! Tests of clients whose session has expired, with a node that gives prepared answers.

use std::time::Duration;

use minikv_raft::client::ClientError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::processes::{client_of, free_port};

/// The status and the body of an answer.
type Prepared<'a> = (u16, &'a str);

const OPENED: Prepared<'static> = (200, r#"{"session":1}"#);
const WRITTEN: Prepared<'static> = (200, r#"{"succeeded":true,"index":7}"#);
const EXPIRED: Prepared<'static> = (410, r#"{"error":"the session has expired"}"#);
const NOT_SERVED: Prepared<'static> = (503, r#"{"error":"there is no leader at present"}"#);
const UNKNOWN: Prepared<'static> = (504, r#"{"error":"it may still be applied"}"#);

/// Starts a node that gives these answers, one after the other. Returns its address, and the
/// requests that it gets.
async fn node(answers: &[Prepared<'_>]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = |(status, body): &Prepared<'_>| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status} -\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let answers: Vec<String> = answers.iter().map(answer).collect();
    let serving = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            requests.push(request(&mut stream).await);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        requests
    });
    (address, serving)
}

/// Reads a request. Returns its method and its path.
async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return head.split(' ').take(2).collect::<Vec<_>>().join(" ");
            }
        }
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "a whole request");
    }
}

const OPEN: &str = "POST /v1/sessions";
const PUT: &str = "PUT /v1/kv/a";

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_not_applied_is_sent_again_in_another_session() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let elsewhere = format!(r#"{{"error":"the leader is {nobody}","leader":"{nobody}"}}"#);
    for not_applied in [NOT_SERVED, (307, elsewhere.as_str())] {
        let answers = [OPENED, not_applied, EXPIRED, OPENED, WRITTEN];
        let (address, requests) = node(&answers).await;
        let client = client_of(&[address], Duration::from_secs(10));
        assert_eq!(client.put("a", "1").await, Ok(7), "{not_applied:?}");
        assert_eq!(requests.await.unwrap(), [OPEN, PUT, PUT, OPEN, PUT]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_may_have_been_applied_stays_in_its_session() {
    let (address, requests) = node(&[OPENED, UNKNOWN, EXPIRED]).await;
    let client = client_of(&[address], Duration::from_secs(10));
    let refused = client.put("a", "1").await;
    assert!(matches!(refused, Err(ClientError::Refused(410, _))), "{refused:?}");
    assert_eq!(requests.await.unwrap(), [OPEN, PUT, PUT]);
}
