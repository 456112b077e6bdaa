import type { EventEmitter } from "node:events";
import { constants } from "node:os";

import { systemClock, type Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";

interface SignalParts {
  readonly log: Logger;
  /** The action at SIGHUP; null when nothing can be reloaded. */
  readonly reload: (() => void) | null;
  /** How long a stop may take; 24.5 s unless given. */
  readonly stopMsMax?: number;
  /** The process's own parts, which tests replace. */
  readonly source?: EventEmitter;
  readonly clock?: Clock;
  readonly exit?: (code: number) => void;
}

interface StopSignal {
  readonly isAsked: boolean;
  /** Settles at the first SIGTERM or SIGINT. */
  readonly asked: Promise<void>;
}

// The 25 s of a stop (cli.md), minus the time to end the process.
const STOP_MS_MAX = 24_500;
// Ctrl-C under npm arrives twice: the terminal sends it to the whole group, and npm passes it on as well.
const SAME_SIGNAL_MS = 500;

/**
 * Watches for signals. The first SIGTERM or SIGINT asks for a stop, which has 24.5 s or the given time: after that the
 * process ends with 1. A second signal ends it immediately with 128 + the signal's number; nothing acknowledged is lost
 * either way. SIGHUP reloads, or is logged and does nothing: it must not end a daemon whose terminal was closed.
 */
export function watchSignals(parts: SignalParts): StopSignal {
  const { log, reload, stopMsMax = STOP_MS_MAX, source = process, clock = systemClock } = parts;
  const { exit = (code: number): void => process.exit(code) } = parts;
  let first: { readonly name: string; readonly at: number } | null = null;
  const asked = Promise.withResolvers<void>();
  const giveUp = (): void => {
    const what = `not stopped after ${stopMsMax} ms; the work under way is repeated after the next start`;
    log.error({}, what);
    exit(1);
  };

  const onSignal = (name: "SIGTERM" | "SIGINT"): void => {
    if (first === null) {
      first = { name, at: clock.monotonic() };
      log.info(
        { signal: name },
        "stopping after the work in progress; a second signal stops immediately",
      );
      clock.setTimer(stopMsMax, giveUp);
      asked.resolve();
      return;
    }
    if (name === first.name && clock.monotonic() - first.at < SAME_SIGNAL_MS) return;
    log.warn(
      { signal: name },
      "stopping immediately; the work in progress is repeated after the next start",
    );
    exit(128 + constants.signals[name]);
  };
  source.on("SIGTERM", () => onSignal("SIGTERM"));
  source.on("SIGINT", () => onSignal("SIGINT"));
  source.on("SIGHUP", () => {
    const message = "nothing is reloaded; a changed configuration takes a restart";
    if (reload === null) log.warn({ signal: "SIGHUP" }, message);
    else reload();
  });
  return {
    get isAsked() {
      return first !== null;
    },
    asked: asked.promise,
  };
}
