import type { Clock } from "../domain/clock/clock.ts";
import { hrtimeNow } from "../domain/clock/timers.ts";
import type { Logger } from "../domain/log.ts";
import { type ProgramEnd, runToExit } from "../run/program-run.ts";
import type { Environment } from "../run/program.ts";

export interface ServiceManagerDeps {
  /** The process's environment, from which everything of the service manager is taken away. */
  readonly env: Record<string, string | undefined>;
  readonly log: Logger;
  readonly clock: Clock;
  /** The process's number; WATCHDOG_PID may name another one, to whom the watchdog applies. */
  readonly pid: number;
  /** Runs a program to its end; the system's unless given. */
  readonly run?: (command: readonly [string, ...string[]], env: Environment) => Promise<ProgramEnd>;
}

/**
 * The service manager that has started this process, as it is defined in sd_notify(3): it is told when the daemon is
 * ready, reloads, stops, and that it is alive. Without a NOTIFY_SOCKET nothing happens.
 *
 * The messages are datagrams to a Unix socket, which Node cannot send, so `systemd-notify` sends them, a process of
 * its own for each; systemd brings it along. It takes 5 ms of the processor time of a daemon of 150 MB (2026-11-23), twice
 * in a span of the watchdog. It waits until systemd has taken the message in, so the unit needs `NotifyAccess=all` and
 * nothing else. A process that stays and sends them all would live on when the daemon hangs, and
 * no program of a usual system can be one.
 */
export class ServiceManager {
  readonly #deps: ServiceManagerDeps;
  readonly #socket: string | undefined;
  readonly #watchdogMs: number | null;
  readonly #path: string | undefined;
  /** Messages go one after the other: RELOADING must not come after the READY that ends it. */
  #sent: Promise<void> = Promise.resolve();
  #hasFailed = false;
  #isBeating = false;

  constructor(deps: ServiceManagerDeps) {
    const { env, pid } = deps;
    this.#deps = deps;
    this.#socket = env["NOTIFY_SOCKET"] || undefined;
    this.#path = env["PATH"];
    this.#watchdogMs = watchdogMs(env, pid);
    // Commands of tasks inherit the environment, and nothing that they say is the daemon's.
    for (const name of ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]) delete env[name];
  }

  /** The daemon serves, after a start or a reload. `status` is one line for `systemctl status`. */
  ready(status: string): Promise<void> {
    return this.#tell("READY=1", `STATUS=${status}`);
  }

  /** The daemon reads its configuration again; `ready` ends that. */
  reloading(): Promise<void> {
    // The machine's, not a clock's: systemd compares it with its own.
    const monotonicUsec = hrtimeNow() / 1000n;
    return this.#tell("RELOADING=1", `MONOTONIC_USEC=${monotonicUsec}`, "STATUS=Reloading");
  }

  stopping(): Promise<void> {
    return this.#tell("STOPPING=1", "STATUS=Stopping after the work under way");
  }

  /**
   * From now on tells, twice in each span of the watchdog, that the daemon lives: when this thread comes to it and
   * `isAlive` settles as well. Whatever hangs, the watchdog then ends the process.
   */
  watch(isAlive: () => Promise<void>): void {
    if (this.#socket === undefined || this.#watchdogMs === null) return;
    const everyMs = this.#watchdogMs / 2;
    const beat = async (): Promise<void> => {
      await isAlive();
      await this.#tell("WATCHDOG=1");
      this.#isBeating = false;
    };
    const plan = (): void => {
      this.#deps.clock.setTimer(everyMs, () => {
        plan();
        if (this.#isBeating) return;
        this.#isBeating = true;
        void beat();
      });
    };
    plan();
  }

  #tell(...assignments: readonly string[]): Promise<void> {
    if (this.#socket === undefined) return Promise.resolve();
    this.#sent = this.#sent.then(() => this.#send(assignments));
    return this.#sent;
  }

  async #send(assignments: readonly string[]): Promise<void> {
    const { log, run = runToExit } = this.#deps;
    const env = { PATH: this.#path, NOTIFY_SOCKET: this.#socket };
    const end = await run(["systemd-notify", ...assignments], env);
    if (end.kind === "exited" && end.code === 0) return;
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    log.error(
      end,
      "systemd cannot be told that the daemon is ready: systemd-notify must be in the PATH, and the unit needs " +
        "NotifyAccess=all; or set Type=exec and no WatchdogSec there",
    );
  }
}

function watchdogMs(env: Environment, pid: number): number | null {
  const { WATCHDOG_USEC: usec, WATCHDOG_PID: of } = env;
  const isOurs = of === undefined || of === String(pid);
  const ms = Number(usec) / 1000;
  return isOurs && ms > 0 ? ms : null;
}
