//! `weft explain KIND/ID`: an object in sentences.

use std::path::PathBuf;

use nlog_data::Row;
use nlog_explain::OnDemand;
use packet_trace::{AskedObject, ObjectExplainer, UNKNOWN, derived_flows};
use weft_client::pb::row_question::About;
use weft_client::{Client, pb};

use super::{Asked, Explain, input_rows, print};
use crate::client::failed;
use crate::exit::Failure;
use crate::program::compile;

impl Asked {
    /// The object that is asked about, and the programs; none if it is a row. `KIND/ID` is as good as `KIND ID`.
    pub(super) fn object(&self) -> Option<(&[PathBuf], AskedObject)> {
        let (last, programs) = self.programs.split_last()?;
        let last = last.to_str().filter(|text| !text.contains(['(', '"']))?;
        if let Some(object) = AskedObject::read(last) {
            return Some((programs, object));
        }
        let (kind, programs) = programs.split_last()?;
        let object = AskedObject::read(&format!("{}/{last}", kind.to_str()?))?;
        (object.kind != "builtin" && !kind.exists()).then_some((programs, object))
    }
}

impl Explain {
    /// Answers about an object.
    pub(super) fn object(&self, programs: &[PathBuf], asked: &AskedObject) -> Result<(), Failure> {
        let Asked { source, json, .. } = &self.asked;
        match (programs.is_empty(), source.is_empty()) {
            (true, true) => return self.ask_about(asked),
            (false, false) => {}
            (true, false) => {
                let why =
                    format!("-i and --objects need a program, such as: builtin {}/{}", asked.kind, asked.id);
                return Err(Failure::Usage(why));
            }
            (false, true) => {
                let why = "say what the network is: -i TXNS or --objects FILE; without a program, the running controller is asked";
                return Err(Failure::Usage(why.to_owned()));
            }
        }
        let program = compile(programs)?;
        let (origins, refused) = input_rows(&program, source, None)?;
        let state = OnDemand::new(program, origins.keys().cloned());
        let origin = |table, row: &Row| {
            origins.get(&(table, row.clone())).copied().filter(|transaction| *transaction != UNKNOWN)
        };
        let flows = |host: &str| derived_flows(&state, host);
        let explainer = ObjectExplainer { state: &state, origin: &origin, flows: &flows, is_part: false };
        let mut answer = explainer.explain(asked).map_err(Failure::Rejected)?;
        source.add_calls(&mut answer)?;
        print(*json, &if *json { answer.json().to_string() } else { answer.text() })?;
        refused
    }

    fn ask_about(&self, asked: &AskedObject) -> Result<(), Failure> {
        let AskedObject { kind, id } = asked.clone();
        let (is_json, rows) = (self.asked.json, self.rows);
        self.asked.address.with(|mut client| async move {
            print(is_json, &of_object(&mut client, pb::ObjectRef { kind, id }, rows, is_json).await?)
        })
    }
}

/// What the running controller says of an object.
pub(crate) async fn of_object(
    client: &mut Client,
    object: pb::ObjectRef,
    rows: u32,
    json: bool,
) -> Result<String, Failure> {
    let question = Some(pb::RowQuestion { about: Some(About::Object(object)) });
    client.explain(pb::ExplainRequest { question, rows, json }).await.map_err(failed)
}
