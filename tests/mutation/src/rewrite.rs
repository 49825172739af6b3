//! Finds the mutants of a file, and inserts the wanted mutants into the file as branches.
//!
//! Mutants: a different operator, a removed `!` or `-`, a negated condition, a removed arm of a
//! `match`, a guard replaced by a constant, and a function that returns a constant at once. No
//! mutants are made in tests, in `Debug` output, in macros, or in constants, which the compiler
//! evaluates.

use std::collections::BTreeSet;
use std::fmt;

use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, Attribute, Block, Expr, ExprMatch, Item, Pat, ReturnType, Signature, UnOp, parse_quote,
};

use crate::substitutes::{operators, values};

/// A small mistake that can be made in the code.
#[derive(Clone)]
pub struct Mutant {
    pub id: u32,
    /// Path of the file from the root of the repository.
    pub file: String,
    line: usize,
    function: String,
    change: String,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}  {}: {}", self.file, self.line, self.function, self.change)
    }
}

/// Returns the mutants of a file, numbered from `first_id`, and its text with the `wanted` mutants.
pub fn rewrite(
    file: &str,
    text: &str,
    first_id: u32,
    wanted: &BTreeSet<u32>,
) -> (Vec<Mutant>, String) {
    let mut tree = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut rewriter = Rewriter { file, first_id, wanted, names: Vec::new(), found: Vec::new() };
    rewriter.visit_file_mut(&mut tree);
    (rewriter.found, prettyplease::unparse(&tree))
}

struct Rewriter<'a> {
    file: &'a str,
    first_id: u32,
    wanted: &'a BTreeSet<u32>,
    /// Names of the enclosing type and function.
    names: Vec<String>,
    found: Vec<Mutant>,
}

impl Rewriter<'_> {
    /// Notes a mutant. Returns its number if it is wanted.
    fn note(&mut self, line: usize, change: String) -> Option<u32> {
        let id = self.first_id + self.found.len() as u32;
        let (file, function) = (self.file.to_string(), self.names.join("::"));
        self.found.push(Mutant { id, file, line, function, change });
        self.wanted.contains(&id).then_some(id)
    }

    /// Adds the mutants in which a function returns a constant at once.
    fn visit_body(&mut self, signature: &Signature, block: &mut Block) {
        if signature.constness.is_some() {
            return;
        }
        let line = signature.span().start().line;
        self.names.push(signature.ident.to_string());
        let body = block.to_token_stream().to_string();
        visit_mut::visit_block_mut(self, block);
        let results = match &signature.output {
            ReturnType::Default => vec![quote!(())],
            ReturnType::Type(_, result) => values(result),
        };
        let mut returns = Vec::new();
        for value in results {
            if body == "{ }" || body == format!("{{ {value} }}") {
                continue;
            }
            if let Some(id) =
                self.note(line, format!("returns {}", value.to_string().replace(' ', "")))
            {
                returns.push(parse_quote!(if crate::mutated(#id) { return #value; }));
            }
        }
        block.stmts.splice(0..0, returns);
        self.names.pop();
    }

    fn visit_binary(&mut self, expr: &mut Expr, text: &str) {
        let Expr::Binary(binary) = expr else { return };
        if has_let(&binary.left) || has_let(&binary.right) {
            return;
        }
        let (line, was) = (binary.op.span().start().line, shown(&binary.op));
        let mut others = Vec::new();
        for op in operators(&binary.op) {
            if let Some(id) = self.note(line, format!("{text}: {was} -> {}", shown(&op))) {
                others.push((id, Expr::Binary(syn::ExprBinary { op, ..binary.clone() })));
            }
        }
        *expr = switch(expr.clone(), others);
    }

    fn visit_unary(&mut self, expr: &mut Expr, text: &str) {
        let Expr::Unary(unary) = expr else { return };
        if matches!(unary.op, UnOp::Deref(_)) {
            return;
        }
        let change = format!("{text}: {} dropped", unary.op.to_token_stream());
        if let Some(id) = self.note(unary.span().start().line, change) {
            let without = (*unary.expr).clone();
            *expr = switch(expr.clone(), vec![(id, without)]);
        }
    }
}

impl VisitMut for Rewriter<'_> {
    fn visit_item_mut(&mut self, item: &mut Item) {
        let attributes: &[Attribute] = match item {
            Item::Fn(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Const(_) | Item::Static(_) | Item::Macro(_) => return,
            _ => &[],
        };
        if !is_test(attributes) {
            visit_mut::visit_item_mut(self, item);
        }
    }

    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        if item.trait_.as_ref().is_some_and(|(_, path, _)| shown(path).ends_with("Debug")) {
            return;
        }
        self.names.push(shown(&item.self_ty));
        visit_mut::visit_item_impl_mut(self, item);
        self.names.pop();
    }

    fn visit_item_fn_mut(&mut self, item: &mut syn::ItemFn) {
        self.visit_body(&item.sig, &mut item.block);
    }

    fn visit_impl_item_fn_mut(&mut self, item: &mut syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.visit_body(&item.sig, &mut item.block);
        }
    }

    fn visit_trait_item_fn_mut(&mut self, item: &mut syn::TraitItemFn) {
        if let Some(block) = &mut item.default {
            self.visit_body(&item.sig, block);
        }
    }

    fn visit_impl_item_const_mut(&mut self, _: &mut syn::ImplItemConst) {}
    fn visit_trait_item_const_mut(&mut self, _: &mut syn::TraitItemConst) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
    fn visit_attribute_mut(&mut self, _: &mut Attribute) {}
    fn visit_generic_argument_mut(&mut self, _: &mut syn::GenericArgument) {}
    fn visit_generics_mut(&mut self, _: &mut syn::Generics) {}

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        let text = arm.guard.as_ref().map(|(_, guard)| source(guard)).unwrap_or_default();
        let line = arm.span().start().line;
        visit_mut::visit_arm_mut(self, arm);
        let Some((_, guard)) = &mut arm.guard else { return };
        if has_let(guard) {
            return;
        }
        let mut constants = Vec::new();
        for value in [true, false] {
            if let Some(id) = self.note(line, format!("guard {text}: {value}")) {
                constants.push((id, parse_quote!(#value)));
            }
        }
        **guard = switch((**guard).clone(), constants);
    }

    fn visit_expr_match_mut(&mut self, expr: &mut ExprMatch) {
        visit_mut::visit_expr_match_mut(self, expr);
        let Some((last, arms)) = expr.arms.split_last_mut() else { return };
        if !matches!(last.pat, Pat::Wild(_)) || last.guard.is_some() {
            return;
        }
        for arm in arms.iter_mut().filter(|arm| arm.guard.is_none()) {
            let (line, change) =
                (arm.span().start().line, format!("arm {} dropped", source(&arm.pat)));
            if let Some(id) = self.note(line, change) {
                arm.guard = Some((Default::default(), parse_quote!(!crate::mutated(#id))));
            }
        }
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let (line, text) = (expr.span().start().line, source(expr));
        match expr {
            Expr::Const(_) | Expr::Macro(_) => {}
            Expr::Repeat(repeat) => self.visit_expr_mut(&mut repeat.expr),
            Expr::Assign(assign) => self.visit_expr_mut(&mut assign.right),
            Expr::If(branch) => {
                let text = source(&*branch.cond);
                let has_mutants = matches!(*branch.cond, Expr::Binary(_) | Expr::Unary(_));
                visit_mut::visit_expr_if_mut(self, branch);
                if has_mutants || has_let(&branch.cond) {
                    return;
                }
                if let Some(id) = self.note(line, format!("if {text}: negated")) {
                    let condition = (*branch.cond).clone();
                    let negated = parse_quote!(!(#condition));
                    *branch.cond = switch(condition, vec![(id, negated)]);
                }
            }
            _ => {
                visit_mut::visit_expr_mut(self, expr);
                self.visit_binary(expr, &text);
                self.visit_unary(expr, &text);
            }
        }
    }
}

/// Returns an expression that evaluates `original` unless one of the mutants is switched on.
fn switch(original: Expr, mutants: Vec<(u32, Expr)>) -> Expr {
    mutants.into_iter().fold(original, |otherwise, (id, mutant)| {
        parse_quote!((if crate::mutated(#id) { #mutant } else { #otherwise }))
    })
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        Expr::Paren(inner) => has_let(&inner.expr),
        _ => false,
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.to_token_stream().to_string();
        let is_shuttle = text.contains("shuttle") && !text.contains("not");
        text.contains("cfg") && (text.contains("test") || is_shuttle)
    })
}

fn shown(tokens: &impl ToTokens) -> String {
    tidy(
        &tokens
            .to_token_stream()
            .to_string()
            .replace(" <", "<")
            .replace("< ", "<")
            .replace(" >", ">"),
    )
}

/// Returns the text of a syntax element, as it is in the file.
fn source(of: &impl Spanned) -> String {
    tidy(&of.span().source_text().unwrap_or_default())
}

/// Returns the text in one line of at most 90 characters.
fn tidy(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(90) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_mutants_and_those_wanted_become_branches() {
        let text = "
            impl Range {
                fn is_empty(&self) -> bool {
                    !(self.from < self.to)
                }
            }
            impl fmt::Debug for Range {
                fn fmt(&self) -> bool { true }
            }
            #[cfg(test)]
            fn checked() -> bool { 1 == 2 }
        ";
        let (found, text) = rewrite("src/range.rs", text, 5, &BTreeSet::from([6, 9]));
        let found: Vec<String> = found.iter().map(Mutant::to_string).collect();
        let line_4 = "src/range.rs:4  Range::is_empty: self.from < self.to: < ->";
        assert_eq!(
            found,
            [
                format!("{line_4} <="),
                format!("{line_4} =="),
                format!("{line_4} >"),
                "src/range.rs:4  Range::is_empty: !(self.from < self.to): ! dropped".to_string(),
                "src/range.rs:3  Range::is_empty: returns true".to_string(),
                "src/range.rs:3  Range::is_empty: returns false".to_string(),
            ]
        );
        let code: String = text.split_whitespace().collect();
        assert!(code.contains(
            "if crate::mutated(6u32) { self.from == self.to }".replace(' ', "").as_str()
        ));
        assert!(
            code.contains("if crate::mutated(9u32) { return true; }".replace(' ', "").as_str())
        );
        assert_eq!(code.matches("mutated").count(), 2);
    }
}
