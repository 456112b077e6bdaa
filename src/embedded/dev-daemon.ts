import { join } from "node:path";

import { startDaemon } from "../daemon/daemon.ts";
import { makeThrowawayFolder, removeThrowawayFolder } from "../daemon/throwaway-folder.ts";
import { withOwnTargets } from "../dev/own-targets.ts";
import { seededMode } from "../dev/seeded-mode.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { integerBetween, oneOf, type Rule } from "../domain/rule.ts";
import { httpFetch } from "./http-fetch.ts";
import { toLogger } from "./logger.ts";
import type { DevDaemon, DevSettings } from "./options.ts";
import { readSettings } from "./settings.ts";

/** Starts the daemon for tests, in this process: `startDaemon` of `postbackd/testing` documents it. */
export async function startDevDaemon(settings: Given): Promise<DevDaemon> {
  const { clock, seed, ...embedded } = readDevSettings(settings);
  const folder = makeThrowawayFolder();
  const { dev, close } = seededMode({ clock, seed });
  const cleanUp = (): void => {
    close();
    removeThrowawayFolder(folder);
  };
  try {
    const place = { database: join(folder, "postbackd.db"), cwd: process.cwd() };
    const read = readSettings({ ...embedded, clock: dev.clock }, { ...place, caller: CALLER });
    const { webhooks, ...rest } = read.config;
    const allowList = withOwnTargets(webhooks.allow, rest.host);
    const config = { ...rest, webhooks: { ...webhooks, allowList } };
    const log = toLogger(read.log, config);
    const daemon = await startDaemon({ config, clock: dev.clock, log, dev });
    let stopped: Promise<void> | null = null;
    return {
      url: daemon.url,
      fetch: daemon.url.startsWith("http:") ? httpFetch : globalThis.fetch,
      stop: () => (stopped ??= daemon.stop(DRAIN).finally(cleanUp)),
    };
  } catch (error) {
    cleanUp();
    throw error;
  }
}

const CALLER = "startDaemon";

// Who has results under hold would wait for them for ever.
const DRAIN = { ms: 0, clock: systemClock };

const SETTINGS = ["types", "config", "seed", "clock"];
const CLOCK = oneOf(["real", "manual"]);
const SEED = integerBetween(0, 2 ** 32 - 1);

type Given = { readonly [Name in keyof DevSettings]?: unknown };

function readDevSettings(settings: Given) {
  const unknown = Object.keys(settings).find((name) => !SETTINGS.includes(name));
  if (unknown !== undefined) {
    throw new Error(`${CALLER} knows no setting ${unknown}: it takes ${SETTINGS.join(", ")}`);
  }
  const { types = { echo: { runner: "echo" } }, config = {}, clock = "manual", seed } = settings;
  return {
    types,
    config,
    clock: readSetting("clock", { value: clock, rule: CLOCK }),
    seed: seed === undefined ? null : readSetting("seed", { value: seed, rule: SEED }),
  };
}

function readSetting<Value>(
  name: string,
  { value, rule }: { readonly value: unknown; readonly rule: Rule<Value> },
): Value {
  const parsed = rule.parse(value);
  if (parsed.kind === "fault") throw new Error(`${CALLER} cannot start: ${name} ${parsed.reason}`);
  return parsed.value;
}
