import type { Health } from "../daemon/health.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { DURATION, quote } from "../domain/rule.ts";
import { flag, textOf, toggle } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { EXIT, UsageError } from "./failure.ts";
import { JSON_ARG, printAnswer, type Answer } from "./print.ts";
import { loadOfflineConfig, settingArgs } from "./settings.ts";

const TIMEOUT_MS = 30_000;

export const healthCommand = defineCommand({
  description: "Tell whether the daemon accepts tasks",
  example: "postbackd health --wait --timeout 30s",
  notes:
    "It finds the daemon by the lock file beside the database and asks /readyz. It exits with 0 when the\n" +
    "daemon is ready and with 1 when not. With https, the certificate is checked only for --url.",
  args: {
    wait: toggle("Ask again until it is ready or the time is up"),
    timeout: flag(DURATION, "Time for all of it", { standard: "30s" }),
    url: flag(textOf("URL"), "Base URL of the daemon; else the database file leads to it"),
    ...settingArgs(["db", "config"]),
    ...JSON_ARG,
  },
  async run(given) {
    const question = {
      url: urlOf(given.url),
      timeoutMs: given.timeout ?? TIMEOUT_MS,
      isPatient: given.wait,
    };
    const config = loadOfflineConfig(given);
    const { askHealth } = await import("../daemon/health.ts");
    const health = await aliveDuring(() => askHealth({ ...question, config, clock: systemClock }));
    printAnswer(given, toAnswer(health));
    return health.kind === "ready" ? EXIT.done : EXIT.failed;
  },
});

function urlOf(text: string | null): URL | null {
  if (text === null) return null;
  const url = URL.parse(text);
  const isBase = url !== null && /^https?:$/.test(url.protocol) && url.search + url.hash === "";
  if (isBase) return url;
  throw new UsageError(`--url takes a base URL such as http://127.0.0.1:8787, not ${quote(text)}`);
}

/** The clock's timers do not keep a process alive, and between two questions there is nothing else. */
async function aliveDuring<T>(work: () => Promise<T>): Promise<T> {
  const alive = setInterval(() => {}, 1_000_000);
  try {
    return await work();
  } finally {
    clearInterval(alive);
  }
}

function toAnswer(health: Health): Answer {
  if (health.kind === "ready") {
    const { url } = health;
    return { document: { ready: true, url, reason: null }, lines: [`Ready at ${url}.`] };
  }
  const { url, reason } = health;
  return { document: { ready: false, url, reason }, lines: [`Not ready: ${reason}.`] };
}
