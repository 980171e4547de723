//! Every metric: its name, kind, unit, labels and meaning. The reference page is made of this list, and nothing is exported that is not
//! in it.

use std::fmt;

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the controller restarts.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It counts observations by size.
    Histogram,
    /// It is 1; its labels are the information.
    Info,
}

/// A unit of measurement, which is a part of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Its name without unit and suffix.
    pub(super) name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Its unit, unless it counts things.
    pub unit: Option<Unit>,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub help: &'static str,
}

/// The name of its samples.
impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Some(Unit::Seconds) => "_seconds",
            Some(Unit::Bytes) => "_bytes",
            None => "",
        };
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        write!(f, "{}{unit}{suffix}", self.name)
    }
}

macro_rules! definitions {
    ($($name:ident = $kind:ident $text:literal [$($label:literal),*] $($unit:ident)?: $help:literal;)+) => {
        $(
            #[doc = $help]
            pub(super) const $name: Definition = Definition {
                name: $text,
                kind: Kind::$kind,
                unit: definitions!(@unit $($unit)?),
                labels: &[$($label),*],
                help: $help,
            };
        )+

        /// All metrics, in the order of the reference.
        pub const DEFINITIONS: &[Definition] = &[$($name),+];
    };
    (@unit) => { None };
    (@unit $unit:ident) => { Some(Unit::$unit) };
}

definitions! {
    BUILD = Info "weft_build" ["version"]: "The version of the controller";
    RULES = Info "weft_rules" ["version", "packages"]: "The rules that run: their fingerprint, and the files and folders that they come from";

    REQUESTS = Counter "weft_requests" ["result"]:
        "Requests that change objects or rules: `applied`, `unchanged`, `tried` (a dry run), `repeated` (with the key of an earlier one), `refused`";
    STAGES = Histogram "weft_stage" ["stage"] Seconds:
        "Time of the stages of a transaction. Of each request: `queue`, `validate`, `derive`, `number` (hooks), `follow` (the rows take effect in memory). Of each group of transactions that share a write: `append` (made and checked), `sync` (written and on disk), `send` (handed to drivers and clients). Of each switch: `confirm` (from the release of a transaction, or the later beginning of its bundle, until it is in force)";
    LAST_TRANSACTION = Gauge "weft_last_transaction" []: "The number of the last transaction";
    WAITING = Gauge "weft_waiting" ["queue"]: "Requests that wait for the engine: `changes`, `questions`";
    BUSY = Gauge "weft_engine_busy" [] Seconds: "How long the engine has been at its present piece of work; 0 while it waits";

    TENANT_CHANGES = Counter "weft_tenant_changes" ["tenant"]:
        "Requests of a tenant that change objects, whatever their result: the first 1,000 tenants to make one, and `(others)`. Requests of operators are not among them";
    TENANT_TIME = Counter "weft_tenant" ["tenant"] Seconds: "Time of the engine that they took";

    API_REQUESTS = Counter "weft_api_requests" ["call", "code"]:
        "Answers of the API, by path or call of gRPC, and by status of HTTP or code of gRPC. Those of callers who were not admitted are of the call `(refused)`";
    API_TIME = Histogram "weft_api_request" ["call"] Seconds: "Time until an answer of the API begins";
    API_CONNECTIONS = Gauge "weft_api_connections" ["transport"]: "Open connections of clients: `unix`, `tcp`, `tls`";

    OBJECTS = Gauge "weft_objects" ["kind"]: "Objects, by kind";
    PROBLEMS = Gauge "weft_problems" ["code"]: "Problems, by code";
    TABLE_ROWS = Gauge "weft_table_rows" ["table", "package"]: "Rows stored for a table, or a stage of rules, by the folder of its rules. With several `workers`, this and the metrics of rules and values are those of the first";
    TABLE_BYTES = Gauge "weft_table" ["table", "package"] Bytes: "Size of these rows and of the indexes on them";
    RULE_TIME = Counter "weft_rule" ["rule"] Seconds: "Time spent in a rule: the 50 rules that took the most, by table and place";
    VALUES = Gauge "weft_values" []: "Distinct values that the engine keeps";
    MEMORY = Gauge "weft_memory" ["part"] Bytes:
        "Memory by part: `rows`, `indexes` (of the engine), `other` (all that the process has resident beside them). Absent until the engine has said what it has";

    SWITCHES = Gauge "weft_switches" ["state"]:
        "Switches: `in_sync`, `syncing` (something is not confirmed), `refusing` (it refuses something), `disconnected`";
    DESIRED = Gauge "weft_desired" ["what"]: "What all switches together should have: `flows`, `groups`, `tunnels`, `patches`";
    VIFS = Gauge "weft_virtual_interfaces" []: "Virtual interfaces that switches report";
    PENDING = Gauge "weft_switch_pending_transactions" ["switch"]:
        "Unconfirmed transactions of a switch: the 20 switches with the most, and `(others)`";
    LAG = Gauge "weft_switch_lag" ["switch"] Seconds:
        "Age of the first transaction that a switch has been sent, or is to be sent after another, and has not confirmed: the 20 largest, and `(others)` for the largest of the rest. After 4,096 more transactions it is a lower bound. Ages from before a restart, and those of disconnected switches, are absent";
    CONNECTED = Counter "weft_switch_connections" ["channel"]: "Connections to switches that were made";
    DISCONNECTED = Counter "weft_switch_disconnections" ["channel"]: "Connections to switches that were lost, or could not be made for another reason than before";
    REPORTS = Counter "weft_switch_reports" []: "Reports of the interfaces of switches";
    RESYNCS = Counter "weft_switch_resyncs" []: "Comparisons of a whole switch after a connection";
    RESYNC_MODS = Counter "weft_switch_resync_flow_mods" []: "Flow and group mods that these comparisons needed";
    FOREIGN = Counter "weft_switch_foreign_changes" ["what"]:
        "Changes of switches by others that were found: `flows` (flows and groups), `database` (rows that changed without a notification)";
    REPAIRS = Counter "weft_switch_repairs" []: "Times that changes by others were undone";
    REPAIR_MODS = Counter "weft_switch_repair_flow_mods" []: "Flow and group mods that undid them";
    REFUSALS = Counter "weft_switch_refusals" ["code"]:
        "Flows, groups and ports that switches refused, by the name of the error in Open vSwitch, or `other`; `(more)` counts those beyond the first few of a transaction";
    DRIVER_FAILURES = Counter "weft_switch_driver_failures" []: "Failures of drivers of switches, which then restart";

    DROPPED_PACKETS = Counter "weft_dropped_packets" ["cause"]:
        "Packets that switches have dropped, by cause, if `metrics_counters` names `drops`. Those that a flow or meter has dropped before its first reading are not counted";
    DROPPED_BYTES = Counter "weft_dropped" ["cause"] Bytes: "Their bytes";
    COUNTER_PACKETS = Counter "weft_counted_packets" ["counter", "object"]:
        "Packets that switches have counted for an object, by the table of counters that `metrics_counters` names: the first 1,000 objects of each, and `(others)`. Those before the first reading of a flow or meter are not counted";
    COUNTER_BYTES = Counter "weft_counted" ["counter", "object"] Bytes: "Their bytes";
    COUNTER_DROPPED = Counter "weft_counted_dropped_packets" ["counter", "object"]: "Packets that meters have dropped for an object";
    COUNTER_SWITCHES = Gauge "weft_counted_switches" ["counter", "result"]:
        "Switches of the last reading: `read`, `unread` (not connected, or too late). The packets of these count once they are read";
    COUNTER_TIME = Gauge "weft_counted_reading" ["counter"] Seconds: "Time of the last reading of all switches";

    JOURNAL_SIZE = Gauge "weft_journal" [] Bytes: "Size of the journal";
    JOURNAL_RECORDS = Counter "weft_journal_records" []: "Transactions written to the journal";
    JOURNAL_WRITTEN = Counter "weft_journal_written" [] Bytes: "Bytes written to the journal";
    JOURNAL_FAILURES = Counter "weft_journal_failures" []: "Writes that the disk refused, whose transactions were undone";
    FOLDS = Counter "weft_journal_folds" ["result"]: "Folds of the journal into a snapshot: `done`, `failed`";
    SCRAPE = Gauge "weft_scrape" [] Seconds: "Time to gather the metrics of this answer";

    PROCESS_CPU = Counter "process_cpu" [] Seconds: "Time of processors that the process has used";
    PROCESS_RESIDENT = Gauge "process_resident_memory" [] Bytes: "Memory that the process has resident";
    PROCESS_VIRTUAL = Gauge "process_virtual_memory" [] Bytes: "Address space of the process";
    PROCESS_FILES = Gauge "process_open_fds" []: "Open files and sockets";
    PROCESS_FILES_MAX = Gauge "process_max_fds" []: "Limit of open files and sockets";
    PROCESS_THREADS = Gauge "process_threads" []: "Threads of the process";
    PROCESS_START = Gauge "process_start_time" [] Seconds: "Start of the process, in seconds since 1970";
}
