//! What a pickle can hold here, and the only names it may ask for.

use crate::Dtype;

/// A value of a pickle. Texts are borrowed from the file; what holds other values lies in a list of [`Object`]s, so that
/// a value is copied in no time and a structure that contains itself does no harm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    None,
    Bool(bool),
    Integer(i64),
    /// An integer of more than 64 bits, little-endian.
    Long(&'a [u8]),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Global(Global),
    Object(usize),
}

/// What values are made of. The two that are large are kept elsewhere: a file may make many of the small.
#[derive(Debug)]
pub(super) enum Object<'a> {
    Tuple(Vec<Value<'a>>),
    List(Vec<Value<'a>>),
    Dict(Vec<(Value<'a>, Value<'a>)>),
    Storage(Box<Storage<'a>>),
    Tensor(Box<Tensor>),
}

/// A storage that the pickle refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage<'a> {
    pub(super) key: &'a str,
    /// The type of its numbers; `None` for bytes whose type the tensor says.
    pub(super) dtype: Option<Dtype>,
    /// How many numbers (or bytes).
    pub(super) count: usize,
    /// The part of it that is meant: where it begins and how many numbers. Only the old format has this.
    pub(super) part: Option<(usize, usize)>,
}

/// A tensor: a walk over a storage.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    /// The object that is its storage.
    pub(super) storage: usize,
    pub(super) start: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
    /// The type, where the storage has none.
    pub(super) dtype: Option<Dtype>,
}

/// Everything that a pickle may name. None of it is Python: each is a case of what we do ourselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Global {
    /// A function that makes a tensor from a storage, a start, a shape and strides.
    Rebuild,
    /// The same, with the type of the numbers as the seventh argument.
    RebuildTyped,
    /// A function that gives its first argument back: parameters are tensors here.
    Same,
    /// A function that calls its first argument with its third.
    Call,
    /// A dictionary, perhaps from a list of pairs.
    Dict,
    /// A type of storage; the type of its numbers, if it has one.
    Storage(Option<Dtype>),
    /// A type of number.
    Dtype(Dtype),
    /// A value that no tensor depends on: a device, a layout, a class.
    Aside,
}

impl Global {
    /// The name `module.name`, if it is allowed.
    pub(super) fn named(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Self::Rebuild,
            ("torch._utils", "_rebuild_tensor_v3") => Self::RebuildTyped,
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") | ("torch", "Size") => {
                Self::Same
            }
            ("torch._tensor", "_rebuild_from_type_v2") => Self::Call,
            ("collections", "OrderedDict" | "Counter") => Self::Dict,
            ("torch", "device" | "Tensor")
            | ("torch.nn.parameter", "Parameter")
            | ("torch.serialization", "_get_layout") => Self::Aside,
            ("torch.storage", "TypedStorage" | "_TypedStorage" | "UntypedStorage" | "_UntypedStorage")
            | ("torch", "UntypedStorage") => Self::Storage(None),
            ("torch", name) => match name.strip_suffix("Storage") {
                Some(kind) => Self::Storage(Some(storage(kind)?)),
                None => Self::Dtype(dtype(name)?),
            },
            _ => return None,
        })
    }
}

/// The numbers of a storage class, by the name that it has before `Storage`.
fn storage(name: &str) -> Option<Dtype> {
    Some(match name {
        "Float" => Dtype::F32,
        "Half" => Dtype::F16,
        "BFloat16" => Dtype::Bf16,
        "Double" => Dtype::F64,
        "Long" => Dtype::I64,
        "Int" => Dtype::I32,
        "Short" => Dtype::I16,
        "Char" => Dtype::I8,
        "Byte" => Dtype::U8,
        "Bool" => Dtype::Bool,
        _ => return None,
    })
}

/// The type that torch calls `name`.
fn dtype(name: &str) -> Option<Dtype> {
    Some(match name {
        "float32" => Dtype::F32,
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::Bf16,
        "float64" => Dtype::F64,
        "int64" => Dtype::I64,
        "int32" => Dtype::I32,
        "int16" => Dtype::I16,
        "int8" => Dtype::I8,
        "uint64" => Dtype::U64,
        "uint32" => Dtype::U32,
        "uint16" => Dtype::U16,
        "uint8" => Dtype::U8,
        "bool" => Dtype::Bool,
        _ => return None,
    })
}
