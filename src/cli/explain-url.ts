import type { ExplainedAddress, UrlExplanation } from "../daemon/url.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { TAG } from "../domain/task/task.ts";
import { printable } from "../domain/text.ts";
import type { UrlStep } from "../domain/webhook/url-steps.ts";
import type { PlaceholderValues } from "../domain/webhook/webhook-url.ts";
import { createLogger } from "../log.ts";
import { flag, TEXT, word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { EXIT } from "./failure.ts";
import { JSON_ARG, printAnswer, type Answer } from "./print.ts";
import { loadOfflineConfig, settingArgs } from "./settings.ts";

export const explainUrlCommand = defineCommand({
  description: "Show whether a webhook to a URL would be sent, and the reason",
  example: "postbackd explain-url 'https://example.com/done?id=$id'",
  notes:
    "The name is resolved as for a delivery, now and from this machine; nothing is sent to the URL. It\n" +
    "exits with 0 when a webhook would go out and with 1 when not. A URL with $id or $tag is judged as a\n" +
    "pingback, with an example id; quote it, or the shell replaces them.",
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
    const { explainUrl } = await import("../daemon/url.ts");
    const explanation = await explainUrl(question, {
      config,
      clock: systemClock,
      log: createLogger(config.log),
    });
    printAnswer(given, toAnswer(explanation, question.values));
    return explanation.outcome.kind === "allowed" ? EXIT.done : EXIT.failed;
  },
});

/** A UUIDv7 like any task's. */
const EXAMPLE_ID = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";

function toAnswer(explanation: UrlExplanation, values: PlaceholderValues): Answer {
  const { use, normalForm, steps, target, addresses, outcome } = explanation;
  return {
    document: {
      use,
      placeholders: use === "pingback" ? { id: values.id, tag: values.tag ?? "" } : null,
      normal_form: normalForm,
      steps,
      host: target?.host ?? null,
      port: target?.port ?? null,
      addresses: addresses.map(({ address, isAllowed, rule }) => ({
        address,
        verdict: isAllowed ? "allowed" : "refused",
        rule,
      })),
      verdict: outcome.kind,
      rule: outcome.kind === "refused" ? outcome.rule : null,
      reason: reasonOf(explanation),
      lifted_rule: outcome.kind === "allowed" ? outcome.lifted : null,
    },
    lines: [...factLines(explanation, values), "", verdictLine(explanation)].map(printable),
  };
}

function factLines(
  { use, normalForm, steps, addresses }: UrlExplanation,
  { id, tag }: PlaceholderValues,
): readonly string[] {
  const asPingback = `a pingback, with $id = ${id} and $tag = ${JSON.stringify(tag ?? "")}`;
  return [
    `normal form  ${normalForm ?? "none"}`,
    ...stepLines(steps),
    `judged as    ${use === "pingback" ? asPingback : "a postback or a pingback, which are alike here"}`,
    ...addresses.map((each) => `address      ${each.address}: ${addressText(each)}`),
  ];
}

// A URL that was posted in normal form took no steps.
function stepLines(steps: readonly UrlStep[]): readonly string[] {
  if (steps.length < 2) return [];
  return steps.flatMap(({ step, url }) => [`step         ${step}`, `             ${url}`]);
}

function addressText({ isAllowed, rule }: ExplainedAddress): string {
  if (rule === null) return "public";
  return isAllowed ? `allowed by webhooks.allow, else refused as ${rule}` : `refused as ${rule}`;
}

function verdictLine(explanation: UrlExplanation): string {
  const { outcome } = explanation;
  if (outcome.kind === "refused") return `Refused. ${outcome.reason}`;
  if (outcome.kind === "unresolved") return `Not delivered. ${reasonOf(explanation)}`;
  if (outcome.lifted === null) return "Allowed.";
  return `Allowed, because webhooks.allow lifts the rule '${outcome.lifted}'.`;
}

function reasonOf({ outcome, target }: UrlExplanation): string | null {
  if (outcome.kind === "refused") return outcome.reason;
  if (outcome.kind === "allowed") return null;
  return (
    `The host ${target?.host ?? ""} cannot be resolved (${outcome.error}): no rule refuses the URL, so ` +
    "a delivery would fail now and be retried."
  );
}
