//! Tests that pages of other sites cannot use a node through a browser.

use crate::processes::{Cluster, http};

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_and_names_of_others_are_refused() {
    let cluster = Cluster::start(1, &["--allow-host", "db.example"]).await;
    cluster.client(5).put("k", "old").await.unwrap();
    let address = &cluster.nodes[0].address;
    let own = format!("http://{address}");
    let json = ("content-type", "application/json");
    let batch = b"{\"ops\":[{\"key\":\"k\",\"value\":\"new\"}]}";
    let leave = b"{\"id\":1}";
    type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a [u8], u16);
    let refused: &[Case<'_>] = &[
        // A form or a script of another site can send these without asking the node before.
        ("POST", "/v1/batch", &[("content-type", "text/plain")], batch, 415),
        ("POST", "/v1/batch", &[], batch, 415),
        ("POST", "/v1/cluster/leave", &[("content-type", "text/plain")], leave, 415),
        ("POST", "/v1/batch", &[json, ("origin", "http://evil.example")], batch, 403),
        ("POST", "/v1/batch", &[json, ("origin", "null")], batch, 403),
        ("PUT", "/v1/kv/k", &[("origin", "http://evil.example")], b"new", 403),
        ("GET", "/v1/watch", &[("origin", "http://evil.example")], b"", 403),
        ("POST", "/v1/sessions", &[("sec-fetch-site", "cross-site")], b"", 403),
        ("POST", "/v1/cluster/snapshot", &[("origin", "http://evil.example")], b"", 403),
        // The name of a page was bound to the address of the node.
        ("GET", "/v1/kv/k", &[("host", "evil.example:7101")], b"", 403),
        ("PUT", "/v1/kv/k", &[("host", "evil.example:7101")], b"new", 403),
        ("GET", "/", &[("host", "evil.example")], b"", 403),
        ("GET", "/metrics", &[("host", "evil.example")], b"", 403),
        ("GET", "/raft/hello", &[("host", "evil.example")], b"", 403),
    ];
    for (method, path, headers, body, status) in refused {
        let (got, text) = http(address, method, path, headers, body).await.unwrap();
        assert_eq!(got, *status, "{method} {path} {headers:?}: {text}");
    }
    let served: &[Case<'_>] = &[
        ("GET", "/v1/kv/k", &[], b"", 200),
        ("GET", "/v1/kv/k", &[("host", "localhost:7101")], b"", 200),
        ("GET", "/v1/kv/k", &[("host", "db.example")], b"", 200),
        ("GET", "/", &[("origin", &own)], b"", 200),
        // Probes of load balancers use names of their own.
        ("GET", "/health", &[("host", "probe.example")], b"", 200),
        ("PUT", "/v1/kv/k", &[("content-type", "application/x-www-form-urlencoded")], b"x", 200),
        ("POST", "/v1/batch", &[("content-type", "application/json; charset=utf-8")], batch, 200),
    ];
    for (method, path, headers, body, status) in served {
        let (got, text) = http(address, method, path, headers, body).await.unwrap();
        assert_eq!(got, *status, "{method} {path} {headers:?}: {text}");
        // Until the last two requests, nothing has changed.
        assert!(*path != "/v1/kv/k" || *method == "PUT" || text == "old", "{text}");
    }
}
