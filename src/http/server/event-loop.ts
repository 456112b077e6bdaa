export interface EventLoop {
  /** In milliseconds; only differences mean something. */
  now(): number;
  /** Calls back when the loop goes round; a call from such a callback waits for the next time. */
  goRound(callback: () => void): void;
}

export const EVENT_LOOP: EventLoop = {
  now: () => performance.now(),
  goRound: (callback) => void setImmediate(callback),
};
