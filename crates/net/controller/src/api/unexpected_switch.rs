//! The problem of a switch that dials in, and that no transport node awaits.

use ovs_driver::Unexpected;
use weft_client::pb;

/// The problem.
pub(super) fn problem(Unexpected { name, target, from }: &Unexpected) -> pb::Problem {
    let text = format!(
        "a switch at {from} dials in at {target} with the certificate of {name}, and no transport node {name} awaits it: apply one without \
         `ovsdb` and `openflow`, or remove this target from the switch"
    );
    let object = Some(pb::ObjectRef { kind: "controller".to_owned(), id: "switches".to_owned() });
    pb::Problem { object, text, code: "switch-unexpected".to_owned(), since: String::new() }
}
