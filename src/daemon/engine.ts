import { isDeepStrictEqual } from "node:util";

import type { Config, TypeConfig } from "../config/config.ts";
import { Sender } from "../deliver/send.ts";
import type { DevMode } from "../dev/dev-mode.ts";
import type { SteadyClock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import type { Observer } from "../domain/observer.ts";
import type { CommandLine } from "../domain/task/run.ts";
import type { UrlPolicy } from "../domain/webhook/webhook-url.ts";
import { missingPrograms } from "../ops/check.ts";
import type { Database } from "../ops/database.ts";
import { openResolver } from "../ops/url.ts";
import type { Parser } from "../parser/parser.ts";
import { CommandHost, type CommandHostOptions } from "../run/command-host.ts";
import { createCommandRunner } from "../run/command.ts";
import { Engine } from "../run/engine.ts";
import { createFunctionRunner } from "../run/function.ts";
import { ServiceWatch, createHttpRunner } from "../run/http.ts";
import { endOrphans } from "../run/processes.ts";
import { type Runner, createEchoRunner } from "../run/runner.ts";
import type { TaskType } from "../run/task-dispatcher.ts";
import type { WorkerType } from "../run/worker-desk.ts";
import type { Store } from "../store/store.ts";
import { canTakeOver } from "./reload.ts";

export interface EngineParts {
  readonly config: Config;
  readonly clock: SteadyClock;
  readonly log: Logger;
  readonly database: Pick<Database, "commandOwner">;
  readonly store: Store;
  readonly urlPolicy: () => UrlPolicy;
  /** Those of `webhooks.ca`, as PEM. */
  readonly authorities: readonly string[];
  readonly parser: Pick<Parser, "results">;
  readonly taskEnded: (id: string) => void;
  readonly awaited: () => Iterable<string>;
  readonly accountsDisabled: (accountIds: ReadonlySet<number>) => void;
  readonly commandHost?: CommandLine;
  readonly dev?: DevMode | undefined;
  readonly observer?: Observer | undefined;
}

export interface MadeEngine {
  readonly engine: Engine;
  /** Sends its webhooks, and others by the same rules, until the engine is closed. */
  readonly sender: Pick<Sender, "send" | "abort">;
  /** Takes over what has changed in types that the daemon runs itself. Returns their names. */
  reloadTypes(config: Pick<Config, "types">): readonly string[];
}

/** Makes the engine; it does nothing before its `start`. */
export async function createEngine(parts: EngineParts): Promise<MadeEngine> {
  const { config, clock, log, urlPolicy, authorities, commandHost: command } = parts;
  const { webhooks, retentionMs } = config;
  const { queueDays } = config.limits;
  const owner = parts.database.commandOwner();
  // Everything that may fail comes before anything is made that would have to be closed.
  await endOrphanedCommands(owner, log);
  for (const warning of await missingPrograms(config, process.env)) log.warn({}, warning);
  await warnOfOrphans(parts);
  const resolver = openResolver(config, clock);
  const { timeoutMs, retryAfterMs, maxInFlight, maxInFlightPerHost } = webhooks;
  const connections = new Sender({ clock, resolver, policy: urlPolicy, timeoutMs, authorities });
  const sender = parts.dev?.sender(connections, timeoutMs) ?? connections;
  const host =
    command === undefined ? null : new CommandHost({ command, owner, ...hostReports(log) });
  const types = new Map<string, TaskType>();
  const workerTypes = new Map<string, WorkerType>();
  for (const type of config.types.values()) {
    const { name, retries } = type;
    if (type.kind === "worker") workerTypes.set(name, type);
    else if (config.runTypes.has(name))
      types.set(name, { runner: runnerOf(type, { ...parts, owner, host }), retries });
  }
  const running = new Map(config.types);
  const limits = { inFlightMax: maxInFlight, inFlightPerHostMax: maxInFlightPerHost };
  const resources = [connections, resolver, ...(host === null ? [] : [host])];
  const times = { retentionMs, queueDays, retryAfterMs };
  const all = { ...parts, ...times, types, workerTypes, sender, resources, limits };
  const engine = new Engine(all);
  return {
    engine,
    sender,
    reloadTypes(next) {
      const changed = new Map<string, TaskType>();
      for (const [name, type] of next.types) {
        const before = running.get(name);
        if (!types.has(name) || type.kind === "worker" || !canTakeOver(before, type)) continue;
        if (isDeepStrictEqual(before, type)) continue;
        const runner = runnerOf(type, { ...parts, owner, host });
        changed.set(name, { runner, retries: type.retries });
      }
      engine.takeTypes(changed);
      for (const [name, type] of next.types) if (changed.has(name)) running.set(name, type);
      return [...changed.keys()];
    },
  };
}

interface RunnerParts extends Pick<EngineParts, "config" | "clock" | "log" | "parser" | "dev"> {
  readonly owner: string;
  /** Null when commands run in this process. */
  readonly host: CommandHost | null;
}

type OwnType = Exclude<TypeConfig, { kind: "worker" }>;

function runnerOf(type: OwnType, parts: RunnerParts): Runner {
  const runner = toRunner(type, parts);
  return parts.dev?.runner(type, runner) ?? runner;
}

/** Makes the daemon's own runner of a type; external workers run the others. */
function toRunner(type: OwnType, { config, clock, log, parser, owner, host }: RunnerParts): Runner {
  const { resultBytes: resultBytesMax } = config.limits;
  switch (type.kind) {
    case "echo":
      return createEchoRunner(type);
    case "command":
      return host === null
        ? createCommandRunner({ ...type, clock, owner, resultBytesMax })
        : host.createRunner({ ...type, resultBytesMax });
    case "http":
      return createHttpRunner({
        ...type,
        clock,
        resultBytesMax,
        parsing: { parser: parser.results, owner: `type ${type.name}` },
        watch: new ServiceWatch({ type: type.name, clock, log }),
      });
    case "function":
      return createFunctionRunner({
        ...type,
        clock,
        resultBytesMax,
        // The stack is for the author of the function: the client sees only the message.
        threw: (err, { id }) => log.info({ err, type: type.name, task: id }, "a function threw"),
      });
  }
}

function hostReports(log: Logger): Pick<CommandHostOptions, "lost" | "notStarted"> {
  return {
    lost: (facts) =>
      log.warn(
        facts,
        "the process that runs commands ended unexpectedly; its tasks are queued again, and the next command starts another process",
      ),
    notStarted: (facts) =>
      log.warn(
        facts,
        "the process that runs commands could not be started; its tasks stay queued until a start succeeds. Check free memory, the limit of processes and NODE_OPTIONS",
      ),
  };
}

// No worker claims them, and nothing else would ever report that.
async function warnOfOrphans({ config, store, log }: EngineParts): Promise<void> {
  for (const type of await store.listQueuedTypes()) {
    if (config.types.has(type)) continue;
    log.warn(
      { type },
      "queued tasks wait for a type that is not configured: add it, or cancel them",
    );
  }
}

/** Ends the commands that a killed daemon left running, before anything is run: their tasks are run again. */
async function endOrphanedCommands(owner: string, log: Logger): Promise<void> {
  const { ended, left } = await endOrphans({ owner });
  if (ended > 0) {
    log.warn(
      { processes: ended },
      "ended processes of commands that an earlier daemon left running when it was killed",
    );
  }
  if (left > 0) {
    log.warn(
      { processes: left },
      "processes of commands that an earlier daemon left running do not end, although they were killed",
    );
  }
}
