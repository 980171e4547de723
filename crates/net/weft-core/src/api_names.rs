//! Names that the API and `weft get` have for themselves, and the check that no declaration of the rules takes one of them, or that of a
//! kind: nobody could ask for it, or for what had the name first.

use nlog::Program;
use objects::Kinds;

use crate::rules::Misfit;

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
pub const AT_TOP: [&str; 14] = [
    "apply",
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

/// Refuses a listing, a table of counters or a kind whose name means something else already.
pub(crate) fn check(program: &Program, kinds: &Kinds) -> Result<(), Misfit> {
    let schema = &program.schema;
    for listing in &program.listings {
        let (table, name) = (&schema.table(listing.table).name, listing.name(schema));
        let what = if listing.reads.is_some() { "counter table" } else { "listing table" };
        if OF_OBJECTS.contains(&&*name) {
            return Err(taken(
                table,
                format!("{what} {table} has the name of what every object has: /v1/KINDS/ID/{name}"),
            ));
        }
        if VIEWS.contains(&&*name) {
            return Err(taken(
                table,
                format!("{what} {table} has the name of something else: weft get {name}"),
            ));
        }
        if let Ok(kind) = kinds.forgiving(&name) {
            return Err(taken(
                table,
                format!("{what} {table} has the name of object kind {kind}: weft get {name}"),
            ));
        }
    }
    for kind in kinds.iter() {
        let (name, plural) = (kind.name(), kind.plural());
        if AT_TOP.contains(&&*plural) {
            return Err(taken(
                name,
                format!("object kind {name} has the path of something else: /v1/{plural}"),
            ));
        }
    }
    Ok(())
}

fn taken(name: &str, text: String) -> Misfit {
    Misfit::of_table(name, text, "choose another name".to_owned())
}
