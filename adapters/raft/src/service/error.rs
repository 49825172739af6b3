//! Errors as HTTP responses: a status, and JSON that describes the error.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use openraft::BasicNode;
use openraft::error::{CheckIsLeaderError, ClientWriteError, ForwardToLeader, RaftError};
use serde::{Deserialize, Serialize};

/// An error that a client receives.
#[derive(Clone, Debug)]
pub(crate) enum ApiError {
    /// This node is not the leader, and has changed nothing. Contains the leader's address if this
    /// node knows the leader.
    NotLeader(Option<String>),
    /// The request cannot be served at present, and has changed nothing.
    Unavailable(String),
    /// The outcome is unknown: the request may or may not have been applied.
    Unknown(String),
    /// The request is invalid.
    Bad(StatusCode, String),
    /// An internal error of the node.
    Internal(String),
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// The address of the leader to which a response redirects the client. The middleware `guard` turns
/// this address into a URL.
#[derive(Clone)]
pub(crate) struct Leader(pub(crate) String);

/// The body of the response for an error.
#[derive(Serialize, Deserialize)]
pub(crate) struct ErrorBody {
    pub(crate) error: String,
    /// The address of the leader, if another node is the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) leader: Option<String>,
}

impl ApiError {
    pub(crate) fn bad(what: impl Into<String>) -> ApiError {
        ApiError::Bad(StatusCode::BAD_REQUEST, what.into())
    }

    pub(crate) fn with(status: StatusCode, what: impl Into<String>) -> ApiError {
        ApiError::Bad(status, what.into())
    }

    pub(crate) fn internal(what: impl std::fmt::Display) -> ApiError {
        ApiError::Internal(what.to_string())
    }

    /// Returns a description of the error.
    pub(crate) fn message(&self) -> String {
        match self {
            ApiError::NotLeader(Some(leader)) => format!("the leader is {leader}"),
            ApiError::NotLeader(None) => "there is no leader at present".into(),
            ApiError::Unavailable(what)
            | ApiError::Unknown(what)
            | ApiError::Bad(_, what)
            | ApiError::Internal(what) => what.clone(),
        }
    }

    pub(crate) fn forward(forward: ForwardToLeader<u64, BasicNode>) -> ApiError {
        ApiError::NotLeader(forward.leader_node.map(|node| node.addr))
    }
}

impl From<RaftError<u64, ClientWriteError<u64, BasicNode>>> for ApiError {
    fn from(error: RaftError<u64, ClientWriteError<u64, BasicNode>>) -> ApiError {
        match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(to)) => ApiError::forward(to),
            RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => {
                ApiError::with(StatusCode::CONFLICT, error.to_string())
            }
            // The entry may be in the logs of a majority, which then apply it.
            RaftError::Fatal(error) => ApiError::Unknown(error.to_string()),
        }
    }
}

impl From<RaftError<u64, CheckIsLeaderError<u64, BasicNode>>> for ApiError {
    fn from(error: RaftError<u64, CheckIsLeaderError<u64, BasicNode>>) -> ApiError {
        match error {
            RaftError::APIError(CheckIsLeaderError::ForwardToLeader(to)) => ApiError::forward(to),
            RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(error)) => {
                ApiError::Unavailable(error.to_string())
            }
            RaftError::Fatal(error) => ApiError::internal(error),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = self.message();
        let (status, leader) = match self {
            ApiError::NotLeader(Some(leader)) => (StatusCode::TEMPORARY_REDIRECT, Some(leader)),
            ApiError::NotLeader(None) | ApiError::Unavailable(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, None)
            }
            ApiError::Unknown(_) => (StatusCode::GATEWAY_TIMEOUT, None),
            ApiError::Bad(status, _) => (status, None),
            ApiError::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, None),
        };
        let to = leader.clone().map(Leader);
        let mut response = (status, Json(ErrorBody { error, leader })).into_response();
        if let Some(to) = to {
            response.extensions_mut().insert(to);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use openraft::error::Fatal;

    use super::*;

    #[test]
    fn a_write_that_ends_with_raft_may_have_been_applied() {
        let error: RaftError<u64, ClientWriteError<u64, BasicNode>> =
            RaftError::Fatal(Fatal::Stopped);
        let status = ApiError::from(error).into_response().status();
        assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    }
}
