import type { Config, TypeConfig } from "./config.ts";
import { missingPrograms } from "./daemon-check.ts";
import { openResolver } from "./daemon-url.ts";
import type { Clock } from "./domain/clock.ts";
import type { Logger } from "./domain/log.ts";
import type { UrlPolicy } from "./domain/webhook-url.ts";
import { Engine } from "./engine/engine.ts";
import type { TaskType } from "./engine/task-dispatcher.ts";
import { createSender } from "./net/send.ts";
import { createCommandRunner } from "./runners/command.ts";
import { createEchoRunner } from "./runners/echo.ts";
import type { Runner } from "./runners/runner.ts";
import type { Store } from "./store/store.ts";

/** The part of the composition root that makes the engine, its runners and its sender. */

export interface EngineParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
  readonly store: Store;
  readonly urlPolicy: () => UrlPolicy;
  /** A task has completed or failed, and that is on disk. */
  readonly taskEnded: (id: string) => void;
}

/** Makes the engine; nothing of it works before its `start`. */
export async function createEngine(parts: EngineParts): Promise<Engine> {
  const { config, clock, log, store, urlPolicy, taskEnded } = parts;
  const { webhooks, retentionMs } = config;
  const resolver = openResolver(config, clock);
  const { timeoutMs, retryAfterMs, maxInFlight, maxInFlightPerHost } = webhooks;
  const sender = createSender({ clock, resolver, policy: urlPolicy, timeoutMs });
  const types = new Map<string, TaskType>();
  for (const type of config.types.values()) {
    types.set(type.name, { runner: toRunner(type, { config, clock }), retries: type.retries });
  }
  for (const warning of await missingPrograms(config, process.env)) log.warn({}, warning);
  await warnOfOrphans(parts);
  const limits = { inFlightMax: maxInFlight, inFlightPerHostMax: maxInFlightPerHost };
  const common = { store, clock, log, urlPolicy, retentionMs, taskEnded };
  return new Engine({ ...common, types, sender, resolver, limits, retryAfterMs });
}

function toRunner(
  type: TypeConfig,
  { config, clock }: { readonly config: Config; readonly clock: Clock },
): Runner {
  switch (type.kind) {
    case "echo":
      return createEchoRunner(type);
    case "command":
      return createCommandRunner({ ...type, clock, resultBytesMax: config.limits.resultBytes });
  }
}

// Nobody claims them, and nothing else would ever say so.
async function warnOfOrphans({ config, store, log }: EngineParts): Promise<void> {
  for (const type of await store.listQueuedTypes()) {
    if (config.types.has(type)) continue;
    log.warn(
      { type },
      "queued tasks wait for a type that is not configured: add it, or cancel them",
    );
  }
}
