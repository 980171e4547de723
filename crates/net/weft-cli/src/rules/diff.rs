//! `weft rules diff`: what a load of other rules would change, and what it would be refused for. A running controller answers with a load
//! that has no effect; in a recorded network the same is done here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use clap::Args;
use controller::{delta_message, engine_message, refusal_message};
use serde_json::json;
use weft_client::{Changes, ClientError, pb};
use weft_core::core::{Core, CoreError, Problem, Refusal, RulesTransition};
use weft_core::rules::Rules;
use weft_core::switch_delta::SwitchDelta;

use crate::client::{Address, failed, load_request};
use crate::compare::{Difference, Form, core_at};
use crate::exit::{Failure, print_as};
use crate::faults::is_journal;
use crate::recorded::Recorded;

/// Arguments of `weft rules diff`.
#[derive(Args)]
#[command(after_help = "\
        A controller tries the load and takes it back, at the cost of the load; with --snapshot, your\n\
        machine does. The exit status is 1 if a load would be refused: see `weft rules load --help`.")]
pub(crate) struct RulesDiff {
    /// The other rules, as one program; `builtin` is the built-in ones
    #[arg(required = true, value_name = "RULES")]
    rules: Vec<PathBuf>,
    /// In this snapshot, journal or state folder; without, in a controller
    #[arg(long, value_name = "RECORDED")]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    address: Address,
}

impl RulesDiff {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let RulesDiff { rules, snapshot, form, address } = self;
        // Mistakes in the rules first: they need no network.
        let rules = Rules::load(&rules).map_err(|error| Failure::Rejected(error.to_string()))?;
        let result = match &snapshot {
            Some(file) => in_recorded(file, rules)?,
            None => in_controller(&address, &rules)?,
        };
        match result {
            Ok(difference) => difference.print(form),
            Err(refusal) => Err(refused(&refusal, form)?),
        }
    }
}

/// What the rules would change in a running controller, or what it would refuse them for.
fn in_controller(address: &Address, rules: &Rules) -> Result<Result<Difference, pb::Refusal>, Failure> {
    let mut changes = Changes::LoadRules(load_request(rules, "weft rules diff")?);
    changes.terms().dry_run = true;
    let answer = address.with(|mut client| async move {
        match client.change(changes).await {
            Ok(accepted) => Ok(Ok(accepted)),
            Err(ClientError::Refused(refusal)) if !is_journal(&refusal) => Ok(Err(refusal)),
            Err(error) => Err(failed(error)),
        }
    })?;
    Ok(answer.map(|accepted| Difference {
        switches: accepted.delta.map(|delta| *delta).unwrap_or_default(),
        new_problems: accepted.new_problems.into_iter().map(problem).collect(),
        resolved: accepted.resolved_problems.into_iter().map(problem).collect(),
        engine: accepted.engine,
        ..Difference::default()
    }))
}

fn problem(message: pb::Problem) -> Arc<Problem> {
    let pb::Problem { object, text, code, since: _ } = message;
    let pb::ObjectRef { kind, id } = object.unwrap_or_default();
    Arc::new(Problem { kind, id, code, text })
}

/// What the rules would change in a recorded network, or what a controller in its state would refuse them for.
fn in_recorded(file: &Path, rules: Rules) -> Result<Result<Difference, pb::Refusal>, Failure> {
    let recorded = Recorded::open(file, None)?;
    let at = recorded.last_until(None)?;
    let mut core = core_at(&recorded, &at, recorded.rules(&at)?, 1)?;
    let result = change_rules(&mut core, &Arc::new(rules), "weft rules diff")?;
    Ok(result.map_err(|refusal| refusal_message(&refusal)))
}

/// Goes on with other rules, as a controller does when it loads them. Returns what differs, or what they are refused for.
pub(super) fn change_rules(
    core: &mut Core,
    rules: &Arc<Rules>,
    by: &str,
) -> Result<Result<Difference, Refusal>, Failure> {
    core.make_evaluators_with(Arc::new(|rules| controller::evaluator(rules, 1)));
    core.edit_evaluators_with(Arc::new(controller::edit));
    let before = core.rules().clone();
    let mut change = |transition| core.change_rules(rules, transition, by, SystemTime::UNIX_EPOCH);
    let mut result = change(RulesTransition::Edit);
    if matches!(result, Err(CoreError::Refused(Refusal::NotByEdit))) {
        result = change(RulesTransition::Replace(None));
    }
    let accepted = match result {
        Ok(accepted) => accepted,
        Err(CoreError::Refused(refusal)) => return Ok(Err(refusal)),
        Err(CoreError::Failed(why)) => return Err(Failure::Outside(why)),
    };
    let Some(done) = accepted.transaction else { return Ok(Ok(Difference::default())) };
    let delta = SwitchDelta::of_rules(&done, core).unwrap_or_default();
    core.journalled();
    Ok(Ok(Difference {
        switches: delta_message(&delta, &[rules.clone(), before]),
        engine: done.engine_transition().map(engine_message),
        new_problems: done.problems.new.into_iter().collect(),
        resolved: done.problems.gone.into_iter().collect(),
        ..Difference::default()
    }))
}

/// Says for what a load of the rules would be refused: in JSON, on standard output.
fn refused(refusal: &pb::Refusal, form: Form) -> Result<Failure, Failure> {
    let pb::Refusal { code, message, .. } = refusal;
    if !form.json {
        return Ok(Failure::Rejected(format!("a load of these rules would be refused: {message}")));
    }
    print_as(true, &format!("{}\n", json!({"severity": "error", "code": code, "message": message})))?;
    Ok(Failure::Reported)
}
