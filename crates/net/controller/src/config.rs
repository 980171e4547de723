//! The configuration: a file, and variables of the environment that override it.
//!
//! ```
//! let config = controller::Config::default();
//! assert_eq!(config.listen, controller::Listen::default());
//! ```

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use mutual_tls::{Files, Pair};
use serde::{Deserialize as _, Deserializer};
use weft_core::core::RULE_ROWS;
use weft_core::levels::Patience;
use weft_core::machine::Policy;

use crate::journal::Keep;

mod contradictions;
mod effective;
mod reading;
mod values;

pub use effective::{Changed, Effective, Origin};
pub use reading::{ConfigError, Fault, VARIABLE};
pub use values::{
    CounterNames, EngineKind, Listen, LogFormat, OtlpEndpoint, Packages, Percent, Share, SocketMode,
    TenantNames, Workers,
};

/// What a running engine takes from a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What the machine does.
    pub policy: Policy,
    /// How long records are kept.
    pub keep: Keep,
}

/// Which counters of switches are in the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSettings {
    /// Their names.
    pub names: CounterNames,
    /// The seconds from one reading of the switches to the next.
    pub every: NonZeroU32,
}

/// A key of the configuration, for the reference page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The values that it accepts.
    pub values: &'static str,
    /// Its default, as TOML; `None` if the default is not a fixed value.
    pub default: Option<&'static str>,
    /// Whether a running controller takes another value on SIGHUP.
    pub reloads: bool,
    /// Its meaning: lines of Markdown.
    pub meaning: &'static [&'static str],
}

/// Declares each key once: as a field with its default, and in [`KEYS`], the source of
/// `docs/reference/configuration.md`.
macro_rules! keys {
    ($($(#[doc = $meaning:literal])+ $name:ident: $type:ty = $default:expr, $shown:expr, $values:literal $(, $reload:ident)?;)+) => {
        /// The configuration of a controller. Unknown keys are errors, and every key has a default.
        #[derive(Debug, Clone, PartialEq, Eq)]
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
            reloads: !matches!(&[$(stringify!($reload))?] as &[&str], []),
            meaning: &[$($meaning),+],
        }),+];

        impl Config {
            /// Sets a key. `None`: there is none of this name.
            fn set<'de, D: Deserializer<'de>>(&mut self, key: &str, value: D) -> Option<Result<(), D::Error>> {
                match key {
                    $(stringify!($name) => Some(<$type>::deserialize(value).map(|value| self.$name = value)),)+
                    _ => None,
                }
            }

            /// Takes from a later configuration what a running controller can.
            fn take_what_reloads(&mut self, later: Config) {
                $($(
                    // A key that reloads.
                    let _ = stringify!($reload);
                    self.$name = later.$name;
                )?)+
            }

            /// The values, in the order of [`KEYS`]; `None` for a key that is not set and has no default.
            fn values(&self) -> Vec<Option<toml::Value>> {
                vec![$(toml::Value::try_from(&self.$name).ok(),)+]
            }
        }
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
    /// An address of loopback where `/metrics`, `/livez` and `/readyz` are served besides, to everybody on this machine and without
    /// encryption: for a Prometheus or an agent that runs here. Others read `/metrics` at the address of the API, in the role `viewer`.
    listen_metrics: Option<SocketAddr> = None, None, "`\"ADDRESS:PORT\"`";
    /// The counters of switches that are read regularly and are in the metrics: `"drops"` (what is dropped in the whole network, by cause), and
    /// any table of counters that the rules declare and whose counts only grow, such as `"acl-packets"`, by object. `weft get listings` lists them. The
    /// totals begin at 0 with a start of the controller, and what a flow or meter has counted before it was read for the first time is not in
    /// them. The first 1,000 objects of a name have series of their own, and all others share one.
    metrics_counters: CounterNames = CounterNames::default(), Some("[]"), "a name, or a list of names", reload;
    /// The seconds from one reading of these counters to the next. A reading asks each switch that counts, 64 at a time, for 20 seconds at most. After
    /// one that takes long, the switches rest for half of this time.
    metrics_counters_every: NonZeroU32 = not_zero(60), Some("60"), "a number from 1", reload;
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
    tenants: TenantNames = TenantNames::Any, Some("\"any\""), "`\"any\"` or `\"declared\"`", reload;
    /// How rules are evaluated. `"timely"` runs them on a worker of timely dataflow even if there is only one worker; several workers are
    /// always timely's. It does not change the results.
    engine: EngineKind = EngineKind::Fused, Some("\"fused\""), "`\"fused\"` or `\"timely\"`";
    /// The number of threads that evaluate rules. It does not change the results.
    workers: Workers = Workers::default(), Some("1"), "a number from 1 to 256";
    /// The maximum number of rows that one rule may derive from a request, in addition to 32 for each value in the request. If a rule that
    /// combines many objects with many others exceeds it, the whole request is refused as `too-much-work`, with the rule and its counts.
    /// A request that has been accepted is never refused later, even if this number is reduced.
    rule_rows: NonZeroU64 = default_rule_rows(), Some("1000000"), "a number from 1", reload;
    /// The maximum number of addresses that a host learns, on all ports of all switches. Above it, the switch with the most addresses loses the
    /// one that would age out first, so that one tenant does not push out the addresses of another.
    learned_addresses: NonZeroU32 = default_learned(), Some("65536"), "a number from 1";
    /// The memory, in MiB, that all hosts together may take up in the controller beyond what is expected of each. When it is used
    /// up, the host that takes up the most is disconnected, and tried again after half a minute. Expected is what a host should
    /// have, and 1 MiB for each of its two connections, which is about 150 interfaces.
    switch_memory: NonZeroU32 = not_zero(128), Some("128"), "a number from 1";
    /// The journal is folded once so many MiB of records have come since the last time, and as many as the state itself has: it then begins
    /// with the state of the network, and its former file stays as a segment, `journal-NUMBER.jsonl`.
    journal_segment: NonZeroU32 = not_zero(64), Some("64"), "a number from 1", reload;
    /// The most that all segments may take up on disk, in MiB. The oldest goes first, and with it what `weft history`, `weft rollback` and
    /// `weft replay` know of that time.
    journal_size: u32 = 10_240, Some("10240"), "a number from 0", reload;
    /// The days after which a segment is removed.
    journal_days: u16 = 30, Some("30"), "a number from 0 to 65535", reload;
    /// A host is lost after this number of seconds without a connection: other hosts take over what it relays and replicates. A
    /// shorter interruption changes nothing. For its first connection after a start of the controller, a host has at least 30 seconds,
    /// and 30 seconds again whenever another host makes its own.
    host_lost_after: u16 = 10, Some("10"), "a number from 0 to 65535", reload;
    /// A lost host is back after this number of seconds with a connection.
    host_back_after: u16 = 2, Some("2"), "a number from 0 to 65535", reload;
    /// The share of the hosts, in percent, that can be lost within a minute. If more disconnect, the controller concludes that it is itself cut
    /// off: it says so in its status and treats no host as lost. With 100, every disconnected host is lost.
    lost_hosts_max: Percent = Percent(50), Some("50"), "a number from 0 to 100", reload;
    /// Whether to take over switches that belong to another controller, which must not be running. Each switch records in
    /// its database to which controller it belongs, and without `take_over` other controllers leave it alone. You need it after you have started
    /// a new journal; remove it once `weft status` shows the switches in sync.
    take_over: bool = false, Some("false"), "`true` or `false`";
    /// The log level (`error`, `warn`, `info`, `debug` or `trace`), or a level for each module, such as
    /// `info,ovs_driver=debug`. The log goes to standard error.
    log: String = "info".to_owned(), Some("\"info\""), "a level, or a list of `MODULE=LEVEL`", reload;
    /// The form of the log. With `"json"`, each line is an object with `time` (RFC 3339, UTC), `level`, `target`, `message`, and the fields of
    /// the event. A field that has one of these names comes with `field_` before it.
    log_format: LogFormat = LogFormat::Text, Some("\"text\""), "`\"text\"` or `\"json\"`";
    /// The most lines of one message at once. After them, it may log one line a second, and the log says how many more were left out. With 0,
    /// nothing is left out. Lines of `debug` and `trace` never are.
    log_burst: u32 = 20, Some("20"), "a number from 0", reload;
    /// The receiver of spans, by OTLP over gRPC without encryption: a collector of OpenTelemetry on this machine or in a network that is trusted.
    /// The controller works on if it does not answer. Without it, no spans are made.
    otlp_endpoint: Option<OtlpEndpoint> = None, None, "`\"http://HOST:PORT\"`";
    /// The share of calls that have spans. A call whose client has sampled it, as its header `traceparent` says, always has them, and one whose
    /// client has not never has.
    otlp_sample: Share = Share::default(), Some("0.01"), "a number from 0 to 1";
}

/// The most rows of a rule, unless configured.
fn default_rule_rows() -> NonZeroU64 {
    NonZeroU64::new(RULE_ROWS).unwrap_or(NonZeroU64::MAX)
}

/// The most addresses that a host learns, unless configured: as many as 16 ports at their default limit.
fn default_learned() -> NonZeroU32 {
    NonZeroU32::new(65_536).unwrap_or(NonZeroU32::MAX)
}

/// A default, in MiB or seconds, which is not 0. The memory of hosts is that of the flows of a host that has 400,000 of another controller.
fn not_zero(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN)
}

impl Config {
    /// Which counters of switches are in the metrics.
    pub fn counters(&self) -> CounterSettings {
        CounterSettings { names: self.metrics_counters.clone(), every: self.metrics_counters_every }
    }

    /// What can change while a controller runs.
    pub fn settings(&self) -> Settings {
        let policy = Policy {
            rule_rows: self.rule_rows.get(),
            declared_tenants: self.tenants == TenantNames::Declared,
            patience: self.patience(),
        };
        Settings { policy, keep: self.keep() }
    }

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

    /// The files of the controller's certificate, if it has one.
    pub fn certificates(&self) -> Option<Files> {
        let Config { tls_certificate, tls_key, tls_authorities, tls_revoked, .. } = self.clone();
        let own = Pair { certificate: tls_certificate?, key: tls_key? };
        Some(Files { own: Some(own), authorities: tls_authorities?, revoked: tls_revoked })
    }
}

#[cfg(test)]
mod tests;
