//! Declarations of the rules cannot reuse names of the API or of object kinds. Otherwise one of the two could not be asked for.

use nlog::Program;
use objects::Kinds;

use super::Misfit;
use crate::api_names::{AT_TOP, OF_OBJECTS, VIEWS};

/// Refuses a listing, a table of counters or a kind whose name means something else already.
pub(super) fn check(program: &Program, kinds: &Kinds) -> Result<(), Misfit> {
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
