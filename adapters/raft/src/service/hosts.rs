//! Which pages a browser may let talk to this node. A browser sends requests to any address for any
//! page that it shows, also to loopback, so no request is trusted because of where it comes from:
//!
//! - the header `Host` must name this node. A page whose name was rebound to this node's address
//!   sends the name of the page;
//! - a request from a page must come from a page of this node: its header `Origin`, if any, must
//!   name the same host and port as `Host`;
//! - bodies in JSON must have the type `application/json` (see `query.rs`): for a page of another
//!   site, a browser asks the node before it sends them.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};

use crate::service::error::{ApiError, ApiResult};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names under which a node serves requests, besides addresses and `localhost`.
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// Allows the host in `advertised` (`HOST:PORT`) and the names `others`.
    pub(crate) fn new(advertised: &str, others: &[String]) -> Hosts {
        let own = advertised.rsplit_once(':').map_or(advertised, |(host, _)| host);
        let names = others.iter().map(String::as_str).chain([own, "localhost"]);
        Hosts(names.map(normal).collect())
    }

    /// Refuses a request for a host that is not this node, and a request from a page of another
    /// site.
    pub(crate) fn check(&self, request: &Request) -> ApiResult<()> {
        let headers = request.headers();
        let host = text(headers, &header::HOST)
            .and_then(|host| host.parse::<Authority>().ok())
            .ok_or_else(|| ApiError::bad("the header `Host` is missing or wrong"))?;
        for named in [Some(&host), request.uri().authority()].into_iter().flatten() {
            if !self.allows(named.host()) {
                let what = format!(
                    "`{}` is not a name of this node; the option --allow-host adds names",
                    named.host()
                );
                return Err(ApiError::with(StatusCode::FORBIDDEN, what));
            }
        }
        let is_foreign = match headers.contains_key(header::ORIGIN) {
            true => !text(headers, &header::ORIGIN).is_some_and(|origin| is_of(origin, &host)),
            false => {
                let site = text(headers, &FETCH_SITE).unwrap_or("none");
                let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
                changes && !matches!(site, "same-origin" | "none")
            }
        };
        match is_foreign {
            true => Err(ApiError::with(StatusCode::FORBIDDEN, "a page of another site sent this")),
            false => Ok(()),
        }
    }

    fn allows(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok() || self.0.contains(&normal(host))
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    // Two of these headers could mean different things to different readers.
    all.next().is_none().then(|| first.to_str().ok())?
}

fn normal(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns whether the origin of a page names this host and port.
fn is_of(origin: &str, host: &Authority) -> bool {
    let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    named.is_some_and(|named| named.eq_ignore_ascii_case(host.as_str()))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn is_served(method: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().method(method).uri("/v1/status");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let hosts = Hosts::new("db1.example:7101", &["alias.example".into()]);
        hosts.check(&request.body(Body::empty()).unwrap()).is_ok()
    }

    #[test]
    fn only_names_of_the_node_are_served() {
        let good = ["127.0.0.1:7101", "10.0.0.1", "[::1]:7101", "localhost:7101", "LOCALHOST."];
        for host in good.into_iter().chain(["db1.example:7101", "alias.example"]) {
            assert!(is_served("GET", &[("host", host)]), "{host}");
        }
        for host in ["evil.example:7101", "", "127.0.0.1.evil.example", "db1.example.evil:1"] {
            assert!(!is_served("GET", &[("host", host)]), "{host}");
        }
        assert!(!is_served("GET", &[]));
        assert!(!is_served("GET", &[("host", "localhost"), ("host", "evil.example")]));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let host = ("host", "127.0.0.1:7101");
        assert!(is_served("PUT", &[host, ("origin", "http://127.0.0.1:7101")]));
        for origin in ["null", "http://evil.example", "http://127.0.0.1:80", "127.0.0.1:7101", ""] {
            assert!(!is_served("PUT", &[host, ("origin", origin)]), "{origin}");
            assert!(!is_served("GET", &[host, ("origin", origin)]), "{origin}");
        }
        assert!(!is_served("POST", &[host, ("sec-fetch-site", "cross-site")]));
        assert!(is_served("POST", &[host, ("sec-fetch-site", "same-origin")]));
        // A link on another page may lead to the status page.
        assert!(is_served("GET", &[host, ("sec-fetch-site", "cross-site")]));
    }
}
