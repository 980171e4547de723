//! `output:PORT`: outputs the packet to a port.

use super::*;
use crate::PortNo;
use crate::field::text::int;

/// Outputs the packet to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Output {
    /// The destination.
    pub port: PortNo,
    /// Bytes of the packet for the controller, 65535 for all; 0 for other ports.
    pub max_len: u16,
}

impl Output {
    fn to(port: PortNo) -> Output {
        Output { port, max_len: if port == PortNo::CONTROLLER { u16::MAX } else { 0 } }
    }

    /// Reads `5`, `LOCAL` or `CONTROLLER:100`.
    pub(super) fn parse_bare(call: Call<'_>) -> Result<Action, ParseError> {
        let unknown = || ParseError::UnknownAction { name: call.name.to_owned() };
        let port: PortNo = call.name.parse().map_err(|_| unknown())?;
        let mut output = Output::to(port);
        if port == PortNo::CONTROLLER && !call.arg.is_empty() {
            output.max_len = int(call.arg, "number of bytes for the controller, at most 65535")?;
        } else if call.text != call.name {
            return Err(unknown());
        }
        Ok(output.into())
    }
}

const ANYWHERE: &[Context] = &[Context::Flow, Context::Clone, Context::ActionSet];

impl Body for Output {
    const NAMES: &'static [&'static str] = &["output"];
    const WIRE: &'static [Wire] = &[Wire::Of(0)];
    const LITERALS: &'static [ActionInfo] = &[
        ActionInfo::new(
            "output",
            "Outputs the packet to a port.",
            &[Parameter::port("port", "0 to 65279, or a reserved port such as 65534 (LOCAL).")],
            &[("output(3)", "output:3"), ("output(65534)", "LOCAL")],
            |given| match given.port("port") {
                Some(port) => Ok(Action::output(port).into()),
                None => Err(Refusal::arguments("the port is missing", "write output(port)")),
            },
        )
        .within(ANYWHERE),
        ActionInfo::new(
            "local",
            "Outputs the packet to the bridge's local port.",
            &[],
            &[("local", "LOCAL")],
            |_| Ok(Action::output(PortNo::LOCAL).into()),
        )
        .within(ANYWHERE),
        ActionInfo::new(
            "in_port",
            "Outputs the packet to its ingress port.",
            &[],
            &[("in_port", "IN_PORT")],
            |_| Ok(Action::output(PortNo::IN_PORT).into()),
        )
        .within(ANYWHERE),
        ActionInfo::new(
            "normal",
            "Forwards the packet as an ordinary learning switch does.",
            &[],
            &[("normal", "NORMAL")],
            |_| Ok(Action::output(PortNo::NORMAL).into()),
        )
        .within(ANYWHERE),
        ActionInfo::new(
            "flood",
            "Outputs the packet to all ports that have flooding enabled, except the ingress port.",
            &[],
            &[("flood", "FLOOD")],
            |_| Ok(Action::output(PortNo::FLOOD).into()),
        )
        .within(ANYWHERE),
        ActionInfo::new(
            "all",
            "Outputs the packet to all ports except the ingress port.",
            &[],
            &[("all", "ALL")],
            |_| Ok(Action::output(PortNo::ALL).into()),
        )
        .within(ANYWHERE),
    ];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let n = body.u32()?;
        let port = PortNo::from_wire(n).ok_or_else(|| at.fault(Fault::Unknown(n.into())))?;
        let max_len = body.u16()?;
        body.skip(6)?;
        // Only the controller's copy has a length; switches ignore it elsewhere.
        Ok(Output { port, max_len: if port == PortNo::CONTROLLER { max_len } else { 0 } })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Of(0).put(out, |out| {
            out.extend_from_slice(&self.port.to_wire().to_be_bytes());
            out.extend_from_slice(&self.max_len.to_be_bytes());
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            PortNo::CONTROLLER => write!(f, "CONTROLLER:{}", self.max_len),
            PortNo(n) if n < PortNo::MAX => write!(f, "output:{n}"),
            port => write!(f, "{port}"),
        }
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        match call.arg.parse::<PortNo>() {
            Ok(port) => Ok(Output::to(port).into()),
            Err(error) => match call.arg.parse::<Subfield>() {
                Ok(source) => Ok(Action::output_reg(source)?),
                Err(_) => Err(error),
            },
        }
    }
}

impl Action {
    /// Outputs the packet to a port.
    pub fn output(port: PortNo) -> Action {
        Output::to(port).into()
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("output:7", "0000 0010 00000007 0000 000000000000"),
        ("LOCAL", "0000 0010 fffffffe 0000 000000000000"),
        ("IN_PORT", "0000 0010 fffffff8 0000 000000000000"),
        ("CONTROLLER:128", "0000 0010 fffffffd 0080 000000000000"),
    ]);
    testing::check_spellings([
        ("7", "output:7"),
        ("output:LOCAL", "LOCAL"),
        ("in_port,controller", "IN_PORT,CONTROLLER:65535"),
        ("output:65534", "LOCAL"),
    ]);
    testing::check_refused(["output:65300", "output:", "7:7", "local:1", "CONTROLLER:65536"]);
    testing::check_malformed(["0000 0010 0000ff00 0000 000000000000", "0000 0008 00000007"]);
}
