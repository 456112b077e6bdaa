import { aliveDuring, systemClock } from "../domain/clock/clock.ts";
import { DURATION, quote } from "../domain/rule.ts";
import { flag, textOf, toggle } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { EXIT, UsageError } from "./failure.ts";
import { JSON_ARG } from "./print.ts";
import { configOf, judgeServingConfig, loadOfflineConfig, settingArgs } from "./settings.ts";

const TIMEOUT_MS = 30_000;

export const healthCommand = defineCommand({
  description: "Check whether the daemon accepts tasks",
  example: "postbackd health --wait --timeout 30s",
  notes:
    "It finds the daemon by the lock file next to the database and requests /readyz. Without a database it\n" +
    "asks a 'postbackd dev' at the address that the configuration says to listen on. It exits with 0 when the\n" +
    "daemon is ready and with 1 when not. With https, the certificate is checked only for --url. Where the\n" +
    "database is on a server, it finds this machine's daemon by its node's lock, or else asks the address\n" +
    "that the configuration says to listen on.",
  args: {
    wait: toggle("Repeat the check until the daemon is ready, or until --timeout"),
    timeout: flag(DURATION, "Total time", { standard: "30s" }),
    url: flag(textOf("URL"), "Base URL of the daemon; by default from the lock file"),
    ...settingArgs(["db", "config"]),
    ...JSON_ARG,
  },
  async run(given) {
    const { timeout, wait: isPatient } = given;
    const question = { url: urlOf(given.url), timeoutMs: timeout ?? TIMEOUT_MS, isPatient };
    // A caller that names the daemon does not need to read the service's configuration.
    const config =
      given.url === null
        ? loadOfflineConfig(given)
        : configOf(judgeServingConfig({ ...given, "insecure-http": true }));
    const { askHealth } = await import("../ops/health.ts");
    const health = await aliveDuring(() => askHealth({ ...question, config, clock: systemClock }));
    const isReady = health.kind === "ready";
    const reason = isReady ? null : health.reason;
    return {
      document: { ready: isReady, url: health.url, reason },
      lines: [isReady ? `Ready at ${health.url}.` : `Not ready: ${reason}.`],
      exit: isReady ? EXIT.done : EXIT.failed,
    };
  },
});

function urlOf(text: string | null): URL | null {
  if (text === null) return null;
  const url = URL.parse(text);
  const isBase = url !== null && /^https?:$/.test(url.protocol) && url.search + url.hash === "";
  if (isBase) return url;
  throw new UsageError(`--url takes a base URL such as http://127.0.0.1:8787, not ${quote(text)}`);
}
