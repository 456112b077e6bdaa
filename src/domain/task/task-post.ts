import { parseTime, timeText } from "../clock/time.ts";
import { toJsonText, toPlainNumber } from "../json/json.ts";
import { textRule } from "../rule.ts";
import type { Rule } from "../rule.ts";
import { statusMessage } from "../status.ts";
import { isPlainText } from "../text.ts";
import { URL_BYTES_MAX } from "../webhook/url-form.ts";
import { encodedForm, judgePingbackUrl, judgeWebhookUrl } from "../webhook/webhook-url.ts";
import type {
  PingbackVerdict,
  UrlPolicy,
  UrlVerdict,
  WebhookTarget,
} from "../webhook/webhook-url.ts";
import type { NewTask, RefusedTask, TaskWebhook } from "./task.ts";

/** What a posted task is judged against. */
export interface TaskRules {
  readonly types: ReadonlySet<string>;
  readonly marketplaces: ReadonlySet<string>;
  readonly urlPolicy: UrlPolicy;
}

/** A posted task, parsed: taken in, or refused with what a client needs to mend it. */
export type ParsedTask =
  | { readonly kind: "accepted"; readonly task: NewTask }
  | { readonly kind: "refused"; readonly task: RefusedTask };

/** A JSON object as the parser made it. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** A tag is at most this many code points (contract §3). */
export const TAG_LENGTH_MAX = 255;

/** So many days ahead `start_at` may lie: a year, whichever it is. */
export const START_AHEAD_DAYS_MAX = 366;

const START_AHEAD_MS_MAX = START_AHEAD_DAYS_MAX * 24 * 3600 * 1000;
const PRIORITY_MAX = 9;
const NAME_LENGTH_MAX = 64;
// Without the flag `i`, which JSON Schema does not have.
const WEB_ADDRESS = "^[Hh][Tt][Tt][Pp][Ss]?://";
const URL_RULES = `Public targets alone, at most ${URL_BYTES_MAX} bytes in encoded form.`;

/** What each field of a posted task may hold, as JSON Schema. The parsers below are the rule; a test holds both together. */
export const TASK_FIELD_SCHEMAS = {
  type: {
    type: ["string", "null"],
    description: "Which runner; optional where there is only one.",
  },
  tag: {
    type: ["string", "null"],
    maxLength: TAG_LENGTH_MAX,
    pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
    description: "A label of the client's. Without control characters.",
  },
  marketplace: {
    type: ["string", "null"],
    description: "A code from /v1/appendix/marketplaces.",
  },
  priority: {
    type: ["integer", "null"],
    minimum: 0,
    maximum: PRIORITY_MAX,
    description: "Higher first; 0 unless given.",
  },
  start_at: {
    type: ["string", "null"],
    format: "date-time",
    description: `Not to run before this time, at most ${START_AHEAD_DAYS_MAX} days ahead.`,
  },
  postback_url: {
    type: ["string", "null"],
    pattern: WEB_ADDRESS,
    description: `Gets the finished task by a signed POST. ${URL_RULES}`,
  },
  pingback_url: {
    type: ["string", "null"],
    pattern: WEB_ADDRESS,
    description: `Gets a signed GET, with $id and $tag filled in. ${URL_RULES}`,
    examples: ["https://example.com/done?id=$id&tag=$tag"],
  },
  input: { description: "Any JSON, given to the runner; null when absent." },
} as const;

const KNOWN: ReadonlySet<string> = new Set(Object.keys(TASK_FIELD_SCHEMAS));
const FIELDS: readonly string[] = [...KNOWN].filter((name) => name !== "input");

/** A field that breaks a rule. Thrown and caught within this file, to leave the field parsers flat. */
class FieldFault extends Error {
  readonly field: string;
  readonly reason: string | null;
  constructor(field: string, reason: string | null) {
    super();
    this.field = field;
    this.reason = reason;
  }
}

/** What a task is parsed with. */
export interface ParseOptions {
  /** The id that it gets. */
  readonly id: string;
  /** When it was posted. */
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
  const tag = parseTag(posted["tag"]);
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
    priority: parsePriority(posted["priority"]),
    startAt: parseStartAt(posted["start_at"], now),
    postback: postback === null ? null : toWebhook(postback),
    pingback: pingback === null ? null : toWebhook(pingback),
    dataText: dataText(posted, FIELDS, {
      postback_url: postback?.target.url,
      pingback_url: pingback?.template,
    }),
    inputText: inputText(posted),
  };
}

function refuseTask(posted: JsonObject, id: string, fault: FieldFault): RefusedTask {
  const code = fault.reason === null ? 40506 : 40501;
  const message = statusMessage(code, { name: shorten(fault.field), reason: fault.reason ?? "" });
  const { type, tag } = posted;
  return {
    id,
    type: typeof type === "string" && type.isWellFormed() ? shorten(type) : null,
    tag: isTag(tag) ? tag : null,
    code,
    message,
    errorText: toJsonText({ message, detail: { field: shorten(fault.field) } }),
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

// A field's name comes from outside and is repeated in a message: what is longer than a name could be is cut,
// and half a surrogate pair, which UTF-8 cannot hold, is replaced.
function shorten(name: string): string {
  const isLong = name.length > NAME_LENGTH_MAX;
  return isLong ? `${name.slice(0, NAME_LENGTH_MAX).toWellFormed()}…` : name.toWellFormed();
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

/** True for a tag as contract §3 has it: at most 255 code points, well-formed, no control characters. */
export function isTag(value: unknown): value is string {
  return isPlainText(value, TAG_LENGTH_MAX);
}

/** A tag, wherever somebody writes one. */
export const TAG: Rule<string> = textRule({
  takes: `a string of at most ${TAG_LENGTH_MAX} characters, without control characters or lone surrogates`,
  hint: "TAG",
  schema: { type: "string", maxLength: TAG_LENGTH_MAX },
  read: (text) => (isTag(text) ? text : null),
});

function parseTag(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (isTag(value)) return value;
  throw new FieldFault("tag", `It must be ${TAG.takes}.`);
}

function parseMarketplace(value: unknown, codes: ReadonlySet<string>): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" && codes.has(value)) return value;
  throw new FieldFault("marketplace", "It must be a code from /v1/appendix/marketplaces.");
}

function parsePriority(value: unknown): number {
  if (value === undefined || value === null) return 0;
  const number = toPlainNumber(value);
  if (typeof number === "number" && Number.isInteger(number)) {
    // `+ 0` makes the zero of a posted -0 a plain one.
    if (number >= 0 && number <= PRIORITY_MAX) return number + 0;
  }
  throw new FieldFault("priority", `It must be a whole number from 0 to ${PRIORITY_MAX}.`);
}

function parseStartAt(value: unknown, now: number): number | null {
  if (value === undefined || value === null) return null;
  const timeMs = parseTime(value);
  if (timeMs === null) {
    throw new FieldFault(
      "start_at",
      "It must be an RFC 3339 time, such as 2030-01-31T09:00:00.000Z.",
    );
  }
  const latest = now + START_AHEAD_MS_MAX;
  if (timeMs <= latest) return timeMs;
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

// A URL that was refused is shown in encoded form where it has one.
function shownUrl(raw: unknown): string | undefined {
  return typeof raw === "string" ? (encodedForm(raw) ?? undefined) : undefined;
}

/**
 * The task as posted, without its input: URLs in encoded form with their placeholders (`shown`), times in UTC,
 * the rest as it came.
 */
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
