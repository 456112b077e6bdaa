import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

import { serviceUnit } from "../assets.ts";
import { SERVICE_CONFIG_FILE } from "../config/setting.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { hrtimeNow } from "../domain/clock/timers.ts";
import { messageOf } from "../domain/error.ts";
import type { Logger } from "../domain/log.ts";
import type { CommandLine } from "../domain/task/run.ts";
import { type Environment, type ProgramEnd, runToExit } from "../run/program.ts";

const USER = "postbackd";
const UNIT = "/etc/systemd/system/postbackd.service";
const DATA_FOLDER = "/var/lib/postbackd";
const CONFIG_TEXT = `# 'postbackd config init' writes a file with every setting and its default.
database = "${DATA_FOLDER}/postbackd.db"
`;

/** The path in the unit of the template. */
const EXECUTABLE = "/usr/local/bin/postbackd";

/** Folders that the unit hides from the service: ProtectHome, PrivateTmp. */
const HIDDEN = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];

/** One step of making the daemon a service of this machine, or of undoing that. */
export type ServiceStep = RunStep | WriteStep | RemoveStep;

interface RunStep {
  readonly kind: "run";
  readonly says: string;
  readonly command: CommandLine;
  /** A program that ends with 0 where the step is not needed. */
  readonly unless?: CommandLine;
}

interface WriteStep {
  readonly kind: "write";
  readonly says: string;
  readonly path: string;
  readonly text: string;
  /** True for a file that is left as it is where there is one. */
  readonly isKept: boolean;
}

interface RemoveStep {
  readonly kind: "remove";
  readonly says: string;
  readonly path: string;
}

/** A step could not be done; the message names it. */
export class ServiceError extends Error {
  override readonly name = "ServiceError" as const;
}

/** The steps that make the executable at this place a service. All of them may be done again. */
export function installSteps(executable: string): readonly ServiceStep[] {
  const isHidden = HIDDEN.some((folder) => executable.startsWith(`${folder}/`));
  const copy = ["install", "-m", "0755", executable, EXECUTABLE] as const;
  const says = `copy the executable to where the unit lets it be seen, ${EXECUTABLE}`;
  const [path, unit] = [SERVICE_CONFIG_FILE, unitText(isHidden ? EXECUTABLE : executable)];
  return [
    ...(isHidden ? [{ kind: "run", says, command: copy } as const] : []),
    {
      ...runStep(
        `make the system user ${USER}`,
        `useradd --system --user-group --no-create-home --home-dir ${DATA_FOLDER} --shell /usr/sbin/nologin ${USER}`,
      ),
      unless: ["getent", "passwd", USER],
    },
    runStep(
      `make the folder of the database, ${DATA_FOLDER}`,
      `install -d -m 0700 -o ${USER} -g ${USER} ${DATA_FOLDER}`,
    ),
    {
      kind: "write",
      says: `write the configuration ${path}`,
      path,
      text: CONFIG_TEXT,
      isKept: true,
    },
    runStep("let the service alone read it, as it may hold secrets", `chown root:${USER} ${path}`),
    runStep("and no other user", `chmod 0640 ${path}`),
    { kind: "write", says: `write the unit ${UNIT}`, path: UNIT, text: unit, isKept: false },
    runStep("have systemd read it", "systemctl daemon-reload"),
    runStep("have systemd start it at every boot", "systemctl enable postbackd"),
  ];
}

/** The steps that take the service away. User, configuration and data stay. */
export function uninstallSteps(): readonly ServiceStep[] {
  return [
    runStep("stop the service, and start it no more", "systemctl disable --now postbackd"),
    { kind: "remove", says: `remove the unit ${UNIT}`, path: UNIT },
    runStep("have systemd forget it", "systemctl daemon-reload"),
  ];
}

/** `line` is a program and its arguments, none of which has a space. */
function runStep(says: string, line: string): RunStep {
  const [program = "", ...args] = line.split(" ");
  return { kind: "run", says, command: [program, ...args] };
}

/** Does a step; false where there was nothing to do. Rejects with a {@link ServiceError}. */
export async function doStep(step: ServiceStep): Promise<boolean> {
  if (step.kind === "run") return run(step);
  try {
    if (step.kind === "remove") rmSync(step.path);
    else if (step.isKept && existsSync(step.path)) return false;
    else write(step);
    return true;
  } catch (error) {
    throw new ServiceError(`could not ${step.says}: ${messageOf(error)}`, { cause: error });
  }
}

function write({ path, text }: WriteStep): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

async function run({ says, command, unless }: RunStep): Promise<boolean> {
  if (unless !== undefined) {
    const found = await runToExit(unless, process.env);
    if (found.kind === "exited" && found.code === 0) return false;
  }
  const end = await runToExit(command, process.env, "shown");
  if (end.kind === "exited" && end.code === 0) return true;
  const how = end.kind === "exited" ? `ended with ${end.code}` : `cannot be run (${end.errorCode})`;
  throw new ServiceError(`could not ${says}: '${command.join(" ")}' ${how}`);
}

/** The unit, for the executable at this place. Throws a {@link ServiceError} if no unit can name the place. To systemd `%` and `$` mean something, and a space ends a word. */
export function unitText(executable: string): string {
  if (UNQUOTABLE.test(executable)) {
    const place = JSON.stringify(executable);
    throw new ServiceError(
      `${place} has a quote, a backslash or a control character in its path, which no unit can name: move the executable`,
    );
  }
  const word = executable.replaceAll(/[%$]/g, (sign) => sign + sign);
  return serviceUnit.replaceAll(EXECUTABLE, () => (/\s/.test(word) ? `"${word}"` : word));
}

const UNQUOTABLE = /[\u0000-\u001f\u007f"'\\]/;

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
 * The service manager that has started this process, as it is defined in sd_notify(3): it is notified when the daemon
 * is ready, reloads and stops, and that it is alive. Without a NOTIFY_SOCKET nothing happens.
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

  /** Reports twice in each watchdog span that this thread turns and `isAlive` settles; else systemd ends it. */
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
      "systemd cannot be notified that the daemon is ready: systemd-notify must be in the PATH, and the unit needs " +
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
