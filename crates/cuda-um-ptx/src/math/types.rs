//! 5.2.1 Fundamental Types, 5.2.3 Packed Data Types.

use super::soft::{self, Format};

/// What the bits of a type mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// As an unsigned number, where it matters.
    Bits,
    Unsigned,
    Signed,
    Float(Format),
    /// Two of this type, the first in the lower half.
    Two(Type),
}

macro_rules! types {
    ($($name:literal $type:ident $bits:literal $class:expr;)*) => {
        /// The type of a register, a variable or an operand, named as in PTX.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Type {
            $($type,)*
            /// A texture, sampler or surface: 64 bits that only the driver understands.
            Opaque,
        }

        impl Type {
            /// The type of a modifier, without its dot.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$type),)*
                    "texref" | "samplerref" | "surfref" => Some(Self::Opaque),
                    _ => None,
                }
            }

            #[inline(always)]
            pub const fn bits(self) -> u32 {
                match self {
                    $(Self::$type => $bits,)*
                    Self::Opaque => 64,
                }
            }

            #[inline(always)]
            pub const fn class(self) -> Class {
                use Class::*;
                match self {
                    $(Self::$type => $class,)*
                    Self::Opaque => Bits,
                }
            }
        }
    };
}

types! {
    "pred" Pred 1 Bits;
    "b8" B8 8 Bits;
    "b16" B16 16 Bits;
    "b32" B32 32 Bits;
    "b64" B64 64 Bits;
    "b128" B128 128 Bits;
    "u4" U4 4 Unsigned;
    "u8" U8 8 Unsigned;
    "u16" U16 16 Unsigned;
    "u32" U32 32 Unsigned;
    "u64" U64 64 Unsigned;
    "s4" S4 4 Signed;
    "s8" S8 8 Signed;
    "s16" S16 16 Signed;
    "s32" S32 32 Signed;
    "s64" S64 64 Signed;
    "e4m3" E4m3 8 Float(soft::E4M3);
    "e5m2" E5m2 8 Float(soft::E5M2);
    "f16" F16 16 Float(soft::F16);
    "bf16" Bf16 16 Float(soft::BF16);
    "tf32" Tf32 32 Float(soft::TF32);
    "f32" F32 32 Float(soft::F32);
    "f64" F64 64 Float(soft::F64);
    "u16x2" U16x2 32 Two(Type::U16);
    "s16x2" S16x2 32 Two(Type::S16);
    "e4m3x2" E4m3x2 16 Two(Type::E4m3);
    "e5m2x2" E5m2x2 16 Two(Type::E5m2);
    "f16x2" F16x2 32 Two(Type::F16);
    "bf16x2" Bf16x2 32 Two(Type::Bf16);
    "f32x2" F32x2 64 Two(Type::F32);
}

impl Type {
    /// The size in memory.
    pub fn bytes(self) -> u64 {
        u64::from(self.bits().div_ceil(8))
    }

    /// The type of one element, and whether there are two.
    pub fn element(self) -> (Self, bool) {
        match self.class() {
            Class::Two(element) => (element, true),
            _ => (self, false),
        }
    }

    pub fn signed(self) -> bool {
        self.element().0.class() == Class::Signed
    }

    pub fn integer(self) -> bool {
        matches!(self.class(), Class::Signed | Class::Unsigned)
    }

    /// The format of a float; of an integer some format.
    #[inline(always)]
    pub const fn format(self) -> Format {
        match self.class() {
            Class::Float(format) => format,
            _ => soft::F32,
        }
    }
}
