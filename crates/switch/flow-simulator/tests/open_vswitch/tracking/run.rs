//! Runs random cases in both, and makes small ones of those that differ.

use flow_simulator::trace::{ABORTS, Step, What};
use flow_simulator::{Bridge, Packet};
use openflow_rs::PortNo;
use ovs_testing::hex;

use super::Both;
use super::answers::{answer, error};

/// The ingress ports: each is a case of its own, with its own register value and zones. The ports before are for output.
pub(super) const CASES: std::ops::RangeInclusive<u16> = 5..=16;

/// Tables, and what comes to them by a port.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) port: u16,
    pub(super) flows: Vec<String>,
    pub(super) stimuli: Vec<Stimulus>,
}

/// What comes next.
#[derive(Clone, Debug)]
pub(super) enum Stimulus {
    Frame(Vec<u8>),
    /// The answer to the packet that left last.
    Answer,
    /// An error about the packet that left last, with the first bytes of it.
    Error {
        kind: u8,
        length: usize,
    },
}

/// Compares cases of one seed.
///
/// # Panics
/// They differ: with a small case that does.
#[track_caller]
pub(super) fn compare(both: &mut Both, seed: u64, mut cases: Vec<Case>) {
    let found = first_difference(both, &cases).expect("the switch takes the flows");
    if let Some((number, _, difference)) = found {
        let small = shrink(both, cases.swap_remove(number));
        panic!("seed {seed}\n{small}\nat first:\n{difference}");
    }
}

/// Whether a frame would end the switch.
fn aborts(bridge: &Bridge, port: u16, frame: &[u8]) -> bool {
    has_abort(&bridge.trace(&Packet::new(frame.to_vec(), PortNo(port))).steps)
}

fn has_abort(steps: &[Step]) -> bool {
    steps.iter().any(|step| step.what == What::Problem(ABORTS.to_owned()) || has_abort(&step.within))
}

/// Runs the cases. Returns the first whose packet goes another way, with the text of the difference.
fn first_difference(both: &mut Both, cases: &[Case]) -> Result<Option<(usize, usize, String)>, String> {
    both.load(&cases.iter().flat_map(|case| case.flows.iter().cloned()).collect::<Vec<_>>())?;
    for (number, case) in cases.iter().enumerate() {
        let mut last: Option<Vec<u8>> = None;
        for (at, stimulus) in case.stimuli.iter().enumerate() {
            let frame = match stimulus {
                Stimulus::Frame(frame) => Some(frame.clone()),
                Stimulus::Answer => last.as_deref().and_then(answer),
                Stimulus::Error { kind, length } => {
                    last.as_deref().and_then(|last| error(last, *kind, *length))
                }
            };
            let Some(frame) = frame.filter(|frame| !aborts(&both.bridge, case.port, frame)) else { continue };
            match both.receive(case.port, &frame) {
                Ok(sent) => last = sent.into_iter().next_back().map(|(_, bytes)| bytes).or(last),
                Err(difference) => return Ok(Some((number, at, difference))),
            }
        }
    }
    Ok(None)
}

/// Leaves out packets and flows as long as the case keeps failing.
fn shrink(both: &mut Both, mut case: Case) -> String {
    let fails = |both: &mut Both, case: &Case| match first_difference(both, std::slice::from_ref(case)) {
        Ok(Some((_, at, difference))) => Some((at, difference)),
        _ => None,
    };
    let Some((at, mut difference)) = fails(both, &case) else { return "it does not fail alone".to_owned() };
    case.stimuli.truncate(at + 1);
    loop {
        let without = |flow: Option<usize>, stimulus: Option<usize>| {
            let mut less = case.clone();
            flow.map(|flow| less.flows.remove(flow));
            stimulus.map(|stimulus| less.stimuli.remove(stimulus));
            less
        };
        let flows = (1..case.flows.len()).map(|flow| without(Some(flow), None));
        let stimuli = (0..case.stimuli.len().saturating_sub(1)).map(|stimulus| without(None, Some(stimulus)));
        let candidates: Vec<Case> = stimuli.chain(flows).collect();
        let smaller = candidates.into_iter().find_map(|less| Some((fails(both, &less)?.1, less)));
        match smaller {
            Some((text, less)) => (case, difference) = (less, text),
            None => break,
        }
    }
    let stimuli: Vec<String> = case
        .stimuli
        .iter()
        .map(|stimulus| match stimulus {
            Stimulus::Frame(frame) => hex(frame),
            other => format!("{other:?}"),
        })
        .collect();
    format!("{}\n{}\n{difference}", case.flows.join("\n"), stimuli.join("\n"))
}
