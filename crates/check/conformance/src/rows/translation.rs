//! Address translation as rows.

use network_spec::{NatKind, NatService, Network, World};
use nlog_data::Value;

use super::{Add, int, prefix, text};

/// The rows of address translation.
pub(super) fn nats(world: &World, object: &mut Add<'_>) {
    for (name, nat) in &world.nats {
        let mut fields = vec![("router", text(&nat.router))];
        fields.extend(fields_of(&nat.kind));
        object("nat", name, &fields);
    }
}

fn fields_of(kind: &NatKind) -> Vec<(&'static str, Value)> {
    let all = |kind: &str, external: String, internal: Network| {
        vec![("type", text(kind)), ("external", text(&external)), ("internal", prefix(internal))]
    };
    match kind {
        NatKind::Snat { external: (first, last), internal, ports, except } => {
            let external = if first == last { first.to_string() } else { format!("{first}-{last}") };
            let mut fields = all("snat", external, *internal);
            if let Some((least, most)) = ports {
                fields.push(("external_ports", text(&format!("{least}-{most}"))));
            }
            if let Some(group) = except {
                fields.push(("except", Value::Record([text(group)].into())));
            }
            fields
        }
        NatKind::Dnat { external, internal, service } => {
            let mut fields = all("dnat", external.to_string(), Network::host(*internal));
            if let Some(NatService { protocol, ports }) = service {
                fields.push(("protocol", text(if *protocol == 6 { "tcp" } else { "udp" })));
                if let Some((outside, inside)) = ports {
                    fields.push(("external_port", int(*outside)));
                    // Without, it is the same.
                    if outside != inside {
                        fields.push(("internal_port", int(*inside)));
                    }
                }
            }
            fields
        }
        NatKind::Floating { external, internal } => {
            all("floating", external.to_string(), Network::host(*internal))
        }
    }
}
