import { systemClock } from "../domain/clock/clock.ts";
import { TAG } from "../domain/task/task.ts";
import { printable } from "../domain/text.ts";
import { type PlaceholderValues } from "../domain/webhook/url-form.ts";
import { createLogger } from "../log.ts";
import type { UrlExplanation } from "../ops/url.ts";
import { flag, TEXT, word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { EXIT } from "./failure.ts";
import { JSON_ARG, type Answer, factLines, tableLines } from "./print.ts";
import { loadOfflineConfig, settingArgs } from "./settings.ts";

export const explainUrlCommand = defineCommand({
  description: "Show whether a webhook to a URL would be sent, and the reason",
  example: "postbackd explain-url 'https://example.com/done?id=$id'",
  notes:
    "Resolves the name as for a delivery, now and from this machine. Sends nothing to the URL. Exits with 0 if a\n" +
    "webhook would be sent, else with 1. Reads the configuration, not the running daemon, which applies a change of\n" +
    "webhooks.allow at a reload (SIGHUP) or restart. A URL with $id or $tag is judged as a pingback, with an example\n" +
    "id; quote it, or the shell replaces them.",
  args: {
    url: word(TEXT, "Webhook URL, as written in a task"),
    tag: flag(TAG, "Value of $tag; empty unless given"),
    ...settingArgs(["db", "config", "allow-target"]),
    ...JSON_ARG,
  },
  async run(given) {
    const { url, tag } = given;
    const question = { url, values: { id: EXAMPLE_ID, tag } };
    const config = loadOfflineConfig(given);
    const { explainUrl } = await import("../ops/url.ts");
    const explanation = await explainUrl(question, {
      config,
      clock: systemClock,
      log: createLogger(config.log),
    });
    const exit = explanation.outcome.kind === "allowed" ? EXIT.done : EXIT.failed;
    return { ...toAnswer(explanation, question.values), exit };
  },
});

const RELOAD =
  "webhooks.allow allows it. A running daemon applies a change of this setting at a reload (SIGHUP) or restart.";

/** A UUIDv7 like any task's. */
const EXAMPLE_ID = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";

function toAnswer(explanation: UrlExplanation, { id, tag }: PlaceholderValues): Answer {
  const { use, normalForm: normal_form, steps, peer, outcome } = explanation;
  const addresses = explanation.addresses.map(({ address, isAllowed, rule }) => ({
    address,
    verdict: isAllowed ? "allowed" : "refused",
    rule,
  }));
  const result = {
    host: peer?.host ?? null,
    port: peer?.port ?? null,
    addresses,
    verdict: outcome.kind,
    rule: outcome.kind === "refused" ? outcome.rule : null,
    reason: reasonOf(explanation),
    lifted_rule: outcome.kind === "allowed" ? outcome.lifted : null,
  };
  const placeholders = use === "pingback" ? { id, tag: tag ?? "" } : null;
  const { addresses: _, reason, ...facts } = result;
  return {
    document: { use, placeholders, normal_form, steps, ...result },
    lines: [
      ...factLines({
        normal_form,
        judged_as: use ?? "postback or pingback",
        ...placeholders,
        ...facts,
      }),
      // A URL that was posted in normal form took no steps.
      ...(steps.length < 2 ? [] : ["", ...tableLines(steps)]),
      ...(addresses.length === 0 ? [] : ["", ...tableLines(addresses)]),
      ...(reason === null ? [] : ["", printable(reason)]),
      ...(result.lifted_rule === null ? [] : ["", RELOAD]),
    ],
  };
}

function reasonOf({ outcome, target }: UrlExplanation): string | null {
  if (outcome.kind === "refused") return outcome.reason;
  if (outcome.kind === "allowed") return null;
  return (
    `The host ${target?.host ?? ""} cannot be resolved (${outcome.error}): no rule refuses the URL, so ` +
    "a delivery would fail now and be retried."
  );
}
