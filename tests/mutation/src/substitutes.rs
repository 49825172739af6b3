//! Replacements for an operator, and for the result of a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{BinOp, GenericArgument, PathArguments, Type, TypePath, parse_quote};

/// Returns operators that a programmer could write by mistake instead of the given operator.
pub fn operators(of: &BinOp) -> Vec<BinOp> {
    use BinOp::*;
    match of {
        Eq(_) => vec![parse_quote!(!=)],
        Ne(_) => vec![parse_quote!(==)],
        Lt(_) => vec![parse_quote!(<=), parse_quote!(==), parse_quote!(>)],
        Le(_) => vec![parse_quote!(<), parse_quote!(>)],
        Gt(_) => vec![parse_quote!(>=), parse_quote!(==), parse_quote!(<)],
        Ge(_) => vec![parse_quote!(>), parse_quote!(<)],
        And(_) => vec![parse_quote!(||)],
        Or(_) => vec![parse_quote!(&&)],
        Add(_) => vec![parse_quote!(-), parse_quote!(*)],
        Sub(_) => vec![parse_quote!(+), parse_quote!(/)],
        Mul(_) => vec![parse_quote!(+), parse_quote!(/)],
        Div(_) => vec![parse_quote!(*), parse_quote!(%)],
        Rem(_) => vec![parse_quote!(/), parse_quote!(+)],
        Shl(_) => vec![parse_quote!(>>)],
        Shr(_) => vec![parse_quote!(<<)],
        BitAnd(_) => vec![parse_quote!(|), parse_quote!(^)],
        BitOr(_) => vec![parse_quote!(&), parse_quote!(^)],
        BitXor(_) => vec![parse_quote!(|), parse_quote!(&)],
        AddAssign(_) => vec![parse_quote!(-=), parse_quote!(*=)],
        SubAssign(_) => vec![parse_quote!(+=), parse_quote!(/=)],
        MulAssign(_) => vec![parse_quote!(+=)],
        DivAssign(_) => vec![parse_quote!(*=)],
        ShlAssign(_) => vec![parse_quote!(>>=)],
        ShrAssign(_) => vec![parse_quote!(<<=)],
        BitAndAssign(_) => vec![parse_quote!(|=)],
        BitOrAssign(_) => vec![parse_quote!(&=)],
        BitXorAssign(_) => vec![parse_quote!(|=)],
        _ => vec![],
    }
}

/// Returns results that a function of this type could return without doing anything. Some of them
/// may not compile.
pub fn values(of: &Type) -> Vec<TokenStream> {
    match of.to_token_stream().to_string().replace(' ', "").as_str() {
        "bool" => vec![quote!(true), quote!(false)],
        "f64" | "f32" => vec![quote!(0.0), quote!(1.0)],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64"
        | "isize" => vec![quote!(0), quote!(1)],
        "Ordering" => vec![quote!(std::cmp::Ordering::Equal), quote!(std::cmp::Ordering::Less)],
        "&str" | "&'staticstr" => vec![quote!("")],
        _ => match of {
            Type::Path(path) => values_of_path(path),
            Type::Tuple(tuple) => {
                let firsts = tuple.elems.iter().map(|part| values(part).into_iter().next());
                let firsts: Option<Vec<_>> = firsts.collect();
                firsts.map(|firsts| vec![quote!((#(#firsts),*))]).unwrap_or_default()
            }
            Type::Reference(reference) if reference.mutability.is_none() => match *reference.elem {
                Type::Slice(_) => vec![quote!(&[])],
                _ => vec![],
            },
            _ => vec![],
        },
    }
}

fn values_of_path(of: &TypePath) -> Vec<TokenStream> {
    let last = of.path.segments.last().expect("a path has a segment");
    let inner = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(inner) => Some(values(inner)),
                _ => None,
            })
        }
        _ => None,
    };
    match (last.ident.to_string().as_str(), inner) {
        ("Result", Some(inner)) => inner.into_iter().map(|value| quote!(Ok(#value))).collect(),
        ("Option", Some(inner)) => {
            let inner = inner.into_iter().filter(|value| !value.to_string().contains("Default"));
            [quote!(None)].into_iter().chain(inner.map(|value| quote!(Some(#value)))).collect()
        }
        ("Vec", _) => vec![quote!(Vec::new())],
        ("String", _) => vec![quote!(String::new())],
        ("Self", _) => vec![],
        _ => vec![quote!(Default::default())],
    }
}
