//! The evaluator: walks the lowered tree over a scope and pays for every step.

use serde_json::Value;

use super::arithmetic;
use super::builtin;
use super::error::{EvalError, EvalErrorKind};
use super::fuel::Fuel;
use super::limits::LIST_LEN_MAX;
use super::lookup::{contains, index_of, text_key, walk, walk_json};
use super::order::{equal, order};
use super::scope::Scope;
use super::syntax::{Each, EachKind, Kind, Literal, Node, Pattern, Relation, Root};
use super::value::{List, Map, Text, Val};

/// Works a tree out and copies the value out of the scope.
pub(crate) fn to_json(node: &Node, scope: &Scope<'_>) -> Result<Value, EvalError> {
    let mut evaluation = Evaluation::new(scope);
    let value = evaluation.eval(node)?;
    value.into_json().map_err(|fault| fault.at(node.at))
}

/// Works a condition out.
pub(crate) fn to_bool(node: &Node, scope: &Scope<'_>) -> Result<bool, EvalError> {
    let value = Evaluation::new(scope).eval(node)?;
    truth(&value).map_err(|fault| fault.at(node.at))
}

/// The state of one evaluation.
pub(crate) struct Evaluation<'s, 'a> {
    scope: &'s Scope<'a>,
    bound: Vec<Val<'a>>,
    fuel: Fuel,
}

impl<'s, 'a> Evaluation<'s, 'a> {
    pub(crate) fn new(scope: &'s Scope<'a>) -> Self {
        Self {
            scope,
            bound: Vec::new(),
            fuel: Fuel::full(),
        }
    }

    pub(crate) fn eval<'n: 'a>(&mut self, node: &'n Node) -> Result<Val<'a>, EvalError> {
        self.fuel.step().map_err(|fault| fault.at(node.at))?;
        match &node.kind {
            Kind::Literal(literal) => Ok(literal_value(literal)),
            Kind::Path(root, fields) => self.path(node, root, fields),
            Kind::Field(of, fields) => {
                let value = self.eval(of)?;
                walk(value, fields).map_err(|fault| fault.at(node.at))
            }
            Kind::Has(of, field) => self.has(of, field),
            Kind::Index(of, index) => {
                let (of, index) = (self.eval(of)?, self.eval(index)?);
                index_of(&of, &index).map_err(|fault| fault.at(node.at))
            }
            Kind::Not(of) => self.condition(of).map(|value| Val::Bool(!value)),
            Kind::Negate(of) => {
                let value = self.eval(of)?;
                arithmetic::negate(&value).map_err(|fault| fault.at(node.at))
            }
            Kind::Chain(first, rest) => {
                let mut value = self.eval(first)?;
                for (operator, right) in rest {
                    let right_value = self.eval(right)?;
                    value = arithmetic::apply(&mut self.fuel, *operator, value, right_value)
                        .map_err(|fault| fault.at(right.at))?;
                }
                Ok(value)
            }
            Kind::Compare(relation, left, right) => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                self.compare(*relation, &left, &right)
                    .map_err(|fault| fault.at(node.at))
            }
            Kind::And(terms) => self.until(terms, false),
            Kind::Or(terms) => self.until(terms, true),
            Kind::If(parts) => {
                let [test, then, other] = &**parts;
                let chosen = if self.condition(test)? { then } else { other };
                self.eval(chosen)
            }
            Kind::List(items) => self.list(node, items),
            Kind::Map(entries) => self.map(node, entries),
            Kind::Call(builtin, arguments) => {
                let values = arguments.iter().map(|argument| self.eval(argument));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                builtin::call(&mut self.fuel, *builtin, &values).map_err(|fault| fault.at(node.at))
            }
            Kind::Default(parts) => self.default(&parts[0], &parts[1]),
            Kind::Matches(of, pattern) => {
                let value = self.eval(of)?;
                self.matches(&value, pattern)
                    .map_err(|fault| fault.at(node.at))
            }
            Kind::Each(each) => self.each(node, each),
        }
    }

    fn path<'n: 'a>(
        &mut self,
        node: &'n Node,
        root: &'n Root,
        fields: &'n [Box<str>],
    ) -> Result<Val<'a>, EvalError> {
        let found = match root {
            Root::Name(name) => match self.scope.find(name) {
                // Walking JSON itself, and only lending what is at the end, keeps this short.
                Some(value) => walk_json(name, value, fields),
                None => Err(EvalErrorKind::Missing {
                    path: "the scope".into(),
                    field: name.to_string(),
                    has: Box::default(),
                }),
            },
            Root::Bound(depth, _) => walk(self.bound[*depth].clone(), fields),
        };
        found.map_err(|fault| fault.at(node.at))
    }

    /// Absent anywhere on the way is absent: `has(a.b.c)` does not need `has(a.b)` before it.
    fn has<'n: 'a>(&mut self, of: &'n Node, field: &str) -> Result<Val<'a>, EvalError> {
        match self.eval(of) {
            Ok(Val::Map(map)) => Ok(Val::Bool(map.get(field).is_some())),
            Ok(_) => Ok(Val::Bool(false)),
            Err(error) if matches!(error.kind, EvalErrorKind::Missing { .. }) => {
                Ok(Val::Bool(false))
            }
            Err(error) => Err(error),
        }
    }

    fn default<'n: 'a>(&mut self, of: &'n Node, other: &'n Node) -> Result<Val<'a>, EvalError> {
        match self.eval(of) {
            Ok(Val::Null) => self.eval(other),
            Ok(value) => Ok(value),
            Err(error)
                if matches!(
                    error.kind,
                    EvalErrorKind::Missing { .. } | EvalErrorKind::Index { .. }
                ) =>
            {
                self.eval(other)
            }
            Err(error) => Err(error),
        }
    }

    fn condition<'n: 'a>(&mut self, node: &'n Node) -> Result<bool, EvalError> {
        let value = self.eval(node)?;
        truth(&value).map_err(|fault| fault.at(node.at))
    }

    /// `&&` and `||`: the first term that settles it, from left to right.
    fn until<'n: 'a>(&mut self, terms: &'n [Node], settles: bool) -> Result<Val<'a>, EvalError> {
        for term in terms {
            if self.condition(term)? == settles {
                return Ok(Val::Bool(settles));
            }
        }
        Ok(Val::Bool(!settles))
    }

    fn compare(
        &mut self,
        relation: Relation,
        left: &Val<'_>,
        right: &Val<'_>,
    ) -> Result<Val<'a>, EvalErrorKind> {
        let fuel = &mut self.fuel;
        Ok(Val::Bool(match relation {
            Relation::Equal => equal(fuel, left, right)?,
            Relation::NotEqual => !equal(fuel, left, right)?,
            Relation::Less => order(fuel, left, right)?.is_some_and(|found| found.is_lt()),
            Relation::LessOrEqual => order(fuel, left, right)?.is_some_and(|found| found.is_le()),
            Relation::Greater => order(fuel, left, right)?.is_some_and(|found| found.is_gt()),
            Relation::GreaterOrEqual => {
                order(fuel, left, right)?.is_some_and(|found| found.is_ge())
            }
            Relation::In => contains(fuel, left, right)?,
        }))
    }

    fn matches(&mut self, value: &Val<'_>, pattern: &Pattern) -> Result<Val<'a>, EvalErrorKind> {
        let Val::Text(text) = value else {
            return Err(EvalErrorKind::Type {
                operation: "matches",
                expected: "a string",
                found: value.type_name(),
            });
        };
        let text = text.as_str();
        self.fuel
            .burn_for(text.len().saturating_mul(pattern.steps_per_kib), 1024)?;
        Ok(Val::Bool(pattern.regex.is_match(text)))
    }

    fn list<'n: 'a>(&mut self, node: &Node, items: &'n [Node]) -> Result<Val<'a>, EvalError> {
        self.fuel
            .make(size_of_val(items))
            .map_err(|fault| fault.at(node.at))?;
        let items = items
            .iter()
            .map(|item| self.eval(item))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Val::List(List::Made(items.into())))
    }

    fn map<'n: 'a>(
        &mut self,
        node: &Node,
        entries: &'n [(Node, Node)],
    ) -> Result<Val<'a>, EvalError> {
        self.fuel
            .make(size_of_val(entries))
            .map_err(|fault| fault.at(node.at))?;
        let mut fields: Vec<(Text<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let name = text_key(self.eval(key)?).map_err(|fault| fault.at(key.at))?;
            fields.push((name, self.eval(value)?));
        }
        fields.sort_by(|(left, _), (right, _)| left.as_str().cmp(right.as_str()));
        if fields
            .windows(2)
            .any(|pair| pair[0].0.as_str() == pair[1].0.as_str())
        {
            return Err(
                EvalErrorKind::Invalid("a map has one of its keys twice".to_owned()).at(node.at),
            );
        }
        Ok(Val::Map(Map::Made(fields.into())))
    }

    fn each<'n: 'a>(&mut self, node: &Node, each: &'n Each) -> Result<Val<'a>, EvalError> {
        let over = self.eval(&each.over)?;
        let items = self.items(over).map_err(|fault| fault.at(each.over.at))?;
        let mut found = 0_usize;
        let mut made = Vec::new();
        for item in items.iter() {
            let item = item.map_err(|fault| fault.at(each.over.at))?;
            self.bound.push(item.clone());
            let step = self.each_item(each);
            self.bound.pop();
            let Some(value) = step? else { continue };
            match (each.kind, truthy(&value)) {
                (EachKind::Map, _) => made.push(value),
                (_, None) => return Err(not_bool(&value).at(each.body.at)),
                (EachKind::Filter, Some(true)) => made.push(item),
                (EachKind::All, Some(false)) => return Ok(Val::Bool(false)),
                (EachKind::Exists, Some(true)) => return Ok(Val::Bool(true)),
                (EachKind::ExistsOne, Some(true)) => found += 1,
                (
                    EachKind::All | EachKind::Exists | EachKind::ExistsOne | EachKind::Filter,
                    Some(_),
                ) => {}
            }
            self.fuel
                .make(size_of::<Val<'_>>())
                .map_err(|fault| fault.at(node.at))?;
        }
        Ok(match each.kind {
            EachKind::All => Val::Bool(true),
            EachKind::Exists => Val::Bool(false),
            EachKind::ExistsOne => Val::Bool(found == 1),
            EachKind::Map | EachKind::Filter => Val::List(List::Made(made.into())),
        })
    }

    /// The body for the item that is bound, or nothing if the filter leaves it out.
    fn each_item<'n: 'a>(&mut self, each: &'n Each) -> Result<Option<Val<'a>>, EvalError> {
        if let Some(filter) = &each.filter
            && !self.condition(filter)?
        {
            return Ok(None);
        }
        self.eval(&each.body).map(Some)
    }

    /// What a comprehension walks over: the items of a list, the keys of a map.
    fn items(&mut self, over: Val<'a>) -> Result<List<'a>, EvalErrorKind> {
        let items = match over {
            Val::List(items) => items,
            Val::Map(map) => {
                self.fuel.burn_for(map.len(), 2)?;
                self.fuel.make(map.len() * size_of::<Val<'_>>())?;
                List::Made(map.keys().into_iter().map(Val::Text).collect())
            }
            other @ (Val::Null | Val::Bool(_) | Val::Int(_) | Val::Double(_) | Val::Text(_)) => {
                return Err(EvalErrorKind::Type {
                    operation: "walking over",
                    expected: "a list or a map",
                    found: other.type_name(),
                });
            }
        };
        if items.len() > LIST_LEN_MAX {
            return Err(EvalErrorKind::Limit("list"));
        }
        Ok(items)
    }
}

fn literal_value(literal: &Literal) -> Val<'_> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(value) => Val::Int(*value),
        Literal::Double(value) => Val::Double(*value),
        Literal::Text(text) => Val::Text(Text::Lent(text)),
    }
}

fn truth(value: &Val<'_>) -> Result<bool, EvalErrorKind> {
    truthy(value).ok_or_else(|| not_bool(value))
}

fn truthy(value: &Val<'_>) -> Option<bool> {
    if let Val::Bool(value) = value {
        Some(*value)
    } else {
        None
    }
}

fn not_bool(value: &Val<'_>) -> EvalErrorKind {
    EvalErrorKind::Type {
        operation: "a condition",
        expected: "a bool",
        found: value.type_name(),
    }
}
