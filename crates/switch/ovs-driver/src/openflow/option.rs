//! The mapping of the tunnel option to a field (Nicira's extension, `ovs-ofctl add-tlv-map`).

use openflow_rs::message::{TlvCommand, TlvMapping, TlvTableMod, TlvTableReply};
use openflow_rs::{Body, Message};

/// The message that adds the option to the mappings of a switch, if it is missing. Fails if another mapping is in the
/// way.
pub(crate) fn option_change(option: TlvMapping, reply: &TlvTableReply) -> Result<Option<Body>, String> {
    let same = |mapping: &TlvMapping| (mapping.class, mapping.kind) == (option.class, option.kind);
    match reply.mappings.iter().find(|mapping| mapping.field == option.field || same(mapping)) {
        None => Ok(Some(Body::TlvTableMod(TlvTableMod { command: TlvCommand::Add, mappings: vec![option] }))),
        Some(mapping) if *mapping == option => Ok(None),
        Some(TlvMapping { class, kind, len, field }) => Err(format!(
            "the switch has class={class:#x},type={kind:#x},len={len} as tun_metadata{field}; remove that mapping with \
             ovs-ofctl del-tlv-map and reconnect the switch"
        )),
    }
}

/// The name of the option in errors.
pub(crate) fn option_name(option: TlvMapping) -> String {
    let TlvMapping { class, kind, len, field } = option;
    format!("geneve option class={class:#x},type={kind:#x},len={len} as tun_metadata{field}")
}

/// Decodes a TLV table reply.
pub(crate) fn option_reply(bytes: &[u8]) -> Option<TlvTableReply> {
    match Message::decode(bytes).ok()?.body {
        Body::TlvTableReply(reply) => Some(reply),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTION: TlvMapping = TlvMapping { class: 0x102, kind: 0x80, len: 4, field: 0 };

    #[test]
    fn the_option_is_mapped_once_and_never_over_that_of_others() {
        let reply = |mappings| TlvTableReply { max_space: 256, max_fields: 64, mappings };
        assert!(matches!(option_change(OPTION, &reply(vec![])), Ok(Some(_))));
        assert_eq!(option_change(OPTION, &reply(vec![OPTION])), Ok(None));
        assert!(matches!(
            option_change(OPTION, &reply(vec![TlvMapping { field: 5, class: 7, ..OPTION }])),
            Ok(Some(_))
        ));
        for other in [
            TlvMapping { class: 7, ..OPTION },
            TlvMapping { field: 5, ..OPTION },
            TlvMapping { len: 8, ..OPTION },
        ] {
            let why = option_change(OPTION, &reply(vec![other])).expect_err("taken");
            assert!(why.contains("del-tlv-map"), "{why}");
        }
    }
}
