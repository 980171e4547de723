//! The address of a peer, in the notation of Open vSwitch (`ovsdb(7)`, "Connection Methods").

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a peer: `unix:/path` or `tcp:host:port` (an IPv6 host in brackets, `tcp:[::1]:6640`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A unix domain stream socket.
    Unix(PathBuf),
    /// A TCP port. The host is a name or an address, without brackets.
    Tcp {
        /// A name or an address, resolved at each connection attempt.
        host: String,
        /// From 1 to 65535.
        port: u16,
    },
}

/// The reason why a text is not an [`Endpoint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The method `ssl:` of Open vSwitch, which this crate does not support yet.
    #[error(
        "{0}: ssl: is not supported yet; use unix:/path, or tcp:host:port within a trusted network or tunnel"
    )]
    SslUnsupported(String),
    /// The method is unknown.
    #[error("{0}: unknown connection method; write unix:/path or tcp:host:port")]
    UnknownMethod(String),
    /// The method is known, but the address is malformed.
    #[error("{text}: {problem}; write {form}")]
    Malformed {
        /// The text.
        text: String,
        /// The problem.
        problem: &'static str,
        /// The expected form.
        form: &'static str,
    },
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        match text.split_once(':') {
            Some(("unix", "")) => Err(malformed(text, "the path is empty", "unix:/path")),
            Some(("unix", path)) => Ok(Endpoint::Unix(PathBuf::from(path))),
            Some(("tcp", address)) => parse_tcp(text, address),
            Some(("ssl", _)) => Err(EndpointError::SslUnsupported(text.to_owned())),
            _ => Err(EndpointError::UnknownMethod(text.to_owned())),
        }
    }
}

const TCP_FORM: &str = "tcp:host:port or tcp:[ipv6]:port";

fn parse_tcp(text: &str, address: &str) -> Result<Endpoint, EndpointError> {
    let Some((host, port)) = address.rsplit_once(':') else {
        return Err(malformed(text, "the port is missing", TCP_FORM));
    };
    let port = match port.parse::<u16>() {
        Ok(port) if port != 0 => port,
        _ => return Err(malformed(text, "the port is not a number from 1 to 65535", TCP_FORM)),
    };
    let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
        Some(Some(inner)) => inner,
        Some(None) => return Err(malformed(text, "a bracket is not closed", TCP_FORM)),
        None if host.contains(':') => {
            return Err(malformed(text, "an IPv6 address needs brackets", TCP_FORM));
        }
        None => host,
    };
    if host.is_empty() {
        return Err(malformed(text, "the host is empty", TCP_FORM));
    }
    Ok(Endpoint::Tcp { host: host.to_owned(), port })
}

fn malformed(text: &str, problem: &'static str, form: &'static str) -> EndpointError {
    EndpointError::Malformed { text: text.to_owned(), problem, form }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_print_as_they_parse() {
        for text in
            ["unix:/run/openvswitch/db.sock", "tcp:127.0.0.1:6640", "tcp:[::1]:6640", "tcp:hv1.example:1"]
        {
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint.to_string(), text);
        }
    }

    #[test]
    fn errors_name_the_expected_form() {
        for (text, says) in [
            ("ssl:127.0.0.1:6640", "not supported yet; use unix:/path, or tcp:host:port"),
            ("/run/db.sock", "unknown connection method"),
            ("ptcp:6640", "unknown connection method"),
            ("unix:", "the path is empty"),
            ("tcp:127.0.0.1", "the port is missing"),
            ("tcp:127.0.0.1:0", "from 1 to 65535"),
            ("tcp:127.0.0.1:65536", "from 1 to 65535"),
            ("tcp::6640", "the host is empty"),
            ("tcp:::1:6640", "needs brackets"),
            ("tcp:[::1:6640", "not closed"),
        ] {
            let error = text.parse::<Endpoint>().expect_err(text).to_string();
            assert!(error.starts_with(text) && error.contains(says), "{text}: {error}");
        }
    }
}
