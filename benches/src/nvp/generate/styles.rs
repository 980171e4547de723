//! A table and its rules, by style.

use super::*;

impl Generator {
    pub(super) fn one(&mut self, file: usize, role: Role) {
        let (at, variables, mut draft) = self.begin(file, |_| true).expect("inputs are always visible");
        let first = self.program.tables[at].clone();
        let (terms, key) = self.head(&first, &variables, &mut draft);
        let table = self.add(file, role, &terms, key, &first);
        self.rule(table, file, terms, draft);
    }

    /// Which pairs of entities occur together.
    pub(super) fn project(&mut self, file: usize, role: Role) -> Option<()> {
        let (at, _, mut draft) = self.begin(file, |table| entities_of(table) >= 2)?;
        let mut entities = draft.entities();
        self.random.shuffle(&mut entities);
        entities.truncate(2);
        let mut terms: Vec<Term> = entities.into_iter().map(|at| term(at, &mut draft)).collect();
        distinct_names(&mut terms);
        let mut first = self.program.tables[at].clone();
        first.rows = first.rows.min(OF_EACH.pow(terms.len() as u32));
        let table = self.add(file, role, &terms, Some(terms.len()), &first);
        self.rule(table, file, terms, draft);
        Some(())
    }

    pub(super) fn aggregate(&mut self, file: usize, role: Role) -> Option<()> {
        let (at, _, mut draft) = self.begin(file, |table| entities_of(table) >= 2)?;
        let mut entities = draft.entities();
        self.random.shuffle(&mut entities);
        let (group, other) = (entities[0], entities[1]);
        let mut terms = vec![term(group, &mut draft)];
        terms.push(self.aggregated(other, &mut draft));
        distinct_names(&mut terms);
        let mut first = self.program.tables[at].clone();
        first.rows = first.rows.min(OF_EACH);
        let table = self.add(file, role, &terms, Some(1), &first);
        self.rule(table, file, terms, draft);
        Some(())
    }

    /// An aggregate over the bindings' values of an entity.
    fn aggregated(&mut self, entity: usize, draft: &mut Draft) -> Term {
        let numbers = draft.of_class(Class::Number);
        let case = if numbers.is_empty() { self.random.below(2) } else { self.random.below(7) };
        if case < 2 {
            let (aggregate, kind) = [("count", "total"), ("set", "members")][case];
            return (format!("{aggregate}({})", draft.mention(entity)), column_of(named(kind)));
        }
        let number = *self.random.pick(&numbers);
        let (number_kind, entity_kind) = (draft.variables[number].kind, draft.variables[entity].kind);
        let number = draft.mention(number);
        match case {
            2 => (format!("max({number})"), column_of(number_kind)),
            3 => (format!("min({number})"), column_of(number_kind)),
            4 => (format!("sum({number}, {})", draft.mention(entity)), column_of(named("total"))),
            5 => (format!("arg_min({number}, {})", draft.mention(entity)), column_of(entity_kind)),
            _ => (format!("arg_max({number}, {})", draft.mention(entity)), column_of(entity_kind)),
        }
    }

    /// A table of pairs of rows that have something in common.
    pub(super) fn pair(&mut self, file: usize, role: Role) -> Option<()> {
        let at = self.base(file, |table| table.rows <= 27 && entities_of(table) >= 2)?;
        let first = self.program.tables[at].clone();
        let entities: Vec<usize> =
            (0..first.columns.len()).filter(|column| first.columns[*column].kind < ENTITIES).collect();
        let (apart, common) = (entities[0], entities[1]);
        if first.columns[apart].kind == first.columns[common].kind {
            return None;
        }
        self.program.tables[at].read = true;
        let mut draft = Draft::default();
        let left = draft.atom(at, &first, &[], &mut self.random);
        let right = draft.atom(at, &first, &[(common, left[common])], &mut self.random);
        for _ in 0..self.random.below(3) {
            self.look_up(&mut draft, file);
        }
        let (one, other) = (draft.mention(left[apart]), draft.mention(right[apart]));
        draft.text(format!("not_equal({one}, {other})"));
        let mut terms = vec![term(left[apart], &mut draft), term(right[apart], &mut draft)];
        distinct_names(&mut terms);
        let mut pairs = first.clone();
        pairs.rows = OF_EACH * (OF_EACH - 1);
        let table = self.add(file, role, &terms, Some(2), &pairs);
        self.rule(table, file, terms, draft);
        Some(())
    }

    /// Two cases of one table, distinguished by a condition.
    pub(super) fn split(&mut self, file: usize, role: Role) {
        let (at, variables, mut draft) = self.begin(file, |_| true).expect("inputs are always visible");
        let first = self.program.tables[at].clone();
        let (mut terms, key) = self.head(&first, &variables, &mut draft);
        let by_hash = draft.entities()[0];
        let (yes, no) = draft.either_or(&mut self.random).unwrap_or_else(|| draft.by_hash(by_hash));
        let number = Column { name: "case_number".into(), kind: named("level"), detail: 0 };
        terms.push(("0".into(), number));
        distinct_names(&mut terms);
        let table = self.add(file, role, &terms, key, &first);
        for (case, condition) in [(10, yes), (20, no)] {
            let mut body = draft.clone();
            body.text(condition);
            if let Some((text, _)) = terms.last_mut() {
                *text = (case + self.random.below(5)).to_string();
            }
            self.rule(table, file, terms.clone(), body);
        }
    }

    /// Alternatives, each from different tables.
    pub(super) fn unite(&mut self, file: usize, role: Role, count: usize) {
        let (at, variables, mut draft) = self.begin(file, |_| true).expect("inputs are always visible");
        let entity = *variables
            .iter()
            .find(|at| draft.variables[**at].kind < ENTITIES)
            .expect("every table has an entity");
        let kind = draft.variables[entity].kind;
        let mut first = self.program.tables[at].clone();
        first.rows = count * OF_EACH;
        let level = Column { name: "level".into(), kind: named("level"), detail: 0 };
        let terms = vec![term(entity, &mut draft), ("0".into(), level.clone())];
        let table = self.add(file, role, &terms, Some(2), &first);
        // Not to be read by its own rules.
        self.program.tables[table].readable = usize::MAX;
        self.rule(table, file, terms, draft);
        for number in 1..count {
            let has = |table: &Table| table.columns.iter().any(|column| column.kind == kind);
            let (_, _, mut draft) = self.begin(file, has).expect("inputs of every entity are visible");
            let entity = draft.of_kind(kind)[0];
            let terms = vec![term(entity, &mut draft), (number.to_string(), level.clone())];
            self.rule(table, file, terms, draft);
        }
        self.program.tables[table].readable = file;
    }

    /// Writes the flow rules of this file.
    pub(super) fn flow_rules(&mut self, file: usize) {
        for table in std::mem::take(&mut self.flows[file]) {
            let scope = self.program.tables[table].columns[0].kind;
            let has = |table: &Table| {
                let columns = &table.columns;
                let fields =
                    columns.iter().any(|column| column.kind >= named("label") && column.kind <= named("ip"));
                columns.iter().any(|column| column.kind == scope) && (fields || columns.len() > 2)
            };
            let (at, _, mut draft) = self.begin(file, has).expect("inputs of every entity are visible");
            let rows = self.program.tables[at].rows;
            while draft.of_class(Class::Label).is_empty()
                && draft.atoms() < 6
                && self.look_up(&mut draft, file)
            {}
            let scope = draft.of_kind(scope)[0];
            let (own, next) = (self.stage(), self.stage());
            let scope = term(scope, &mut draft);
            let (expr, fields) =
                draft.matching(&mut self.random).unwrap_or_else(|| ("match_any()".to_owned(), 0));
            let (actions, length) = draft.acting(&mut self.random, next);
            let expr = self.bind(
                expr,
                Column { name: "expr".into(), kind: named("expr"), detail: fields },
                &mut draft,
            );
            let column = Column { name: "actions".into(), kind: named("actions"), detail: length };
            let actions = self.bind(actions, column, &mut draft);
            let rank = |name: &str| Column { name: name.into(), kind: named("level"), detail: 0 };
            // A separate priority for each rule of the table, so that no two of them clash.
            let priority = 10 * (1 + self.entries[table]) + self.random.below(10);
            self.entries[table] += 1;
            let terms = vec![
                scope,
                (own.to_owned(), rank("table_id")),
                (priority.to_string(), rank("priority")),
                expr,
                actions,
            ];
            self.program.tables[table].rows += rows;
            self.rule(table, file, terms, draft);
        }
    }
}
