//! Names that the API and `weft get` have for themselves, so that no declaration of the rules may take them.

/// The flows of a transport node: `/v1/KINDS/ID/flows`.
pub const FLOWS: &str = "flows";
/// The universal flows of a datapath.
pub const LOGICAL_FLOWS: &str = "logical-flows";
/// What hosts have counted of an object, or have dropped in the network.
pub const COUNTERS: &str = "counters";
/// What probes have measured.
pub const TUNNELS: &str = "tunnels";
/// The transactions that changed an object.
pub const HISTORY: &str = "history";

/// What every object has, whatever the rules declare: `/v1/KINDS/ID/NAME`. Listings of the rules are beside these.
pub const OF_OBJECTS: [&str; 5] = [FLOWS, LOGICAL_FLOWS, COUNTERS, TUNNELS, HISTORY];
/// What else `weft get` takes in place of a kind or a listing.
pub const VIEWS: [&str; 3] = ["all", "listings", "status"];
/// What is at `/v1/NAME` in place of a kind.
pub const AT_TOP: [&str; 15] = [
    "apply",
    "diagnostics",
    "explain",
    HISTORY,
    "listings",
    "network",
    "openapi.json",
    "rollback",
    "rules",
    "schema",
    "snapshot",
    "status",
    "trace",
    "transactions",
    "why-not",
];
