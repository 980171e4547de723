//! Explanations as JSON.

use nlog::Program;
use nlog::program::Place;
use nlog_data::json::to_json;
use nlog_data::{Row, TableId, Value};
use serde_json::{Value as Json, json};

use crate::{Obstacle, ObstacleKind, WhyNot};

/// A row with its table.
pub(crate) fn row_json(program: &Program, table: TableId, row: &Row) -> Json {
    json!({"table": program.schema.table(table).name, "row": row.iter().map(to_json).collect::<Vec<_>>()})
}

/// A place in the source.
pub(crate) fn place_json(place: &Place) -> Json {
    json!({"file": *place.file, "line": place.line, "column": place.column})
}

impl WhyNot {
    /// For programs: the pattern, similar rows, and for each rule what it lacks.
    pub fn json(&self, program: &Program) -> Json {
        let wanted: Vec<Option<Json>> =
            self.pattern.columns.iter().map(|value| value.as_ref().map(to_json)).collect();
        let nearest: Vec<Json> = self.nearest.iter().map(|row| row.iter().map(to_json).collect()).collect();
        let obstacles: Vec<Json> =
            self.obstacles.iter().map(|obstacle| obstacle_json(program, self, obstacle)).collect();
        let unfit: Vec<Json> = self.unfit.iter().map(|rule| place_json(&program.rule(*rule).place)).collect();
        json!({
            "table": program.schema.table(self.pattern.table).name,
            "row": wanted,
            "rows": self.rows,
            "nearest": nearest,
            "rules": obstacles,
            "other_rules": unfit,
        })
    }
}

fn obstacle_json(program: &Program, answer: &WhyNot, obstacle: &Obstacle) -> Json {
    let named = |values: &[(String, Value)]| -> Json {
        Json::Object(values.iter().map(|(name, value)| (name.clone(), to_json(value))).collect())
    };
    let found: Vec<Json> = obstacle.found.iter().map(|(table, row)| row_json(program, *table, row)).collect();
    let what = match &obstacle.kind {
        ObstacleKind::NoRow { place, why_not, .. } => {
            json!({"kind": "no-row", "atom": place_json(place), "why_not": why_not.json(program)})
        }
        ObstacleKind::False { condition, values } => {
            json!({"kind": "false", "condition": condition, "values": named(values)})
        }
        ObstacleKind::NoResult { call, values, found } => {
            let found = found.as_ref().map(to_json);
            json!({"kind": "no-result", "call": call, "values": named(values), "found": found})
        }
        ObstacleKind::Head { column, found } => {
            let column = &program.schema.table(answer.pattern.table).columns[*column].name;
            json!({"kind": "head", "column": column, "found": to_json(found)})
        }
        ObstacleKind::Aggregate { derived } => {
            let derived: Vec<Json> = derived.iter().map(|row| row.iter().map(to_json).collect()).collect();
            json!({"kind": "aggregate", "derived": derived})
        }
        ObstacleKind::Overridden { by } => {
            json!({"kind": "overridden", "by": by.iter().map(to_json).collect::<Vec<_>>()})
        }
        ObstacleKind::None => json!({"kind": "none"}),
    };
    let mut object = json!({
        "rule": place_json(&program.rule(obstacle.rule).place),
        "found": found,
        "variables": named(&obstacle.variables),
        "others": obstacle.others,
        "obstacle": what,
    });
    if obstacle.cut {
        object["more"] = json!(true);
    }
    object
}
