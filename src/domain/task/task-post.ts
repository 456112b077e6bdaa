import { DAY_MS } from "../clock/duration.ts";
import { INSTANT, parseTime, timeText } from "../clock/time.ts";
import { type JsonObject, toJsonText, toPlainNumber } from "../json/json.ts";
import { type Rule, integerBetween, textRule } from "../rule.ts";
import { statusMessage } from "../status.ts";
import { closeName, shownName } from "../text.ts";
import { encodedForm, escapeUnsafe } from "../webhook/url-form.ts";
import {
  type PingbackVerdict,
  type UrlPolicy,
  type UrlVerdict,
  type WebhookTarget,
  judgePingbackUrl,
  judgeWebhookUrl,
} from "../webhook/webhook-url.ts";
import { type NewTask, type RefusedTask, TAG, type TaskWebhook } from "./task.ts";

export interface TaskRules {
  readonly types: ReadonlySet<string>;
  readonly marketplaces: ReadonlySet<string>;
  readonly urlPolicy: UrlPolicy;
}

/** A posted task, parsed: accepted, or refused with what a client needs to fix it. */
export type ParsedTask =
  | { readonly kind: "accepted"; readonly task: NewTask }
  | { readonly kind: "refused"; readonly task: RefusedTask };

export const PRIORITY = integerBetween(0, 9);

/** The most days that `start_at` may lie ahead: a year, even a leap year. */
export const START_AHEAD_DAYS_MAX = 366;

const START_AHEAD_MS_MAX = START_AHEAD_DAYS_MAX * DAY_MS;

/** The fields of a posted task; api/task.ts describes each. They are shown again in this order. */
export const TASK_FIELDS = [
  "type",
  "tag",
  "marketplace",
  "priority",
  "start_at",
  "postback_url",
  "pingback_url",
  "input",
] as const;

export type TaskField = (typeof TASK_FIELDS)[number];

const KNOWN: ReadonlySet<string> = new Set(TASK_FIELDS);
const SHOWN_FIELDS = TASK_FIELDS.filter((name) => name !== "input");

/** A field that breaks a rule. Thrown and caught within this file, which keeps the parsers of fields flat. */
class FieldFault extends Error {
  readonly field: string;
  readonly reason: string | null;
  constructor(field: string, reason: string | null) {
    super();
    this.field = field;
    this.reason = reason;
  }
}

export interface ParseOptions {
  readonly id: string;
  readonly now: number;
  readonly rules: TaskRules;
}

/** Parses one element of task_post's body. Optional fields that are null count as absent. */
export function parseTask(posted: JsonObject, options: ParseOptions): ParsedTask {
  try {
    return { kind: "accepted", task: acceptTask(posted, options) };
  } catch (fault) {
    if (!(fault instanceof FieldFault)) throw fault;
    return { kind: "refused", task: refuseTask(posted, options.id, fault) };
  }
}

function acceptTask(posted: JsonObject, { id, now, rules }: ParseOptions): NewTask {
  for (const name of Object.keys(posted)) if (!KNOWN.has(name)) throw new FieldFault(name, null);
  const tag = parseField("tag", posted["tag"], TAG);
  const values = { id, tag };
  const policy = rules.urlPolicy;
  const postback = parseUrl(posted, "postback_url", (raw) => judgeWebhookUrl(raw, policy));
  const pingback = parseUrl(posted, "pingback_url", (raw) =>
    judgePingbackUrl(raw, { values, policy }),
  );
  return {
    id,
    type: parseType(posted["type"], rules.types),
    tag,
    marketplace: parseMarketplace(posted["marketplace"], rules.marketplaces),
    // `+ 0` makes the zero of a posted -0 a plain one.
    priority: (parseField("priority", toPlainNumber(posted["priority"]), PRIORITY) ?? 0) + 0,
    startAt: parseStartAt(posted["start_at"], now),
    postback: postback === null ? null : toWebhook(postback),
    pingback: pingback === null ? null : toWebhook(pingback),
    dataText: dataText(posted, SHOWN_FIELDS, {
      postback_url: postback?.target.url,
      pingback_url: pingback?.template,
    }),
    inputText: inputText(posted),
  };
}

/** The field, and for an unknown one the name that it may have been meant to be. */
function faultDetail({ field, reason }: FieldFault): { field: string; nearest?: string } {
  const nearest = reason === null ? closeName(field, TASK_FIELDS) : null;
  return nearest === null ? { field: shownName(field) } : { field: shownName(field), nearest };
}

function refuseTask(posted: JsonObject, id: string, fault: FieldFault): RefusedTask {
  const code = fault.reason === null ? 40506 : 40501;
  const message = statusMessage(code, { name: shownName(fault.field), reason: fault.reason ?? "" });
  const { type, tag } = posted;
  return {
    id,
    type: typeof type === "string" ? shownName(type) : null,
    tag: tagOf(tag),
    code,
    message,
    errorText: toJsonText({ message, detail: faultDetail(fault) }),
    dataText: dataText(
      posted,
      Object.keys(posted).filter((name) => name !== "input"),
      {
        postback_url: shownUrl(posted["postback_url"]),
        pingback_url: shownUrl(posted["pingback_url"]),
      },
    ),
    inputText: inputText(posted),
  };
}

function tagOf(value: unknown): string | null {
  const parsed = TAG.parse(value);
  return parsed.kind === "value" ? parsed.value : null;
}

function parseType(value: unknown, types: ReadonlySet<string>): string {
  if (value === undefined || value === null) {
    const [only, ...others] = types;
    if (only !== undefined && others.length === 0) return only;
    throw new FieldFault("type", `Name the type of task: ${listTypes(types)}.`);
  }
  if (typeof value === "string" && types.has(value)) return value;
  throw new FieldFault("type", `It must be one of: ${listTypes(types)}.`);
}

function listTypes(types: ReadonlySet<string>): string {
  return [...types].join(", ");
}

/** Reads a field by its rule; null when it is absent. */
function parseField<T>(field: string, value: unknown, rule: Rule<T>): T | null {
  if (value === undefined || value === null) return null;
  const parsed = rule.parse(value);
  if (parsed.kind === "value") return parsed.value;
  throw new FieldFault(field, `It must be ${rule.takes}.`);
}

function parseMarketplace(value: unknown, codes: ReadonlySet<string>): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" && codes.has(value)) return value;
  throw new FieldFault("marketplace", "It must be a code from /v1/appendix/marketplaces.");
}

function parseStartAt(value: unknown, now: number): number | null {
  const timeMs = parseField("start_at", value, INSTANT);
  const latest = now + START_AHEAD_MS_MAX;
  if (timeMs === null || timeMs <= latest) return timeMs;
  const until = timeText(latest);
  throw new FieldFault(
    "start_at",
    `It may lie at most ${START_AHEAD_DAYS_MAX} days ahead: ${until} is the latest now.`,
  );
}

function parseUrl<Verdict extends UrlVerdict | PingbackVerdict>(
  posted: JsonObject,
  field: "postback_url" | "pingback_url",
  judge: (raw: string) => Verdict,
): Exclude<Verdict, { kind: "refused" }> | null {
  const raw = posted[field];
  if (raw === undefined || raw === null) return null;
  if (typeof raw !== "string") throw new FieldFault(field, "It must be a string.");
  const verdict = judge(raw);
  if (verdict.kind === "refused") throw new FieldFault(field, verdict.reason);
  // TypeScript does not narrow a type parameter by its `kind`; the refused one has just been thrown.
  return verdict as Exclude<Verdict, { kind: "refused" }>;
}

function toWebhook({ target }: { readonly target: WebhookTarget }): TaskWebhook {
  return { url: target.url, host: target.host };
}

// A URL without a normal form is only escaped.
function shownUrl(raw: unknown): string | undefined {
  return typeof raw === "string" ? (encodedForm(raw) ?? escapeUnsafe(raw)) : undefined;
}

/** The task as posted, without its input: URLs in encoded form with their placeholders (`shown`), times in UTC. */
function dataText(
  posted: JsonObject,
  names: readonly string[],
  shown: Readonly<Record<string, string | undefined>>,
): string {
  const members: string[] = [];
  for (const name of names) {
    const value = posted[name];
    if (value === undefined || (value === null && KNOWN.has(name))) continue;
    const timeMs = name === "start_at" ? parseTime(value) : null;
    const form = Object.hasOwn(shown, name) ? shown[name] : undefined;
    const text = timeMs === null ? (form ?? value) : timeText(timeMs);
    members.push(`${toJsonText(name)}:${toJsonText(text)}`);
  }
  return `{${members.join(",")}}`;
}

function inputText(posted: JsonObject): string | null {
  return Object.hasOwn(posted, "input") ? toJsonText(posted["input"]) : null;
}

const LENGTH_MAX = 255;
const KEY = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;

/** The name that a client gives to one post and its repetitions. Compared character for character, with quotes. */
export const IDEMPOTENCY_KEY: Rule<string, string> = textRule({
  takes: `1 to ${LENGTH_MAX} printable ASCII characters`,
  hint: "KEY",
  schema: { type: "string", maxLength: LENGTH_MAX, pattern: KEY.source, examples: ["order-17"] },
  read: (text) => (text.length <= LENGTH_MAX && KEY.test(text) ? text : null),
});
