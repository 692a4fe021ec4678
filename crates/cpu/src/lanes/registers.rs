//! What all vector instructions have in common: the same expression for each register that sixteen lanes take.

/// The operators of `$lanes`, whose registers have these numbers.
macro_rules! operators {
    (
        $lanes:ident: [$($i:tt)+];
        add: $add:ident; sub: $sub:ident; mul: $mul:ident; div: $div:ident; neg: |$x:ident| $neg:expr;
    ) => {
        $crate::lanes::registers::operators!(@ $lanes: [$($i)+]; Add add $add);
        $crate::lanes::registers::operators!(@ $lanes: [$($i)+]; Sub sub $sub);
        $crate::lanes::registers::operators!(@ $lanes: [$($i)+]; Mul mul $mul);
        $crate::lanes::registers::operators!(@ $lanes: [$($i)+]; Div div $div);

        impl std::ops::Neg for $lanes {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                // SAFETY: the value proves the instructions.
                unsafe { Self($({ let $x = self.$i; $neg }),+) }
            }
        }
    };
    (@ $lanes:ident: [$($i:tt)+]; $name:ident $method:ident $function:ident) => {
        impl std::ops::$name for $lanes {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                // SAFETY: the values prove the instructions.
                unsafe { Self($($function(self.$i, other.$i)),+) }
            }
        }
    };
}

/// Those methods of [`Lanes`](super::Lanes) that do the same to each register. A register holds `$size` numbers; a mask is an array with one
/// for each.
macro_rules! by_registers {
    (
        [$($i:tt)+]; $size:literal numbers in each;
        splat: |$value:ident| $splat:expr;
        load: |$from:ident| $load:expr;
        store: |$stored:ident, $to:ident| $store:expr;
        fma: |$factor:ident, $other:ident, $term:ident| $fma:expr;
        max: |$max_x:ident, $max_y:ident| $max:expr;
        min: |$min_x:ident, $min_y:ident| $min:expr;
        abs: |$abs_x:ident| $abs:expr;
        round: |$round_x:ident| $round:expr;
        less_than: |$less_x:ident, $less_y:ident| $less_than:expr;
        select: |$mask:ident, $yes:ident, $no:ident| $select:expr;
        power: |$power_x:ident| $power:expr;
        mantissa: |$mantissa_x:ident| $mantissa:expr;
        exponent: |$exponent_x:ident| $exponent:expr;
        lower: |$lower_x:ident| $lower:expr;
        upper: |$upper_x:ident| $upper:expr;
    ) => {
        #[inline(always)]
        unsafe fn splat($value: f32) -> Self {
            // SAFETY: the caller promises the instructions.
            let register = unsafe { $splat };
            Self($({ let _: usize = $i; register }),+)
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: the caller promises the instructions and sixteen reads.
            unsafe { Self($({ let $from = from.add($i * $size); $load }),+) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the caller promises sixteen writes, and the value proves the instructions.
            unsafe { $({ let ($stored, $to) = (self.$i, to.add($i * $size)); $store; })+ }
        }

        #[inline(always)]
        fn fma(self, factor: Self, term: Self) -> Self {
            // SAFETY: the values prove the instructions.
            unsafe { Self($({ let ($factor, $other, $term) = (self.$i, factor.$i, term.$i); $fma }),+) }
        }

        #[inline(always)]
        fn max(self, other: Self) -> Self {
            // SAFETY: the values prove the instructions.
            unsafe { Self($({ let ($max_x, $max_y) = (self.$i, other.$i); $max }),+) }
        }

        #[inline(always)]
        fn min(self, other: Self) -> Self {
            // SAFETY: the values prove the instructions.
            unsafe { Self($({ let ($min_x, $min_y) = (self.$i, other.$i); $min }),+) }
        }

        #[inline(always)]
        fn abs(self) -> Self {
            // SAFETY: the value proves the instructions.
            unsafe { Self($({ let $abs_x = self.$i; $abs }),+) }
        }

        #[inline(always)]
        fn round(self) -> Self {
            // SAFETY: the value proves the instructions.
            unsafe { Self($({ let $round_x = self.$i; $round }),+) }
        }

        #[inline(always)]
        fn less_than(self, other: Self) -> Self::Mask {
            // SAFETY: the values prove the instructions.
            unsafe { [$({ let ($less_x, $less_y) = (self.$i, other.$i); $less_than }),+] }
        }

        #[inline(always)]
        fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
            // SAFETY: the values prove the instructions.
            unsafe { Self($({ let ($mask, $yes, $no) = (mask[$i], yes.$i, no.$i); $select }),+) }
        }

        #[inline(always)]
        fn power(self) -> Self {
            // SAFETY: the value proves the instructions.
            unsafe { Self($({ let $power_x = self.$i; $power }),+) }
        }

        #[inline(always)]
        fn split(self) -> (Self, Self) {
            // SAFETY: the value proves the instructions.
            unsafe {
                (
                    Self($({ let $mantissa_x = self.$i; $mantissa }),+),
                    Self($({ let $exponent_x = self.$i; $exponent }),+),
                )
            }
        }

        #[inline(always)]
        fn unpack_bf16(self) -> [Self; 2] {
            // SAFETY: the value proves the instructions.
            unsafe {
                [
                    Self($({ let $lower_x = self.$i; $lower }),+),
                    Self($({ let $upper_x = self.$i; $upper }),+),
                ]
            }
        }
    };
}

pub(super) use {by_registers, operators};
