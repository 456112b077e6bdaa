/**
 * The machine's timers as they were when the package was loaded. Test frameworks replace the globals
 * (`vi.useFakeTimers`, `jest.useFakeTimers`, `mock.timers`), and a daemon in the same process would wait forever. The
 * linter refuses the globals in src.
 */

// The bundle of the daemon is loaded at the first start. It uses the timers that the module of the package kept here.
const KEPT = Symbol.for("postbackd.timers");

// Each is undefined in a runtime without it, such as `process` in a browser.
const { process, performance, Date, AbortSignal, queueMicrotask: microtask } = globalThis;

// Under jsdom the globals are the timers of a page, without `unref`.
const timers = process?.getBuiltinModule?.("node:timers") ?? globalThis;

const taken = {
  setTimeout: timers.setTimeout,
  clearTimeout: timers.clearTimeout,
  setInterval: timers.setInterval,
  clearInterval: timers.clearInterval,
  setImmediate: timers.setImmediate,
  queueMicrotask: microtask,
  nextTick: process?.nextTick,
  /** Milliseconds since the epoch. */
  dateNow: Date.now,
  /** Milliseconds since the start of the process. */
  performanceNow: performance?.now.bind(performance),
  /** Nanoseconds from an arbitrary start. */
  hrtimeNow: process?.hrtime?.bigint,
  /** A signal that is aborted after a number of milliseconds. */
  timeoutSignal: AbortSignal?.timeout?.bind(AbortSignal),
};

const registry = globalThis as unknown as Record<symbol, typeof taken | undefined>;
const kept = { ...taken, ...registry[KEPT] };
registry[KEPT] = kept;

export const {
  setTimeout,
  clearTimeout,
  setInterval,
  clearInterval,
  setImmediate,
  queueMicrotask,
  nextTick,
  dateNow,
  performanceNow,
  hrtimeNow,
  timeoutSignal,
} = kept;
