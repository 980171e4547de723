//! Faults of objects as they are printed: lines for people, JSON for scripts, each with the line of its field.

use objects::{FaultCode, ObjectError, Place, locate};
use serde_json::Value as Json;
use weft_client::ClientError;
use weft_client::pb::{ObjectFault, Refusal};

use crate::client::failed;
use crate::exit::{Failure, print_as};

/// A fault for scripts.
pub(crate) fn fault_json(fault: &ObjectError) -> Json {
    let ObjectError { code, place, kind, id, path, message, expected: _ } = fault;
    let (file, line) =
        (place.as_ref().map(|place| &*place.document), place.as_ref().and_then(|place| place.line));
    serde_json::json!({
        "severity": "error",
        "code": code.name(),
        "file": file,
        "line": line,
        "kind": kind,
        "id": id,
        "path": path,
        "message": message,
    })
}

/// The failure of a request with the objects of these files, named and with their texts. With `json`, its faults are on
/// standard output already, one a line.
pub(crate) fn refused(error: ClientError, documents: &[(String, String)], json: bool) -> Failure {
    let ClientError::Refused(mut refusal) = error else { return failed(error) };
    let mut faults: Vec<ObjectError> = refusal.faults.iter().map(fault).collect();
    for (name, text) in documents {
        locate(name, text, &mut faults);
    }
    if !json || is_journal(&refusal) {
        for (told, fault) in refusal.faults.iter_mut().zip(&faults) {
            told.text = fault.to_string();
        }
        return failed(ClientError::Refused(refusal));
    }
    let lines: Vec<String> = match faults.as_slice() {
        [] => {
            let Refusal { code, message, .. } = &refusal;
            vec![serde_json::json!({"severity": "error", "code": code, "message": message}).to_string()]
        }
        faults => faults.iter().map(|fault| fault_json(fault).to_string()).collect(),
    };
    match print_as(true, &(lines.join("\n") + "\n")) {
        Ok(()) => Failure::Reported,
        Err(failure) => failure,
    }
}

/// Whether the request is valid, and the controller's disk failed.
pub(crate) fn is_journal(refusal: &Refusal) -> bool {
    refusal.code == "journal"
}

/// A fault as the controller tells it. Its line is in its text, and found again in the file.
fn fault(told: &ObjectFault) -> ObjectError {
    let ObjectFault { code, document, place, object, path, message, text, changed: _ } = told;
    let (kind, id) =
        object.as_ref().map(|object| (object.kind.clone(), object.id.clone())).unwrap_or_default();
    let line = text.strip_prefix(document.as_str()).and_then(|rest| rest.strip_prefix(':'));
    let line = line.and_then(|rest| rest.split(':').next()?.parse().ok());
    let place =
        place.map(|number| Place { document: document.as_str().into(), unit: "object", number, line });
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    ObjectError {
        code: FaultCode::of_name(code),
        place,
        kind: some(kind),
        id: some(id),
        path: path.clone(),
        message: message.clone(),
        expected: None,
    }
}
