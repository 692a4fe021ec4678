//! Before the program's own first function: signals are taken, CPUID is made to trap, and the system's answer about tiles is changed.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::asked;
use crate::carry;
use crate::decode;
use crate::state::{self, State};

/// Run by whoever loads this library.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// Whether CPUID traps: a processor that has everything is left alone.
static TRAPS: AtomicBool = AtomicBool::new(false);

const REQUEST_PERMISSION: u32 = 0x1023;
const SET_CPUID: c_int = 0x1012;

/// Begins to pretend; says on standard error why not, where it can't, and ends the program: a test that was to run must not
/// seem to have run.
pub extern "C" fn begin() {
    if let Err(why) = try_to_begin() {
        eprintln!("glassformer-emulate: {why}");
        std::process::exit(2);
    }
}

fn try_to_begin() -> Result<(), String> {
    asked::choose()?;
    if !asked::has_the_rest() {
        return Err("this processor has no AVX-512 VNNI, which is not carried out here".to_owned());
    }
    if asked::has_all() {
        return Ok(());
    }
    state::learn();
    // SAFETY: the handlers are functions of the right form, which do nothing but what a handler may; the filter lives as long as it is read.
    unsafe {
        take(libc::SIGILL, unknown)?;
        take(libc::SIGSEGV, asked_for)?;
        answer_yes()?;
        if set_cpuid(false) != 0 {
            return Err("this processor, or its system, does not let CPUID trap".to_owned());
        }
    }
    TRAPS.store(true, Ordering::Relaxed);
    Ok(())
}

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::ucontext_t);

/// # Safety
/// The handler may run at any instruction of the program that gives such a signal.
unsafe fn take(signal: c_int, handler: Handler) -> Result<(), &'static str> {
    // SAFETY: an action of zeros is one; the caller's promise.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        // A handler that fails itself must not wait for its own end.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        if libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0 {
            Ok(())
        } else {
            Err("a signal cannot be taken")
        }
    }
}

/// Whether CPUID works, or traps.
///
/// # Safety
/// Where it traps, [`asked_for`] has been made its handler.
unsafe fn set_cpuid(works: bool) -> i64 {
    // SAFETY: a system call that touches no memory.
    unsafe { libc::syscall(libc::SYS_arch_prctl, SET_CPUID, c_int::from(works)) }
}

/// Whoever asks for tile registers gets zero for an answer, which is a yes, and the system is not asked.
///
/// # Safety
/// Nobody but those who mean it uses this system call with these arguments: the filter holds for all threads and children.
unsafe fn answer_yes() -> Result<(), &'static str> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const SAME: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD, 0, 0, 0), // the number of the call
        step(SAME, 0, 3, libc::SYS_arch_prctl as u32),
        step(LOAD, 0, 0, 16), // the first argument
        step(SAME, 0, 1, REQUEST_PERMISSION),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the filter is whole, and is copied by the call.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if done { Ok(()) } else { Err("the system's answers cannot be changed") }
}

/// An instruction that the processor does not know; and those behind it, as long as they are ours.
unsafe extern "C" fn unknown(signal: c_int, _: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the system gives a context, and the thread came to the instructions that are read; the machine has what `has_the_rest` says.
    unsafe {
        let Some(mut state) = State::of(&mut *context) else { return give_up(signal) };
        let mut done = 0;
        while let Some(instruction) = decode::read(state.here()) {
            let next = state.here().wrapping_add(instruction.length.into());
            if carry::out(&instruction, &mut state, next).is_none() {
                break;
            }
            state.go_on_at(next);
            done += 1;
        }
        if done == 0 {
            give_up(signal);
        }
    }
}

/// CPUID, or a fault of the program.
unsafe extern "C" fn asked_for(signal: c_int, _: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    const CPUID: [u8; 2] = [0x0f, 0xa2];
    // SAFETY: the system gives a context. Where a place that is no program's is gone to, reading it fails again, and that ends the program
    // as it should.
    unsafe {
        let Some(mut state) = State::of(&mut *context) else { return give_up(signal) };
        let here = state.here();
        if !TRAPS.load(Ordering::Relaxed) || here.cast::<[u8; 2]>().read() != CPUID {
            return give_up(signal);
        }
        set_cpuid(true);
        let answer = asked::answer(state.general(0) as u32, state.general(1) as u32);
        set_cpuid(false);
        for (register, value) in [0, 3, 1, 2].into_iter().zip(answer) {
            state.set_general(register, value.into());
        }
        state.go_on_at(here.wrapping_add(CPUID.len()));
    }
}

/// The signal was meant for the program: it comes again, and ends it.
unsafe fn give_up(signal: c_int) {
    // SAFETY: the usual action, which needs nothing.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
