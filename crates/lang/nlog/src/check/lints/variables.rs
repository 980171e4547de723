//! The lint `unused-variable`.

use crate::check::resolve::Resolver;
use crate::diagnostic::Code;

impl Resolver<'_, '_> {
    /// Reports variables that occur once in the rule. Returns whether there are any. After an error, they may be
    /// part of a mistake that is already reported.
    pub(in crate::check) fn unused_variables(&mut self) -> bool {
        let mut found = false;
        if self.failed {
            return found;
        }
        for index in 0..self.variables.len() {
            let variable = &self.variables[index];
            let excused = variable.in_fault || self.scope.declarations.excuses(&variable.name);
            if variable.count > 1 || excused || variable.name.starts_with('_') {
                continue;
            }
            let name = &variable.name;
            let message = format!("variable `{name}` is used only once in this rule");
            let help = if variable.defined {
                format!("remove its definition, or rename it to `_{name}` to keep it")
            } else {
                format!("write `_`, or `_{name}` to keep the name")
            };
            self.report(Code::UnusedVariable, variable.first, message, help);
            found = true;
        }
        found
    }

    /// Reports parameters of a function that its body does not use.
    pub(in crate::check) fn unused_parameters(&mut self) {
        if self.failed {
            return;
        }
        for index in 0..self.variables.len() {
            let variable = &self.variables[index];
            if variable.count > 1 || variable.name.starts_with('_') {
                continue;
            }
            let name = &variable.name;
            let message = format!("{} does not use its parameter `{name}`", self.subject);
            let help = format!("remove it, or rename it to `_{name}` to keep it");
            self.report(Code::UnusedVariable, variable.first, message, help);
        }
    }
}
