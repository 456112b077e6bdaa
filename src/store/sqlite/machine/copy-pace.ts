import type { TellProgress } from "../../../domain/log.ts";

/** Whoever waits for long work on a copy. */
export interface CopyWatch {
  /** Called again and again; it may throw to break the work off. */
  readonly check: () => void;
  readonly tell: TellProgress;
}

/** For work that nobody breaks off or looks at. */
export const UNWATCHED: CopyWatch = { check() {}, tell() {} };

export const MIB_BYTES = 1024 ** 2;

/** Thrown where a copy is broken off. */
export class CopyStopped extends Error {
  override readonly name = "CopyStopped" as const;
  constructor() {
    super("the backup was broken off");
  }
}

/** Keeps a copy from taking a busy daemon's time, and can break it off. It occupies its thread while it waits. */
export class CopyPace implements CopyWatch {
  readonly #stop: Int32Array;
  readonly tell: TellProgress;

  /** `stop` is shared with whoever may break the copy off; see {@link stopCopy}. */
  constructor(stop: SharedArrayBuffer, tell: TellProgress = () => {}) {
    this.#stop = new Int32Array(stop);
    this.tell = tell;
  }

  /** Waits. Throws {@link CopyStopped} when the copy was broken off. */
  rest(ms: number): void {
    Atomics.wait(this.#stop, 0, 0, Math.max(0, ms));
    this.check();
  }

  /** Throws {@link CopyStopped} when the copy was broken off. */
  readonly check = (): void => {
    if (this.isStopped()) throw new CopyStopped();
  };

  readonly isStopped = (): boolean => Atomics.load(this.#stop, 0) !== 0;
}

/** The memory through which {@link stopCopy} reaches a {@link CopyPace}. */
export function newStopFlag(): SharedArrayBuffer {
  return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
}

/** Breaks a copy off at its next step. */
export function stopCopy(stop: SharedArrayBuffer): void {
  const flag = new Int32Array(stop);
  Atomics.store(flag, 0, 1);
  Atomics.notify(flag, 0);
}
