//! `weft describe`: an object in full, for people.

use clap::Args;
use packet_trace::AskedObject;
use serde_json::{Value as Json, json};
use weft_client::Client;
use weft_client::Seen;
use weft_client::pb::ObjectRef;
use weft_core::shown;

use super::objects::{columns, unreadable, yaml};
use super::{Address, failed};
use crate::exit::{Failure, print, print_as};
use crate::explain;

/// Arguments of `weft describe`.
#[derive(Args)]
#[command(after_help = "Example:\n  \
        weft describe switch_port web-1        all fields, and what `weft explain` says of the object\n\n\
        The revision of an object is the transaction that last changed it.")]
pub(crate) struct Describe {
    /// The kind of the object, or KIND/ID
    kind: String,
    /// The id of the object
    id: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl Describe {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let object = self.object()?;
        self.address.with(|mut client| async move {
            let (seen, object) = one(&mut client, object).await?;
            let explanation = explain::of_object(&mut client, object, 0, self.json).await?;
            if self.json {
                return print_as(true, &to_json(&seen, &explanation)?);
            }
            print(&to_text(&seen, &explanation)?)
        })
    }

    fn object(&self) -> Result<ObjectRef, Failure> {
        if let Some(id) = self.id.clone() {
            return Ok(ObjectRef { kind: self.kind.clone(), id });
        }
        let AskedObject { kind, id } = AskedObject::read(&self.kind).ok_or_else(|| {
            Failure::Usage("`weft describe` needs the id of an object: weft describe KIND ID".to_owned())
        })?;
        Ok(ObjectRef { kind, id })
    }
}

/// An object with its state, and its name in the form that the controller uses.
pub(super) async fn one(client: &mut Client, object: ObjectRef) -> Result<(Seen, ObjectRef), Failure> {
    let mut found = client.get_with_states(&object.kind, Some(&object.id)).await.map_err(failed)?;
    let seen = found.pop().ok_or_else(|| unreadable("there is none"))?;
    let read: Json = serde_json::from_str(&seen.0).map_err(unreadable)?;
    let kind = read["kind"].as_str().unwrap_or(&object.kind).to_owned();
    Ok((seen, ObjectRef { kind, id: object.id }))
}

/// The first sentence, all fields, the revision and the state, and what else is known of the object.
fn to_text(seen: &Seen, explanation: &str) -> Result<String, Failure> {
    let (object, state) = seen;
    let mut sentences = explanation.lines();
    let mut text = sentences.next().unwrap_or_default().to_owned() + "\n";
    for line in yaml(object)?.lines().filter(|line| !line.starts_with("kind: ") && !line.starts_with("id: "))
    {
        text += &format!("    {line}\n");
    }
    text += &format!("Transaction {} created it", state.created);
    text += &match state.changed {
        changed if changed == state.created => ", and none has changed it since.\n".to_owned(),
        changed => format!(", and transaction {changed} was the last to change it.\n"),
    };
    for (name, value) in columns(state) {
        let value = value.as_str().map_or_else(|| value.to_string(), |text| shown(text).into_owned());
        text += &format!("{name}: {value}\n");
    }
    // The fields that differ from their defaults are among all of them.
    for line in sentences.skip_while(|line| line.starts_with("    ")) {
        text += &format!("{line}\n");
    }
    Ok(text)
}

fn to_json((object, state): &Seen, explanation: &str) -> Result<String, Failure> {
    let read = |text: &str| serde_json::from_str::<Json>(text).map_err(unreadable);
    let described = json!({
        "object": read(object)?,
        "created": state.created,
        "changed": state.changed,
        "state": columns(state),
        "problems": state.problems,
        "explanation": read(explanation)?,
    });
    Ok(format!("{described}\n"))
}
