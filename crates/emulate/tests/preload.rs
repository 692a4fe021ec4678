//! A program that knows nothing of the library, loaded behind it: this one, which runs itself again.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::env;
use std::process::{Command, Output};

/// In the environment of the second run.
const INNER: &str = "GLASSFORMER_EMULATE_TEST";

/// Runs a test of this file again behind the library, on the processor itself where it has all of it; None where the machine cannot pretend.
fn again(test: &str, pretended: &str) -> Option<Output> {
    let program = env::current_exe().unwrap();
    let folder = program.parent().unwrap();
    let library = [folder.to_owned(), folder.parent().unwrap().to_owned()]
        .map(|folder| folder.join("libglassformer_emulate.so"))
        .into_iter()
        .find(|library| library.exists())
        .unwrap_or_else(|| panic!("cargo builds the library beside {}", program.display()));
    let output = Command::new(&program)
        .args([test, "--exact", "--nocapture"])
        .env("LD_PRELOAD", library)
        .env("GLASSFORMER_EMULATE", pretended)
        .env(INNER, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let cannot = ["has no AVX-512 VNNI", "does not let CPUID trap"].iter().any(|why| said.contains(why));
    if cannot {
        eprintln!("skipped: {said}");
        return None;
    }
    Some(output)
}

fn passes(test: &str, pretended: &str) {
    if let Some(output) = again(test, pretended) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

fn is_inner() -> bool {
    env::var_os(INNER).is_some()
}

fn is_there(page: u32, register: usize, bit: u32) -> bool {
    let found = __cpuid_count(7, page);
    [found.eax, found.ebx, found.ecx, found.edx][register] >> bit & 1 == 1
}

#[repr(C, align(64))]
struct Lines([[i8; 64]; 16]);

#[test]
fn tiles_are_multiplied() {
    if !is_inner() {
        return passes("tiles_are_multiplied", "amx");
    }
    assert!(is_there(0, 3, 24) && is_there(0, 3, 25) && is_there(0, 3, 22) && is_there(1, 0, 5));
    let permission: i64;
    let mut shapes = [0_u8; 64];
    shapes[0] = 1;
    // A of 5 × 64 integers, B of 16 × 16 words, C of 5 × 16 sums.
    for (tile, lines) in [(0, 5), (1, 5), (2, 16)] {
        shapes[16 + 2 * tile] = 64;
        shapes[48 + tile] = lines;
    }
    let number = |i: usize, j: usize| ((i * 37 + j * 11) % 255) as i32 - 127;
    let (mut a, mut b) = (Lines([[0; 64]; 16]), Lines([[0; 64]; 16]));
    for i in 0..16 {
        for j in 0..64 {
            (a.0[i][j], b.0[i][j]) = (number(i, j) as i8, number(j, i) as i8);
        }
    }
    let mut c = [[7_i32; 20]; 16];
    // SAFETY: the processor, or who pretends to be one, has tiles; all places are large enough.
    unsafe {
        asm!("syscall", inlateout("rax") 158_i64 => permission, in("rdi") 0x1023, in("rsi") 18, out("rcx") _, out("r11") _);
        assert_eq!(permission, 0);
        asm!(
            "ldtilecfg [{shapes}]",
            "tilezero tmm0",
            "nop",
            "tileloadd tmm1, [{a} + {line}]",
            "tileloaddt1 tmm2, [{b} + {line}]",
            "tdpbssd tmm0, tmm1, tmm2",
            "tdpbssd tmm0, tmm1, tmm2",
            "tilestored [{c} + {wide} * 4 + 16], tmm0",
            "tilerelease",
            shapes = in(reg) shapes.as_ptr(),
            a = in(reg) &raw const a,
            b = in(reg) &raw const b,
            c = in(reg) c.as_mut_ptr(),
            line = in(reg) 64_usize,
            wide = in(reg) 20_usize,
            out("tmm0") _, out("tmm1") _, out("tmm2") _,
        );
    }
    for (i, line) in c.iter().enumerate() {
        for n in 0..16 {
            let sum: i32 = (0..64).map(|k| i32::from(a.0[i][k]) * i32::from(b.0[k / 4][4 * n + k % 4])).sum();
            assert_eq!(line[4 + n], if i < 5 { 2 * sum } else { 7 }, "line {i}, sum {n}");
        }
        assert_eq!(line[..4], [7; 4], "in front of line {i}");
    }
}

#[test]
fn vectors_are_multiplied_and_others_keep_what_they_hold() {
    if !is_inner() {
        return passes("vectors_are_multiplied_and_others_keep_what_they_hold", "avx512-dot,avx-vnni");
    }
    assert!(is_there(1, 0, 4) && is_there(1, 0, 5));
    let halves: [f32; 16] = std::array::from_fn(|at| 1.0 + at as f32);
    let mut out = [[0.0_f32; 16]; 3];
    let (mut sums, bytes) = ([1_i32; 8], [200_u8; 32]);
    // SAFETY: the processor, or who pretends to be one, has these instructions; all places are large enough.
    unsafe {
        asm!(
            "vmovups zmm31, [{halves}]",
            "vmovaps zmm17, zmm31",
            "vcvtne2ps2bf16 zmm20, zmm31, zmm17", // twice 1 to 16
            "vxorps zmm21, zmm21, zmm21",
            "vdpbf16ps zmm21, zmm20, zmm20",
            "vmovups [{out}], zmm21",
            "vcvtneps2bf16 ymm16, zmm31",
            "vmovups [{out} + 64], zmm16",
            "vmovups [{out} + 128], zmm31",
            "vmovups ymm1, [{sums}]",
            "vmovups ymm2, [{bytes}]",
            "{{vex}} vpdpbusd ymm1, ymm2, [{bytes}]",
            "vmovups [{sums}], ymm1",
            halves = in(reg) halves.as_ptr(),
            out = in(reg) out.as_mut_ptr(),
            sums = in(reg) sums.as_mut_ptr(),
            bytes = in(reg) bytes.as_ptr(),
            out("ymm1") _, out("ymm2") _, out("zmm16") _, out("zmm17") _, out("zmm20") _, out("zmm21") _, out("zmm31") _,
        );
    }
    for at in 0..16 {
        let (first, second) = (1.0 + (2 * at % 16) as f32, 2.0 + (2 * at % 16) as f32);
        assert_eq!(out[0][at], first * first + second * second, "sum {at}");
        let half = out[1][at / 2].to_bits() >> (16 * (at % 2)) << 16;
        assert_eq!(f32::from_bits(half), halves[at], "half {at}");
        assert_eq!(if at < 8 { 0.0 } else { out[1][at] }, 0.0, "what lies above");
    }
    assert_eq!(out[2], halves);
    assert_eq!(sums, [1 + 4 * 200 * -56; 8]);
}

#[test]
fn what_nobody_knows_ends_the_program() {
    if !is_inner() {
        let Some(output) = again("what_nobody_knows_ends_the_program", "amx") else { return };
        assert!(!output.status.success());
        return;
    }
    // SAFETY: the program ends here.
    unsafe { asm!("ud2") };
}

#[test]
fn a_word_that_means_nothing_is_refused() {
    assert!(!is_inner(), "the library ends the program before");
    let Some(output) = again("a_word_that_means_nothing_is_refused", "mmx") else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("\"mmx\" is none of amx"), "{said}");
}
