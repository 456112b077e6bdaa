import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { makeThrowawayFolder } from "../daemon/throwaway-folder.ts";
import { removeAfterwards } from "../dev/greeting.ts";
import { KEY, WEBHOOK_SECRET } from "../domain/account/key.ts";
import { oneOf, integerBetween } from "../domain/rule.ts";
import { type Given, flag, toggle } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { UsageError } from "./failure.ts";
import { configOf, judgeServingConfig, settingArgs } from "./settings.ts";

// A daemon for development sends no events; a file that `start` reads too may have an events.url.
const { "events-url": _, ...DEV_SETTINGS } = settingArgs();

const DEV_ARGS = {
  keep: toggle("Keep the database at the end, and log its path"),
  clock: flag(oneOf(["real", "manual"]), "real follows the machine's clock; manual stands still", {
    standard: "real",
  }),
  seed: flag(integerBetween(0, 2 ** 32 - 1), "Number that makes ids, keys and secrets repeatable"),
  key: flag(KEY, "API key of the account; a new one unless given"),
  "webhook-secret": flag(WEBHOOK_SECRET, "Webhook secret of the account; a new one unless given"),
  "strict-targets": toggle("Refuse webhooks to this machine and private networks, as start does"),
  "stop-with-stdin": toggle("Stop when stdin is closed, as by the end of the parent process"),
};

export type DevArgs = Given<typeof DEV_ARGS>;

export const devCommand = defineCommand({
  description:
    "Serve for tests and development: a throwaway database, an inbox, a clock to advance",
  example: "postbackd dev --port 0 --clock manual",
  notes:
    "The same daemon, whose webhooks may go to this machine and private networks, with what tests need:\n" +
    "/inbox/BOX receives webhooks and judges their signatures, and the operations below /dev show them, move the\n" +
    "clock, and order results and faults. Every client of its port controls it. The database is made in the\n" +
    "temporary folder and always erased at the end, unless --db names one, or --keep keeps it.\n" +
    "When it is ready, stdout gets one line of JSON with an account, its key and its webhook secret.",
  args: { ...DEV_SETTINGS, ...DEV_ARGS },
  async run(given) {
    const settings: Readonly<Record<string, unknown>> = given;
    const place = settings["db"] === null ? { db: [makePlace({ isKept: given.keep })] } : {};
    const config = configOf(judgeServingConfig({ ...settings, ...place }));
    if (config.server !== null) {
      throw new UsageError(
        "--db must be a file: 'postbackd dev' does not erase a database on PostgreSQL",
      );
    }
    const { serveForDevelopment } = await import("./dev-serve.ts");
    await serveForDevelopment(config, { ...given, keep: given.keep || settings["db"] !== null });
  },
});

function makePlace({ isKept }: { readonly isKept: boolean }): string {
  const folder = isKept ? mkdtempSync(join(tmpdir(), "postbackd-")) : makeThrowawayFolder();
  if (!isKept) removeAfterwards(folder);
  return join(folder, "postbackd.db");
}
