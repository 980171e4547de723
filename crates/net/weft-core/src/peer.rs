//! The requester of a transaction, as named by the client and as identified by the system.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::answered::RequestKey;

/// The process or host at the other end of a connection, as identified by the system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// The name and the role in its certificate, over TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Its address and port, over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// The user id of the process, over a unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The name of this user, if `/etc/passwd` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The process id, over a unix socket, if the system reveals it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// The requester of a transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its own description: `weft apply`, `switch hv1`, …
    pub by: String,
    /// Its identity according to the system; `None` if the request did not arrive over a connection.
    pub peer: Option<Peer>,
    /// The key that it gave the request.
    pub key: Option<RequestKey>,
    /// The tenant within whose objects its request stays, unless it may change those of all.
    pub tenant: Option<String>,
}

impl Peer {
    /// A host.
    pub fn tcp(address: SocketAddr) -> Self {
        Peer { address: Some(address), ..Peer::default() }
    }

    /// A process of this machine, and the name of its user if there is one.
    pub fn unix(uid: u32, user: Option<String>, pid: Option<i32>) -> Self {
        Peer { uid: Some(uid), user, pid, ..Peer::default() }
    }

    /// The same, which has shown a certificate with this name and role.
    #[must_use]
    pub fn identified(self, identity: String) -> Self {
        Peer { identity: Some(identity), ..self }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.identity.clone());
        parts.extend(self.address.map(|address| address.to_string()));
        parts.extend(self.uid.map(|uid| format!("uid {uid}")));
        parts.extend(self.user.as_ref().map(|user| format!("({user})")));
        parts.extend(self.pid.map(|pid| format!("pid {pid}")));
        f.write_str(&parts.join(" "))
    }
}

impl From<&str> for Origin {
    fn from(by: &str) -> Self {
        Origin { by: by.to_owned(), ..Origin::default() }
    }
}

impl From<String> for Origin {
    fn from(by: String) -> Self {
        Origin { by, ..Origin::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_what_the_system_knows_and_no_more() {
        let root = Peer::unix(0, Some("root".to_owned()), Some(7));
        assert_eq!(root.to_string(), "uid 0 (root) pid 7");
        assert_eq!(serde_json::to_string(&root).unwrap(), r#"{"uid":0,"user":"root","pid":7}"#);
        let unknown = Peer::unix(4_000_000_000, None, None);
        assert_eq!(serde_json::to_string(&unknown).unwrap(), r#"{"uid":4000000000}"#);
        let host = Peer::tcp(SocketAddr::from(([192, 0, 2, 1], 40_000)));
        assert_eq!(serde_json::to_string(&host).unwrap(), r#"{"address":"192.0.2.1:40000"}"#);
        assert_eq!(host.to_string(), "192.0.2.1:40000");
        let alice = host.identified("alice (operator)".to_owned());
        assert_eq!(
            serde_json::to_string(&alice).unwrap(),
            r#"{"identity":"alice (operator)","address":"192.0.2.1:40000"}"#
        );
        assert_eq!(alice.to_string(), "alice (operator) 192.0.2.1:40000");
    }
}
