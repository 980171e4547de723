//! The address of a peer, in the notation of Open vSwitch (`ovsdb(7)`, "Connection Methods").

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a peer: `unix:/path`, `tcp:host:port` or `ssl:host:port` (an IPv6 host in brackets, `tcp:[::1]:6640`). A peer that dials in
/// has none.
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
    /// A TCP port that speaks TLS, with certificates on both sides.
    Ssl {
        /// A name or an address, resolved at each connection attempt.
        host: String,
        /// From 1 to 65535.
        port: u16,
        /// The name that the certificate of the peer must have: its host, unless [`named`](Endpoint::named) says otherwise.
        name: String,
    },
    /// Wherever the peer dials in from. It has no textual form.
    DialIn {
        /// The name that its certificate must have.
        name: String,
        /// Where it dials, such as `ssl:192.0.2.1:6640`: an address of this process, as the peer knows it.
        target: String,
    },
}

impl Endpoint {
    /// The same, where the certificate of the peer must have this name.
    #[must_use]
    pub fn named(self, name: &str) -> Endpoint {
        match self {
            Endpoint::Ssl { host, port, .. } => Endpoint::Ssl { host, port, name: name.to_owned() },
            other => other,
        }
    }
}

/// The reason why a text is not an [`Endpoint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The method is unknown.
    #[error("{0}: unknown connection method; write unix:/path, tcp:host:port or ssl:host:port")]
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
            Some(("tcp", address)) => {
                let (host, port) = parse_address(text, address)?;
                Ok(Endpoint::Tcp { host, port })
            }
            Some(("ssl", address)) => {
                let (host, port) = parse_address(text, address)?;
                Ok(Endpoint::Ssl { name: host.clone(), host, port })
            }
            _ => Err(EndpointError::UnknownMethod(text.to_owned())),
        }
    }
}

const TCP_FORM: &str = "tcp:host:port or tcp:[ipv6]:port";
const SSL_FORM: &str = "ssl:host:port or ssl:[ipv6]:port";

/// The host and the port of an address, which `text` contains.
fn parse_address(text: &str, address: &str) -> Result<(String, u16), EndpointError> {
    let form = if text.starts_with("ssl") { SSL_FORM } else { TCP_FORM };
    let Some((host, port)) = address.rsplit_once(':') else {
        return Err(malformed(text, "the port is missing", form));
    };
    let port = match port.parse::<u16>() {
        Ok(port) if port != 0 => port,
        _ => return Err(malformed(text, "the port is not a number from 1 to 65535", form)),
    };
    let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
        Some(Some(inner)) => inner,
        Some(None) => return Err(malformed(text, "a bracket is not closed", form)),
        None if host.contains(':') => {
            return Err(malformed(text, "an IPv6 address needs brackets", form));
        }
        None => host,
    };
    if host.is_empty() {
        return Err(malformed(text, "the host is empty", form));
    }
    if host.contains(['[', ']']) {
        return Err(malformed(text, "a bracket is in the host", form));
    }
    Ok((host.to_owned(), port))
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
            Endpoint::Ssl { host, port, .. } if host.contains(':') => write!(f, "ssl:[{host}]:{port}"),
            Endpoint::Ssl { host, port, .. } => write!(f, "ssl:{host}:{port}"),
            Endpoint::DialIn { target, .. } => write!(f, "dial-in at {target}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_print_as_they_parse() {
        for text in [
            "unix:/run/openvswitch/db.sock",
            "tcp:127.0.0.1:6640",
            "tcp:[::1]:6640",
            "tcp:hv1.example:1",
            "ssl:hv1.example:6640",
            "ssl:[::1]:6640",
        ] {
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint.to_string(), text);
        }
    }

    #[test]
    fn a_certificate_must_have_the_name_of_the_host_or_another_that_is_given() {
        let endpoint: Endpoint = "ssl:10.0.0.1:6640".parse().expect("an endpoint");
        let name = |endpoint: &Endpoint| match endpoint {
            Endpoint::Ssl { name, .. } => name.clone(),
            _ => String::new(),
        };
        assert_eq!(name(&endpoint), "10.0.0.1");
        let endpoint = endpoint.named("hv1");
        assert_eq!((name(&endpoint).as_str(), endpoint.to_string().as_str()), ("hv1", "ssl:10.0.0.1:6640"));
    }

    #[test]
    fn errors_name_the_expected_form() {
        for (text, says) in [
            ("ssl:127.0.0.1", "the port is missing; write ssl:host:port"),
            ("ssl:::1:6640", "an IPv6 address needs brackets; write ssl:host:port"),
            ("/run/db.sock", "unknown connection method"),
            ("ptcp:6640", "unknown connection method"),
            ("unix:", "the path is empty"),
            ("tcp:127.0.0.1", "the port is missing"),
            ("tcp:127.0.0.1:0", "from 1 to 65535"),
            ("tcp:127.0.0.1:65536", "from 1 to 65535"),
            ("tcp::6640", "the host is empty"),
            ("tcp:::1:6640", "needs brackets"),
            ("tcp:[::1:6640", "not closed"),
            ("tcp:[[hv1]:6640", "a bracket is in the host"),
            ("tcp:[[::1]]:6640", "a bracket is in the host"),
            ("ssl:hv1]:6640", "a bracket is in the host"),
        ] {
            let error = text.parse::<Endpoint>().expect_err(text).to_string();
            assert!(error.starts_with(text) && error.contains(says), "{text}: {error}");
        }
    }
}
