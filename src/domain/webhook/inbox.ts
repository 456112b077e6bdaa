import { toLoopback } from "../address/address.ts";
import { DAY_MS } from "../clock/duration.ts";
import { isJsonObject } from "../json/json.ts";
import { type Rule, listOf, rule } from "../rule.ts";

/** How a receiver for tests responds to a message. */
export type ScriptedAnswer =
  | {
      readonly kind: "answer";
      readonly status: number;
      /** Names in lower case. */
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string;
      /** So much later, by the daemon's clock. */
      readonly afterMs: number;
    }
  /** Never, until the sender gives up. */
  | { readonly kind: "hang" }
  /** The connection is reset. */
  | { readonly kind: "reset" };

export type WrittenAnswer =
  | number
  | "hang"
  | "reset"
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
      readonly after_ms?: number;
    };

const STATUS = { min: 200, max: 599 };
const AFTER_MS_MAX = DAY_MS;

export const SCRIPTED_ANSWER: Rule<ScriptedAnswer, WrittenAnswer> = rule({
  takes:
    `an HTTP status from ${STATUS.min} to ${STATUS.max}, "hang", "reset", or an object of status, headers, body and ` +
    `after_ms (up to ${AFTER_MS_MAX}), without headers about connection and length`,
  hint: "ANSWER",
  schema: {
    anyOf: [
      { type: "integer", minimum: STATUS.min, maximum: STATUS.max },
      { type: "string", enum: ["hang", "reset"] },
      {
        type: "object",
        properties: {
          status: { type: "integer", minimum: STATUS.min, maximum: STATUS.max },
          headers: { type: "object", additionalProperties: { type: "string" } },
          body: { type: "string" },
          after_ms: { type: "integer", minimum: 0, maximum: AFTER_MS_MAX },
        },
        required: ["status"],
        additionalProperties: false,
      },
    ],
  },
  read(raw) {
    if (raw === "hang" || raw === "reset") return { kind: raw };
    return readAnswer(typeof raw === "number" ? { status: raw } : raw);
  },
});

export const SCRIPTED_ANSWERS = listOf(SCRIPTED_ANSWER);

export const PLAIN_ANSWER: ScriptedAnswer = {
  kind: "answer",
  status: 200,
  headers: {},
  body: "",
  afterMs: 0,
};

const NAMES: readonly string[] = ["status", "headers", "body", "after_ms"];

function readAnswer(raw: unknown): ScriptedAnswer | null {
  if (!isJsonObject(raw) || !Object.keys(raw).every((name) => NAMES.includes(name))) return null;
  const { status, headers: given = {}, body = "", after_ms: afterMs = 0 } = raw;
  const headers = readHeaders(given);
  if (!isWithin(status, STATUS) || !isWithin(afterMs, { min: 0, max: AFTER_MS_MAX })) return null;
  if (headers === null || typeof body !== "string") return null;
  return { kind: "answer", status, headers, body, afterMs };
}

function isWithin(value: unknown, { min, max }: typeof STATUS): value is number {
  return Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max;
}

// The server writes these itself: others would leave the sender waiting for bytes that never come.
const OF_SERVER: ReadonlySet<string> = new Set([
  ...["connection", "content-length", "keep-alive", "trailer", "transfer-encoding", "upgrade"],
]);

function readHeaders(raw: unknown): Readonly<Record<string, string>> | null {
  if (!isJsonObject(raw)) return null;
  const headers: [string, string][] = [];
  for (const [name, value] of Object.entries(raw)) {
    const isName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/.test(name);
    if (!isName || OF_SERVER.has(name.toLowerCase())) return null;
    if (typeof value !== "string" || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) return null;
    headers.push([name.toLowerCase(), value]);
  }
  return Object.fromEntries(headers);
}

/** The pattern of an inbox's name: every login names an inbox. */
export const BOX_PATTERN = "^[A-Za-z0-9._@+-]{1,64}$";

/** The URL at which a daemon for development receives for an inbox, as the daemon itself reaches it. */
export function inboxUrl(daemonUrl: string, box: string): string {
  return `${toLoopback(new URL(daemonUrl)).origin}/inbox/${box}`;
}
