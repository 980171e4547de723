//! The configuration file.
//!
//! ```
//! let config: controller::Config = toml::from_str(r#"state = "/var/lib/weft""#).unwrap();
//! assert_eq!(config.listen, controller::Listen::default());
//! ```

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use mutual_tls::{Files, Pair};
use serde::{Deserialize, Deserializer, de};
use weft_core::builtin;
use weft_core::core::RULE_ROWS;
use weft_core::levels::Patience;

use crate::journal::Keep;

/// A key of the configuration file, for the reference page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The values that it accepts.
    pub values: &'static str,
    /// Its default, as TOML; `None` if the default is not a fixed value.
    pub default: Option<&'static str>,
    /// Its meaning: lines of Markdown.
    pub meaning: &'static [&'static str],
}

/// Declares each key once: as a field with its default, and in [`KEYS`], the source of
/// `docs/reference/configuration.md`.
macro_rules! keys {
    ($($(#[doc = $meaning:literal])+ $name:ident: $type:ty = $default:expr, $shown:expr, $values:literal;)+) => {
        /// The configuration of a controller: a TOML file. Unknown keys are errors, and every key has a default.
        #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Config {
            $($(#[doc = $meaning])+ pub $name: $type,)+
        }

        impl Default for Config {
            fn default() -> Self {
                Config { $($name: $default,)+ }
            }
        }

        /// All keys, in the order of the reference.
        pub const KEYS: &[Key] = &[$(Key {
            name: stringify!($name),
            values: $values,
            default: $shown,
            meaning: &[$($meaning),+],
        }),+];
    };
}

keys! {
    /// The folder of the journal, which holds all state of the controller. It is created if it does not exist. Only one
    /// controller can use it at a time.
    state: PathBuf = PathBuf::from("/var/lib/weft"), Some("\"/var/lib/weft\""), "a path";
    /// The address of the API. Over TCP it speaks TLS if `tls_certificate` is set. Without, and on a unix socket, anyone who can connect can
    /// change the network. The default is the unix socket `weft/weft.sock` in the user's runtime folder, where clients look for it as well: `/run/weft/weft.sock` for root,
    /// `$XDG_RUNTIME_DIR/weft/weft.sock` for others, and `/run/user/UID/weft/weft.sock` if that variable is not set.
    listen: Listen = Listen::default(), None, "`\"unix:/PATH\"` or `\"ADDRESS:PORT\"`";
    /// The permissions of the unix socket, in octal. With the default, only root and the user that runs the controller can
    /// connect. `"0660"` lets the members of its group connect too.
    socket_mode: SocketMode = SocketMode::default(), Some("\"0600\""), "octal digits in quotes";
    /// The controller's certificate, in PEM, and after it those of its authorities up to the root. With it, the API over TCP speaks TLS and
    /// admits clients with a certificate of `tls_authorities`, and switches can have `ssl:` endpoints. Without it, the API over TCP listens
    /// on loopback only. `tls_key` and `tls_authorities` are needed too. The files are read again when they change.
    tls_certificate: Option<PathBuf> = None, None, "a path";
    /// The private key of `tls_certificate`, in PEM without a password. Other users must not be able to read it.
    tls_key: Option<PathBuf> = None, None, "a path";
    /// The certificates of the authorities that are trusted, in PEM. Whoever has a certificate of one of them can connect; its role decides
    /// what it may do.
    tls_authorities: Option<PathBuf> = None, None, "a path";
    /// The revocation lists of these authorities, in PEM. Connections of a revoked certificate end within ten seconds. An authority without
    /// a list has revoked nothing.
    tls_revoked: Option<PathBuf> = None, None, "a path";
    /// The address where the managers of switches dial in with OVSDB over TLS: those of transport nodes without `ovsdb`. On such a host, run
    /// `ovs-vsctl set-manager ssl:HOST:PORT`. It needs `tls_certificate`. The registered port is 6640.
    listen_ovsdb: Option<SocketAddr> = None, None, "`\"ADDRESS:PORT\"`";
    /// The address where bridges dial in with OpenFlow over TLS: those of transport nodes without `openflow`. The controller sets it as the
    /// controller target of `br-int`. It needs `tls_certificate`. The registered port is 6653.
    listen_openflow: Option<SocketAddr> = None, None, "`\"ADDRESS:PORT\"`";
    /// The address of this machine as switches know it, which they dial. It is needed if the controller listens for them on all addresses, such
    /// as `0.0.0.0`; otherwise it is the address that it listens on. A name works only with an Open vSwitch that resolves names.
    advertise: Option<String> = None, None, "an address, or a name";
    /// The file of bearer tokens, which `weft token` writes and whose changes count within a second. With it, clients need no certificate over
    /// TLS: who sends a token has its role. The long answers of a token that is revoked or expires end within ten seconds.
    tokens: Option<PathBuf> = None, None, "a path";
    /// The rules to run. `"builtin"` is the built-in rules, and the folder of a package extends them:
    /// `["builtin", "quarantine"]`. Without `"builtin"`, a folder replaces the built-in rules. For a folder that is itself named `builtin`, write
    /// `"./builtin"`. Rules that `weft rules load` has loaded since run in their place, until this names others or their files change.
    rules: Packages = Packages::default(), Some("[\"builtin\"]"), "a path, or a list of paths";
    /// Which names the field `tenant` of objects can have. With `"declared"`, an object of kind `tenant` must exist, so that a mistyped name
    /// makes no tenant without a quota; what is there already stays.
    tenants: TenantNames = TenantNames::Any, Some("\"any\""), "`\"any\"` or `\"declared\"`";
    /// How rules are evaluated. `"timely"` runs them on a worker of timely dataflow even if there is only one worker; several workers are
    /// always timely's. It does not change the results.
    engine: EngineKind = EngineKind::Fused, Some("\"fused\""), "`\"fused\"` or `\"timely\"`";
    /// The number of threads that evaluate rules. It does not change the results.
    workers: Workers = Workers::default(), Some("1"), "a number from 1 to 256";
    /// The maximum number of rows that one rule may derive from a request, in addition to 32 for each value in the request. If a rule that
    /// combines many objects with many others exceeds it, the whole request is refused as `too-much-work`, with the rule and its counts.
    /// A request that has been accepted is never refused later, even if this number is reduced.
    rule_rows: NonZeroU64 = default_rule_rows(), Some("1000000"), "a number from 1";
    /// The maximum number of addresses that a host learns, on all ports of all switches. Above it, the switch with the most addresses loses the
    /// one that would age out first, so that one tenant does not push out the addresses of another.
    learned_addresses: NonZeroU32 = default_learned(), Some("65536"), "a number from 1";
    /// The memory, in MiB, that all hosts together may take up in the controller beyond what is expected of each. When it is used
    /// up, the host that takes up the most is disconnected, and tried again after half a minute. Expected is what a host should
    /// have, and 1 MiB for each of its two connections, which is about 150 interfaces.
    switch_memory: NonZeroU32 = mebibytes(128), Some("128"), "a number from 1";
    /// The journal is folded once so many MiB of records have come since the last time, and as many as the state itself has: it then begins
    /// with the state of the network, and its former file stays as a segment, `journal-NUMBER.jsonl`.
    journal_segment: NonZeroU32 = mebibytes(64), Some("64"), "a number from 1";
    /// The most that all segments may take up on disk, in MiB. The oldest goes first, and with it what `weft history`, `weft rollback` and
    /// `weft replay` know of that time.
    journal_size: u32 = 10_240, Some("10240"), "a number from 0";
    /// The days after which a segment is removed.
    journal_days: u16 = 30, Some("30"), "a number from 0 to 65535";
    /// A host is lost after this number of seconds without a connection: other hosts take over what it relays and replicates. A
    /// shorter interruption changes nothing. For its first connection after a start of the controller, a host has at least 30 seconds.
    host_lost_after: u16 = 10, Some("10"), "a number from 0 to 65535";
    /// A lost host is back after this number of seconds with a connection.
    host_back_after: u16 = 2, Some("2"), "a number from 0 to 65535";
    /// The share of the hosts, in percent, that can be lost within a minute. If more disconnect, the controller concludes that it is itself cut
    /// off: it says so in its status and treats no host as lost. With 100, every disconnected host is lost.
    lost_hosts_max: Percent = Percent(50), Some("50"), "a number from 0 to 100";
    /// Whether to take over switches that belong to another controller, which must not be running. Each switch records in
    /// its database to which controller it belongs, and without `take_over` other controllers leave it alone. You need it after you have started
    /// a new journal; remove it once `weft status` shows the switches in sync.
    take_over: bool = false, Some("false"), "`true` or `false`";
    /// The log level (`error`, `warn`, `info`, `debug` or `trace`), or a level for each module, such as
    /// `info,ovs_driver=debug`. The log goes to standard error.
    log: String = "info".to_owned(), Some("\"info\""), "a level, or a list of `MODULE=LEVEL`";
}

/// The most rows of a rule, unless configured.
fn default_rule_rows() -> NonZeroU64 {
    NonZeroU64::new(RULE_ROWS).unwrap_or(NonZeroU64::MAX)
}

/// The most addresses that a host learns, unless configured: as many as 16 ports at their default limit.
fn default_learned() -> NonZeroU32 {
    NonZeroU32::new(65_536).unwrap_or(NonZeroU32::MAX)
}

/// A default in MiB, which is not 0. The memory of hosts is that of the flows of a host that has 400,000 of another controller.
fn mebibytes(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN)
}

/// The names that tenants can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TenantNames {
    /// Any name.
    Any,
    /// The id of an object of kind `tenant`.
    Declared,
}

/// A way in which rules are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// One worker is the engine's thread alone.
    Fused,
    /// One worker is one of timely's too.
    Timely,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packages(Vec<PathBuf>);

impl Packages {
    /// The paths.
    pub fn paths(&self) -> &[PathBuf] {
        &self.0
    }

    /// The same, with relative paths counted from a folder.
    fn beside(self, folder: &Path) -> Packages {
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

/// Where the API listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A unix socket, by its absolute path. Its owner and group can connect.
    Unix(PathBuf),
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The contents of the file are invalid.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1, in Unicode scalar values.
        column: usize,
        /// The fault.
        message: String,
    },
}

/// The positions of values that others contradict.
#[derive(Deserialize)]
struct Places {
    listen: Option<toml::Spanned<String>>,
    listen_ovsdb: Option<toml::Spanned<String>>,
    listen_openflow: Option<toml::Spanned<String>>,
    advertise: Option<toml::Spanned<String>>,
    tls_certificate: Option<toml::Spanned<String>>,
    tls_key: Option<toml::Spanned<String>>,
    tls_authorities: Option<toml::Spanned<String>>,
    tls_revoked: Option<toml::Spanned<String>>,
}

impl Places {
    /// A value that contradicts another one: where it begins, and why.
    fn contradiction(&self, config: &Config) -> Option<(usize, String)> {
        let place = |value: &Option<toml::Spanned<String>>| value.as_ref().map(|value| value.span().start);
        let needed = [
            ("tls_certificate", place(&self.tls_certificate)),
            ("tls_key", place(&self.tls_key)),
            ("tls_authorities", place(&self.tls_authorities)),
        ];
        let given = needed.iter().find_map(|(_, place)| *place).or(place(&self.tls_revoked));
        if let (Some(given), Some((missing, _))) = (given, needed.iter().find(|(_, place)| place.is_none())) {
            return Some((
                given,
                format!("`{missing}` is missing; a certificate, its key and authorities belong together"),
            ));
        }
        if config.listen.is_open() && given.is_none() {
            let message = format!(
                "other machines can connect to {}, without encryption or authentication; set `tls_certificate`, `tls_key` and \
                 `tls_authorities`, or listen on a unix socket or on loopback",
                config.listen
            );
            return Some((place(&self.listen).unwrap_or_default(), message));
        }
        self.dial_in_contradiction(config, given.is_some())
    }

    /// The same of the keys about switches that dial in.
    fn dial_in_contradiction(&self, config: &Config, has_certificate: bool) -> Option<(usize, String)> {
        let start = |value: &Option<toml::Spanned<String>>| {
            value.as_ref().map(|value| value.span().start).unwrap_or_default()
        };
        let listeners = [
            ("listen_ovsdb", config.listen_ovsdb, start(&self.listen_ovsdb)),
            ("listen_openflow", config.listen_openflow, start(&self.listen_openflow)),
        ];
        for (key, listen, start) in listeners {
            let Some(listen) = listen else { continue };
            if !has_certificate {
                let message = format!(
                    "switches that dial in are known by their certificates, so `{key}` needs `tls_certificate`, `tls_key` and \
                     `tls_authorities`"
                );
                return Some((start, message));
            }
            if listen.ip().is_unspecified() && config.advertise.is_none() {
                let message = format!(
                    "{listen} is no address that switches can dial; set `advertise` to the one that they know this machine by"
                );
                return Some((start, message));
            }
        }
        let advertise = config.advertise.as_ref()?;
        let is_host = advertise.parse::<IpAddr>().is_ok()
            || (!advertise.is_empty()
                && advertise.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-".contains(letter)));
        (!is_host).then(|| {
            let message =
                format!("{advertise:?} is neither an address nor a name; write it without port and brackets");
            (start(&self.advertise), message)
        })
    }
}

impl Config {
    /// When a host counts as lost.
    pub fn patience(&self) -> Patience {
        let seconds = |seconds: u16| Duration::from_secs(seconds.into());
        let lost_after = seconds(self.host_lost_after);
        Patience {
            lost_after,
            back_after: seconds(self.host_back_after),
            first: Patience::default().first.max(lost_after),
            most_lost: self.lost_hosts_max.0,
        }
    }

    /// How long records are kept.
    pub fn keep(&self) -> Keep {
        let mebibytes = |count: u32| u64::from(count) << 20;
        Keep {
            segment: mebibytes(self.journal_segment.get()),
            bytes: mebibytes(self.journal_size),
            age: Duration::from_hours(24 * u64::from(self.journal_days)),
        }
    }

    /// Reads a file.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
        let fault = |start: usize, message: String| {
            let before = text.get(..start).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |feed| feed + 1);
            ConfigError::Content {
                path: path.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                message,
            }
        };
        let of_toml = |error: toml::de::Error| {
            fault(
                error.span().map_or(0, |span| span.start),
                nlog_data::quotation::cut(error.message()).into_owned(),
            )
        };
        let mut config: Config = toml::from_str(&text).map_err(of_toml)?;
        let places: Places = toml::from_str(&text).map_err(of_toml)?;
        if let Some((start, message)) = places.contradiction(&config) {
            return Err(fault(start, message));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        config.state = folder.join(&config.state);
        config.rules = config.rules.beside(folder);
        let Config { tls_certificate, tls_key, tls_authorities, tls_revoked, tokens, .. } = &mut config;
        let files = [tls_certificate, tls_key, tls_authorities, tls_revoked, tokens];
        for file in files.into_iter().flatten() {
            *file = folder.join(&*file);
        }
        Ok(config)
    }

    /// The files of the controller's certificate, if it has one.
    pub fn certificates(&self) -> Option<Files> {
        let Config { tls_certificate, tls_key, tls_authorities, tls_revoked, .. } = self.clone();
        let own = Pair { certificate: tls_certificate?, key: tls_key? };
        Some(Files { own: Some(own), authorities: tls_authorities?, revoked: tls_revoked })
    }
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

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_can_be_left_out() {
        assert_eq!(toml::from_str::<Config>("").unwrap(), Config::default());
    }

    #[test]
    fn the_documented_defaults_are_the_defaults() {
        let line = |key: &Key| key.default.map(|value| format!("{} = {value}\n", key.name));
        let text: String = KEYS.iter().filter_map(line).collect();
        assert_eq!(
            text.lines().count(),
            KEYS.len() - 9,
            "`listen`, where switches dial in, the files of TLS and that of tokens have no fixed default"
        );
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), Config::default());
    }

    #[test]
    fn faults_come_with_file_line_and_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.toml");
        let cases = [
            ("state = \"s\"\nlissen = \"\"\n", ":2:1: unknown field `lissen`"),
            (
                "listen = \"unix:weft.sock\"",
                ":1:10: \"unix:weft.sock\": the path of a socket must be absolute",
            ),
            ("listen = \"localhost\"", ":1:10: \"localhost\" is not an address to listen on"),
            ("workers = 0", ":1:11: 0 workers are not possible; use a number from 1 to 256"),
            ("workers = 2000", ":1:11: 2000 workers are not possible; use a number from 1 to 256"),
            ("workers = -1", ":1:11: -1 workers are not possible"),
            ("lost_hosts_max = 101", ":1:18: 101 is no percentage; use a number from 0 to 100"),
            ("socket_mode = \"1000\"", ":1:15: \"1000\" is not a mode"),
            (
                "log = \"info\"\nlisten = \"0.0.0.0:6657\"",
                ":2:10: other machines can connect to 0.0.0.0:6657",
            ),
            ("listen = \"[::]:6657\"", ":1:10: other machines can connect to [::]:6657"),
            (
                "tls_key = \"a.key\"",
                ":1:11: `tls_certificate` is missing; a certificate, its key and authorities",
            ),
            ("tls_certificate = \"a\"\ntls_key = \"b\"", ":1:19: `tls_authorities` is missing"),
            ("tls_revoked = \"a\"", ":1:15: `tls_certificate` is missing"),
            (
                "listen_ovsdb = \"127.0.0.1:6640\"",
                ":1:16: switches that dial in are known by their certificates",
            ),
            ("listen_openflow = \"6653\"", ":1:19: invalid socket address syntax"),
            ("log = ", ":1:7: "),
            ("rules = []", ":1:9: no rules are given; leave `rules` out for the built-in ones"),
            (
                "rules = 1",
                ":1:9: a path is wanted, or a list of paths, such as [\"builtin\", \"quarantine\"]",
            ),
        ];
        for (text, wanted) in cases {
            fs::write(&path, text).unwrap();
            let error = Config::load(&path).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        let error = Config::load(&folder.path().join("none.toml")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the configuration "), "{error}");
    }

    #[test]
    fn a_host_has_as_long_for_its_first_connection_as_for_any() {
        let first = |text: &str| toml::from_str::<Config>(text).unwrap().patience().first.as_secs();
        assert_eq!([first("host_lost_after = 0"), first(""), first("host_lost_after = 600")], [30, 30, 600]);
    }

    #[test]
    fn other_machines_can_connect_only_with_certificates() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.toml");
        let tls = "tls_certificate = \"a.pem\"\ntls_key = \"/b.key\"\ntls_authorities = \"ca.pem\"";
        for text in
            [&format!("listen = \"0.0.0.0:6657\"\n{tls}"), "listen = \"127.0.0.1:1\"", "listen = \"[::1]:1\""]
        {
            fs::write(&path, text).unwrap();
            Config::load(&path).unwrap();
        }
        for (text, wanted) in [
            (format!("listen_openflow = \"0.0.0.0:6653\"\n{tls}"), ":1:19: 0.0.0.0:6653 is no address that"),
            (
                format!("advertise = \"[fd00::1]\"\n{tls}"),
                ":1:13: \"[fd00::1]\" is neither an address nor a name",
            ),
        ] {
            fs::write(&path, text).unwrap();
            let error = Config::load(&path).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        for listen in
            ["listen_openflow = \"10.0.0.1:6653\"", "listen_ovsdb = \"[::]:6640\"\nadvertise = \"fd00::1\""]
        {
            fs::write(&path, format!("{listen}\n{tls}")).unwrap();
            Config::load(&path).unwrap();
        }
        fs::write(&path, tls).unwrap();
        let files = Config::load(&path).unwrap().certificates().unwrap();
        let own = files.own.unwrap();
        assert_eq!(own.certificate, folder.path().join("a.pem"));
        assert_eq!((own.key, files.revoked), (PathBuf::from("/b.key"), None));
    }

    #[test]
    fn relative_paths_count_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.toml");
        fs::write(&path, "state = \"state\"\nrules = \"/usr/share/weft/rules\"\n").unwrap();
        let config = Config::load(&path).unwrap();
        assert_eq!(config.state, folder.path().join("state"));
        assert_eq!(config.rules.paths(), [Path::new("/usr/share/weft/rules")]);
    }

    #[test]
    fn packages_stand_beside_the_built_in_rules() {
        let paths = |rules: &str, folder: &str| {
            let config: Config = toml::from_str(&format!("rules = {rules}")).unwrap();
            let config = config.rules.beside(Path::new(folder));
            config.0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths("[\"builtin\", \"q\"]", "/etc/weft"), ["builtin", "/etc/weft/q"]);
        assert_eq!(paths("\"builtin\"", "/etc"), ["builtin"]);
        // A folder of the same name stays one.
        assert_eq!(paths("\"./builtin\"", "/etc"), ["/etc/./builtin"]);
        assert_eq!(paths("\"./builtin\"", ""), ["./builtin"]);
        assert_eq!(paths("\"q\"", "builtin"), ["./builtin/q"]);
    }
}
