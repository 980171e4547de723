//! The kinds of values.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use axum::http::Uri;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use weft_core::builtin;

/// The names that tenants can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TenantNames {
    /// Any name.
    Any,
    /// The id of an object of kind `tenant`.
    Declared,
}

/// A way in which rules are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// One worker is the engine's thread alone.
    Fused,
    /// One worker is one of timely's too.
    Timely,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// An object of JSON for each line.
    Json,
}

/// The address of a receiver of spans: `http://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtlpEndpoint(String);

impl OtlpEndpoint {
    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OtlpEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = |why: &str| {
            format!(
                "{text:?} is no receiver of spans: {why}; use http://HOST:PORT, such as http://127.0.0.1:4317"
            )
        };
        let uri: Uri = text.parse().map_err(|_| fault("it is no URL"))?;
        match uri.scheme_str() {
            Some("http") if uri.port_u16().is_none() => Err(fault("it has no port")),
            // The endpoint is in the log and in bundles.
            Some("http") if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) => {
                Err(fault("a name and a password are not sent to a collector nearby"))
            }
            Some("http") if !matches!(uri.path(), "" | "/") || uri.query().is_some() => {
                Err(fault("OTLP over gRPC has no path"))
            }
            Some("http") => Ok(OtlpEndpoint(text.to_owned())),
            Some("https") => {
                Err(fault("spans are sent without encryption, to a collector nearby that encrypts"))
            }
            _ => Err(fault("it does not begin with http://")),
        }
    }
}

impl<'de> Deserialize<'de> for OtlpEndpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A share from 0 to 1, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    /// As a number from 0 to 1.
    pub fn get(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

impl Default for Share {
    /// One of a hundred.
    fn default() -> Self {
        Share(10_000)
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = f64::deserialize(deserializer)?;
        let fault =
            || de::Error::custom(format!("{given} is no share; use a number from 0 to 1, such as 0.01"));
        if (0.0..=1.0).contains(&given) { Ok(Share((given * 1e6).round() as u32)) } else { Err(fault()) }
    }
}

/// A number of threads that evaluate rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers(usize);

impl Workers {
    /// The most threads. Each needs memory and a connection to every other thread.
    pub const MOST: usize = 256;

    /// The number.
    pub fn get(self) -> usize {
        self.0
    }
}

impl Default for Workers {
    fn default() -> Self {
        Workers(1)
    }
}

impl Serialize for Workers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Workers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let count = i64::deserialize(deserializer)?;
        let workers = usize::try_from(count).ok().filter(|count| (1..=Workers::MOST).contains(count));
        workers.map(Workers).ok_or_else(|| {
            let most = Workers::MOST;
            de::Error::custom(format!("{count} workers are not possible; use a number from 1 to {most}"))
        })
    }
}

/// A share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Percent(pub u8);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = i64::deserialize(deserializer)?;
        let share = u8::try_from(given).ok().filter(|share| *share <= 100);
        let fault = || de::Error::custom(format!("{given} is no percentage; use a number from 0 to 100"));
        share.map(Percent).ok_or_else(fault)
    }
}

/// The rules that a controller runs: folders and files that form one program. `builtin` is the built-in rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Packages(Vec<PathBuf>);

impl Packages {
    /// The paths.
    pub fn paths(&self) -> &[PathBuf] {
        &self.0
    }

    /// The same, with relative paths counted from a folder.
    pub(super) fn beside(self, folder: &Path) -> Packages {
        let path = |path: PathBuf| {
            if builtin::owns(&path) {
                return path;
            }
            let path = folder.join(path);
            if builtin::owns(&path) { Path::new(".").join(path) } else { path }
        };
        Packages(self.0.into_iter().map(path).collect())
    }
}

impl Default for Packages {
    fn default() -> Self {
        Packages(vec![builtin::NAME.into()])
    }
}

impl<'de> Deserialize<'de> for Packages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a path is wanted, or a list of paths, such as [\"builtin\", \"quarantine\"]"
        )]
        enum Given {
            One(PathBuf),
            Many(Vec<PathBuf>),
        }
        match Given::deserialize(deserializer)? {
            Given::One(path) => Ok(Packages(vec![path])),
            Given::Many(paths) if paths.is_empty() => {
                Err(de::Error::custom("no rules are given; leave `rules` out for the built-in ones"))
            }
            Given::Many(paths) => Ok(Packages(paths)),
        }
    }
}

/// Names of counters that switches are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CounterNames(Vec<String>);

impl CounterNames {
    /// The names, each once.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for CounterNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a name is wanted, or a list of names, such as [\"drops\", \"acl-packets\"]"
        )]
        enum Given {
            One(String),
            Many(Vec<String>),
        }
        let given = match Given::deserialize(deserializer)? {
            Given::One(name) => vec![name],
            Given::Many(names) => names,
        };
        let mut names = Vec::new();
        for name in given {
            if name.is_empty() {
                return Err(de::Error::custom(
                    "a name is empty; `weft get listings` lists those that there are",
                ));
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(CounterNames(names))
    }
}

/// Where the API listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A unix socket, by its absolute path. Its owner and group can connect.
    Unix(PathBuf),
}

impl Default for Listen {
    /// The socket in the user's run folder.
    fn default() -> Self {
        let uid = rustix::process::geteuid();
        let folder = match std::env::var_os("XDG_RUNTIME_DIR") {
            _ if uid.is_root() => PathBuf::from("/run"),
            Some(folder) if Path::new(&folder).is_absolute() => PathBuf::from(folder),
            _ => PathBuf::from(format!("/run/user/{}", uid.as_raw())),
        };
        Listen::Unix(folder.join("weft/weft.sock"))
    }
}

impl Listen {
    /// Whether other machines can connect.
    pub fn is_open(&self) -> bool {
        matches!(self, Listen::Tcp(address) if !address.ip().is_loopback())
    }
}

/// The permissions of a unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl Default for SocketMode {
    fn default() -> Self {
        SocketMode(0o600)
    }
}

impl Serialize for SocketMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:04o}", self.0))
    }
}

impl<'de> Deserialize<'de> for SocketMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
        let fault =
            || de::Error::custom(format!("{text:?} is not a mode; use octal digits, such as \"0660\""));
        mode.map(SocketMode).ok_or_else(fault)
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Listen::Unix(PathBuf::from(path))),
            Some(_) => Err(format!("{text:?}: the path of a socket must be absolute, such as unix:/run/weft.sock")),
            None => text.parse().map(Listen::Tcp).map_err(|_| {
                format!("{text:?} is not an address to listen on; use ADDRESS:PORT, such as 127.0.0.1:6657, or unix:/PATH")
            }),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_stand_beside_the_built_in_rules() {
        let paths = |rules: &str, folder: &str| {
            let rules = Packages::deserialize(toml::de::ValueDeserializer::parse(rules).unwrap()).unwrap();
            let rules = rules.beside(Path::new(folder));
            rules.0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths("[\"builtin\", \"q\"]", "/etc/weft"), ["builtin", "/etc/weft/q"]);
        assert_eq!(paths("\"builtin\"", "/etc"), ["builtin"]);
        // A folder of the same name stays one.
        assert_eq!(paths("\"./builtin\"", "/etc"), ["/etc/./builtin"]);
        assert_eq!(paths("\"./builtin\"", ""), ["./builtin"]);
        assert_eq!(paths("\"q\"", "builtin"), ["./builtin/q"]);
    }
}
