//! `controller(id=N,userdata=01.02)`: sends the packet to a process that speaks OpenFlow.

use super::*;
use crate::field::text::{Dotted, bytes_of_hex, int};
use crate::message::PacketInReason;
use crate::property;
use crate::{MeterEntry, PortNo};

/// Sends the packet, as it is here, to the connections of one number, as a [`PacketIn`](crate::message::PacketIn).
///
/// If nothing but `max_len` differs from the default, [`Output`] to [`PortNo::CONTROLLER`] says the same, and Open vSwitch
/// reads the text of either as that one: [`Controller::canonical`] chooses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Controller {
    /// The bytes of the packet that are wanted; 65535 for all. Open vSwitch sends all of them whatever this says.
    pub max_len: u16,
    /// The number of the connections that receive it: what [`Body::SetControllerId`](crate::Body::SetControllerId) gave
    /// them, 0 without it.
    pub id: u16,
    /// The reason that the message gives.
    pub reason: PacketInReason,
    /// Bytes that the message repeats.
    pub userdata: Vec<u8>,
    /// Whether the packet waits here until [`Body::Resume`](crate::Body::Resume). Otherwise it goes on as if the action was
    /// not there.
    pub pause: bool,
    /// The meter that limits how many packets are sent. `None` for the bridge's own, [`MeterEntry::CONTROLLER`].
    pub meter_id: Option<u32>,
}

/// Length, number and reason.
const PLAIN: Wire = Wire::Nx(20);
/// Properties.
const WITH_PROPERTIES: Wire = Wire::Nx(37);

// `NXAC2PT_*`.
const MAX_LEN: u16 = 0;
const CONTROLLER_ID: u16 = 1;
const REASON: u16 = 2;
const USERDATA: u16 = 3;
const PAUSE: u16 = 4;
const METER_ID: u16 = 5;

/// What stands on the wire and in text for no meter (`NX_CTLR_NO_METER`).
const NO_METER: u32 = 0;

/// The bytes of `userdata` in errors.
const FORM: &str = "userdata: hexadecimal byte pairs, perhaps separated by dots";

impl Default for Controller {
    /// All of the packet, to connections without a number.
    fn default() -> Controller {
        Controller {
            max_len: u16::MAX,
            id: 0,
            reason: PacketInReason::ACTION,
            userdata: Vec::new(),
            pause: false,
            meter_id: None,
        }
    }
}

impl Controller {
    /// All of the packet, to the connections of a number, with bytes for them.
    pub fn new(id: u16, userdata: Vec<u8>) -> Controller {
        Controller { id, userdata, ..Controller::default() }
    }

    /// The action that Open vSwitch makes of it: an [`Output`] if that says the same.
    pub fn canonical(self) -> Action {
        match self.only_max_len() {
            Some(max_len) => Output { port: PortNo::CONTROLLER, max_len }.into(),
            None => self.into(),
        }
    }

    /// The length, if all the rest is the default.
    fn only_max_len(&self) -> Option<u16> {
        let max_len = self.max_len;
        (*self == Controller { max_len, ..Controller::default() }).then_some(max_len)
    }

    /// The form on the wire that Open vSwitch chooses.
    fn wire(&self) -> Wire {
        let is_plain = self.userdata.is_empty() && !self.pause && self.meter_id.is_none();
        if is_plain { PLAIN } else { WITH_PROPERTIES }
    }

    /// Appends what differs from the default.
    fn put_properties(&self, out: &mut Vec<u8>) {
        if self.max_len != u16::MAX {
            property::put_u16(out, MAX_LEN, self.max_len);
        }
        if self.id != 0 {
            property::put_u16(out, CONTROLLER_ID, self.id);
        }
        if self.reason != PacketInReason::ACTION {
            property::put_u8(out, REASON, self.reason.0);
        }
        if !self.userdata.is_empty() {
            property::put(out, USERDATA, |out| out.extend_from_slice(&self.userdata));
        }
        if self.pause {
            property::put(out, PAUSE, |_| ());
        }
        if let Some(meter) = self.meter_id {
            property::put_u32(out, METER_ID, meter);
        }
    }

    fn decode_properties(body: &mut Reader<'_>) -> Result<Controller, DecodeError> {
        let mut controller = Controller::default();
        while !body.is_empty() {
            let at = body.clone();
            let (kind, mut content) = property::next(body)?;
            // As Open vSwitch does, the last of several counts, and short numbers may be followed by other bytes.
            match kind {
                MAX_LEN => controller.max_len = content.u16()?,
                CONTROLLER_ID => controller.id = content.u16()?,
                REASON => controller.reason = PacketInReason(content.u8()?),
                USERDATA => controller.userdata = content.rest().to_vec(),
                PAUSE => controller.pause = true,
                METER_ID => controller.meter_id = meter(property::get_u32(content)?),
                _ => return Err(at.fault(Fault::Unknown(kind.into()))),
            }
        }
        Ok(controller)
    }

    /// Reads one `name=value` of the text.
    fn read(&mut self, name: &str, value: &str) -> Result<(), ParseError> {
        match name {
            "reason" => self.reason = value.parse()?,
            "max_len" => self.max_len = int(value, "number of bytes for the controller, at most 65535")?,
            "id" => self.id = int(value, "number of a controller, at most 65535")?,
            "userdata" => self.userdata = bytes_of_hex(value, FORM)?,
            "pause" => self.pause = true,
            "meter_id" => self.meter_id = meter(int(value, "number of a meter")?),
            _ => return Err(ParseError::value(name, "parameter of `controller`; see ovs-actions(7)")),
        }
        Ok(())
    }
}

fn meter(id: u32) -> Option<u32> {
    (id != NO_METER).then_some(id)
}

impl Body for Controller {
    const NAMES: &'static [&'static str] = &["controller", "CONTROLLER"];
    const WIRE: &'static [Wire] = &[PLAIN, WITH_PROPERTIES];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "controller",
        "Sends the packet, as it is here, to the processes that are connected under a number.",
        &[
            Parameter::number("id", u16::MAX as u64, "The number; 0 by default.").named(),
            Parameter::text("userdata", FORM, "Bytes that the message repeats.").named(),
            Parameter::number(
                "max_len",
                u16::MAX as u64,
                "The bytes that are wanted; all by default. More may come.",
            )
            .named(),
            Parameter::number(
                "meter_id",
                MeterEntry::ID_MAX as u64,
                "The meter that limits the packets, from 1.",
            )
            .named(),
            Parameter::flag("pause", "The packet waits until its receiver lets it go on."),
        ],
        &[
            ("controller", "CONTROLLER:65535"),
            ("controller(id: 7)", "controller(id=7)"),
            (
                r#"controller(id: 7, userdata: "01.02.ff", meter_id: 5)"#,
                "controller(id=7,userdata=01.02.ff,meter_id=5)",
            ),
            ("controller(max_len: 128, pause)", "controller(max_len=128,pause)"),
        ],
        |given| {
            let userdata = match given.optional_text("userdata") {
                Some(text) => bytes_of_hex(text, FORM)
                    .map_err(|error| Refusal::arguments(error.to_string(), "write \"01.02.ff\""))?,
                None => Vec::new(),
            };
            let meter_id = given.optional("meter_id");
            if meter_id == Some(NO_METER) {
                return Err(Refusal::values("0 is not a valid meter id", "meter ids begin with 1"));
            }
            let controller = Controller {
                max_len: given.optional("max_len").unwrap_or(u16::MAX),
                pause: given.flag("pause"),
                meter_id,
                ..Controller::new(given.optional("id").unwrap_or(0), userdata)
            };
            Ok(controller.canonical().into())
        },
    )];

    fn decode(wire: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        if wire == PLAIN {
            let (max_len, id, reason) = (body.u16()?, body.u16()?, PacketInReason(body.u8()?));
            body.skip(1)?;
            return Ok(Controller { max_len, id, reason, ..Controller::default() });
        }
        body.zeros(6)?;
        Controller::decode_properties(body)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let wire = self.wire();
        wire.put(out, |out| {
            if wire == PLAIN {
                out.extend_from_slice(&self.max_len.to_be_bytes());
                out.extend_from_slice(&self.id.to_be_bytes());
                out.push(self.reason.0);
            } else {
                out.extend_from_slice(&[0; 6]);
                self.put_properties(out);
            }
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(max_len) = self.only_max_len() {
            return write!(f, "CONTROLLER:{max_len}");
        }
        let mut separator = "controller(";
        let mut put = |part: fmt::Arguments<'_>| {
            let begun = std::mem::replace(&mut separator, ",");
            write!(f, "{begun}{part}")
        };
        if self.reason != PacketInReason::ACTION {
            put(format_args!("reason={}", self.reason))?;
        }
        if self.max_len != u16::MAX {
            put(format_args!("max_len={}", self.max_len))?;
        }
        if self.id != 0 {
            put(format_args!("id={}", self.id))?;
        }
        if !self.userdata.is_empty() {
            put(format_args!("userdata={}", Dotted(&self.userdata)))?;
        }
        if self.pause {
            put(format_args!("pause"))?;
        }
        if let Some(meter) = self.meter_id {
            put(format_args!("meter_id={meter}"))?;
        }
        f.write_str(")")
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let mut controller = Controller::default();
        if !call.arg.is_empty() && call.arg.bytes().all(|c| c.is_ascii_digit()) {
            controller.read("max_len", call.arg)?;
            return Ok(controller.canonical());
        }
        for part in call.arg.split([',', ' ']).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            controller.read(name, value)?;
        }
        Ok(controller.canonical())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("controller(id=5)", "ffff 0010 00002320 0014 ffff 0005 01 00"),
        ("controller(reason=no_match,max_len=128)", "ffff 0010 00002320 0014 0080 0000 00 00"),
        ("controller(userdata=01.02.ff)", "ffff 0018 00002320 0025 000000000000 0003 0007 0102ff 00"),
        (
            "controller(reason=packet_out,max_len=128,id=7,userdata=01.02.03.04.05,pause,meter_id=9)",
            "ffff 0048 00002320 0025 000000000000 0000 0008 0080 0000 0001 0008 0007 0000 0002 0005 05 000000
             0003 0009 0102030405 00000000000000 0004 0004 00000000 0005 0008 00000009",
        ),
        ("controller(pause)", "ffff 0018 00002320 0025 000000000000 0004 0004 00000000"),
    ]);
    testing::check_spellings([
        ("controller", "CONTROLLER:65535"),
        ("controller()", "CONTROLLER:65535"),
        ("controller:100", "CONTROLLER:100"),
        ("controller(100)", "CONTROLLER:100"),
        ("controller(max_len=100,reason=action,id=0,meter_id=0)", "CONTROLLER:100"),
        ("CONTROLLER(userdata=0102.03, id=0x10)", "controller(id=16,userdata=01.02.03)"),
        ("controller(reason=INVALID_TTL)", "controller(reason=invalid_ttl)"),
        ("controller(userdata=)", "CONTROLLER:65535"),
    ]);
    testing::check_refused([
        "controller(max_len=65536)",
        "controller(id=65536)",
        "controller(reason=nonsense)",
        "controller(userdata=1)",
        "controller(userdata=0g)",
        "controller(meter_id=4294967296)",
        "controller(port=1)",
        "controller:65536",
    ]);
    testing::check_malformed([
        "ffff 0018 00002320 0025 000000000001 0004 0004 00000000",
        "ffff 0018 00002320 0025 000000000000 0006 0004 00000000",
        "ffff 0018 00002320 0025 000000000000 0004 0003 00000000",
        "ffff 0018 00002320 0025 000000000000 0003 0009 00000000",
        "ffff 0018 00002320 0025 000000000000 0005 0006 00000000",
        "ffff 0018 00002320 0014 ffff 0005 01 00 0000000000000000",
    ]);
}

/// Both forms on the wire of an action that Open vSwitch prints as an output.
#[cfg(test)]
#[test]
fn what_is_all_default_prints_as_an_output() {
    for body in ["ffff 0010 00002320 0014 ffff 0000 01 00", "ffff 0010 00002320 0025 000000000000"] {
        let digits: String = body.chars().filter(|c| !c.is_whitespace()).collect();
        let action: Action = format!("unknown({digits})").parse().unwrap();
        assert_eq!(action, Controller::default().into());
        assert_eq!(action.to_string(), "CONTROLLER:65535");
        assert_eq!(Controller::default().canonical(), Action::output(PortNo::CONTROLLER));
    }
}
